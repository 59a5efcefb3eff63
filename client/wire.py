"""The API's documents: what clients send and what nodes answer, in JSON with camelCase names.

Instants are RFC 3339 in UTC with microseconds. A duration is a number of seconds or text such as
``"1h30m"``. Answers may gain fields; clients ignore those they do not know, nodes refuse them.
"""

from typing import Any, Literal

import msgspec

Json = Any
"""Any JSON value; Any because it is the user's own and only passed on."""
Timespan = int | float | str


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
        limit: Retries after the first attempt.
        backoff: ``exponential`` from *delay* by *factor* up to *max_delay*, ``fixed`` at *delay*,
            or ``explicit``: *delays*, the last one repeating.
        jitter: Share of a delay, 0 to 1, that chance adds to it.
        on_exit_codes: Retry after these only.
        never_on_exit_codes: Never retry after these.
    """

    limit: int
    backoff: Literal["exponential", "fixed", "explicit"] = "exponential"
    delay: Timespan = "1s"
    factor: float = 2.0
    max_delay: Timespan = "5m"
    delays: list[Timespan] = []
    jitter: float = 0.0
    on_exit_codes: list[int] = []
    never_on_exit_codes: list[int] = []


class ScheduleBody(_Body, frozen=True):
    """One of several schedules of a job."""

    schedule: str
    timezone: str | None = None
    day_or: bool = True


class TaskBody(_Body, frozen=True):
    """One task of a job; what it leaves out is as the job says."""

    name: str
    command: str | list[str] | None = None
    type: str | None = None
    parameters: Json = None
    needs: list[str] = []
    trigger_rule: Literal["all_success", "all_done", "one_failed"] = "all_success"
    env: dict[str, str] = {}
    cwd: str | None = None
    stdin: str | None = None
    retries: int | RetryBody | None = None
    timeout: Timespan | None = None
    stop_grace: Timespan | None = None


class JobBody(_Body, frozen=True):
    """A job to be created: one *command*, one *type*, or *tasks*.

    Attributes:
        schedule: Shorthand for one of *schedules*.
        timezone: For schedules that name none.
        dependencies: Names or ids of jobs; this one runs after each of them succeeded.
        misfire: What becomes of fire times noticed later than *grace*.
        overlap: What becomes of a fire while an earlier execution is not finished.
    """

    name: str
    namespace: str = "default"
    description: str = ""
    schedule: str | None = None
    schedules: list[str | ScheduleBody] = []
    timezone: str = "UTC"
    command: str | list[str] | None = None
    type: str | None = None
    parameters: Json = None
    tasks: list[TaskBody] = []
    dependencies: list[str] = []
    retries: int | RetryBody = 0
    timeout: Timespan = 0
    stop_grace: Timespan = "10s"
    misfire: Literal["all", "latest", "skip"] = "latest"
    grace: Timespan = "10s"
    overlap: Literal["allow", "skip", "queue_one"] = "allow"
    env: dict[str, str] = {}
    cwd: str = ""
    stdin: str = ""
    labels: dict[str, str] = {}


class PauseBody(_Body, frozen=True):
    """A job is paused, for a reason that its ledger will repeat."""

    reason: str = ""


class TriggerBody(_Body, frozen=True):
    """An execution asked for; *parameters* override the job's."""

    parameters: Json = None


class TriggerItem(_Body, frozen=True):
    """One of many executions asked for together."""

    job: str
    parameters: Json = None
    idempotency_key: str | None = None


class TriggerManyBody(_Body, frozen=True):
    """Executions asked for together, at most `ITEMS_MAX`."""

    items: list[TriggerItem]


class WaitManyBody(_Body, frozen=True):
    """Executions waited for together, at most `ITEMS_MAX`."""

    execution_ids: list[str]
    timeout: Timespan = 30


ITEMS_MAX = 1_000


# -- what nodes answer -----------------------------------------------------------------------------


class FieldProblem(_View, frozen=True):
    """One field that is wrong: where, as a JSON pointer, and how."""

    pointer: str
    detail: str


