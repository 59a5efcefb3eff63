"""Conversion of the bodies of jobs to the records of the core, with all errors reported together.

At most `PROBLEMS_MAX` errors are reported, and the check ends there: the cost of a body does not
grow with its number of errors.
"""

import hashlib
import re
from collections.abc import Generator, Iterable, Iterator
from itertools import islice
from typing import Any, TypeVar

from rota.core.errors import Problem, Refused, invalid, invalid_fields
from rota.core.model.event_trigger import EventTrigger
from rota.core.model.hook import Hook, HookEvent, HookFormat
from rota.core.model.job import (
    PARAMETERS_MAX,
    JobSpec,
    SchedulePolicy,
    TaskSpec,
    problems_of,
    problems_of_counts,
)
from rota.core.model.retry import Backoff, Explicit, Exponential, Fixed, Linear, RetryPolicy
from rota.core.model.trigger_rules import TriggerRule
from rota.core.timing.schedule import Schedule
from rota.wire.bodies.field_reader import Hints, Reader
from rota.wire.bodies.flow_bodies import flow_of, full_name_of
from rota.wire.bodies.parameter_schema import completed, problems_of_schema
from rota.wire.bodies.schedule_bodies import policy_of
from rota.wire.bodies.task_bodies import given, work_of
from rota.wire.documents import HookBody, JobBody, Json, RetryBody, ScheduleBody, TaskBody
from rota.wire.job_fields import JOB_FIELDS, STORED, Form, JobField

T = TypeVar("T")

MAIN_TASK = "main"
"""The name of the only task of a job without ``tasks``."""
PROBLEMS_MAX = 20
"""The most errors of one job in a response; a batch may have a thousand such jobs."""
SHARED = {field.key: field.name for field in JOB_FIELDS if field.is_of_tasks}
"""Fields of a task whose default is the value of the job, with their names in Python."""

_OF_A_TASK = re.compile(r"/tasks/(?P<number>\d+)/(?P<field>\w+)(?P<rest>.*)")


def job_spec(body: JobBody, hints: Hints | None = None, *, job_type: str = "") -> JobSpec:
    """Return the job that *body* defines.

    Args:
        body: The body of the request.
        hints: The hints that are left for a request with several jobs.
        job_type: The job type whose template is part of *body*; empty for none.

    Raises:
        Refused: Code ``invalid_job``, with the first `PROBLEMS_MAX` errors.
    """
    return finished(reading(body, hints, job_type=job_type))


