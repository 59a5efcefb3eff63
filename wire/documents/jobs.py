"""Jobs, as they are defined, created, paused and shown."""

from typing import Annotated, Literal

import msgspec

from rota.wire.documents.document import (
    Body,
    Command,
    Environment,
    InputText,
    InstantText,
    Json,
    Labels,
    LineText,
    NameText,
    PathText,
    Priority,
    Profile,
    ProseText,
    RetryCount,
    Timespan,
    View,
    Word,
)
from rota.wire.documents.problems import ProblemView
from rota.wire.documents.tasks import (
    ContainerBody,
    LimitsBody,
    PythonBody,
    RetryBody,
    SandboxBody,
    TaskBody,
    TaskSpecView,
)


class ScheduleBody(Body, frozen=True):
    """One of several schedules of a job.

    Attributes:
        schedule: A cron expression, ``@every``, ``@at``, ``@startup``, ``@manual`` or a macro.
        timezone: IANA name; null for the job's.
        day_or: False: both day fields of a cron expression have to match.
    """

    schedule: LineText
    timezone: Word | None = None
    day_or: bool = True


class JobBody(Body, frozen=True):
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
        misfire: What is done about fire times noticed later than *grace*; null for ``latest``. An
            ``@at`` that has passed is refused without it.
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
    description: ProseText = ""
    schedule: LineText | None = None
    schedules: Annotated[list[LineText | ScheduleBody], msgspec.Meta(max_length=1_000)] = []
    timezone: Word = "UTC"
    command: Command | None = None
    python: Word | PythonBody | None = None
    type: Word | None = None
    parameters: Json = None
    tasks: list[TaskBody] = []
    dependencies: Annotated[list[LineText], msgspec.Meta(max_length=1_000)] = []
    retries: RetryCount | RetryBody = 0
    timeout: Timespan = 0
    stop_grace: Timespan = "10s"
    container: LineText | ContainerBody | None = None
    sandbox: Profile | SandboxBody = "none"
    limits: LimitsBody | None = None
    node_selector: Labels = {}
    misfire: Literal["all", "latest", "skip"] | None = None
    grace: Timespan = "10s"
    overlap: Literal["allow", "skip", "queue_one"] = "allow"
    consistency: Literal["strict", "available"] = "strict"
    priority: Priority = 0
    env: Environment = {}
    cwd: PathText = ""
    stdin: InputText = ""
    labels: Labels = {}


class CreateManyBody(Body, frozen=True):
    """Jobs to be created together.

    Attributes:
        items: The jobs, 1 to 1,000; each is looked at by itself.
    """

    items: list[JobBody]


class PauseBody(Body, frozen=True):
    """A job is paused, for a reason that its ledger will repeat.

    Attributes:
        reason: For people; may be empty.
    """

    reason: LineText = ""


class ScheduleView(View, frozen=True):
    """A schedule of a job, and its next fire time.

    Attributes:
        schedule: As defined.
        timezone: IANA name.
        next_fire_at: Null if it does not fire again.
    """

    schedule: str
    timezone: str
    next_fire_at: InstantText | None = None


class JobView(View, frozen=True):
    """A job.

    Attributes:
        job_id: 16 hexadecimal digits; the first four are the slot of its name.
        name: As defined.
        namespace: As defined.
        status: ``broken`` if it cannot be shown whole; ``paused``; else ``running`` while an
            execution is not finished; ``finished`` if it has schedules, none of which fires again,
            and no dependencies; else ``scheduled``.
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
        broken: What of its record cannot be read, and why; such a job can be replaced and deleted.
            Empty for a sound one.
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
    broken: str = ""


class JobList(View, frozen=True):
    """A page of jobs.

    Attributes:
        items: By ``namespace/name``.
        next_cursor: Gives the next page; null where there is none.
    """

    items: list[JobView]
    next_cursor: str | None = None


class CreatedItem(View, frozen=True):
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


class CreatedManyView(View, frozen=True):
    """The results of `CreateManyBody`.

    Attributes:
        items: One for each item of the body, in its place.
    """

    items: list[CreatedItem]
