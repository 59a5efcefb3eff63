"""From what a client sends to what the core understands, every mistake reported at once."""

import hashlib
from collections.abc import Sequence
from typing import TypeVar

import msgspec

from rota.client.wire import JobBody, Json, RetryBody, ScheduleBody, TaskBody, Timespan
from rota.core.attempt import Work
from rota.core.dag import TriggerRule
from rota.core.errors import Problem, Refused, invalid
from rota.core.instants import Duration, parse_duration, seconds
from rota.core.job import JobSpec, Misfire, Overlap, TaskSpec, problems_of
from rota.core.retry import Backoff, Explicit, Exponential, Fixed, RetryPolicy
from rota.core.schedule import Schedule, load_zone, parse_schedule

MAIN_TASK = "main"
"""The name of a job's only task, where the job has a command and no tasks."""
PARAMETERS_MAX = 120_000
"""Bytes of JSON: Linux takes no variable of 128 KiB or more, and tasks get them as one."""

T = TypeVar("T")


def job_spec(body: JobBody) -> JobSpec:
    """Return the job that *body* defines.

    Raises:
        Refused: Code ``invalid_job``, with every problem in it.
    """
    reader = _Reader()
    tasks = _tasks(body, reader)
    spec = JobSpec(
        name=body.name,
        namespace=body.namespace,
        description=body.description,
        schedules=_schedules(body, reader),
        tasks=tasks,
        dependencies=tuple(_full_name(name, body.namespace) for name in body.dependencies),
        misfire=Misfire(body.misfire),
        grace=reader.timespan(body.grace, "/grace"),
        overlap=Overlap(body.overlap),
        priority=body.priority,
        labels=tuple(sorted(body.labels.items())),
        parameters="" if body.type else reader.json(body.parameters, "/parameters"),
    )
    found = problems_of(spec)
    if len(_ways(body)) > 1:
        # Which of them is meant is not known, so neither is what is wrong with its tasks.
        found = [problem for problem in found if problem.pointer != "/tasks"]
    problems = [*reader.problems, *_relocated(found, has_tasks=bool(body.tasks))]
    if problems:
        raise invalid("invalid_job", "; ".join(str(problem) for problem in problems), *problems)
    return spec


def parameters_json(value: Json) -> str:
    """Return the parameters of a trigger as stored.

    Raises:
        Refused: They are too long.
    """
    reader = _Reader()
    text = reader.json(value, "/parameters")
    if reader.problems:
        raise invalid("invalid_parameters", str(reader.problems[0]), *reader.problems)
    return text


def print_of(*parts: bytes) -> str:
    """Return a digest of a request, by which a repetition is told from another request."""
    return hashlib.blake2b(b"\0".join(parts), digest_size=16).hexdigest()