def finished(steps: Generator[None, None, T]) -> T:
    """Return the result of *steps*, without pauses."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result


def reading(
    body: JobBody, hints: Hints | None = None, *, job_type: str = "", is_one_off: bool = False
) -> Generator[None, None, JobSpec]:
    """Return the job as `job_spec` does, with a pause after each task."""
    # The lists are counted first, so that lists that are too long are not read.
    counts = problems_of_counts(len(body.tasks), len(body.schedules), len(body.dependencies))
    if counts:
        raise _refusal(counts)
    reader = Reader(hints)
    tasks: list[TaskSpec] = []
    for task in _tasks(body, reader):
        tasks.append(task)
        yield
    given_schedules = [each for each in _schedules(body, reader) if each[0].text != "@manual"]
    policies = tuple(policy for _, policy in given_schedules)
    if sum(len(each.parameters) for each in policies) > PARAMETERS_MAX:
        detail = f"parameters of schedules have at most {PARAMETERS_MAX:,} characters together"
        reader.problems.append(Problem("/schedules", detail))
    spec = JobSpec(
        name=body.name,
        namespace=body.namespace,
        schedules=tuple(schedule for schedule, _ in given_schedules),
        policies=policies if any(each != SchedulePolicy() for each in policies) else (),
        tasks=tuple(tasks),
        dependencies=tuple(full_name_of(name, body.namespace) for name in body.dependencies),
        hooks=tuple(_hooks(body)),
        triggers=tuple(EventTrigger(event=each.event, when=each.when) for each in body.triggers),
        parameters="" if body.type else reader.json(_parameters(body, reader), "/parameters"),
        job_type=job_type,
        is_one_off=is_one_off,
        **{field.name: _stored(field, getattr(body, field.name), reader) for field in STORED},
    )
    found = list(islice(_all_problems(reader, spec, body), PROBLEMS_MAX + 1))
    if found:
        problems = _relocated(found[:PROBLEMS_MAX], body)
        if len(found) > PROBLEMS_MAX:
            problems.append(Problem("", "only the first errors are listed; there may be more"))
        raise _refusal(problems)
    return spec


def _parameters(body: JobBody, reader: Reader) -> Json:
    """Return the parameters of a job as they are stored, with the defaults of its own schema.

    A job may lack them that runs only on request, whose triggers are checked, and one whose
    schedules all have their own.
    """
    schema = body.parameters_schema
    if schema is None:
        return body.parameters
    problems = problems_of_schema(schema, "/parametersSchema")
    reader.problems += problems
    needs_none = body.schedule is None and not body.dependencies
    for each in body.schedules:
        needs_none &= isinstance(each, ScheduleBody) and each.parameters is not None
    if problems or (body.parameters is None and needs_none):
        return body.parameters
    whole, problems = completed(schema, {} if body.parameters is None else body.parameters)
    reader.problems += problems
    return whole


def _stored(field: JobField, value: Any, reader: Reader) -> Any:
    """Return the value of a field of `JobSpec`; Any: its type is that of the field."""
    match field.form:
        case Form.CHOICE:
            default = field.stored_default
            return default if value is None else type(default)(value)
        case Form.DURATION:
            return reader.timespan(value, f"/{field.key}")
        case Form.JSON:
            return reader.json(value, f"/{field.key}")
        case Form.NAMES:
            return tuple(value)
        case Form.PAIRS:
            return tuple(sorted(value.items()))
        case _:
            return value


def _all_problems(reader: Reader, spec: JobSpec, body: JobBody) -> Iterator[Problem]:
    yield from reader.problems
    if body.type and body.parameters_schema is not None:
        detail = "the parameters of a type are checked by the node or the type; remove the schema"
        yield Problem("/parametersSchema", detail)
    if len(reader.problems) > PROBLEMS_MAX:
        return  # Not all tasks were read.
    # If several of the alternatives are given, errors of the tasks are of no use.
    is_unambiguous = len(_alternatives(body)) <= 1
    yield from (each for each in problems_of(spec) if is_unambiguous or each.pointer != "/tasks")


def _refusal(problems: list[Problem]) -> Refused:
    return invalid_fields("invalid_job", problems)


def parameters_json(value: Json) -> str:
    """Return the parameters of a trigger as they are stored.

    Raises:
        Refused: The parameters are too long.
    """
    reader = Reader()
    text = reader.json(value, "/parameters")
    if reader.problems:
        raise invalid("invalid_parameters", str(reader.problems[0]), *reader.problems)
    return text


def print_of(*parts: bytes) -> str:
    """Return the fingerprint of a request, which its repetitions share."""
    return hashlib.blake2b(b"\0".join(parts), digest_size=16).hexdigest()


def _schedules(body: JobBody, reader: Reader) -> Iterator[tuple[Schedule, SchedulePolicy]]:
    """Yield the schedules of *body*, with what each has in place of the job's fields."""
    given: list[tuple[str, str | ScheduleBody]] = []
    if body.schedule is not None:
        given.append(("/schedule", body.schedule))
    given += [(f"/schedules/{number}", each) for number, each in enumerate(body.schedules)]
    shared = reader.zone(body.timezone, "/timezone")
    full_name = f"{body.namespace}/{body.name}"
    for pointer, each in given:
        if isinstance(each, str):
            only = ScheduleBody(schedule=each)
            yield reader.schedule(only, shared, full_name, pointer), SchedulePolicy()
        else:
            zone = reader.zone(each.timezone, f"{pointer}/timezone") if each.timezone else shared
            schedule = reader.schedule(each, zone, full_name, f"{pointer}/schedule")
            parameters = _own_parameters(each, body, reader, pointer)
            jitter = reader.timespan(each.jitter, f"{pointer}/jitter")
            yield schedule, policy_of(each, parameters, jitter)


def _own_parameters(schedule: ScheduleBody, body: JobBody, reader: Reader, pointer: str) -> str:
    """Return the parameters of a schedule as JSON, with the defaults of the job's schema."""
    if schedule.parameters is None:
        return ""
    pointer = f"{pointer}/parameters"
    if body.type:
        detail = "a job of a type has one set of parameters; remove these, or create two jobs"
        reader.problems.append(Problem(pointer, detail))
    value, schema = schedule.parameters, body.parameters_schema
    if schema is not None and not problems_of_schema(schema, ""):
        value, problems = completed(schema, value)
        own = (
            Problem(f"{pointer}{each.pointer.removeprefix('/parameters')}", each.detail)
            for each in problems
        )
        reader.problems += own
    return reader.json(value, pointer)


