"""Jobs: their definitions, versions and plans."""

from collections.abc import Iterator
from enum import Enum

import msgspec

from rota.core.errors import Problem, out_of_range
from rota.core.model.checked_fields import Count
from rota.core.model.concurrency_key import key_of
from rota.core.model.dag import problems_of_graph, repetitions
from rota.core.model.event_trigger import EventTrigger, channel_of, problems_of_triggers
from rota.core.model.expressions import ExpressionError, problem_of_expression
from rota.core.model.flow import Loop, RunJob, Wait
from rota.core.model.flow_checks import (
    problems_of_flow,
    problems_of_switches,
    problems_of_teardowns,
)
from rota.core.model.hook import Hook, HookEvent, problems_of_hooks
from rota.core.model.ids import NAME_RULE, Index, JobId, is_full_name, is_name
from rota.core.model.result_arguments import problems_of_result_arguments
from rota.core.model.retry import (
    CAUSES,
    DELAY_MAX,
    OUT_OF_MEMORY,
    RETRIES_MAX,
    TIMEOUT,
    Explicit,
    Exponential,
    Fixed,
    Linear,
    RetryPolicy,
)
from rota.core.model.trigger_rules import TriggerRule
from rota.core.model.work import Selector, Work
from rota.core.model.work_checks import TIMEOUT_MAX, problems_of_work
from rota.core.quoting import in_quotes
from rota.core.timing.instants import DAY, SECOND, Duration, Instant, format_duration
from rota.core.timing.schedule import Schedule

TASKS_MAX = 10_000
SCHEDULES_MAX = 64
PARAMETERS_MAX = 120_000
"""The most bytes of parameters as JSON. Tasks get their parameters in one environment variable;
Linux limits each to 128 KiB."""
DEPENDENCIES_MAX = 100
GRACE_DEFAULT = Duration(10 * SECOND)
"""Longer than a takeover (session TTL 5 s + 1 s), so that a takeover causes no misfire."""
PRIORITY_MAX = 100
"""The largest priority, and the negative of the smallest; one step equals 10 s of waiting."""


class Misfire(Enum):
    """The policy for fire times noticed later than their grace."""

    ALL = "all"
    """Each one fires."""
    LATEST = "latest"
    """Only the most recent one fires; the others are coalesced into it."""
    SKIP = "skip"
    """None fires; each is recorded as missed."""


class Overlap(Enum):
    """The policy for a fire while an earlier execution of the job is not finished."""

    ALLOW = "allow"
    SKIP = "skip"
    QUEUE_ONE = "queue_one"
    """One execution waits for the running ones to end; further fires are skipped."""
    QUEUE_LATEST = "queue_latest"
    """Likewise, but a further fire takes the place of the waiting execution."""
    QUEUE_ALL = "queue_all"
    """Executions run one after the other, in order."""
    CANCEL_RUNNING = "cancel_running"
    """Unfinished executions are cancelled; the new one starts when they have ended."""


class OnExcluded(Enum):
    """The treatment of a fire time that a calendar excludes."""

    SKIP = "skip"
    """It is recorded as excluded."""
    NEXT = "next"
    """It starts at its local time on the next day that is permitted, if no fire is before that."""
    HOLD = "hold"
    """It starts when nothing excludes it any more, if no fire is before that."""


class Consistency(Enum):
    """The policy for a network partition in which the shard's primary cannot commit."""

    STRICT = "strict"
    """The job waits: no execution starts twice."""
    AVAILABLE = "available"
    """Stand-ins fire the job; executions that ran twice are marked
    (docs/explanation/available.md)."""


class TaskSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One task of a job, as defined.

    Attributes:
        selector: The labels that a node must have to run the task.
        when: The expression under which the task starts; empty for none. Otherwise it is skipped.
        loop: The loop whose steps the task repeats; None for a single step.
        wait: What each step waits for or chooses, in place of an attempt; None for an attempt.
        skip_exit_codes: The exit codes with which an attempt skips the task.
        handles_failure: Whether its success handles the failures of the tasks that it needs,
            directly or through others, so that they do not fail the execution.
        allows_failure: Whether its failure counts as a success for the execution, and for the rules
            of the tasks that need it.
        is_teardown: Whether it starts after all tasks that are no teardowns have ended, also if the
            execution was stopped.
        is_templated: Whether its work contains templates.
    """

    name: str
    work: Work
    needs: tuple[str, ...] = ()
    rule: TriggerRule = TriggerRule.ALL_SUCCESS
    retry: RetryPolicy = msgspec.field(default_factory=RetryPolicy)
    selector: Selector = ()
    when: str = ""
    loop: Loop | None = None
    wait: Wait | None = None
    skip_exit_codes: tuple[int, ...] = ()
    handles_failure: bool = False
    is_teardown: bool = False
    is_templated: bool = False
    allows_failure: bool = False


class SchedulePolicy(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a schedule has in place of the job's fields.

    Attributes:
        parameters: The parameters of its executions, as JSON; empty for those of the job.
        misfire: Its misfire policy; None for that of the job.
        jitter: The end of the range, from 0, of the time by which each fire starts later; 0 for
            none. The time follows from the job, the schedule and the fire time.
        max_executions: The number of executions after which it ends; 0 for no end.
        overlap: The overlap policy of its fires; None for that of the job.
    """

    parameters: str = ""
    misfire: Misfire | None = None
    jitter: Duration = Duration(0)
    max_executions: Count = 0
    overlap: Overlap | None = None


NO_POLICY = SchedulePolicy()


class JobSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A job, as defined.

    Attributes:
        dependencies: Full names (``namespace/name``) of jobs; see docs/reference/jobs.md.
        parameters: JSON text, passed to every task as ``ROTA_PARAMETERS``; empty for none.
        parameters_schema: The JSON Schema of the parameters, checked by the API; empty for none.
        labels: Pairs of a name and a value, sorted.
        priority: The priority of its ready tasks that wait for a slot; see `PRIORITY_MAX`.
        job_type: The job type with which the job was defined, and whose template was then copied
            into the job; empty for none.
        is_one_off: Whether the job runs once, and is deleted with the history of its execution.
        start_deadline: The time that an execution may wait for its first attempt before it fails;
            0 for no limit.
        execution_timeout: The time that an execution may take, from the start of its first attempt,
            before it is stopped and fails; 0 for no limit.
        hooks: The hooks of the job, in the order of `HookEvent`.
        late_after: The time after its fire time at which an execution that has not ended is late; 0
            for no such time.
        fail_fast: Whether an execution is stopped, and fails, when one of its tasks fails.
        max_parallel: The number of executions that may run at a time, under each overlap policy
            but ``allow``.
        pause_after_failures: The number of failed executions in a row after which the job is
            paused; 0 for no limit.
        only_calendars: The names of calendars of which one must have a fire time; none for no
            condition.
        except_calendars: The names of calendars that exclude fire times.
        misfire_window: How late a fire time may be that still runs under *misfire*; earlier ones
            are missed. 0 for no limit.
        misfire_max: The most late fire times that run under the policy ``all``, which are the
            latest; 0 for no limit.
        concurrency_key: The expression over ``params`` whose value an execution shares with those
            to which *overlap* and *max_parallel* apply; empty for all of the job.
        on_excluded: The treatment of excluded fire times.
        triggers: The events from outside that start the job.
        policies: What each schedule has in place of the job's fields, in the order of *schedules*;
            none if no schedule has anything.
    """

    name: str
    tasks: tuple[TaskSpec, ...]
    namespace: str = "default"
    description: str = ""
    schedules: tuple[Schedule, ...] = ()
    dependencies: tuple[str, ...] = ()
    misfire: Misfire = Misfire.LATEST
    grace: Duration = GRACE_DEFAULT
    overlap: Overlap = Overlap.ALLOW
    labels: tuple[tuple[str, str], ...] = ()
    parameters: str = ""
    priority: int = 0
    consistency: Consistency = Consistency.STRICT
    job_type: str = ""
    is_one_off: bool = False
    start_deadline: Duration = Duration(0)
    execution_timeout: Duration = Duration(0)
    hooks: tuple[Hook, ...] = ()
    late_after: Duration = Duration(0)
    fail_fast: bool = False
    parameters_schema: str = ""
    only_calendars: tuple[str, ...] = ()
    except_calendars: tuple[str, ...] = ()

    @property
    def called_jobs(self) -> tuple[str, ...]:
        """The full names of the jobs that its tasks run, each once."""
        waits = (task.wait for task in self.tasks)
        return tuple(dict.fromkeys(wait.job for wait in waits if isinstance(wait, RunJob)))

    @property
    def calendars(self) -> tuple[str, ...]:
        """The names of the calendars that decide about its fire times."""
        return self.only_calendars + self.except_calendars

    @property
    def full_name(self) -> str:
        """``namespace/name``, unique in a cluster."""
        return f"{self.namespace}/{self.name}"

    pause_after_failures: Count = 0
    max_parallel: Count = 1
    misfire_window: Duration = Duration(0)
    misfire_max: Count = 0
    concurrency_key: str = ""
    policies: tuple[SchedulePolicy, ...] = ()
    on_excluded: OnExcluded = OnExcluded.SKIP
    triggers: tuple[EventTrigger, ...] = ()

    @property
    def upstreams(self) -> tuple[str, ...]:
        """The jobs whose successes, and the channels whose events, the job gets."""
        channels = (channel_of(self.namespace, each.event) for each in self.triggers)
        return (*self.dependencies, *dict.fromkeys(channels))

    def policy_of(self, number: int) -> SchedulePolicy:
        """Return what a schedule has in place of the job's fields; nothing for other numbers."""
        return self.policies[number] if number < len(self.policies) else NO_POLICY

    def misfire_of(self, number: int) -> Misfire:
        """Return the misfire policy of a schedule."""
        return self.policy_of(number).misfire or self.misfire

    def overlap_of(self, number: int) -> Overlap:
        """Return the overlap policy of a schedule; for other numbers, that of the job."""
        return self.policy_of(number).overlap or self.overlap

    def parameters_of(self, number: int) -> str:
        """Return the parameters of the executions of a schedule, as JSON; empty for none."""
        return self.policy_of(number).parameters or self.parameters


