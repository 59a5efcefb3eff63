"""The tools that change something; by default each shows what it would do, and does nothing."""

from hashlib import sha256
from secrets import token_hex
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from rota.client.cli.files.application import apply_given, check_given
from rota.client.cli.files.plan import PlannedView, planned_changes
from rota.client.cli.mcp.desk import (
    Content,
    Definitions,
    Desk,
    ExecutionName,
    JobName,
    Name,
    Namespace,
    Short,
    Time,
    lean,
    time_in,
)
from rota.client.cli.mcp.reading import OfExecution, named_execution, parts_of
from rota.client.mcp.tools import Input, Tool
from rota.core.errors import Kind, Refused
from rota.wire.documents import Json


class Change(Input, frozen=True, kw_only=True):
    """The arguments of a tool that changes something."""

    preview: Annotated[bool, Meta(description="True shows what would happen; false does it.")] = (
        True
    )


class Keyed(Change, frozen=True, kw_only=True):
    """The arguments of a tool that starts something."""

    idempotency_key: Annotated[
        Short, Meta(description="A repetition with the same key starts nothing more.")
    ] = ""


class Apply(Change, frozen=True, kw_only=True):
    """The arguments of `apply`."""

    definitions: Definitions
    namespace: Namespace = ""
    plan_id: Annotated[
        Short, Meta(description="The planId of a preview; another plan by now is refused.")
    ] = ""


def apply(desk: Desk, given: Apply) -> Content:
    """Create or replace jobs and shared documents.

    Raises:
        Refused: The definitions would now change something else than in the preview.
    """
    parts = parts_of(desk, given.definitions, given.namespace)
    planned = list(planned_changes(desk.client, parts))
    plan_id = _plan_id(planned)
    if given.preview:
        return {
            "preview": True,
            "changes": [lean(each) for each in planned],
            "toDoIt": {
                "tool": "apply",
                "arguments": {"preview": False, "planId": plan_id},
                "note": "with the same definitions and namespace",
            },
        }
    if given.plan_id and given.plan_id != plan_id:
        detail = "the plan is not that of the preview: definitions have changed; preview again"
        raise Refused(Kind.CONFLICT, "plan_changed", detail)
    check_given(desk.client, parts)
    documents, jobs = apply_given(desk.client, parts)
    done = [
        *(
            {"change": each.change, "kind": each.kind, "name": each.name, "version": each.version}
            for each in documents
        ),
        *(
            {
                "change": each.change,
                "kind": "job",
                "name": f"{each.namespace}/{each.name}",
                "version": each.version,
                "warnings": each.warnings,
            }
            for each in jobs
        ),
    ]
    return {"preview": False, "changes": done}


def _plan_id(planned: list[PlannedView]) -> str:
    """Return a hash of what a plan changes; its next fire times, which move, do not count."""
    fixed = [replace(each, next_fire_times=[]) for each in planned]
    return sha256(msgspec.json.encode(fixed)).hexdigest()[:32]


class Trigger(Keyed, frozen=True, kw_only=True):
    """The arguments of `trigger`."""

    job: JobName
    namespace: Namespace = ""
    parameters: Annotated[
        Json, Meta(description="Parameters that replace those of the job; null for those.")
    ] = None
    fire_time: Time = ""


def trigger(desk: Desk, given: Trigger) -> Content:
    """Start an execution of a job."""
    made = desk.client.trigger(
        given.job,
        namespace=desk.within(given.namespace),
        parameters=given.parameters,
        fire_time=time_in(given.fire_time, "fireTime"),
        idempotency_key=given.idempotency_key or None,
        dry_run=given.preview,
    )
    return _keyed("trigger", given, f"start an execution of the job {given.job} now", made)


class Pause(Change, frozen=True, kw_only=True):
    """The arguments of `pause_job`."""

    job: JobName
    reason: Annotated[
        str,
        Meta(min_length=1, max_length=1_000, description="Why; the ledger of the job repeats it."),
    ]
    namespace: Namespace = ""
    until: Annotated[
        Short, Meta(description="When the job is resumed by itself, in RFC 3339; empty for never.")
    ] = ""


def pause_job(desk: Desk, given: Pause) -> Content:
    """Pause a job."""
    job = desk.client.pause_job(
        given.job,
        namespace=desk.within(given.namespace),
        reason=given.reason,
        until=given.until or None,
        dry_run=given.preview,
    )
    end = f" until {given.until}" if given.until else ""
    effect = f"pause the job {given.job}{end}: it does not fire, and unfinished executions continue"
    return _answer("pause_job", given, effect, job)


class Resume(Change, frozen=True, kw_only=True):
    """The arguments of `resume_job`."""

    job: JobName
    namespace: Namespace = ""


def resume_job(desk: Desk, given: Resume) -> Content:
    """Resume a job."""
    job = desk.client.resume_job(
        given.job, namespace=desk.within(given.namespace), dry_run=given.preview
    )
    effect = f"resume the job {given.job}, from its next fire time on"
    return _answer("resume_job", given, effect, job)


class OneExecution(Change, frozen=True, kw_only=True):
    """The arguments of `cancel_execution`."""

    execution: ExecutionName
    namespace: Namespace = ""


