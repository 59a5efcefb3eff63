"""Periodic tasks of Celery: the ``beat_schedule`` as JSON, or in a Python file."""

import ast
from datetime import timedelta
from typing import cast

from rota.client.definitions import Definition
from rota.client.imports.celery_crontab import crontab_of, crontab_of_call
from rota.client.imports.drafts import Findings, Source
from rota.client.imports.located import Located, NotWritten, documents_in
from rota.client.imports.python_source import (
    Called,
    Unknown,
    assigned_in,
    called_name,
    conditional_in,
    is_json,
    is_written,
    located_lines,
    names_of,
    parse_python,
    shallow,
    value_of,
    zone_name,
)
from rota.client.imports.templates import literal_value

_SCHEDULES = frozenset({"beat_schedule", "CELERY_BEAT_SCHEDULE", "CELERYBEAT_SCHEDULE"})
_ZONES = frozenset({"timezone", "CELERY_TIMEZONE"})
_CARRIED = frozenset({"task", "schedule", "args", "kwargs", "options", "enabled"})
_OPTIONS = frozenset({"expires", "time_limit"})
_REMEDIES = {
    "queue": "give the nodes that have to run it a label, and select it with nodeSelector",
    "routing_key": "give the nodes that have to run it a label, and select it with nodeSelector",
    "exchange": "give the nodes that have to run it a label, and select it with nodeSelector",
    "countdown": "begin with a task that sleeps, or shift the schedule",
    "priority": "priority of a job is -100 to 100; the higher one starts first",
    "soft_time_limit": "timeout sends SIGTERM, and SIGKILL after stopGrace",
    "relative": "times of @every can be shifted by a phase",
    "retry_policy": "retries repeats a failed function",
}


def read_beat(sources: list[Source]) -> list[Findings]:
    """Return the jobs in beat schedules.

    Raises:
        InvalidFile: A file is not valid, or has no beat schedule.
    """
    return [_read(source) for source in sources]


def _read(source: Source) -> Findings:
    findings = Findings(source.name)
    if source.text.lstrip()[:1] == "{":
        for document in documents_in(source, findings):
            is_whole = "beat_schedule" in document.fields
            entries = document.within("beat_schedule") if is_whole else document
            _add_all(entries, document.text("timezone") if is_whole else "")
    else:
        with shallow(findings):
            _read_python(source, findings)
    return findings


def _read_python(source: Source, findings: Findings) -> None:
    tree = parse_python(source, findings)
    names, nodes = names_of(tree), assigned_in(tree)
    timezone = ""
    tables: list[ast.expr] = []
    conditional = conditional_in(tree)
    for name, value in _settings(tree):
        if name in _ZONES:
            timezone = _zone_in(findings, value.lineno, value_of(value, names)) or timezone
        elif name in _SCHEDULES:
            tables.append(nodes.get(called_name(value), value))
            if value in conditional or {*ast.iter_child_nodes(value)} & conditional:
                findings.change(
                    value.lineno,
                    f"{name} in a condition or a loop",
                    "its entries are imported once; check whether they are needed",
                )
        elif name == "enable_utc" and value_of(value, names) is False:
            findings.change(
                value.lineno,
                "enable_utc is false: without timezone, times are those of the machine",
                "they are in UTC here; add timezone to the jobs",
            )
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    periodic = [call for call in calls if called_name(call.func) == "add_periodic_task"]
    for call in periodic:
        findings.lose(
            call.lineno,
            "add_periodic_task: its task is known only when the file is executed",
            "write it in beat_schedule and import again",
        )
    if not tables and not periodic:
        raise findings.invalid(1, "there is no beat_schedule in the file")
    for table in tables:
        fields = value_of(table, names)
        if isinstance(fields, dict):
            entries = cast("dict[str, object]", fields)
            _add_all(Located(findings, entries, (), located_lines(table)), timezone)
        else:
            findings.lose(
                table.lineno,
                f"the schedule {ast.unparse(table)[:80]} is not written in the file",
                "import the file in which it is written",
            )


def _zone_in(findings: Findings, line: int, value: object) -> str | None:
    """Return a time zone; None if there is none, or, with a note, if it is not written."""
    name = zone_name(value)
    if name is None and value is not None:
        findings.lose(
            line,
            f"timezone is {value!r}, which is not written in the file; the schedules are in UTC",
            "add timezone to the jobs",
        )
    return name


def _settings(tree: ast.Module) -> list[tuple[str, ast.expr]]:
    """Return the names and values of assignments and of arguments with names.

    An assignment to one entry, ``beat_schedule["name"] = {...}``, is one of a table.
    """
    found: list[tuple[str, ast.expr]] = []
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Subscript(value=table, slice=key)], value=value):
                entry = ast.Dict([key], [value], lineno=node.lineno, col_offset=0)
                found.append((called_name(table), entry))
            case (
                ast.Assign(targets=[target], value=value)
                | ast.AnnAssign(target=target, value=ast.expr() as value)
            ):
                found.append((called_name(target), value))
            case ast.Call(func=ast.Attribute(value=table, attr="update"), args=[value]):
                found.append((called_name(table), value))
            case ast.keyword(arg=str() as name, value=value):
                found.append((name, value))
            case _:
                pass
    return found


