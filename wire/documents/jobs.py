"""Jobs: definitions, changes and views."""

from typing import Annotated, Literal

import msgspec

from rota.wire.documents.document import (
    Body,
    Command,
    Environment,
    Failures,
    InputText,
    InstantText,
    Json,
    Labels,
    LineText,
    MintedNameText,
    NameText,
    OverlapName,
    PathText,
    Priority,
    Profile,
    ProseText,
    RetryCount,
    Timespan,
    UrlText,
    View,
    Word,
    Words,
)
from rota.wire.documents.fire_times import NextFireView
from rota.wire.documents.problems import ProblemView
from rota.wire.documents.tasks import (
    ContainerBody,
    LimitsBody,
    PythonBody,
    RetryBody,
    SandboxBody,
    SecretsBody,
    TaskBody,
    TaskSpecView,
)


class ScheduleBody(Body, frozen=True):
    """One of several schedules of a job.

    Attributes:
        schedule: A cron expression, ``@every``, ``@at``, ``@startup``, ``@manual`` or a macro.
        timezone: An IANA time zone; null for that of the job.
        day_or: Whether one matching day field of a cron expression suffices; if false, both must
            match.
        spread: Whether ``@daily`` or another macro fires at a time of its period that follows from
            the name of the job, and not at the first.
        start_at: No fire time is earlier; a time as for ``@at``, without an offset a local one;
            null for no limit.
        end_at: No fire time is later; null for no limit.
        every: For a cron expression or a macro, ``2 weeks``: only every second week counts, from
            that with *start_at*; also days, months and years. Null for every one.
        gap: A local time that an expression names and the clock skips: ``shift`` fires at the first
            instant after the gap, ``skip`` does not fire.
        fold: The occurrences that fire if the clock repeats such a time.
        parameters: The parameters of its executions; null for those of the job.
        misfire: Its policy for late fire times; null for that of the job.
        overlap: Its policy for a fire time while an execution of the job is unfinished; null for
            that of the job.
        jitter: Each fire starts later by a time from 0 to less than this one, which follows from
            the job, the schedule and the fire time; up to a day. It starts before the next one.
        max_executions: The number of executions that the schedule begins before it ends; 0 for no
            end. The count of a changed schedule begins again.
    """

    schedule: LineText
    timezone: Word | None = None
    day_or: bool = True
    spread: bool = False
    start_at: LineText | None = None
    end_at: LineText | None = None
    every: LineText | None = None
    gap: Literal["shift", "skip"] = "shift"
    fold: Literal["first", "last", "both"] = "first"
    parameters: Json = None
    misfire: Literal["all", "latest", "skip"] | None = None
    overlap: OverlapName | None = None
    jitter: Timespan = 0
    max_executions: Annotated[int, msgspec.Meta(ge=0, le=1_000_000_000)] = 0


class TriggerOnBody(Body, frozen=True):
    """The events from outside that start a job.

    Attributes:
        event: Their type, in the form of a name, such as ``com.example.order.paid``.
        when: An expression over ``event`` and ``params``; without one, each event starts the job.
    """

    event: NameText
    when: LineText = ""


class HookBody(Body, frozen=True):
    """A hook of a job: a *webhook* or a *job*.

    Attributes:
        webhook: The URL that gets the event in a POST.
        job: The name of a job in the namespace of this one, which is triggered with the event as
            its parameters.
        format: The body of the webhook: ``standard``, or a message that the incoming webhooks of
            ``slack``, ``teams`` or ``discord`` accept.
    """

    webhook: UrlText | None = None
    job: LineText | None = None
    format: Literal["standard", "slack", "teams", "discord"] = "standard"


HOOK_FIELDS = ("onFailure", "onSuccess", "onRecovery", "onLate")
"""The fields of a job with hooks, in JSON."""
Hooks = Annotated[list[HookBody], msgspec.Meta(max_length=100)]


