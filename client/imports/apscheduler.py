"""Jobs that a Python file adds to a scheduler of APScheduler 3; the file is never executed."""

import ast
from collections.abc import Iterator, Mapping
from datetime import timedelta

from rota.client.definitions import Definition
from rota.client.imports.apscheduler_cron import FIELDS, cron_of
from rota.client.imports.drafts import Findings, Source
from rota.client.imports.located import Located, NotWritten
from rota.client.imports.python_calls import arguments_of, imported_function, imports_of, known
from rota.client.imports.python_dates import date_text, instant_of
from rota.client.imports.python_source import (
    Called,
    assigned_in,
    called_name,
    conditional_in,
    is_json,
    is_written,
    names_of,
    parse_python,
    shallow,
    value_of,
    zone_name,
)
from rota.client.imports.templates import literal_value

MISFIRE_GRACE_S = 1
"""The tolerated lateness of a job that names none."""

_UNITS = ("weeks", "days", "hours", "minutes", "seconds")
_LIMITS = ("start_date", "end_date", "timezone", "jitter")
_OF_TRIGGERS = {
    "cron": (*FIELDS, *_LIMITS),
    "interval": (*_UNITS, *_LIMITS),
    "date": ("run_date", "timezone"),
}
"""The arguments of the triggers, in their order."""
_POSITIONS = (
    *("trigger", "args", "kwargs", "id", "name", "misfire_grace_time", "coalesce"),
    *("max_instances", "next_run_time", "jobstore", "executor"),
)
"""The arguments of ``scheduled_job`` in their order; those of ``add_job`` after the function."""
_OF_JOB = frozenset({"func", "replace_existing", *_POSITIONS} - {"jobstore", "executor"})
_CHANGES = frozenset(
    {"pause_job", "remove_job", "remove_all_jobs", "reschedule_job", "modify_job", "resume_job"}
)
JITTER_MAX_S = 86_400
"""The longest jitter of a schedule."""
_REMEDIES = {
    "executor": "a node runs the function in a process of its own",
    "jobstore": "the nodes store all jobs",
    "next_run_time": "rota trigger starts the job once at once",
}
_TRIGGERS = {"CronTrigger": "cron", "IntervalTrigger": "interval", "DateTrigger": "date"}


def read_scheduler(sources: list[Source]) -> list[Findings]:
    """Return the jobs of ``add_job`` and ``scheduled_job`` in Python files.

    Raises:
        InvalidFile: A file is no Python, has no job, or a value in it is not valid.
    """
    found: list[Findings] = []
    for source in sources:
        findings = Findings(source.name)
        with shallow(findings):
            _read(parse_python(source, findings), findings)
        found.append(findings)
    return found


def _read(tree: ast.Module, findings: Findings) -> None:
    names, nodes, imports = names_of(tree), assigned_in(tree), imports_of(tree)
    _lose_settings(tree, findings)
    calls = [*_calls(tree)]
    if not calls:
        raise findings.invalid(1, "the file neither calls add_job nor scheduled_job")
    zone, conditional = _timezone_of(tree, names, findings), conditional_in(tree)
    for call, is_decorator in sorted(calls, key=lambda each: each[0].lineno):
        if call in conditional:
            findings.change(
                call.lineno,
                f"{called_name(call.func)} in a condition or a loop",
                "the job is imported once; check whether it is needed, and how often",
            )
        positions = _POSITIONS if is_decorator else ("func", *_POSITIONS)
        job = arguments_of(findings, call, names, nodes, positions=positions)
        keywords = {each.arg: each.value for each in call.keywords}
        target = None if is_decorator else next(iter(call.args), keywords.get("func"))
        try:
            _add(job, job.fields.get("trigger", "date"), _function(target, names, imports), zone)
        except NotWritten as error:
            findings.lose(
                error.line, f"{error.detail}; the job is left out", "add the job with its value"
            )


def _lose_settings(tree: ast.Module, findings: Findings) -> None:
    """Add notes on what holds for all jobs, and on calls that change jobs."""
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == "job_defaults":
            findings.lose(
                node.value.lineno,
                "job_defaults: the defaults of all jobs",
                "write misfire, grace and overlap in the jobs",
            )
        elif isinstance(node, ast.Call) and called_name(node.func) in _CHANGES:
            findings.lose(
                node.lineno,
                f"{called_name(node.func)}: a change of jobs when the file is executed",
                "change the definition, or use rota jobs pause",
            )