class Pause(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The pause of a job: since when, by whom, and the reason.

    Attributes:
        is_automatic: Whether failures in a row began it, and a success ends it.
        until: When it ends by itself; 0 for never.
    """

    at: Instant
    by: str = ""
    reason: str = ""
    is_automatic: bool = False
    until: Instant = Instant(0)


class Job(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A stored job: its current definition and version, counted from 1."""

    id: JobId
    version: int
    spec: JobSpec
    created_at: Instant
    updated_at: Instant
    pause: Pause | None = None


class Upstream(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The state of one dependency of a job.

    Attributes:
        seen: The journal index of the newest success delivered; a delivery with this index or a
            lower one is a repetition.
        is_met: Whether there is a success that the next execution will use up.
        links: The number of links (`rota.core.model.execution.Execution`) up to that success.
    """

    seen: Index = Index(0)
    is_met: bool = False
    links: int = 0


class JobPlan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The next fire times of a job, and the state of its dependencies.

    Attributes:
        next_fires: For each schedule, the first fire time without a ledger entry; None if there is
            none.
        upstreams: The state of each dependency.
        is_failing: Whether the execution that ended last failed; a cancelled one does not count.
        round: The number of times that fire times may be decided again, because the wall clock was
            set back (`rota.core.decide.recount_fires`), or an ``@at`` that has passed was added.
        failures: The number of executions that failed since one succeeded, or since the job was
            resumed or replaced; 0 for a job without a limit of these.
        paused_until: When the pause of the job ends by itself; 0 for never. A new primary reads the
            plans of all jobs, but not the jobs.
        starts: For each schedule, when its next fire starts, if that was deferred; 0 for one that
            was not. Empty if none was.
        begun: For each schedule, the number of executions that it has begun; empty if no schedule
            has a limit of these.
    """

    next_fires: tuple[Instant | None, ...] = ()
    upstreams: tuple[Upstream, ...] = ()
    is_failing: bool = False
    round: Count = 0
    failures: Count = 0
    paused_until: Instant = Instant(0)
    starts: tuple[Instant, ...] = ()
    begun: tuple[Count, ...] = ()


def problems_of(spec: JobSpec) -> Iterator[Problem]:
    """Yield all errors in *spec*, with pointers into the API's job body.

    Problems are found lazily. Schedules are not checked here: they were parsed before.
    """
    yield from _problems_of_names(spec)
    yield from problems_of_counts(len(spec.tasks), len(spec.schedules), len(spec.dependencies))
    yield from _problems_of_values(spec)
    yield from _problems_of_dependencies(spec)
    yield from _problems_of_calls(spec)
    yield from problems_of_hooks(spec.hooks, spec.full_name)
    yield from problems_of_triggers(spec.triggers)
    for number, task in enumerate(spec.tasks):
        yield from _problems_of_task(task, f"/tasks/{number}")
    yield from problems_of_graph(spec.tasks)
    yield from problems_of_teardowns(spec.tasks)
    yield from problems_of_switches(spec.tasks)


def problems_of_counts(tasks: int, schedules: int, dependencies: int) -> list[Problem]:
    """Return a problem for each list of a job with too many items, given the numbers of items."""
    counted = (
        ("/tasks", tasks, TASKS_MAX),
        ("/schedules", schedules, SCHEDULES_MAX),
        ("/dependencies", dependencies, DEPENDENCIES_MAX),
    )
    return [
        Problem(pointer, f"has {count} items; at most {most} are allowed")
        for pointer, count, most in counted
        if count > most
    ]


def _problems_of_names(spec: JobSpec) -> Iterator[Problem]:
    named = [("/name", spec.name), ("/namespace", spec.namespace)]
    named += [(f"/tasks/{number}/name", task.name) for number, task in enumerate(spec.tasks)]
    for pointer, name in named:
        if not is_name(name):
            yield Problem(pointer, f"{in_quotes(name)} is not a name: {NAME_RULE}")


def _problems_of_values(spec: JobSpec) -> list[Problem]:
    problems: list[Problem] = []
    if not spec.tasks:
        problems.append(
            Problem(
                "/tasks", "the job needs a command, a type, a python function, a container or tasks"
            )
        )
    timespans = (
        ("/grace", spec.grace),
        ("/startDeadline", spec.start_deadline),
        ("/executionTimeout", spec.execution_timeout),
        ("/lateAfter", spec.late_after),
        ("/misfireWindow", spec.misfire_window),
    )
    problems += [
        Problem(pointer, out_of_range(format_duration(timespan), "0s", "365d"))
        for pointer, timespan in timespans
        if not 0 <= timespan <= TIMEOUT_MAX
    ]
    if spec.max_parallel > 1 and not _limits_overlap(spec):
        detail = "the overlap policy allow has no limit; choose another, such as queue_all or skip"
        problems.append(Problem("/maxParallel", detail))
    problems += [
        Problem(
            f"/schedules/{number}/jitter", out_of_range(format_duration(each.jitter), "0s", "1d")
        )
        for number, each in enumerate(spec.policies)
        if not 0 <= each.jitter <= DAY
    ]
    problems += _problems_of_misfires(spec)
    problems += _problems_of_key(spec)
    if not -PRIORITY_MAX <= spec.priority <= PRIORITY_MAX:
        detail = out_of_range(spec.priority, -PRIORITY_MAX, PRIORITY_MAX)
        problems.append(Problem("/priority", detail))
    has_late_hooks = any(hook.event is HookEvent.LATE for hook in spec.hooks)
    if has_late_hooks and not spec.late_after:
        problems.append(Problem("/lateAfter", "onLate needs lateAfter, such as 30m"))
    elif spec.late_after and not has_late_hooks:
        problems.append(Problem("/lateAfter", "has no effect without onLate; give both or none"))
    return problems


def _problems_of_misfires(spec: JobSpec) -> Iterator[Problem]:
    policies = {spec.misfire_of(number) for number in range(len(spec.schedules))} or {spec.misfire}
    if 0 < spec.misfire_window < spec.grace:
        detail = f"is shorter than grace, {format_duration(spec.grace)}; choose a longer one"
        yield Problem("/misfireWindow", detail)
    if spec.misfire_max and Misfire.ALL not in policies:
        detail = "limits the misfire policy all, which this job does not have; remove it"
        yield Problem("/misfireMax", detail)


def _limits_overlap(spec: JobSpec) -> bool:
    """Return True if the executions of *spec*, or those of a schedule of it, must not overlap."""
    policies = {spec.overlap_of(number) for number in range(len(spec.schedules))}
    return {spec.overlap, *policies} != {Overlap.ALLOW}


def _problems_of_key(spec: JobSpec) -> Iterator[Problem]:
    """Yield the errors of the concurrency key, which the fires of all schedules must have."""
    if not spec.concurrency_key:
        return
    if not _limits_overlap(spec):
        detail = "has no effect with the overlap policy allow; choose another, such as queue_all"
        yield Problem("/concurrencyKey", detail)
    elif problem := problem_of_expression(spec.concurrency_key, frozenset({"params"})):
        yield Problem("/concurrencyKey", problem)
    else:
        for number in range(len(spec.schedules)):
            try:
                key_of(spec.concurrency_key, spec.parameters_of(number))
            except ExpressionError as error:
                detail = f"with the parameters of schedule {number}: {error}"
                yield Problem("/concurrencyKey", detail)


def _problems_of_dependencies(spec: JobSpec) -> list[Problem]:
    problems = [
        Problem(f"/dependencies/{number}", "a job cannot depend on itself")
        for number, name in enumerate(spec.dependencies)
        if name == spec.full_name
    ]
    problems += [
        Problem(
            f"/dependencies/{number}",
            f"{in_quotes(name)} is not the full name of a job; write namespace/name",
        )
        for number, name in enumerate(spec.dependencies)
        if not is_full_name(name)
    ]
    problems += [
        Problem(
            f"/dependencies/{number}",
            f"the job {in_quotes(spec.dependencies[number])} is already listed; remove it here",
        )
        for number in repetitions(spec.dependencies)
    ]
    if spec.dependencies and spec.consistency is Consistency.AVAILABLE:
        detail = (
            "an available job cannot depend on other jobs, because a node that is cut off cannot "
            "receive their successes: remove the dependencies, or make the job strict"
        )
        problems.append(Problem("/consistency", detail))
    return problems


def _problems_of_calls(spec: JobSpec) -> Iterator[Problem]:
    """Yield the errors of the tasks that run other jobs."""
    for number, task in enumerate(spec.tasks):
        if not isinstance(task.wait, RunJob):
            continue
        pointer, called = f"/tasks/{number}/runJob", task.wait.job
        if not is_full_name(called):
            yield Problem(
                pointer, f"{in_quotes(called)} is not NAMESPACE/NAME; each has {NAME_RULE}"
            )
        elif called == spec.full_name:
            detail = f"{in_quotes(called)} is this job, which its own task cannot run"
            yield Problem(pointer, f"{detail}; name another job")
        elif called.partition("/")[0] != spec.namespace:
            detail = f"{in_quotes(called)} is in another namespace"
            yield Problem(pointer, f"{detail}; name a job of {in_quotes(spec.namespace)}")
        elif spec.consistency is Consistency.AVAILABLE:
            detail = (
                "an available job cannot run other jobs, because a node that is cut off cannot "
                "reach them: remove the task, or make the job strict"
            )
            yield Problem("/consistency", detail)


def _problems_of_task(task: TaskSpec, pointer: str) -> list[Problem]:
    call = task.work.call
    return [
        *(() if task.wait else problems_of_work(task.work, pointer)),
        *problems_of_flow(task, pointer),
        *(problems_of_result_arguments(call, task.needs, f"{pointer}/python") if call else ()),
        *_problems_of_retry(task.retry, f"{pointer}/retries"),
        *(
            Problem(
                f"{pointer}/nodeSelector",
                f"{in_quotes(name)} is not the name of a label: {NAME_RULE}",
            )
            for name, _ in task.selector
            if not is_name(name)
        ),
    ]


def _problems_of_retry(policy: RetryPolicy, pointer: str) -> list[Problem]:
    problems: list[Problem] = []
    if not 0 <= policy.limit <= RETRIES_MAX:
        problems.append(Problem(pointer, out_of_range(policy.limit, 0, RETRIES_MAX)))
    if not 0 <= policy.jitter <= 1:
        problems.append(Problem(f"{pointer}/jitter", out_of_range(policy.jitter, 0, 1)))
    delays: dict[str, Duration] = {}
    match policy.backoff:
        case Fixed(delay=delay):
            delays = {"delay": delay}
        case Exponential(first=first, delay_max=delay_max, factor=factor):
            delays = {"delay": first, "maxDelay": delay_max}
            if not 1 <= factor <= 1000:
                problems.append(Problem(f"{pointer}/factor", out_of_range(factor, 1, 1000)))
        case Linear(step=step, delay_max=delay_max):
            delays = {"delay": step, "maxDelay": delay_max}
        case Explicit(delays=given):
            delays = {f"delays/{number}": delay for number, delay in enumerate(given)}
            if not given:
                problems.append(Problem(f"{pointer}/delays", "the list needs at least one delay"))
    delays["maxElapsed"] = policy.elapsed_max
    problems += [
        Problem(f"{pointer}/{field}", out_of_range(format_duration(delay), "0s", "365d"))
        for field, delay in delays.items()
        if not 0 <= delay <= DELAY_MAX
    ]
    return [*problems, *_problems_of_failures(policy, pointer)]


def _problems_of_failures(policy: RetryPolicy, pointer: str) -> Iterator[Problem]:
    """Yield the errors in the lists of failures that are retried, or are not."""
    texts = {
        "onExceptions": policy.on_exceptions,
        "neverOnExceptions": policy.never_on_exceptions,
        "onCauses": policy.on_causes,
        "neverOnCauses": policy.never_on_causes,
    }
    for field, names in texts.items():
        for number, name in enumerate(names):
            if field.endswith("Causes"):
                is_right = name in CAUSES
                rule = f"{TIMEOUT}, {OUT_OF_MEMORY} or the name of a signal, such as SIGKILL"
            else:
                is_right = all(part.isidentifier() for part in name.split("."))
                rule = "the name of an exception, such as ValueError or shop.OutOfStock"
            if not is_right:
                yield Problem(f"{pointer}/{field}/{number}", f"{in_quotes(name)} is not {rule}")
    codes = {
        "onExitCodes": policy.on_exit_codes,
        "neverOnExitCodes": policy.never_on_exit_codes,
    }
    for field, numbers in codes.items():
        for number, code in enumerate(numbers):
            if not 0 <= code <= 255:
                yield Problem(f"{pointer}/{field}/{number}", out_of_range(code, 0, 255))