class JobBody(Body, frozen=True):
    """A job: a *command*, a *python* function, a *type*, a *container*, or *tasks*.

    Attributes:
        name: Its name, 1 to 128 letters, digits, dots, underscores or hyphens; unique in its
            namespace. Without a name, a job that has neither schedules nor dependencies is a
            *one-off job*: the node generates a name, and the job runs once, immediately. If *type*
            is a job type, a job with schedules or dependencies needs no name either.
        namespace: Its namespace, in the same form; it exists as soon as a job is in it.
        description: A description for people.
        schedule: Shorthand for *schedules* with one item.
        schedules: Its schedules, at most 64.
        timezone: An IANA time zone, for schedules without one.
        only_calendars: Names of calendars; a fire time that is in none of them is excluded. Empty
            for no condition.
        except_calendars: Names of calendars; a fire time that is in one of them is excluded.
        on_excluded: The treatment of an excluded fire time: ``skip``; ``next``: it starts at its
            local time on the next permitted day; ``hold``: it starts when nothing excludes it. If
            the next fire time is before that, it is skipped.
        triggers: Events from outside that start it, at most 20. Its parameters then have the event
            as the member ``event``.
        command: The command of its only task: a line for ``/bin/sh -c``, or a program and its
            arguments.
        python: The Python function of its only task: ``module:function``, or an object.
        type: A job type, whose template has the other fields unless they are given here; or the
            type of its only task.
        parameters: The parameters of its tasks; at most 120,000 bytes of JSON. A job type checks
            them, or *parameters_schema*.
        parameters_schema: A JSON Schema (draft 2020-12) of the parameters, without references, that
            is checked here and at each trigger; null for none. The ``default`` of a property is
            used for parameters without that property.
        tasks: Its tasks, 1 to 10,000, which may need each other.
        dependencies: Names or ids of jobs; this job runs after each of them has succeeded.
        retries: The number of retries of a failed task, 0 to 1,000, or a retry policy.
        timeout: The time limit of an attempt, up to 365 days; 0 is no limit.
        stop_grace: The time between SIGTERM and SIGKILL when an attempt is stopped.
        container: The container of its commands: an image, or an object. Without a command the
            image's own command runs.
        sandbox: The sandbox of its commands: a profile, or an object.
        limits: The resource limits of each attempt.
        node_selector: Labels that a node must have to run its tasks; they wait until one has.
        misfire: The policy for fire times that are late by more than *grace*; null for ``latest``.
            Without it, an ``@at`` that has passed is refused.
        grace: The tolerated lateness, 0 to 365 days.
        misfire_window: How late a fire time may be that still runs, up to 365 days; earlier ones
            are missed. 0 is no limit.
        misfire_max: The most late fire times, up to 100, that run under ``all``, which are the
            latest ones; 0 for no limit.
        overlap: The policy for a fire time while an earlier execution is unfinished.
        max_parallel: The number of executions, 1 to 1,000, that may be unfinished at a time before
            *overlap* applies.
        concurrency_key: An expression over ``params``, such as ``params.customer``: *overlap* and
            *max_parallel* apply among the executions with the same value. Empty for all.
        consistency: ``strict``: fire times wait while the primary of its shard cannot be reached;
            ``available``: stand-ins run them, possibly twice. An available job has no
            *dependencies*.
        priority: -100 to 100; each step counts like 10 s of waiting for a slot.
        start_deadline: How long an execution may wait for the start of its first attempt, up to 365
            days; then it fails. 0 is no limit.
        execution_timeout: The time limit of a whole execution, from the start of its first attempt,
            up to 365 days; then it is stopped and fails. 0 is no limit.
        fail_fast: Whether an execution is stopped, and fails, as soon as one of its tasks fails.
        pause_after_failures: The number of failed executions in a row, up to 1,000, after which the
            job is paused until one succeeds; 0 for no limit.
        on_failure: Hooks for each execution that failed; at most 20 hooks in all.
        on_success: Hooks for each execution that succeeded.
        on_recovery: Hooks for each execution that succeeded after one that failed.
        on_late: Hooks for each execution that has not ended *late_after* its fire time, and for
            fire times that were missed.
        late_after: That time, up to 365 days; needed with *on_late*.
        env: Environment variables of every task.
        secrets: Secrets of its namespace as variables and files of every task; null for none.
        user: The user of the machine as which every command runs; empty for that of the node.
        identity: Whether every task gets a token for this API, as the subject
            ``job:NAMESPACE/NAME``.
        cwd: The absolute working directory of every task; empty for a new directory for each
            attempt.
        stdin: The standard input of every task.
        labels: Labels for people and tools.
    """

    name: MintedNameText = ""
    namespace: NameText = "default"
    description: ProseText = ""
    schedule: LineText | None = None
    schedules: Annotated[list[LineText | ScheduleBody], msgspec.Meta(max_length=1_000)] = []
    timezone: Word = "UTC"
    only_calendars: Words = []
    except_calendars: Words = []
    on_excluded: Literal["skip", "next", "hold"] = "skip"
    triggers: Annotated[list[TriggerOnBody], msgspec.Meta(max_length=20)] = []
    command: Command | None = None
    python: Word | PythonBody | None = None
    type: Word | None = None
    parameters: Json = None
    parameters_schema: Annotated[dict[Word, Json], msgspec.Meta(max_length=1_000)] | None = None
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
    misfire_window: Timespan = 0
    misfire_max: Annotated[int, msgspec.Meta(ge=0, le=100)] = 0
    overlap: OverlapName = "allow"
    max_parallel: Annotated[int, msgspec.Meta(ge=1, le=1_000)] = 1
    concurrency_key: LineText = ""
    consistency: Literal["strict", "available"] = "strict"
    priority: Priority = 0
    start_deadline: Timespan = 0
    execution_timeout: Timespan = 0
    fail_fast: bool = False
    pause_after_failures: Failures = 0
    on_failure: Hooks = []
    on_success: Hooks = []
    on_recovery: Hooks = []
    on_late: Hooks = []
    late_after: Timespan = 0
    env: Environment = {}
    secrets: SecretsBody | None = None
    user: Word = ""
    identity: bool = False
    cwd: PathText = ""
    stdin: InputText = ""
    labels: Labels = {}