def _add_all(entries: Located, timezone: str) -> None:
    for name, value in entries.fields.items():
        if isinstance(value, dict):
            try:
                _add(entries.within(name), name, timezone)
            except NotWritten as error:
                entries.findings.lose(
                    error.line,
                    f"{error.detail}; the entry is left out",
                    "write it in beat_schedule and import again",
                )
        else:
            entries.findings.lose(
                entries.line(name),
                f"the entry {name} is not written in the file",
                "write it in beat_schedule and import again",
            )


def _add(entry: Located, name: str, timezone: str) -> None:
    function = _function(entry, entry.text("task"))
    if not function:
        return
    entry.lose_others(_CARRIED, _REMEDIES)
    timing = _schedule(entry, timezone)
    call: Definition = {"function": function}
    for key in ("args", "kwargs"):
        if not is_written(entry.fields.get(key)):
            # The function must not be called with other arguments than there.
            what = f"{key} is {entry.fields[key]!r}, which is not written in the file"
            timing = entry.findings.hold(entry.line(key), what, timing)
        elif arguments := _arguments(entry, key):
            call[key] = arguments
    enabled = entry.fields.get("enabled", True)
    if enabled is not True:
        timing = entry.findings.hold(entry.line("enabled"), f"enabled is {enabled!r}", timing)
    definition: Definition = {
        **timing,
        "python": call if len(call) > 1 else function,
        **_limits(entry),
    }
    entry.findings.add(entry.line(), name, definition)


def _function(entry: Located, task: str) -> str:
    """Return the function of a task; empty if its name is that of no function."""
    findings, line = entry.findings, entry.line("task")
    if not task:
        raise findings.invalid(entry.line(), "the entry has no task")
    module, _, function = task.rpartition(".")
    if not module or module == "celery":
        findings.lose(
            line,
            f"the task {task} is the name of no function; the entry is left out",
            "add a job with the function, as python: module:function",
        )
        return ""
    findings.change(
        line,
        f"{task}: a worker of Celery runs the task",
        f"a node calls {module}:{function}; name its interpreter and folders in python if they "
        "are not those of the node",
    )
    return f"{module}:{function}"


def _arguments(entry: Located, key: str) -> object:
    """Return the arguments as JSON; None if there are none."""
    value = entry.fields.get(key) or None
    expected, form = (list, "a list") if key == "args" else (dict, "an object")
    if value is None:
        return None
    if not is_json(value) or not isinstance(value, expected):
        raise entry.invalid(key, form)
    return literal_value(cast("object", value))


def _schedule(entry: Located, timezone: str) -> Definition:
    """Return the fields of the schedule; none if it cannot be written."""
    value = entry.fields.get("schedule")
    if isinstance(value, Called) and value.name == "schedule":
        value = value.kwargs.get("run_every", value.args[0] if value.args else None)
    if isinstance(value, timedelta):
        return _interval(entry, value.total_seconds())
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _interval(entry, value)
    if isinstance(value, Called) and value.name == "crontab":
        try:
            return _crontab(entry, crontab_of_call(entry, value), timezone)
        except NotWritten as error:
            entry.findings.lose(
                error.line, error.detail, "add a schedule; until then the job is started by hand"
            )
            return {}
    if isinstance(value, dict) and {*cast("dict[str, object]", value)} == {"crontab"}:
        return _crontab(entry, crontab_of(entry.within("schedule").within("crontab")), timezone)
    if not isinstance(value, Called | Unknown):
        raise entry.invalid("schedule", "a number of seconds or a crontab")
    entry.findings.lose(
        entry.line("schedule"),
        f"schedule: {value!r} is neither an interval nor a crontab",
        "add a schedule; until then the job is started by hand",
    )
    return {}


def _interval(entry: Located, interval_s: float) -> Definition:
    number = int(interval_s) if float(interval_s).is_integer() else interval_s
    schedule, line = f"@every {number}s", entry.line("schedule")
    entry.findings.check_schedule(line, schedule, "UTC")
    entry.findings.change(
        line,
        f"an interval of {number} s: counted from the last start",
        "the times are counted from 1970-01-01T00:00:00Z; use a phase to shift them",
    )
    return {"schedule": schedule}


def _crontab(entry: Located, schedule: str, timezone: str) -> Definition:
    _, _, day, _, weekday = schedule.split()
    day_or = day == "*" or weekday == "*"
    line = entry.line("schedule")
    entry.findings.check_schedule(line, schedule, timezone or "UTC", day_or=day_or)
    if day_or:
        return {"schedule": schedule, "timezone": timezone}
    # In Celery all fields have to match.
    return {"schedules": [{"schedule": schedule, "dayOr": False}], "timezone": timezone}


def _limits(entry: Located) -> Definition:
    if isinstance(entry.fields.get("options"), Called | Unknown):
        entry.findings.lose(
            entry.line("options"),
            f"options is {entry.fields['options']!r}, which is not written in the file",
            "write startDeadline, timeout and nodeSelector, if the job needs them",
        )
        return {}
    options = entry.within("options")
    options.lose_others(_OPTIONS, _REMEDIES)
    found: Definition = {}
    for key, field in (("expires", "startDeadline"), ("time_limit", "timeout")):
        value = options.fields.get(key)
        if isinstance(value, timedelta):
            found[field] = value.total_seconds()
        elif isinstance(value, int | float) and not isinstance(value, bool):
            found[field] = value
        elif value is not None:
            options.findings.lose(
                options.line(key), f"{key} is {value!r}", f"write {field} as a duration"
            )
    return found
