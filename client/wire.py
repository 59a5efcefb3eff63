"""The API's documents: what clients send and what nodes answer, in JSON with camelCase names.

Instants are RFC 3339 in UTC with microseconds. A duration is a number of seconds or text such as
``"1h30m"``. Answers may gain fields; clients ignore those they do not know, nodes refuse them.

>>> msgspec.json.encode(JobBody(name="hello", command="echo hello", stop_grace="5s"))
b'{"name":"hello","command":"echo hello","stopGrace":"5s"}'
"""

from typing import Annotated, Any, Literal

import msgspec

Json = Any
"""Any JSON value; Any because it is the user's own and only passed on."""
Timespan = int | float | str
InstantText = Annotated[str, msgspec.Meta(extra_json_schema={"format": "date-time"})]
# The limits are for readers of the schema. The node checks them itself, and tells all at once.
NameText = Annotated[
    str,
    msgspec.Meta(extra_json_schema={"pattern": "^[A-Za-z0-9]([A-Za-z0-9._-]{0,126}[A-Za-z0-9])?$"}),
]
RetryCount = Annotated[int, msgspec.Meta(extra_json_schema={"minimum": 0, "maximum": 1000})]
Priority = Annotated[int, msgspec.Meta(extra_json_schema={"minimum": -100, "maximum": 100})]
Profile = Annotated[str, msgspec.Meta(extra_json_schema={"enum": ["none", "default", "strict"]})]
Share = Annotated[float, msgspec.Meta(extra_json_schema={"minimum": 0, "maximum": 1})]


class _Body(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    rename="camel",
    forbid_unknown_fields=True,
    omit_defaults=True,
):
    """What a client sends: an unknown field is a mistake, and said to be one.

    What is as by default is not sent, so that an older node takes what it knows.
    """