class CreateManyBody(Body, frozen=True):
    """A batch of jobs to create.

    Attributes:
        items: The jobs, 1 to 1,000; each succeeds or fails independently.
    """

    items: list[JobBody]


class PauseBody(Body, frozen=True):
    """The pause of a job.

    Attributes:
        reason: The reason, which its ledger repeats; may be empty.
        until: The instant (RFC 3339) at which the job is resumed by itself; null for never.
    """

    reason: LineText = ""
    until: LineText | None = None


class ScheduleView(View, frozen=True):
    """A schedule of a job, and its next fire time.

    Attributes:
        schedule: The schedule as defined.
        timezone: Its IANA time zone.
        day_or: Whether one matching day field of a cron expression suffices.
        next_fire_at: Its next fire time; null if it has none.
        spread: Whether a macro fires at a time that follows from the name of the job.
        start_at: No fire time is earlier; as defined, null for no limit.
        end_at: No fire time is later.
        every: Which periods count, from that with *start_at*; null for all.
        gap: Whether a skipped local time fires: ``shift`` or ``skip``.
        fold: Which occurrences of a repeated local time fire: ``first``, ``last`` or ``both``.
    """

    schedule: str
    timezone: str
    day_or: bool = True
    next_fire_at: InstantText | None = None
    spread: bool = False
    start_at: str | None = None
    end_at: str | None = None
    every: str | None = None
    gap: str = "shift"
    fold: str = "first"