def cancel_execution(desk: Desk, given: OneExecution) -> Content:
    """Cancel an execution."""
    execution_id = _execution_of(desk, given.execution, given.namespace)
    view = desk.client.cancel(execution_id, dry_run=given.preview)
    effect = f"cancel the execution {execution_id} and stop its tasks, unless it has ended"
    return _answer("cancel_execution", replace(given, execution=execution_id), effect, view)


class Rerun(Keyed, frozen=True, kw_only=True):
    """The arguments of `rerun_execution`."""

    execution: ExecutionName
    namespace: Namespace = ""
    tasks: Annotated[
        Literal["auto", "failed", "all"],
        Meta(description="Which tasks run; auto is the failed ones, if there are any."),
    ] = "auto"
    from_task: Annotated[
        Short, Meta(description="A task that runs again, with all that need it.")
    ] = ""
    mark_success: Annotated[
        list[Name], Meta(max_length=100, description="Tasks that do not run and count as done.")
    ] = msgspec.field(default_factory=list[str])
    is_latest: Annotated[
        bool, Meta(description="Run the latest definition, not that of the execution.")
    ] = False


def rerun_execution(desk: Desk, given: Rerun) -> Content:
    """Run a finished execution again."""
    execution_id = _execution_of(desk, given.execution, given.namespace)
    made = desk.client.rerun(
        execution_id,
        tasks=None if given.tasks == "auto" else given.tasks,
        from_task=given.from_task or None,
        mark_success=given.mark_success,
        is_latest=given.is_latest,
        idempotency_key=given.idempotency_key or None,
        dry_run=given.preview,
    )
    effect = f"run the execution {execution_id} again, as a new one"
    return _keyed("rerun_execution", replace(given, execution=execution_id), effect, made)


class Backfill(Keyed, frozen=True, kw_only=True):
    """The arguments of `backfill`."""

    job: JobName
    since: Annotated[Time, Meta(min_length=1)]
    until: Time = ""
    namespace: Namespace = ""
    reprocess: Annotated[
        Literal["missing", "failed", "all"],
        Meta(description="Fire times without an execution; also failed ones; or all."),
    ] = "missing"
    order: Literal["oldest", "newest"] = "oldest"
    parallel: Annotated[int, Meta(ge=1, le=100, description="The most unfinished executions.")] = 1


def backfill(desk: Desk, given: Backfill) -> Content:
    """Run a job for fire times of the past."""
    # The range is fixed in the preview, so that the backfill runs what the preview has counted.
    fixed = replace(
        given,
        since=time_in(given.since, "since") or given.since,
        until=time_in(given.until or "0s", "until") or given.until,
    )
    made = desk.client.create_backfill(
        fixed.job,
        since=fixed.since,
        until=fixed.until,
        reprocess=fixed.reprocess,
        order=fixed.order,
        parallel=fixed.parallel,
        namespace=desk.within(fixed.namespace),
        idempotency_key=fixed.idempotency_key or None,
        dry_run=fixed.preview,
    )
    effect = f"run the job {fixed.job} for {made.total} fire times of the past"
    return _keyed("backfill", fixed, effect, made)


def _execution_of(desk: Desk, execution: str, namespace: str) -> str:
    return named_execution(desk, OfExecution(execution=execution, namespace=namespace))


def _keyed(tool: str, given: Keyed, effect: str, view: object) -> Content:
    """Return the answer of a tool; the call that a preview names has an idempotency key."""
    key = given.idempotency_key or token_hex(16)
    return _answer(tool, replace(given, idempotency_key=key), effect, view)


def _answer(tool: str, given: Change, effect: str, view: object) -> Content:
    if not given.preview:
        return {"preview": False, "done": effect, "answer": lean(view)}
    arguments: dict[str, Any] = msgspec.to_builtins(replace(given, preview=False))  # Any: JSON
    return {
        "preview": True,
        "wouldHappen": effect,
        "answer": lean(view),
        "toDoIt": {"tool": tool, "arguments": arguments},
    }


CHANGING = (
    Tool(
        name="apply",
        about="Create or replace jobs and shared documents. The preview is the plan.",
        input=Apply,
        function=apply,
        is_change=True,
    ),
    Tool(
        name="trigger",
        about="Start an execution of a job now.",
        input=Trigger,
        function=trigger,
        is_change=True,
    ),
    Tool(
        name="pause_job",
        about="Pause a job, so that it does not fire.",
        input=Pause,
        function=pause_job,
        is_change=True,
    ),
    Tool(
        name="resume_job",
        about="Resume a paused job.",
        input=Resume,
        function=resume_job,
        is_change=True,
    ),
    Tool(
        name="cancel_execution",
        about="Cancel an execution that has not ended, and stop its tasks.",
        input=OneExecution,
        function=cancel_execution,
        is_change=True,
    ),
    Tool(
        name="rerun_execution",
        about="Run a finished execution again, as a new one: its failed tasks, or all.",
        input=Rerun,
        function=rerun_execution,
        is_change=True,
    ),
    Tool(
        name="backfill",
        about="Run a job for the fire times of a range of the past. The preview counts them.",
        input=Backfill,
        function=backfill,
        is_change=True,
    ),
)
"""The tools that change something, each with a preview by default."""