def _tasks(body: JobBody, reader: Reader) -> Iterator[TaskSpec]:
    """Yield the tasks of *body*, until there are more than `PROBLEMS_MAX` errors."""
    alternatives = _alternatives(body)
    if len(alternatives) > 1:
        reader.problems.append(
            Problem(
                "",
                f"the job has {' and '.join(alternatives)}; give one of command, python, type, "
                "tasks and container (which may have a command)",
            )
        )
        return
    for number, task in enumerate(body.tasks):
        if len(reader.problems) > PROBLEMS_MAX:
            return
        yield _task(task, body, reader, f"/tasks/{number}")
    if body.tasks or (not alternatives and body.container is None):
        return
    only = TaskBody(
        name=MAIN_TASK,
        command=body.command,
        python=body.python,
        type=body.type,
        parameters=body.parameters if body.type else None,
        container=body.container,
        sandbox=body.sandbox,
        limits=body.limits,
    )
    yield _task(only, body, reader, "")


def _alternatives(body: JobBody) -> list[str]:
    """Return the fields of *body* that define the work; there must be at most one."""
    alternatives = {
        "command": body.command is not None,
        "python": body.python is not None,
        "type": body.type is not None,
        "tasks": bool(body.tasks),
    }
    return [name for name, is_given in alternatives.items() if is_given]


def _task(task: TaskBody, job: JobBody, reader: Reader, pointer: str) -> TaskSpec:
    retries = given(task.retries, job.retries)
    work = work_of(task, job, reader, pointer)
    return TaskSpec(
        name=task.name,
        work=work,
        needs=tuple(task.needs),
        rule=TriggerRule(task.trigger_rule),
        retry=_retry_policy(retries, reader, f"{pointer}/retries"),
        selector=tuple(sorted(given(task.node_selector, job.node_selector).items())),
        **flow_of(task, work, job.namespace, reader, pointer),
    )


def _retry_policy(retries: int | RetryBody, reader: Reader, pointer: str) -> RetryPolicy:
    if isinstance(retries, int):
        return RetryPolicy(limit=retries)
    return RetryPolicy(
        limit=retries.limit,
        backoff=_backoff(retries, reader, pointer),
        jitter=retries.jitter,
        on_exit_codes=tuple(retries.on_exit_codes),
        never_on_exit_codes=tuple(retries.never_on_exit_codes),
        on_exceptions=tuple(retries.on_exceptions),
        never_on_exceptions=tuple(retries.never_on_exceptions),
        on_causes=tuple(retries.on_causes),
        never_on_causes=tuple(retries.never_on_causes),
        elapsed_max=reader.timespan(retries.max_elapsed, f"{pointer}/maxElapsed"),
    )


def _backoff(retries: RetryBody, reader: Reader, pointer: str) -> Backoff:
    delay = reader.timespan(retries.delay, f"{pointer}/delay")
    match retries.backoff:
        case "fixed":
            return Fixed(delay=delay)
        case "explicit":
            delays = tuple(
                reader.timespan(each, f"{pointer}/delays/{number}")
                for number, each in enumerate(retries.delays)
            )
            return Explicit(delays=delays)
        case "linear":
            delay_max = reader.timespan(retries.max_delay, f"{pointer}/maxDelay")
            return Linear(step=delay, delay_max=delay_max)
        case "exponential":
            delay_max = reader.timespan(retries.max_delay, f"{pointer}/maxDelay")
            return Exponential(first=delay, factor=retries.factor, delay_max=delay_max)


def hooks_of(body: JobBody) -> dict[HookEvent, list[HookBody]]:
    """Return the hooks of *body* for each event, in the order of `HookEvent`."""
    return {
        HookEvent.FAILURE: body.on_failure,
        HookEvent.SUCCESS: body.on_success,
        HookEvent.RECOVERY: body.on_recovery,
        HookEvent.LATE: body.on_late,
    }


def _hooks(body: JobBody) -> Iterator[Hook]:
    for event, hooks in hooks_of(body).items():
        for hook in hooks:
            job = full_name_of(hook.job, body.namespace) if hook.job else ""
            hook_format = HookFormat(hook.format)
            yield Hook(event=event, webhook=hook.webhook or "", job=job, format=hook_format)


def _relocated(problems: Iterable[Problem], body: JobBody) -> list[Problem]:
    """Return *problems* with the pointers of the job's fields for values taken from the job."""
    moved = (Problem(_origin(problem.pointer, body), problem.detail) for problem in problems)
    return list(dict.fromkeys(moved))


def _origin(pointer: str, body: JobBody) -> str:
    if not body.tasks:
        return pointer.removeprefix("/tasks/0")
    found = _OF_A_TASK.fullmatch(pointer)
    if found is None or found["field"] not in SHARED:
        return pointer
    task = body.tasks[int(found["number"])]
    is_its_own = getattr(task, SHARED[found["field"]]) is not None
    return pointer if is_its_own else f"/{found['field']}{found['rest']}"
