"""The state of a job: its executions and users set, compare and delete values.

A value with a holder is a lock: it exists while that task or execution of the job is unfinished.
Job, values and tasks are records of one shard, so a decision sees all of them as they are.
"""

from collections.abc import Mapping

import msgspec

from rota.core.errors import Kind, Refused, invalid, not_found
from rota.core.model.execution import FINAL_TASK_STATES, Execution, Task
from rota.core.model.ids import JobId, job_of
from rota.core.model.job_state import STATE_BYTES_MAX, STATE_KEYS_MAX, StateEntry
from rota.core.quoting import in_quotes, shortened
from rota.core.state.draft import Draft
from rota.core.state.shard_state import State
from rota.core.vocabulary.commands import DeleteState, PutState
from rota.core.vocabulary.decision import Reply, StateSaved


def present(state: State, job_id: JobId) -> dict[str, StateEntry]:
    """Return the values of a job that exist; one with a holder ends with it."""
    return {
        key: entry
        for key, entry in state.entries.get(job_id, {}).items()
        if not entry.holder
        or _is_held(
            entry,
            state.executions.get(entry.holder),
            state.tasks.get(entry.holder, {}).get(entry.holding_task),
        )
    }


def _is_held(entry: StateEntry, execution: Execution | None, task: Task | None) -> bool:
    """Return True if the holder of a value, of which these are the records, has not ended."""
    if not entry.holding_task:
        return execution is not None
    return task is not None and task.status not in FINAL_TASK_STATES


def put_state(draft: Draft, command: PutState) -> Reply:
    """Set a value; a repetition by the same holder changes nothing.

    Raises:
        Refused: There is no such job or unfinished execution of it; codes ``version_mismatch``,
            ``state_held``, ``not_forward``, ``state_full``.
    """
    job = draft.job(command.job_id)
    if job is None:
        raise not_found("job", command.job_id)
    if command.holder:
        _check_task(draft, command)
    found = _present(draft, command)
    before = found.get(command.key)
    holder = command.holder, command.holding_task
    if before is not None and before.holder and (before.holder, before.holding_task) == holder:
        if before.value == command.value:
            return StateSaved(before)
    else:
        _check_holder(before, command)
        _check_revision(before, command)
    if command.is_forward and before is not None:
        _check_forward(before, command)
    after = StateEntry(
        job_id=job.id,
        key=command.key,
        value=command.value,
        revision=before.revision + 1 if before else 1,
        changed_at=draft.now,
        author=command.author,
        holder=command.holder,
        holding_task=command.holding_task,
    )
    _check_room({**found, command.key: after}, is_new=before is None)
    draft.entries.put(job.id, command.key, after)
    return StateSaved(after)


def delete_state(draft: Draft, command: DeleteState) -> None:
    """Delete a value, also one that an execution holds; a repetition changes nothing.

    Raises:
        Refused: There is no such job; code ``version_mismatch``.
    """
    if draft.job(command.job_id) is None:
        raise not_found("job", command.job_id)
    before = _present(draft, command).get(command.key)
    if before is not None:
        _check_revision(before, command)
        draft.entries.drop(command.job_id, command.key)


def _present(draft: Draft, command: PutState | DeleteState) -> dict[str, StateEntry]:
    """Return the values that exist, after the deletion of those whose holder has ended."""
    for key, entry in draft.entries.of(command.job_id).items():
        if entry.holder:
            execution = draft.execution(entry.holder)
            task = draft.task(entry.holder, entry.holding_task) if execution else None
            if not _is_held(entry, execution, task):
                draft.entries.drop(command.job_id, key)
    return draft.entries.of(command.job_id)


def _check_task(draft: Draft, command: PutState) -> None:
    """Check that the holder is an unfinished execution of the job, or an unfinished task of one."""
    is_own = job_of(command.holder) == command.job_id
    if not is_own or draft.execution(command.holder) is None:
        raise not_found("execution", command.holder, about="unfinished execution of this job")
    if command.holding_task:
        task = draft.task(command.holder, command.holding_task)
        if task is None or task.status in FINAL_TASK_STATES:
            hint = "the execution has ended it, or has no such task"
            raise not_found("task", command.holding_task, hint, about="unfinished task")


def _check_holder(before: StateEntry | None, command: PutState) -> None:
    if before is not None and before.holder:
        holder = f"{before.holding_task} of {before.holder}".removeprefix(" of ")
        detail = f"{holder} holds {in_quotes(command.key)} until it ends"
        raise Refused(Kind.CONFLICT, "state_held", detail)


def _check_revision(before: StateEntry | None, command: PutState | DeleteState) -> None:
    revision = before.revision if before else 0
    if command.if_revision is not None and command.if_revision != revision:
        is_now = f"has revision {revision}" if before else "does not exist"
        detail = f"{in_quotes(command.key)} {is_now}, not {command.if_revision or 'new'}"
        raise Refused(Kind.PRECONDITION, "version_mismatch", detail)


def _check_forward(before: StateEntry, command: PutState) -> None:
    old, new = msgspec.json.decode(before.value), msgspec.json.decode(command.value)
    if not _is_forward(old, new):
        # Not the present value, which only some who may change it may see.
        detail = (
            f"{shortened(command.value.decode())} is not after the present value; with "
            "onlyForward, both are numbers, or both are texts in their order"
        )
        raise Refused(Kind.CONFLICT, "not_forward", detail)


def _is_forward(old: object, new: object) -> bool:
    """Return True if both are numbers or both are texts, and *new* is not before *old*."""
    if isinstance(old, str) and isinstance(new, str):
        return old <= new
    if isinstance(old, bool) or isinstance(new, bool):
        return False
    return isinstance(old, int | float) and isinstance(new, int | float) and old <= new


def _check_room(entries: Mapping[str, StateEntry], *, is_new: bool) -> None:
    size = sum(entry.size for entry in entries.values())
    if size > STATE_BYTES_MAX:
        detail = f"the state of the job has {size:,} bytes with it; at most {STATE_BYTES_MAX:,}"
        raise invalid("state_full", f"{detail} are allowed")
    if is_new and len(entries) > STATE_KEYS_MAX:
        raise invalid("state_full", f"the state of a job has at most {STATE_KEYS_MAX:,} keys")
