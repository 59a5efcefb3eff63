"""Executions, their tasks and attempts."""

from typing import Annotated, Literal

import msgspec

from rota.wire.documents.changes import AuthorView
from rota.wire.documents.document import (
    Body,
    InstantText,
    Json,
    LineText,
    Timespan,
    View,
    Word,
    Words,
)


class ErrorView(View, frozen=True):
    """The exception that a Python function raised.

    Attributes:
        type: Its class, with the module unless it is built in.
        message: Its text, at most 4 KiB.
        traceback: Its traceback, the last 16 KiB.
    """

    type: str
    message: str = ""
    traceback: str = ""


class AttemptView(View, frozen=True):
    """An attempt of a task.

    Attributes:
        number: The number of the attempt, from 1.
        node_id: The node that ran it.
        token: Its fencing token, 32 hexadecimal digits; newer tokens sort after older ones.
        started_at: When its program was started.
        finished_at: When its program ended.
        outcome: ``success``, ``failed``, ``timed_out``, ``cancelled`` or ``lost``; null while it
            runs.
        exit_code: The exit status of its program; null if it has none.
        signal: The signal that ended its program; null if none did.
        reason: The reason of its outcome, for people; usually empty after a success.
        output_tail: The last 4096 bytes of its output, with bytes that are not UTF-8 replaced;
            stored for the last five attempts of a task.
        output_bytes: The size of its whole output.
        progress: Its progress in percent, as it reported; null if it reported none.
        result: Its result, if it succeeded.
        error: The exception that it raised; message and traceback are stored for the last five
            attempts of a task.
        cpu_seconds: The processor time that it used; null if it was not measured.
        memory_peak_bytes: Its peak memory use; null if it was not measured.
        out_of_memory: Whether it was killed because it exceeded its memory limit.
        unenforced: The parts of its sandbox and limits that its node could not enforce; stored for
            the last five attempts of a task.
        left_running: The processes that its program left running and that were then killed, in a
            sentence; empty if none were seen. Stored for the last five attempts of a task.
    """

    number: int
    node_id: str
    token: str
    started_at: InstantText
    finished_at: InstantText | None = None
    outcome: str | None = None
    exit_code: int | None = None
    signal: int | None = None
    reason: str = ""
    output_tail: str = ""
    output_bytes: int = 0
    progress: int | None = None
    result: Json = None
    error: ErrorView | None = None
    cpu_seconds: float | None = None
    memory_peak_bytes: int | None = None
    out_of_memory: bool = False
    unenforced: list[str] = []
    left_running: str = ""


class StepsView(View, frozen=True):
    """The steps of a loop, which are tasks of their own: ``load[0]``, ``load[1]``; ``poll#1``.

    Attributes:
        total: The number of items, or the most rounds.
        begun: The number of steps so far.
        open: The number of steps that have not ended.
        failed: The number of steps that failed.
        skipped: The number of steps that were skipped.
    """

    total: int
    begun: int
    open: int
    failed: int
    skipped: int


class ParentView(View, frozen=True):
    """The task of another execution that began one, and waits for its end.

    Attributes:
        job: The ``namespace/name`` of its job.
        execution_id: Its execution.
        task: Its name.
    """

    job: str
    execution_id: str
    task: str


class TaskView(View, frozen=True):
    """A task of an execution.

    Attributes:
        status: ``blocked``, ``ready``, ``running``, ``backing_off``, ``waiting``, ``success``,
            ``failed``, ``skipped`` or ``cancelled``.
        attempts: Its attempts, oldest first.
        reason: The reason of its status, or what it waits for.
        retry_at: When its next attempt starts, while it is ``backing_off``.
        progress: While it is ``running``, the progress of its attempt in percent; null otherwise.
        kept_from: In a rerun, the execution in which it ran, with its earlier attempts; null if it
            runs in this one.
        item: The item of a step of a ``foreach``, or the result of the round before in a
            ``repeat``; null for other tasks.
        steps: The numbers of steps of a loop; null for other tasks.
        result: The result of a task without attempts: the form of an approval, the data of an
            event, the names that a switch chose, or the end of the job that it ran.
        answered_by: Who approved or rejected, or posted the event; null for no one.
        child_execution_id: The execution of the job that it runs; null for none.
    """

    status: str
    attempts: list[AttemptView]
    reason: str = ""
    retry_at: InstantText | None = None
    progress: int | None = None
    kept_from: str | None = None
    item: Json = None
    steps: StepsView | None = None
    result: Json = None
    answered_by: AuthorView | None = None
    child_execution_id: str | None = None


class DuplicateView(View, frozen=True):
    """The run of an execution on a stand-in, on the other side of a network partition.

    Attributes:
        node_id: The stand-in.
        status: The status of the run.
        started_at: When its first attempt started.
        finished_at: When its last task ended.
        tasks: Its tasks by name, with their attempts.
    """

    node_id: str
    status: str
    started_at: InstantText | None
    finished_at: InstantText | None
    tasks: dict[str, TaskView]


