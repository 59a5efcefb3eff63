"""Executions, their tasks and the attempts at these."""

from rota.wire.documents.document import Body, InstantText, Json, Timespan, View, Word


class ErrorView(View, frozen=True):
    """The exception that a Python function ended with.

    Attributes:
        type: Its class, with its module unless that is Python's own.
        message: Its text, at most 4 KiB.
        traceback: As Python prints it, the last 16 KiB.
    """

    type: str
    message: str = ""
    traceback: str = ""


class AttemptView(View, frozen=True):
    """One try at a task.

    Attributes:
        number: From 1.
        node_id: Where it ran.
        token: Its fencing token, 32 hexadecimal digits that sort by age.
        started_at: When its program was started.
        finished_at: When that ended.
        outcome: ``succeeded``, ``failed``, ``timed_out``, ``cancelled`` or ``lost``; null while it
            runs.
        exit_code: Null where there is none.
        signal: Null where there is none.
        reason: A sentence for people; empty for an ordinary success.
        output_tail: The last 4096 bytes that it wrote, those that are not UTF-8 replaced; kept for
            the last five attempts of a task.
        output_bytes: How many it wrote in all.
        progress: How far it is, or was, in percent, by its own word; null if it said nothing.
        result: What it hands on, if it succeeded.
        error: What it raised; of the last five attempts of a task with message and traceback.
        cpu_seconds: Processor time that it used; null where nobody counted.
        memory_peak_bytes: The most memory that it used at a time; null where nobody counted.
        out_of_memory: Whether its limit of memory ended it.
        unenforced: What of its sandbox and limits its node could not enforce, a sentence each; kept
            for the last five attempts of a task.
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


class TaskView(View, frozen=True):
    """A task of an execution.

    Attributes:
        status: ``blocked``, ``ready``, ``running``, ``backing_off``, ``success``, ``failed``,
            ``skipped`` or ``cancelled``.
        attempts: Oldest first.
        reason: Why it ended as it did, or what it waits for.
        retry_at: When it is tried again, while it is ``backing_off``.
        progress: While it is ``running``, what its attempt last told, in percent; null otherwise.
    """

    status: str
    attempts: list[AttemptView]
    reason: str = ""
    retry_at: InstantText | None = None
    progress: int | None = None


class DuplicateView(View, frozen=True):
    """What a stand-in ran on the other side of a partition, under the id of an execution.

    Attributes:
        node_id: The stand-in.
        status: How it ended there.
        started_at: When its first attempt began there.
        finished_at: When its last task ended there.
        tasks: By name, with their attempts there.
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
        job_id: Its job.
        job: That job's ``namespace/name``.
        job_version: Of the definition that it runs.
        status: ``queued``, ``running``, ``success``, ``failed`` or ``cancelled``; in lists
            ``broken`` if its record cannot be decoded. Then only the ids and *fire_time* are known.
        trigger: ``schedule``, ``manual`` or ``dependencies``.
        fire_time: When it was due; for a trigger, when it was asked for.
        queued_at: When it was made.
        started_at: When its first attempt began.
        finished_at: When its last task ended.
        lateness_ms: From *fire_time* to *started_at*. Until the first attempt has ended, both say
            when it was given its slot.
        progress: How far it is, in percent: each task has an equal share, a running one that tells
            its own progress so much of it; in lists 0 or 100.
        reason: Why it ended as it did, or what it waits for.
        tasks: By name, in the order of their definition; null in lists.
        traceparent: The trace (W3C) of the request that asked for it; empty for none.
        stand_in: The node that ran it in place of the shard's primary; null if none did.
        possible_duplicates: What stand-ins ran besides, each with the same idempotency key; null in
            lists and in answers to requests that change something.
        broken: Why its record cannot be shown whole; empty for a sound one.
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
    broken: str = ""


class ExecutionList(View, frozen=True):
    """A page of executions.

    Attributes:
        items: Latest fire time first, or as asked for.
        next_cursor: Gives the next page; null where there is none.
    """

    items: list[ExecutionView]
    next_cursor: str | None = None


class WaitManyBody(Body, frozen=True):
    """Executions waited for together.

    Attributes:
        execution_ids: 1 to 1,000.
        timeout: How long to wait; at most 300 seconds count.
    """

    execution_ids: list[Word]
    timeout: Timespan = 30