class LastExecutionView(View, frozen=True):
    """The outcome of the latest finished execution of a job.

    Attributes:
        execution_id: Its id.
        status: ``success``, ``failed`` or ``cancelled``; ``broken`` if its record cannot be read.
        fire_time: When it was due; for a trigger, when it was requested.
        started_at: When its first attempt started.
        finished_at: When its last task ended.
        reason: The reason of its status; empty for a success.
    """

    execution_id: str
    status: str
    fire_time: InstantText | None = None
    started_at: InstantText | None = None
    finished_at: InstantText | None = None
    reason: str = ""


class LastSuccessView(View, frozen=True):
    """The latest execution of a job that succeeded.

    Attributes:
        execution_id: Its id.
        finished_at: When its last task ended.
    """

    execution_id: str
    finished_at: InstantText


class RecentView(View, frozen=True):
    """The outcomes of the newest 100 finished executions and 100 fire times of a job.

    The newest are those with the latest fire time; of a trigger, that is when it was requested.

    Attributes:
        counts: The number of these executions by status: ``success``, ``failed``, ``cancelled``,
            and ``broken`` for those whose record cannot be read.
        last_success: The newest of these executions that succeeded; null if none did.
        failure_streak: The number of consecutive failed executions, counted back from the newest.
            Cancelled and broken executions are ignored.
        skip_streak: The number of consecutive fire times that were skipped or missed, counted back
            from the newest. Ledger entries that cannot be read are ignored.
    """

    counts: dict[str, int]
    last_success: LastSuccessView | None
    failure_streak: int
    skip_streak: int


class HookRetryView(View, frozen=True):
    """A hook whose webhooks were not accepted, and are sent again.

    Attributes:
        event: ``failure``, ``success``, ``recovery`` or ``late``.
        receiver: Scheme and host of the URL.
        waiting: The number of these webhooks.
        reason: Why the last attempt failed, with the start of the receiver's answer.
        next_at: When the webhook of that attempt is sent again.
    """

    event: str
    receiver: str
    waiting: int
    reason: str
    next_at: InstantText


class HookTestView(View, frozen=True):
    """The answer to a sample of one webhook.

    Attributes:
        hook: The number of the hook in its job, from 1.
        event: ``failure``, ``success``, ``recovery`` or ``late``.
        receiver: Scheme and host of the URL.
        is_accepted: Whether the receiver accepted the sample.
        reason: Why not, with the start of the receiver's answer.
    """

    hook: int
    event: str
    receiver: str
    is_accepted: bool
    reason: str = ""


class HookTests(View, frozen=True):
    """The answers to the samples of a job's webhooks.

    Attributes:
        items: One for each webhook.
    """

    items: list[HookTestView]