def _calls(tree: ast.Module) -> Iterator[tuple[ast.Call, bool]]:
    """Yield the calls that add jobs, and whether they decorate a function."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and called_name(node.func) in ("add_job", "scheduled_job"):
            yield node, called_name(node.func) == "scheduled_job"


def _timezone_of(tree: ast.Module, names: Mapping[str, object], findings: Findings) -> str | None:
    """Return the time zone of the scheduler; empty if it has none, None if it is not written."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and called_name(node.func).endswith("Scheduler"):
            for each in node.keywords:
                if each.arg == "timezone":
                    zone = value_of(each.value, names)
                    return _zone_in(findings, each.value.lineno, zone) if zone is not None else ""
    return ""


def _zone_in(findings: Findings, line: int, value: object) -> str | None:
    name = zone_name(value)
    if name is None:
        findings.lose(
            line,
            f"the time zone {value!r} is not written in the file; the schedules are in UTC",
            "add timezone to the jobs",
        )
    return name


def _function(
    target: ast.expr | None, names: Mapping[str, object], imports: Mapping[str, str]
) -> str:
    """Return ``module:function``; empty for a function of the file itself."""
    value = value_of(target, names) if target is not None else None
    return value if isinstance(value, str) and ":" in value else imported_function(target, imports)


def _add(job: Located, trigger: object, function: str, timezone: str | None) -> None:
    findings = job.findings
    name = _name(job) or function.rpartition(":")[2]
    if not function:
        findings.lose(
            job.line(),
            f"the job {name or 'of a function in this file'} calls no imported function; it is "
            "left out",
            "move the function to a module without the scheduler: python: module:function",
        )
        return
    kind, fields = _trigger(job, trigger)
    of_trigger = _OF_TRIGGERS.get(kind, ())
    job.lose_others(_OF_JOB | {*(of_trigger if fields is job else ())}, _REMEDIES)
    if fields is not job and of_trigger:
        fields.lose_others(of_trigger, _REMEDIES)
    findings.change(
        job.line(),
        f"{function}: the process of the scheduler calls the function",
        "a node calls it; name its interpreter and folders in python",
    )
    timing = _schedule(fields, kind, timezone)
    call, timing = _call(job, function, timing)
    if "next_run_time" in job.fields and job.fields["next_run_time"] is None:
        what = "next_run_time=None: the job is paused when it is added"
        timing = findings.hold(job.line("next_run_time"), what, timing)
    instances = job.fields.get("max_instances", 1)
    if instances != 1:
        findings.lose(
            job.line("max_instances"),
            f"max_instances={instances!r}",
            "overlap: skip allows one execution at a time; without it there is no limit",
        )
    definition: Definition = {
        **timing,
        "overlap": "skip" if instances == 1 else "",
        **_misfire(job),
        "python": call,
    }
    findings.add(job.line(), name, definition)


def _name(job: Located) -> str:
    """Return the id or the name of a job; empty for none, or, with a note, if it is not written."""
    for key in ("id", "name"):
        value = job.fields.get(key)
        if value is not None and not is_written(value):
            job.findings.lose(
                job.line(key), f"{key}={value!r} is not written in the file", "rename the job"
            )
        elif value:
            return job.text(key)
    return ""


def _call(job: Located, function: str, timing: Definition) -> tuple[Definition, Definition]:
    """Return the call, and the schedule: it has none if arguments are not written in the file."""
    call: Definition = {"function": function}
    for key, kind in (("args", list), ("kwargs", dict)):
        value = job.fields.get(key)
        if not value:
            continue
        if not is_written(value):
            timing = job.findings.hold(
                job.line(key), f"{key} is {value!r}, which is not written in the file", timing
            )
        elif not is_json(value) or not isinstance(value, kind):
            raise job.invalid(key, "written as JSON")
        else:
            call[key] = literal_value(job.fields[key])
    return call, timing


def _misfire(job: Located) -> Definition:
    grace = job.fields.get("misfire_grace_time", MISFIRE_GRACE_S)
    if grace is None:
        coalesce = known(job, "coalesce", bool)
        return {"misfire": "all" if coalesce is False else "latest"}
    if isinstance(grace, bool) or not isinstance(grace, int):
        raise job.invalid("misfire_grace_time", "a number of seconds")
    return {"misfire": "skip", "grace": grace}


def _trigger(job: Located, trigger: object) -> tuple[str, Located]:
    """Return the kind of a trigger, and its arguments, which may be those of the job."""
    if not isinstance(trigger, Called):
        return (trigger if isinstance(trigger, str) else repr(trigger)), job
    kind = _TRIGGERS.get(trigger.name, trigger.text)
    if trigger.name == "from_crontab":
        return "cron", _from_crontab(job, trigger)
    named = dict(zip(_OF_TRIGGERS.get(kind, ()), trigger.args, strict=False))
    fields = {**named, **trigger.kwargs}
    return kind, Located(job.findings, fields, (), {(): trigger.line})