class ExecutionView(View, frozen=True):
    """One run of a job.

    Attributes:
        execution_id: The job's id, the fire time and a number, in hexadecimal.
        job_id: The id of its job.
        job: The ``namespace/name`` of its job.
        job_version: The version of the definition that it runs.
        status: ``queued``, ``running``, ``success``, ``failed`` or ``cancelled``; in lists
            ``broken`` if its record cannot be decoded: only the ids and *fire_time* are known then.
        trigger: ``schedule``, ``manual``, ``dependencies``, ``hook``, ``task`` or
            ``backfill``.
        fire_time: When it was due; for a trigger, when it was requested.
        queued_at: When it was created.
        started_at: When its first attempt started.
        finished_at: When its last task ended.
        lateness_ms: The time from when it was due to *started_at*: from *fire_time* or, unless a
            schedule began it, from *queued_at*. Until the first attempt has ended, *started_at* is
            the instant at which it got its slot.
        progress: Its progress in percent. All tasks have the same weight, and a running task counts
            with its reported progress; in lists 0 or 100.
        reason: The reason of its status, or what it waits for.
        tasks: Its tasks by name, in the order of their definition; null in lists.
        traceparent: The trace (W3C) of the request that created it; empty for none.
        stand_in: The node that ran it in place of the shard's primary; null if none did.
        possible_duplicates: Further runs on stand-ins, with the same idempotency key; null in lists
            and in responses to requests that change something.
        rerun_of: The execution that it runs again; null if it is no rerun.
        expires_at: The instant by which it has to start or, once it has started, to end; null if
            there is no limit.
        triggered_by: The caller whose request created it, without the address; null if there was no
            request, or it is not known.
        parameters: Its parameters, which replace those of its tasks; null if it has none, if the
            caller lacks the verb ``logs`` in its namespace, and in responses to all requests but
            that for a single execution.
        broken: Why the record cannot be shown; empty for a valid record.
        parent: The task of another execution that began it, and waits for it; null for none.
        backfill_id: The backfill that it is part of; null for none.
        interval_start: The begin of the interval that it works on, which is the fire time of the
            schedule before *fire_time*; null if it has no interval.
        interval_end: The end of the interval, which is *fire_time*; null if it has none.
        deferred_to: When it was to start, if jitter or a calendar deferred it; null otherwise.
    """

    execution_id: str
    job_id: str
    job: str
    job_version: int
    status: str
    trigger: str
    fire_time: InstantText
    queued_at: InstantText
    started_at: InstantText | None = None
    finished_at: InstantText | None = None
    lateness_ms: float | None = None
    progress: int = 0
    reason: str = ""
    tasks: dict[str, TaskView] | None = None
    traceparent: str = ""
    stand_in: str | None = None
    possible_duplicates: list[DuplicateView] | None = None
    rerun_of: str | None = None
    expires_at: InstantText | None = None
    triggered_by: AuthorView | None = None
    parameters: Json = None
    broken: str = ""
    parent: ParentView | None = None
    backfill_id: str | None = None
    interval_start: InstantText | None = None
    interval_end: InstantText | None = None
    deferred_to: InstantText | None = None


class ExecutionList(View, frozen=True):
    """A page of executions.

    Attributes:
        items: The executions, latest fire time first, or in the order of the request.
        next_cursor: The cursor of the next page; null for the last page.
    """

    items: list[ExecutionView]
    next_cursor: str | None = None


class AnswerBody(Body, frozen=True):
    """The answer of a person to a task that waits for an approval.

    Attributes:
        approve: Whether the person approves.
        reason: The reason, for others.
        form: What the person filled in, by the schema of the task; it becomes the result.
    """

    approve: bool
    reason: LineText = ""
    form: Json = None


class PostEventBody(Body, frozen=True):
    """An event for the tasks of an execution that wait for it, now or later.

    Attributes:
        name: Its name.
        data: Its data, at most 64 KiB as JSON; it becomes the result of the tasks.
    """

    name: Word
    data: Json = None


class RerunBody(Body, frozen=True):
    """A request to run an execution again: its failed tasks, all tasks, or those from one task on.

    Attributes:
        tasks: ``failed``: the tasks that failed, were cancelled, or were skipped because of a
            failure; ``all``: all tasks. Null without *from_task*: ``failed`` for an execution that
            did not succeed, otherwise ``all``.
        from_task: A task that runs again, with all tasks that need it, directly or through others.
        mark_success: Tasks that count as successful, without a result, and do not run; the caller
            is recorded with them.
        parameters: Parameters that replace those of the execution; at most 120,000 bytes of JSON.
        overrides: Members that replace single members of the parameters; the parameters must be an
            object.
        version: ``same``: the definition that the execution ran; ``latest``: the newest definition
            of the job.
    """

    tasks: Literal["failed", "all"] | None = None
    from_task: Word | None = None
    mark_success: Words = []
    parameters: Json = None
    overrides: Annotated[dict[Word, Json], msgspec.Meta(max_length=1_000)] = {}
    version: Literal["same", "latest"] = "same"


class WaitManyBody(Body, frozen=True):
    """A request to wait for several executions.

    Attributes:
        execution_ids: The ids of 1 to 1,000 executions.
        timeout: How long to wait, at most 300 seconds.
    """

    execution_ids: list[Word]
    timeout: Timespan = 30