class JobView(View, frozen=True):
    """A job.

    Attributes:
        job_id: 16 hexadecimal digits; the first four are the hash slot of its name.
        name: Its name.
        namespace: Its namespace.
        status: ``broken`` if its record cannot be shown; ``paused``; ``running`` while a task of an
            execution runs or has run; ``waiting`` while its executions wait for a slot, for
            dependencies or for earlier executions; ``manual`` if it has neither schedules nor
            dependencies; ``finished`` if its schedules have no further fire times and it has no
            dependencies; otherwise ``scheduled``. The document of a one-off job that has ended has
            the status of its execution, and that of a replaced version is ``replaced``.
        type: The job type that it was defined with; null for none.
        version: The version of its definition, from 1.
        description: Its description.
        schedules: Its schedules, without ``@manual``, which never fires.
        tasks: Its tasks.
        dependencies: Its dependencies, each as ``namespace/name``.
        events: The types of the events from outside that start it.
        misfire: Its misfire policy.
        grace: The tolerated lateness, such as ``10s``.
        overlap: Its overlap policy.
        labels: Its labels.
        created_at: When it was created.
        updated_at: When it got its present version.
        next_fire_at: The earliest next fire time of its schedules.
        execution_id: Its latest unfinished execution; of a one-off job, its execution.
        started_at: When that execution started.
        ended_at: When the execution of a one-off job ended.
        result: The result of a one-off job, if it succeeded: of its only task, or an object with
            the results of the tasks that no other task needs.
        progress: The progress of that execution in percent; see `ExecutionView`.
        last_execution: Its finished execution with the latest fire time; null if there is none
            in the history, and in responses to requests that make changes.
        recent: The outcomes of its newest executions and fire times; null without any, in lists,
            and in responses to requests that make changes.
        retrying_hooks: Its hooks whose webhooks were not accepted, and are sent again, as far as
            the primary has tried since it became primary; empty in lists, and in responses to
            requests that make changes.
        paused_at: When it was paused, or its namespace.
        paused_by: The caller that paused it.
        pause_reason: The reason of the pause.
        paused_until: When the pause ends by itself; null for never.
        priority: Its priority.
        start_deadline: Its start deadline, such as ``5m``; ``0s`` is no limit.
        execution_timeout: The time limit of an execution; ``0s`` is no limit.
        consistency: Its consistency.
        definition: A `JobBody` that can be edited and sent; null in lists. It is plain JSON, since
            a newer node may have fields that a client does not know.
        broken: Which part of the record cannot be read, and why; the job can still be replaced and
            deleted. Empty for a valid record.
        warnings: Parts of the job that cannot work at present: a label that no living node has, a
            ``cwd`` or a program that does not exist on the node that saved the job, a job of a hook
            that does not exist, or a webhook to a host that the node does not permit. Also fire
            times that may surprise: either of two day fields, changes of the clock, calendars that
            exclude all. Only responses to requests that make changes have warnings.
        next_fires: Its next five fire times; null in lists, and for replaced versions.
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
    grace: str
    overlap: str
    labels: dict[str, str]
    created_at: InstantText
    updated_at: InstantText
    next_fire_at: InstantText | None = None
    execution_id: str | None = None
    type: str | None = None
    started_at: InstantText | None = None
    ended_at: InstantText | None = None
    result: Json = None
    progress: int | None = None
    last_execution: LastExecutionView | None = None
    recent: RecentView | None = None
    events: list[str] = []
    retrying_hooks: list[HookRetryView] = []
    paused_at: InstantText | None = None
    paused_by: str = ""
    pause_reason: str = ""
    paused_until: InstantText | None = None
    priority: int = 0
    start_deadline: str = "0s"
    execution_timeout: str = "0s"
    consistency: str = "strict"
    definition: dict[str, Json] | None = None
    broken: str = ""
    warnings: list[str] = []
    next_fires: list[NextFireView] | None = None


class JobList(View, frozen=True):
    """A page of jobs.

    Attributes:
        items: The jobs, ordered by ``namespace/name``.
        next_cursor: The cursor of the next page; null for the last page.
    """

    items: list[JobView]
    next_cursor: str | None = None


class CreatedItem(View, frozen=True):
    """The result of one item of `CreateManyBody`: a job or an error.

    Attributes:
        status: The status of a request for this item alone: 201 if the job is new, 200 if it
            existed, or the status of the error.
        job_id: The id of the job; null after an error.
        job: The ``namespace/name`` of the job; null after an error.
        version: The version of its definition; null after an error.
        change: ``created``, ``replaced`` or ``unchanged``; null after an error.
        error: The error; null on success.
        view: The job as saved, with ``?views=true``; null after an error.
    """

    status: int
    job_id: str | None = None
    job: str | None = None
    version: int | None = None
    change: str | None = None
    error: ProblemView | None = None
    view: JobView | None = None


class CreatedManyView(View, frozen=True):
    """The results of `CreateManyBody`.

    Attributes:
        items: The results, in the order of the items.
    """

    items: list[CreatedItem]