def _schedule(fields: Located, kind: str, scheduler_zone: str | None) -> Definition:
    """Return the fields of the schedule; none if it cannot be written."""
    timezone = scheduler_zone
    if (value := fields.fields.get("timezone")) is not None:
        timezone = _zone_in(fields.findings, fields.line("timezone"), value)
    try:
        match kind:
            case "cron":
                schedule = cron_of(fields, timezone)
            case "interval":
                schedule = _interval(fields, timezone or "UTC")
            case "date" if fields.fields.get("run_date") is not None:
                schedule = _once(fields, timezone or "UTC")
            case _:
                fields.findings.lose(
                    fields.line(),
                    f"the trigger {kind}",
                    "add a schedule; until then the job is started by hand",
                )
                return {}
    except NotWritten as error:
        fields.findings.lose(
            error.line, error.detail, "add a schedule; until then the job is started by hand"
        )
        return {}
    if kind != "date":
        schedule |= _limits(fields, schedule, timezone or "UTC")
    zone = {} if kind == "interval" and len(schedule) == 1 else {"timezone": timezone or ""}
    return {**({"schedules": [schedule]} if len(schedule) > 1 else schedule), **zone}


def _limits(fields: Located, schedule: Definition, timezone: str) -> Definition:
    """Return the start, the end and the jitter of a schedule; each is lost if it is not written."""
    found: Definition = {}
    for key, field in (("start_date", "startAt"), ("end_date", "endAt")):
        value = fields.fields.get(key)
        if value is None:
            continue
        if text := date_text(value, timezone, naive=timezone):
            found[field] = text
        else:
            fields.findings.lose(
                fields.line(key),
                f"{key}={value!r} is not written as a date",
                f"add {field} to the schedule",
            )
    if found:
        fields.findings.check_schedule(
            fields.line(),
            schedule["schedule"],
            timezone,
            found,
            day_or=schedule.get("dayOr", True),
        )
    jitter = fields.fields.get("jitter")
    seconds = jitter if isinstance(jitter, int | float) and jitter is not True else 0
    if 0 < seconds <= JITTER_MAX_S:
        found["jitter"] = f"{jitter}s"
    elif jitter:
        fields.findings.lose(
            fields.line("jitter"), f"jitter={jitter!r}", "add jitter to the schedule"
        )
    return found


def _from_crontab(job: Located, trigger: Called) -> Located:
    """Return the five fields of a crontab, whose weekdays are those of the other form."""
    text = trigger.args[0] if trigger.args else trigger.kwargs.get("expr")
    names = ("minute", "hour", "day", "month", "day_of_week")
    words: list[object] = [*text.split()] if isinstance(text, str) else []
    if not is_written(text):
        # The error about the first field states what is not written.
        words = [text] * len(names)
    if len(words) != len(names):
        raise job.findings.invalid(trigger.line, f"{trigger!r} has no five fields")
    fields = dict(zip(names, words, strict=True))
    zone = trigger.args[1] if len(trigger.args) > 1 else trigger.kwargs.get("timezone")
    return Located(job.findings, {**fields, "timezone": zone}, (), {(): trigger.line})


def _once(fields: Located, timezone: str) -> Definition:
    at = date_text(fields.fields["run_date"], timezone, naive=timezone)
    if at is None:
        raise fields.invalid("run_date", "a date")
    schedule = f"@at {at}"
    fields.findings.check_schedule(fields.line("run_date"), schedule, timezone)
    return {"schedule": schedule}


def _interval(fields: Located, timezone: str) -> Definition:
    amounts = {unit: fields.number(unit) or 0 for unit in _UNITS}
    interval_s = int(timedelta(**amounts).total_seconds()) or 1
    schedule = f"@every {interval_s}s"
    start = instant_of(fields.fields.get("start_date"), naive=timezone)
    if start is not None:
        # Its times are counted from the start date.
        phase_s = int(start.timestamp()) % interval_s
        schedule += f" phase {phase_s}s" if phase_s else ""
    else:
        fields.findings.change(
            fields.line(),
            f"an interval of {interval_s} s: counted from the start of the scheduler",
            "the times are counted from 1970-01-01T00:00:00Z; use a phase to shift them",
        )
    fields.findings.check_schedule(fields.line(), schedule, "UTC")
    return {"schedule": schedule}
