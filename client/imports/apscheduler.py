"""Jobs that a Python file adds to a scheduler of APScheduler 3; the file is never executed."""

import ast
from collections.abc import Iterator, Mapping
from datetime import timedelta

from rota.client.definitions import Definition
from rota.client.imports.apscheduler_cron import FIELDS, cron_of
from rota.client.imports.drafts import Findings, Source
from rota.client.imports.located import Located
from rota.client.imports.python_calls import (
    arguments_of,
    imported_function,
    imports_of,
    known_list,
    known_object,
)
from rota.client.imports.python_source import (
    Called,
    assigned_in,
    called_name,
    is_json,
    names_of,
    parse_python,
    shallow,
    value_of,
)
from rota.client.imports.templates import literal_value

MISFIRE_GRACE_S = 1
"""The tolerated lateness of a job that names none."""

_UNITS = ("weeks", "days", "hours", "minutes", "seconds")
_OF_JOB = frozenset(
    {"func", "trigger", "id", "name", "args", "kwargs", "max_instances", "coalesce", "timezone"}
    | {"misfire_grace_time", "replace_existing", "run_date", *FIELDS, *_UNITS}
)
_REMEDIES = {
    "jitter": "spread the times of the schedules",
    "start_date": "apply the definition at this time",
    "end_date": "delete or pause the job at this time",
    "executor": "a node runs the function in a process of its own",
    "jobstore": "the nodes store all jobs",
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
    timezone = _timezone_of(tree, names)
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == "job_defaults":
            findings.lose(
                node.value.lineno,
                "job_defaults: the defaults of all jobs",
                "write misfire, grace and overlap in the jobs",
            )
    calls = [*_calls(tree)]
    if not calls:
        raise findings.invalid(1, "the file neither calls add_job nor scheduled_job")
    for call, is_decorator in sorted(calls, key=lambda each: each[0].lineno):
        job = arguments_of(findings, call, names, nodes)
        given = list(call.args) if is_decorator else list(call.args[1:])
        trigger = value_of(given[0], names) if given else job.fields.get("trigger", "date")
        keywords = {each.arg: each.value for each in call.keywords}
        target = None if is_decorator else next(iter(call.args), keywords.get("func"))
        _add(job, trigger, _function(target, names, imports), timezone)


def _calls(tree: ast.Module) -> Iterator[tuple[ast.Call, bool]]:
    """Yield the calls that add jobs, and whether they decorate a function."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and called_name(node.func) in ("add_job", "scheduled_job"):
            yield node, called_name(node.func) == "scheduled_job"


def _timezone_of(tree: ast.Module, names: Mapping[str, object]) -> str:
    """Return the time zone of the scheduler; empty if it is not written in the file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and called_name(node.func).endswith("Scheduler"):
            values = [each.value for each in node.keywords if each.arg == "timezone"]
            zones = [value_of(each, names) for each in values]
            return next((zone for zone in zones if isinstance(zone, str)), "")
    return ""


def _function(
    target: ast.expr | None, names: Mapping[str, object], imports: Mapping[str, str]
) -> str:
    """Return ``module:function``; empty for a function of the file itself."""
    value = value_of(target, names) if target is not None else None
    return value if isinstance(value, str) and ":" in value else imported_function(target, imports)


def _add(job: Located, trigger: object, function: str, timezone: str) -> None:
    findings = job.findings
    name = job.fields.get("id") or job.fields.get("name") or function.rpartition(":")[2]
    if not function:
        findings.lose(
            job.line(),
            f"the job {name or 'of a function in this file'} calls no imported function; it is "
            "left out",
            "move the function to a module without the scheduler: python: module:function",
        )
        return
    job.lose_others(_OF_JOB, _REMEDIES)
    args, kwargs = known_list(job, "args"), known_object(job, "kwargs")
    for key, value in (("args", args), ("kwargs", kwargs)):
        if not is_json(value):
            raise job.invalid(key, "written as JSON")
    findings.change(
        job.line(),
        f"{function}: the process of the scheduler calls the function",
        "a node calls it; name its interpreter and folders in python",
    )
    call = {"function": function, "args": literal_value(args), "kwargs": literal_value(kwargs)}
    instances = job.fields.get("max_instances", 1)
    if instances != 1:
        findings.lose(
            job.line("max_instances"),
            f"max_instances={instances!r}",
            "overlap: skip allows one execution at a time; without it there is no limit",
        )
    definition: Definition = {
        **_schedule(job, trigger, timezone),
        "overlap": "skip" if instances == 1 else "",
        **_misfire(job),
        "python": {key: value for key, value in call.items() if value},
    }
    findings.add(job.line(), str(name), definition)


def _misfire(job: Located) -> Definition:
    grace = job.fields.get("misfire_grace_time", MISFIRE_GRACE_S)
    if grace is None:
        return {"misfire": "all" if job.fields.get("coalesce") is False else "latest"}
    if isinstance(grace, bool) or not isinstance(grace, int):
        raise job.invalid("misfire_grace_time", "a number of seconds")
    return {"misfire": "skip", "grace": grace}


def _schedule(job: Located, trigger: object, timezone: str) -> Definition:
    kind, fields = trigger, job
    if isinstance(trigger, Called):
        kind = _TRIGGERS.get(trigger.name, trigger.text)
        fields = Located(job.findings, trigger.kwargs, (), {(): trigger.line})
        if trigger.name == "from_crontab":
            kind, fields = "cron", _from_crontab(job, trigger)
    zone = fields.fields.get("timezone")
    timezone = zone if isinstance(zone, str) else timezone
    match kind:
        case "cron":
            return cron_of(fields, timezone)
        case "interval":
            return _interval(fields)
        case "date" if isinstance(when := fields.fields.get("run_date"), str):
            schedule = f"@at {when.strip().replace(' ', 'T')}"
            job.findings.check_schedule(fields.line("run_date"), schedule, timezone or "UTC")
            return {"schedule": schedule, "timezone": timezone}
        case _:
            job.findings.lose(
                fields.line(),
                f"the trigger {kind}",
                "add a schedule; until then the job is started by hand",
            )
            return {}


def _from_crontab(job: Located, trigger: Called) -> Located:
    """Return the five fields of a crontab, whose weekdays are those of the other form."""
    text = trigger.args[0] if trigger.args else trigger.kwargs.get("expr")
    words = text.split() if isinstance(text, str) else []
    if len(words) != 5:
        raise job.findings.invalid(trigger.line, f"{trigger!r} has no five fields")
    fields = dict(zip(("minute", "hour", "day", "month", "day_of_week"), words, strict=True))
    zone = trigger.kwargs.get("timezone")
    return Located(job.findings, {**fields, "timezone": zone}, (), {(): trigger.line})


def _interval(fields: Located) -> Definition:
    amounts = {unit: fields.number(unit) or 0 for unit in _UNITS}
    interval_s = int(timedelta(**amounts).total_seconds()) or 1
    schedule = f"@every {interval_s}s"
    fields.findings.check_schedule(fields.line(), schedule, "UTC")
    fields.findings.change(
        fields.line(),
        f"an interval of {interval_s} s: counted from the start of the scheduler",
        "the times are counted from 1970-01-01T00:00:00Z; use a phase to shift them",
    )
    return {"schedule": schedule}