class ProblemView(_View, frozen=True):
    """Why a request failed (RFC 9457, ``application/problem+json``)."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    request_id: str = ""
    errors: list[FieldProblem] = []


class ScheduleView(_View, frozen=True):
    """A schedule of a job, and its next fire time."""

    schedule: str
    timezone: str
    next_fire_at: str | None = None


class TaskSpecView(_View, frozen=True):
    """A task of a job, as defined."""

    name: str
    needs: list[str]
    trigger_rule: str
    type: str
    command: str | list[str] | None
    retries: int
    timeout_s: float


class JobView(_View, frozen=True):
    """A job.

    Attributes:
        status: ``paused``, ``running`` (an execution is not finished), ``finished`` (nothing will
            make it run again by itself) or ``scheduled``.
        paused_at: Since when it is paused, by *paused_by*, because of *pause_reason*.
        definition: A `JobBody` to edit and send again, as JSON, for a newer node's may have fields
            that this client does not know; left out of lists.
        started_at: When the latest unfinished execution started.
        progress: Share of that execution's tasks that are done, in percent.
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
    created_at: str
    updated_at: str
    next_fire_at: str | None = None
    execution_id: str | None = None
    started_at: str | None = None
    progress: int | None = None
    paused_at: str | None = None
    paused_by: str = ""
    pause_reason: str = ""
    definition: dict[str, Json] | None = None


class AttemptView(_View, frozen=True):
    """One try at a task; *outcome* is null while it runs.

    Attributes:
        output_tail: The last 4 KiB that it wrote, bytes that are not UTF-8 replaced.
        output_bytes: How much it wrote in all.
    """

    number: int
    node_id: str
    token: str
    started_at: str
    finished_at: str | None = None
    outcome: str | None = None
    exit_code: int | None = None
    signal: int | None = None
    reason: str = ""
    output_tail: str = ""
    output_bytes: int = 0


class TaskView(_View, frozen=True):
    """A task of an execution."""

    status: str
    attempts: list[AttemptView]
    reason: str = ""
    retry_at: str | None = None


class ExecutionView(_View, frozen=True):
    """One run of a job.

    Attributes:
        trigger: ``schedule``, ``manual`` or ``dependencies``.
        lateness_ms: From its fire time to the start of its first attempt.
        progress: Share of its tasks that are done, in percent.
        tasks: By name; left out of lists.
    """

    execution_id: str
    job_id: str
    job: str
    job_version: int
    status: str
    trigger: str
    fire_time: str
    queued_at: str
    started_at: str | None = None
    finished_at: str | None = None
    lateness_ms: float | None = None
    progress: int = 0
    reason: str = ""
    tasks: dict[str, TaskView] | None = None


class LedgerEntryView(_View, frozen=True):
    """What became of a fire time, or of *count* of them in a row."""

    fire_time: str
    until: str
    count: int
    schedule: int
    outcome: str
    execution_id: str | None
    reason: str
    recorded_at: str


class NextFireView(_View, frozen=True):
    """A coming fire time: in UTC, on the schedule's own clock, and what that clock does there."""

    at: str
    local: str
    schedule: int
    note: str = ""


class TriggeredView(_View, frozen=True):
    """The execution that a trigger made."""

    execution_id: str
    job_id: str
    status: str


class TriggeredItem(_View, frozen=True):
    """One result of `TriggerManyBody`, in its order: an execution, or why there is none."""

    execution_id: str | None = None
    error: ProblemView | None = None


class TriggeredManyView(_View, frozen=True):
    """The results of `TriggerManyBody`."""

    items: list[TriggeredItem]


class JobList(_View, frozen=True):
    """A page of jobs; *next_cursor* gives the next one, null where there is none."""

    items: list[JobView]
    next_cursor: str | None = None


class ExecutionList(_View, frozen=True):
    """A page of executions, latest fire time first."""

    items: list[ExecutionView]
    next_cursor: str | None = None


class LedgerPage(_View, frozen=True):
    """A page of a job's ledger, oldest first."""

    items: list[LedgerEntryView]
    next_cursor: str | None = None


class NextFires(_View, frozen=True):
    """Coming fire times, earliest first."""

    items: list[NextFireView]


class VersionView(_View, frozen=True):
    """What runs here."""

    version: str
    node_id: str
    cluster: str
    shards: int
    python: str