class _View(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a node answers."""


# -- what clients send -----------------------------------------------------------------------------


class RetryBody(_Body, frozen=True):
    """When a failed task is tried again.

    Attributes:
        limit: Retries after the first attempt, 0 to 1,000.
        backoff: ``exponential`` from *delay* by *factor* up to *max_delay*, ``fixed`` at *delay*,
            or ``explicit``: *delays*, the last one repeating.
        delay: The first or only delay.
        factor: By which each delay is longer than the one before.
        max_delay: The longest delay.
        delays: The delays of ``explicit``, in order.
        jitter: Share of a delay, 0 to 1, that chance adds to it.
        on_exit_codes: Retry after these only; empty for all.
        never_on_exit_codes: Never retry after these.
        on_exceptions: Retry only after these and what derives from them, or after
            *on_exit_codes*; names such as ``OutOfStock`` or ``shop.errors.OutOfStock``.
        never_on_exceptions: Never retry after these and what derives from them.
    """

    limit: RetryCount
    backoff: Literal["exponential", "fixed", "explicit"] = "exponential"
    delay: Timespan = "1s"
    factor: float = 2.0
    max_delay: Timespan = "5m"
    delays: list[Timespan] = []
    jitter: Share = 0.0
    on_exit_codes: list[int] = []
    never_on_exit_codes: list[int] = []
    on_exceptions: list[str] = []
    never_on_exceptions: list[str] = []


class SandboxBody(_Body, frozen=True):
    """What a command is kept from.

    Attributes:
        profile: ``none``, ``default`` or ``strict``.
        network: Whether it sees the machine's network, loopback included.
        binds: Files and folders of the machine that it sees besides: ``/source:/target``, read
            only; with ``:rw`` it may write there.
    """

    profile: Profile = "default"
    network: bool = True
    binds: list[str] = []


class LimitsBody(_Body, frozen=True):
    """What an attempt may use, all its processes together; null is no limit.

    Attributes:
        cpu: Processors, 0.01 to 1,024; 0.5 for half of one.
        memory: Bytes, or text such as ``512MiB``; 1 MiB to 1,024 TiB.
        pids: Processes and threads, 1 to 4,194,304.
    """

    cpu: float | None = None
    memory: int | str | None = None
    pids: int | None = None


class PythonBody(_Body, frozen=True):
    """A Python function to be called.

    Attributes:
        function: ``module:function``.
        args: Its arguments by position.
        kwargs: Its arguments by name; with *args* at most 120,000 bytes of JSON.
        interpreter: Absolute path of the Python of its environment; empty for the node's own.
        path: Folders, absolute, where modules are looked for first.
    """

    function: str
    args: list[Json] = []
    kwargs: dict[str, Json] = {}
    interpreter: str = ""
    path: list[str] = []


class ContainerBody(_Body, frozen=True):
    """A container to be run.

    Attributes:
        image: Its name, with tag or digest.
        pull: When the image is pulled: ``missing``, ``always`` or ``never``.
        network: ``bridge``, ``none``, ``host`` or one of the engine's networks; empty for the
            engine's default.
        binds: Files and folders of the machine: ``/source:/target``, read only; with ``:rw`` it may
            write there.
        user: A name or ``uid:gid``; empty for the image's.
    """

    image: str
    pull: Literal["missing", "always", "never"] = "missing"
    network: str = ""
    binds: list[str] = []
    user: str = ""


class ScheduleBody(_Body, frozen=True):
    """One of several schedules of a job.

    Attributes:
        schedule: A cron expression, ``@every``, ``@at``, ``@startup``, ``@manual`` or a macro.
        timezone: IANA name; null for the job's.
        day_or: False: both day fields of a cron expression have to match.
    """

    schedule: str
    timezone: str | None = None
    day_or: bool = True


class TaskBody(_Body, frozen=True):
    """One task of a job; what it leaves out is as the job says.

    Attributes:
        name: 1 to 128 letters, digits, dots, underscores or hyphens; unique in its job.
        command: A line for ``/bin/sh -c``, or a program and its arguments.
        python: ``module:function`` or more about it, in place of a command.
        type: A registered way to run *parameters*, in place of a command.
        parameters: Of the type; a task with a command does not get them.
        needs: Names of tasks of this job that have to end first.
        trigger_rule: What the needed tasks have to end as.
        env: Variables, besides the job's.
        cwd: Its working directory; null for the job's.
        stdin: Its standard input; null for the job's.
        retries: How often it is tried again; null for the job's.
        timeout: Of one attempt; null for the job's.
        stop_grace: Between TERM and KILL; null for the job's.
        container: An image, or more about it, that runs its command or what the image is made to
            run; null for the job's, empty for none.
        sandbox: A profile, or more about it, for its command; null for the job's.
        limits: What it may use; null for the job's.
        node_selector: Labels that a node has to have to run it; null for the job's.
    """

    name: NameText
    command: str | list[str] | None = None
    python: str | PythonBody | None = None
    type: str | None = None
    parameters: Json = None
    needs: list[str] = []
    trigger_rule: Literal["all_success", "all_done", "one_failed"] = "all_success"
    env: dict[str, str] = {}
    cwd: str | None = None
    stdin: str | None = None
    retries: RetryCount | RetryBody | None = None
    timeout: Timespan | None = None
    stop_grace: Timespan | None = None
    container: str | ContainerBody | None = None
    sandbox: Profile | SandboxBody | None = None
    limits: LimitsBody | None = None
    node_selector: dict[str, str] | None = None


class JobBody(_Body, frozen=True):
    """A job to be created: a *command*, a *python* function, a *type*, a *container*, or *tasks*.

    Attributes:
        name: 1 to 128 letters, digits, dots, underscores or hyphens; unique in its namespace.
        namespace: Likewise; it exists as soon as a job is in it.
        description: For people.
        schedule: Shorthand for one of *schedules*.
        schedules: When it fires, at most 64.
        timezone: IANA name, for schedules that name none.
        command: The only task's: a line for ``/bin/sh -c``, or a program and its arguments.
        python: The only task's: ``module:function``, or more about it.
        type: The only task's: a registered way to run *parameters*.
        parameters: Handed to its tasks; at most 120,000 bytes of JSON.
        tasks: What it runs, 1 to 10,000 tasks that may need each other.
        dependencies: Names or ids of jobs; this one runs after each of them succeeded.
        retries: How often a failed task is tried again, 0 to 1,000, or how.
        timeout: Of one attempt, up to 365 days; 0 is no limit.
        stop_grace: Between TERM and KILL when an attempt is stopped.
        container: An image, or more about it, that commands run in; alone, what the image is made
            to run.
        sandbox: A profile, or more about it, that commands run in.
        limits: What each attempt may use.
        node_selector: Labels that a node has to have to run its tasks; while none has, they wait.
        misfire: What becomes of fire times noticed later than *grace*.
        grace: What counts as late, 0 to 365 days.
        overlap: What becomes of a fire while an earlier execution is not finished.
        consistency: ``available`` fires on where no primary of its shard is heard, at the risk of
            running twice; ``strict`` waits. An available job has no *dependencies*.
        priority: -100 to 100: its ready tasks get a slot as if they had waited 10 s longer for each
            step.
        env: Variables of every task.
        cwd: Working directory of every task, absolute; empty for one of its own for each attempt.
        stdin: Standard input of every task.
        labels: For people and tools.
    """

    name: NameText
    namespace: NameText = "default"
    description: str = ""
    schedule: str | None = None
    schedules: list[str | ScheduleBody] = []
    timezone: str = "UTC"
    command: str | list[str] | None = None
    python: str | PythonBody | None = None
    type: str | None = None
    parameters: Json = None
    tasks: list[TaskBody] = []
    dependencies: list[str] = []
    retries: RetryCount | RetryBody = 0
    timeout: Timespan = 0
    stop_grace: Timespan = "10s"
    container: str | ContainerBody | None = None
    sandbox: Profile | SandboxBody = "none"
    limits: LimitsBody | None = None
    node_selector: dict[str, str] = {}
    misfire: Literal["all", "latest", "skip"] = "latest"
    grace: Timespan = "10s"
    overlap: Literal["allow", "skip", "queue_one"] = "allow"
    consistency: Literal["strict", "available"] = "strict"
    priority: Priority = 0
    env: dict[str, str] = {}
    cwd: str = ""
    stdin: str = ""
    labels: dict[str, str] = {}


class CreateManyBody(_Body, frozen=True):
    """Jobs to be created together.

    Attributes:
        items: The jobs, 1 to 1,000; each is looked at by itself.
    """

    items: list[JobBody]


class PauseBody(_Body, frozen=True):
    """A job is paused, for a reason that its ledger will repeat.

    Attributes:
        reason: For people; may be empty.
    """

    reason: str = ""


class TriggerBody(_Body, frozen=True):
    """An execution asked for; *parameters* override the job's.

    Attributes:
        parameters: In place of the job's, whole; at most 120,000 bytes of JSON.
    """

    parameters: Json = None


class TriggerItem(_Body, frozen=True):
    """One of many executions asked for together.

    Attributes:
        job: Its id, its name in ``default``, or ``namespace/name``.
        parameters: In place of the job's, whole.
        idempotency_key: As the header ``Idempotency-Key``, for this item alone.
    """

    job: str
    parameters: Json = None
    idempotency_key: str | None = None


class TriggerManyBody(_Body, frozen=True):
    """Executions asked for together.

    Attributes:
        items: The executions, 1 to 1,000; each is looked at by itself.
    """

    items: list[TriggerItem]


class WaitManyBody(_Body, frozen=True):
    """Executions waited for together.

    Attributes:
        execution_ids: 1 to 1,000.
        timeout: How long to wait; at most 300 seconds count.
    """

    execution_ids: list[str]
    timeout: Timespan = 30


ITEMS_MAX = 1_000


# -- what nodes answer -----------------------------------------------------------------------------


class FieldProblem(_View, frozen=True):
    """One field that is wrong: where, as a JSON pointer, and how.

    Attributes:
        pointer: Where: a JSON pointer (RFC 6901) into the body, or ``/query/`` and a parameter's
            name.
        detail: What is wrong with it, and what would be right.
    """

    pointer: str
    detail: str


class ProblemView(_View, frozen=True):
    """Why a request failed (RFC 9457, ``application/problem+json``).

    Attributes:
        type: ``urn:rota:problem:`` and the *code*.
        title: The status in words.
        status: That of the answer.
        code: What it is, for programs; it does not change.
        detail: What it is, for people.
        request_id: Under which the node's log has it.
        errors: Each wrong field of the request.
    """

    type: str
    title: str
    status: int
    code: str
    detail: str
    request_id: str = ""
    errors: list[FieldProblem] = []


class ScheduleView(_View, frozen=True):
    """A schedule of a job, and its next fire time.

    Attributes:
        schedule: As defined.
        timezone: IANA name.
        next_fire_at: Null if it does not fire again.
    """

    schedule: str
    timezone: str
    next_fire_at: InstantText | None = None


class SandboxView(_View, frozen=True):
    """What a task's program is kept from.

    Attributes:
        profile: ``default`` or ``strict``.
        network: Whether it sees the machine's network, loopback included.
        binds: What it sees besides: ``/source:/target:ro`` or ``:rw``.
    """

    profile: str
    network: bool = True
    binds: list[str] = []


class LimitsView(_View, frozen=True):
    """What an attempt may use, all its processes together; null is no limit.

    Attributes:
        cpu: Processors.
        memory_bytes: Bytes.
        pids: Processes and threads.
    """

    cpu: float | None = None
    memory_bytes: int | None = None
    pids: int | None = None


class TaskSpecView(_View, frozen=True):
    """A task of a job, as defined.

    Attributes:
        name: Unique in its job.
        needs: Names of the tasks that have to end first.
        trigger_rule: What these have to end as.
        type: How it is run; ``process`` for a command, ``python``, ``container``.
        command: Null for other types.
        retries: How often it is tried again.
        timeout_s: Of one attempt; 0 is no limit.
        python: The function that it calls; null for other types.
        container: The image that it runs; null for other types.
        sandbox: Null for none.
        limits: Null for none.
    """

    name: str
    needs: list[str]
    trigger_rule: str
    type: str
    command: str | list[str] | None
    retries: int
    timeout_s: float
    python: str | None = None
    container: str | None = None
    sandbox: SandboxView | None = None
    limits: LimitsView | None = None


class JobView(_View, frozen=True):
    """A job.

    Attributes:
        job_id: 16 hexadecimal digits; the first four are the slot of its name.
        name: As defined.
        namespace: As defined.
        status: ``paused``; else ``running`` while an execution is not finished; ``finished`` if it
            has schedules, none of which fires again, and no dependencies; else ``scheduled``.
        version: Of its definition, from 1.
        description: As defined.
        schedules: Without ``@manual``, which never fires.
        tasks: As defined.
        dependencies: Each as ``namespace/name``.
        misfire: As defined.
        grace_s: As defined, in seconds.
        overlap: As defined.
        labels: As defined.
        created_at: When.
        updated_at: When it got this version.
        next_fire_at: The earliest of its schedules.
        execution_id: Its latest unfinished execution.
        started_at: When that one started.
        progress: How far that execution is, in percent; see `ExecutionView`.
        paused_at: Since when it is paused.
        paused_by: By whom.
        pause_reason: Why.
        priority: As defined.
        consistency: As defined.
        definition: A `JobBody` to edit and send again, as JSON, for a newer node's may have fields
            that this client does not know; null in lists.
    """

    job_id: str
    name: str
    namespace: str
    status: str
    version: int
    description: str
    schedules: list[ScheduleView]
    tasks: list[TaskSpecView]
    dependencies: list[str]
    misfire: str
    grace_s: float
    overlap: str
    labels: dict[str, str]
    created_at: InstantText
    updated_at: InstantText
    next_fire_at: InstantText | None = None
    execution_id: str | None = None
    started_at: InstantText | None = None
    progress: int | None = None
    paused_at: InstantText | None = None
    paused_by: str = ""
    pause_reason: str = ""
    priority: int = 0
    consistency: str = "strict"
    definition: dict[str, Json] | None = None


class ErrorView(_View, frozen=True):
    """The exception that a Python function ended with.

    Attributes:
        type: Its class, with its module unless that is Python's own.
        message: Its text, at most 4 KiB.
        traceback: As Python prints it, the last 16 KiB.
    """

    type: str
    message: str = ""
    traceback: str = ""


class AttemptView(_View, frozen=True):
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


class TaskView(_View, frozen=True):
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


class DuplicateView(_View, frozen=True):
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


class ExecutionView(_View, frozen=True):
    """One run of a job.

    Attributes:
        execution_id: The job's id, the fire time and a number, in hexadecimal.
        job_id: Its job.
        job: That job's ``namespace/name``.
        job_version: Of the definition that it runs.
        status: ``queued``, ``running``, ``success``, ``failed`` or ``cancelled``.
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


class LedgerEntryView(_View, frozen=True):
    """What became of a fire time, or of *count* of them in a row.

    Attributes:
        fire_time: The first of the fire times.
        until: The last of them.
        count: How many they are; usually one.
        schedule: The schedule's number.
        outcome: ``fired``, ``skipped``, ``missed``, ``coalesced`` or ``paused``.
        execution_id: The execution made, in the way, or standing for it; null for ``missed`` and
            ``paused``.
        reason: A sentence for people; empty for ``fired``, unless a stand-in did it.
        recorded_at: When it was decided.
    """

    fire_time: InstantText
    until: InstantText
    count: int
    schedule: int
    outcome: str
    execution_id: str | None
    reason: str
    recorded_at: InstantText


class NextFireView(_View, frozen=True):
    """A coming fire time.

    Attributes:
        at: In UTC.
        local: On the clock of the schedule's zone.
        schedule: The schedule's number.
        note: Where that clock makes it differ.
    """

    at: InstantText
    local: str
    schedule: int
    note: str = ""


class CreatedItem(_View, frozen=True):
    """One result of `CreateManyBody`, in its order: a job, or why there is none.

    Attributes:
        status: That of the answer to the same body alone: 201, 200 if this very job was there
            already, or that of the failure.
        job_id: Null if there is none.
        job: Its ``namespace/name``.
        version: Of its definition.
        error: Why there is none.
    """

    status: int
    job_id: str | None = None
    job: str | None = None
    version: int | None = None
    error: ProblemView | None = None


class CreatedManyView(_View, frozen=True):
    """The results of `CreateManyBody`.

    Attributes:
        items: One for each item of the body, in its place.
    """

    items: list[CreatedItem]


class TriggeredView(_View, frozen=True):
    """The execution that a trigger made.

    Attributes:
        execution_id: The execution.
        job_id: Its job.
        status: Always ``queued``.
    """

    execution_id: str
    job_id: str
    status: str


class TriggeredItem(_View, frozen=True):
    """One result of `TriggerManyBody`, in its order: an execution, or why there is none.

    Attributes:
        execution_id: Null if there is none.
        error: Why there is none.
    """

    execution_id: str | None = None
    error: ProblemView | None = None


class TriggeredManyView(_View, frozen=True):
    """The results of `TriggerManyBody`.

    Attributes:
        items: One for each item of the body, in its place.
    """

    items: list[TriggeredItem]


class JobList(_View, frozen=True):
    """A page of jobs.

    Attributes:
        items: By ``namespace/name``.
        next_cursor: Gives the next page; null where there is none.
    """

    items: list[JobView]
    next_cursor: str | None = None


class ExecutionList(_View, frozen=True):
    """A page of executions.

    Attributes:
        items: Latest fire time first, or as asked for.
        next_cursor: Gives the next page; null where there is none.
    """

    items: list[ExecutionView]
    next_cursor: str | None = None


class LedgerPage(_View, frozen=True):
    """A page of a job's ledger.

    Attributes:
        items: By fire time.
        next_cursor: Gives the next page; null where there is none.
    """

    items: list[LedgerEntryView]
    next_cursor: str | None = None


class NextFires(_View, frozen=True):
    """Coming fire times.

    Attributes:
        items: Earliest first.
    """

    items: list[NextFireView]


class EventView(_View, frozen=True):
    """Something that happened, as ``GET /api/v1/events`` tells it.

    Attributes:
        id: Where to go on after it, as ``Last-Event-ID``.
        type: ``job.created``, ``execution.running``, ``task.failed`` and the like; ``stream.`` and
            a word for what the stream says of itself.
        at: When it was decided.
        job_id: The job that it is about.
        job: Its namespace and name.
        execution_id: The execution that it is about.
        task: The task that it is about.
        attempt: Number of the task's newest attempt, once it has one.
        status: The new state of the execution or task.
        detail: Why, in a few words, where that is not obvious.
        progress: How far the attempt is, in percent; only for ``task.progress``.
    """

    id: str
    type: str
    at: InstantText
    job_id: str | None = None
    job: str | None = None
    execution_id: str | None = None
    task: str | None = None
    attempt: int | None = None
    status: str | None = None
    detail: str = ""
    progress: int | None = None


class LoadView(_View, frozen=True):
    """What a node runs.

    Attributes:
        running: Attempts that run there, or whose outcomes are not yet recorded.
        slots: How many may run at the same time.
        waiting: Tasks that wait there for a slot.
    """

    running: int
    slots: int
    waiting: int


class NodeView(_View, frozen=True):
    """A node of the cluster.

    Attributes:
        node_id: Its permanent id.
        state: ``active``; ``draining``: it is to hold nothing; ``gone``: it has no session.
        is_draining: Whether it is to hold nothing; of a node that is gone, too.
        session: Its present life, as etcd has it; null if it is gone.
        zone: What it shares with the nodes that may fail with it.
        weight: How much it is to hold, relative to other nodes.
        labels: As it was configured with.
        address: Where clients reach it.
        peer_address: Where other nodes reach it.
        version: Of rota.
        load: Null if the node did not answer, or was not asked.
        primaries: Shards that it decides for.
        backups: Further copies of it that count.
    """

    node_id: str
    state: str
    is_draining: bool
    session: str | None
    zone: str
    weight: float
    labels: dict[str, str]
    address: str
    peer_address: str
    version: str
    load: LoadView | None
    primaries: int
    backups: int


class ReplicaView(_View, frozen=True):
    """A copy of a shard.

    Attributes:
        node_id: Where it is.
        role: ``primary``, ``backup``, or ``learner``: it does not count yet.
        lag: Entries of the primary's journal that it is not known to have; null if nobody knows,
            or while it is being filled.
    """

    node_id: str
    role: str
    lag: int | None


class ShardView(_View, frozen=True):
    """A shard, and who holds it.

    Attributes:
        shard: Its number.
        epoch: Of its configuration; 0 if it has none yet.
        primary: The node that decides for it; null if none ever did.
        is_open: Whether that node does so now; null if it did not answer.
        replicas: Its copies, the primary's first.
        target: The nodes that ought to have copies, by the ring; the primary first.
    """

    shard: int
    epoch: int
    primary: str | None
    is_open: bool | None
    replicas: list[ReplicaView]
    target: list[str]


class MoveView(_View, frozen=True):
    """Something that is to change before a shard is where it ought to be.

    Attributes:
        shard: Which.
        change: ``copy``: a copy is to be made; ``handover``: another node is to decide;
            ``removal``: a copy is to go.
        source: The node that loses by it; null for a copy.
        target: The node that gains by it; null for a removal.
        is_running: Whether it has begun. Else it waits: for its turn, for another change of the
            shard, or for a node that is away.
        lag: Entries that a copy still lacks; null if nobody knows, or while it is being filled.
    """

    shard: int
    change: str
    source: str | None
    target: str | None
    is_running: bool
    lag: int | None = None


class ClusterView(_View, frozen=True):
    """The nodes and shards of a cluster, as the node that was asked knows them.

    Attributes:
        cluster: Its name.
        node_id: The node that was asked.
        replicas: How many copies of each shard there are to be.
        nodes: By id.
        shards: By number.
        moves: By shard. None: every shard is where it ought to be.
    """

    cluster: str
    node_id: str
    replicas: int
    nodes: list[NodeView]
    shards: list[ShardView]
    moves: list[MoveView]


class VersionView(_View, frozen=True):
    """What runs here.

    Attributes:
        version: Of rota.
        node_id: This node's permanent id.
        cluster: The cluster it belongs to.
        shards: How many there are.
        python: What it runs on.
    """

    version: str
    node_id: str
    cluster: str
    shards: int
    python: str