class _Reader:
    """Reads fields and gathers what is wrong with them."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def timespan(self, value: Timespan, pointer: str) -> Duration:
        try:
            if isinstance(value, str):
                return parse_duration(value)
            return seconds(value)
        except (ValueError, OverflowError) as error:
            self.problems.append(Problem(pointer, str(error)))
            return Duration(0)

    def json(self, value: Json, pointer: str) -> str:
        if value is None:
            return ""
        content = msgspec.json.encode(value)
        if len(content) > PARAMETERS_MAX:
            self.problems.append(
                Problem(pointer, f"has {len(content)} bytes as JSON; at most {PARAMETERS_MAX} fit")
            )
        return content.decode()

    def zone(self, name: str, pointer: str) -> str:
        """Return *name*, or one that is sure to exist, so that the rest can be looked at."""
        try:
            load_zone(name)
        except Refused as refusal:
            self.problems.append(Problem(pointer, refusal.detail))
            return "UTC"
        return name

    def schedule(self, asked: ScheduleBody, timezone: str, pointer: str) -> Schedule:
        try:
            return parse_schedule(asked.schedule, timezone, asked.day_or)
        except Refused as refusal:
            self.problems.append(Problem(pointer, refusal.detail))
            return Schedule(text="@manual")


def _schedules(body: JobBody, reader: _Reader) -> tuple[Schedule, ...]:
    given: list[tuple[str, str | ScheduleBody]] = []
    if body.schedule is not None:
        given.append(("/schedule", body.schedule))
    given += [(f"/schedules/{number}", each) for number, each in enumerate(body.schedules)]
    shared = reader.zone(body.timezone, "/timezone")
    schedules: list[Schedule] = []
    for pointer, each in given:
        if isinstance(each, str):
            schedules.append(reader.schedule(ScheduleBody(schedule=each), shared, pointer))
        else:
            zone = reader.zone(each.timezone, f"{pointer}/timezone") if each.timezone else shared
            schedules.append(reader.schedule(each, zone, f"{pointer}/schedule"))
    return tuple(schedule for schedule in schedules if schedule.text != "@manual")


def _tasks(body: JobBody, reader: _Reader) -> tuple[TaskSpec, ...]:
    ways = _ways(body)
    if len(ways) > 1:
        reader.problems.append(
            Problem("", f"a job has one of command, type and tasks, not {' and '.join(ways)}")
        )
        return ()
    if body.tasks:
        return tuple(
            _task(task, body, reader, f"/tasks/{number}") for number, task in enumerate(body.tasks)
        )
    if not ways:
        return ()
    only = TaskBody(
        name=MAIN_TASK,
        command=body.command,
        type=body.type,
        parameters=body.parameters if body.type else None,
    )
    return (_task(only, body, reader, ""),)


def _ways(body: JobBody) -> list[str]:
    """Return in which of the three ways *body* says what to run; there should be one."""
    ways = {
        "command": body.command is not None,
        "type": body.type is not None,
        "tasks": bool(body.tasks),
    }
    return [way for way, is_given in ways.items() if is_given]


def _task(task: TaskBody, job: JobBody, reader: _Reader, pointer: str) -> TaskSpec:
    if task.command is not None and task.type is not None:
        reader.problems.append(Problem(f"{pointer}/type", "a task has a command or a type"))
    argv = tuple(task.command) if isinstance(task.command, list) else ()
    shell = task.command if isinstance(task.command, str) else ""
    work = Work(
        executor=task.type or "process",
        argv=argv,
        shell=shell,
        env=tuple(sorted({**job.env, **task.env}.items())),
        cwd=_given(task.cwd, job.cwd),
        stdin=_given(task.stdin, job.stdin),
        timeout=reader.timespan(_given(task.timeout, job.timeout), f"{pointer}/timeout"),
        stop_grace=reader.timespan(_given(task.stop_grace, job.stop_grace), f"{pointer}/stopGrace"),
        parameters=reader.json(task.parameters, f"{pointer}/parameters"),
    )
    retries = _given(task.retries, job.retries)
    return TaskSpec(
        name=task.name,
        work=work,
        needs=tuple(task.needs),
        rule=TriggerRule(task.trigger_rule),
        retry=_retry_policy(retries, reader, f"{pointer}/retries"),
    )


def _given(value: T | None, otherwise: T) -> T:
    return otherwise if value is None else value


def _retry_policy(retries: int | RetryBody, reader: _Reader, pointer: str) -> RetryPolicy:
    if isinstance(retries, int):
        return RetryPolicy(limit=retries)
    return RetryPolicy(
        limit=retries.limit,
        backoff=_backoff(retries, reader, pointer),
        jitter=retries.jitter,
        on_exit_codes=tuple(retries.on_exit_codes),
        never_on_exit_codes=tuple(retries.never_on_exit_codes),
    )


def _backoff(retries: RetryBody, reader: _Reader, pointer: str) -> Backoff:
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
        case "exponential":
            delay_max = reader.timespan(retries.max_delay, f"{pointer}/maxDelay")
            return Exponential(first=delay, factor=retries.factor, delay_max=delay_max)


def _full_name(name: str, namespace: str) -> str:
    return name if "/" in name else f"{namespace}/{name}"


def _relocated(problems: Sequence[Problem], *, has_tasks: bool) -> list[Problem]:
    """Point at the job's own fields where its only task came from them."""
    if has_tasks:
        return list(problems)
    return [
        Problem(problem.pointer.removeprefix("/tasks/0"), problem.detail) for problem in problems
    ]
