"""DAGs of Airflow in Python files, which are read and never executed."""

import ast
from datetime import timedelta

from rota.client.definitions import Definition
from rota.client.imports.airflow_dates import date_of, limits_of
from rota.client.imports.airflow_graph import AirflowDag, AirflowTask, dags_of
from rota.client.imports.airflow_tasks import attempts, name_in_dag, span_s, task_of
from rota.client.imports.drafts import DESCRIPTION_MAX, Findings, Source
from rota.client.imports.go_cron import with_either_day
from rota.client.imports.located import Located
from rota.client.imports.python_calls import (
    arguments_of,
    imports_of,
    known,
    known_list,
    known_object,
)
from rota.client.imports.python_dates import zone_of
from rota.client.imports.python_source import (
    Called,
    Unknown,
    assigned_in,
    is_written,
    names_of,
    parse_python,
    shallow,
    zone_name,
)

_PRESETS = {"@quarterly": "0 0 1 */3 *", "@annually": "@yearly"}
_TIMETABLES = frozenset({"CronTriggerTimetable", "CronDataIntervalTimetable"})
_CARRIED = frozenset(
    {"dag_id", "description", "doc_md", "schedule", "schedule_interval", "timetable"}
    | {
        "start_date",
        "end_date",
        "catchup",
        "default_args",
        "max_active_runs",
        "max_consecutive_failed_dag_runs",
        "dagrun_timeout",
        "tags",
    }
    | {"params", "is_paused_upon_creation"}
)
_POSITIONS = ("dag_id", "description", "schedule")
"""The arguments of a DAG that may be given without their names."""
_OF_DEFAULT_ARGS = frozenset(
    {"owner", "start_date", "end_date", "retries", "retry_delay", "retry_exponential_backoff"}
    | {"max_retry_delay", "execution_timeout", "trigger_rule"}
)
_HOOK = "add onFailure, onSuccess or onLate with a webhook or a job"
_REMEDIES = {
    "on_failure_callback": _HOOK,
    "on_success_callback": _HOOK,
    "sla_miss_callback": _HOOK,
    "sla": _HOOK,
    "email_on_failure": _HOOK,
    "email_on_retry": _HOOK,
    "email": _HOOK,
    "max_active_tasks": "the setting slots of the nodes limits the attempts at a time",
    "concurrency": "the setting slots of the nodes limits the attempts at a time",
    "depends_on_past": "overlap: queue_all starts an execution after the one before",
}


def read_dags(sources: list[Source]) -> list[Findings]:
    """Return the jobs in DAG files.

    Raises:
        InvalidFile: A file is no Python, has no DAG, or a value in it is not valid.
    """
    return [_read(source) for source in sources]


def _read(source: Source) -> Findings:
    findings = Findings(source.name)
    with shallow(findings):
        _read_tree(parse_python(source, findings), findings)
    return findings


def _read_tree(tree: ast.Module, findings: Findings) -> None:
    dags = dags_of(tree, findings)
    if not dags and not findings.notes:
        raise findings.invalid(1, "there is no DAG in the file")
    names, nodes, imports = names_of(tree), assigned_in(tree), imports_of(tree)
    for dag in dags:
        _add(findings, dag, names, nodes, imports)


def _add(
    findings: Findings,
    dag: AirflowDag,
    names: dict[str, object],
    nodes: dict[str, ast.expr],
    imports: dict[str, str],
) -> None:
    arguments = arguments_of(findings, dag.call, names, nodes, positions=_POSITIONS)
    name = arguments.fields.get("dag_id") or dag.default_id
    is_unpacked = any(key.startswith("**") for key in arguments.fields)
    if not is_written(name) or (not name and is_unpacked):
        findings.lose(
            dag.call.lineno,
            f"the dag_id {name!r} is not written as text; the DAG is left out",
            "write its name and import again",
        )
        return
    if not isinstance(name, str) or not name:
        raise findings.invalid(dag.call.lineno, "the DAG has no dag_id that is written as text")
    defaults = _defaults(arguments)
    if not dag.tasks:
        findings.lose(
            dag.call.lineno, f"the DAG {name} has no tasks; it is left out", "add a job for it"
        )
        return
    arguments.lose_others(_CARRIED, _REMEDIES)
    is_silent = defaults.fields.get("email_on_failure") is False
    defaults.lose_others(_OF_DEFAULT_ARGS | {"email"} if is_silent else _OF_DEFAULT_ARGS, _REMEDIES)
    located = {task: arguments_of(findings, task.settings, names, nodes) for task in dag.tasks}
    ids: dict[AirflowTask, str] = {}
    for task in dag.tasks:
        ids[task] = name_in_dag(task, located[task], ids.values())
    tasks = [task_of(task, located[task], imports, ids, defaults) for task in dag.tasks]
    definition: Definition = {
        "description": _description(arguments),
        **_schedule(arguments, defaults),
        "labels": _labels(arguments, defaults),
        "parameters": _parameters(arguments),
        **attempts(defaults),
        **_limits(arguments),
        "tasks": tasks,
    }
    findings.add(dag.call.lineno, name, definition, has_templates=True)


def _defaults(arguments: Located) -> Located:
    """Return the default arguments of the tasks; empty, with a note, if they are not written."""
    if known_object(arguments, "default_args"):
        return arguments.within("default_args")
    return Located(arguments.findings, {}, (), {})


def _description(arguments: Located) -> str:
    for key in ("description", "doc_md"):
        if text := known(arguments, key, str):
            return text.strip()[:DESCRIPTION_MAX]
    return ""


def _labels(arguments: Located, defaults: Located) -> dict[str, str]:
    owner, tags = known(defaults, "owner", str), list[str]()
    for number, tag in enumerate(known_list(arguments, "tags")):
        if is_written(tag):
            tags.append(str(tag))
            continue
        line = arguments.lines.get(("tags", number), arguments.line("tags"))
        arguments.findings.lose(
            line, f"the tag {tag!r} is not written in the file", "write it in labels"
        )
    return {
        **({"owner": owner} if owner else {}),
        **({"tags": ",".join(tags)} if tags else {}),
    }


def _parameters(arguments: Located) -> Definition:
    found: Definition = {}
    for key, value in known_object(arguments, "params").items():
        if value is None or isinstance(value, str | int | float):
            found[key] = value
        else:
            arguments.findings.lose(
                arguments.within("params").line(key),
                f"the parameter {key} is {value!r}",
                "write its value in parameters",
            )
    return found


def _limits(arguments: Located) -> Definition:
    runs = known(arguments, "max_active_runs", int) or 0
    failures = known(arguments, "max_consecutive_failed_dag_runs", int) or 0
    return {
        "overlap": "queue_all" if runs else "",
        "maxParallel": runs if runs > 1 else None,
        "executionTimeout": span_s(arguments, "dagrun_timeout"),
        "pauseAfterFailures": failures or None,
    }


def _schedule(arguments: Located, defaults: Located) -> Definition:
    """Return the fields of the schedule, with the time zone of the start date."""
    fields = arguments.fields
    keys = [key for key in ("schedule", "schedule_interval", "timetable") if key in fields]
    if not keys:
        arguments.findings.change(
            arguments.line(),
            "a DAG without a schedule: each day in Airflow 2, by triggers alone in Airflow 3",
            "the job has no schedule; add one if it needs it",
        )
        return {}
    key = keys[0]
    value = fields[key]
    timezone = _timezone(arguments, defaults)
    if isinstance(value, Called) and value.name in _TIMETABLES:
        if (zone := value.kwargs.get("timezone")) is not None:
            timezone = _zone_in(arguments, arguments.line(key), zone)
        value = value.args[0] if value.args else value.kwargs.get("cron")
    schedule = _schedule_text(arguments, key, value)
    if not schedule:
        return {}
    line = arguments.line(key)
    arguments.findings.check_schedule(line, schedule, timezone or "UTC")
    paused = arguments.fields.get("is_paused_upon_creation")
    if paused:
        key = "is_paused_upon_creation"
        what = f"{key}: {paused!r}; a definition cannot be paused"
        timing = {"schedule": schedule, "timezone": timezone}
        return arguments.findings.hold(arguments.line(key), what, timing)
    misfire = _misfire(arguments, defaults)
    limits = limits_of(arguments, defaults, timezone or "UTC")
    if not limits:
        return {"schedule": schedule, "timezone": timezone, **misfire}
    arguments.findings.check_schedule(line, schedule, timezone or "UTC", limits)
    limited = {"schedule": schedule, **limits}
    return {"schedules": [limited], "timezone": timezone, **misfire}


def _schedule_text(arguments: Located, key: str, value: object) -> str:
    """Return the schedule; empty if there is none, or none that can be written."""
    findings, line = arguments.findings, arguments.line(key)
    match value:
        case None | "@once" | "@continuous":
            if value:
                findings.lose(line, f"{key}={value}", "rota trigger starts the job")
            return ""
        case str():
            fields = _PRESETS.get(value, value).split()
            # croniter has the seconds after the weekday.
            return " ".join(
                [*fields[5:6], *with_either_day(" ".join(fields[:5])).split(), *fields[6:]]
            )
        case timedelta():
            schedule = f"@every {value.total_seconds():.15g}s"
            findings.change(
                line,
                f"{key}={value}: counted from start_date",
                "the times are counted from 1970-01-01T00:00:00Z; use a phase to shift them",
            )
            return schedule
        case Called() | Unknown() | list() | dict():
            findings.lose(
                line,
                f"{key} is {value!r}, which is no cron expression",
                "add a schedule, or dependencies on the jobs that make the data",
            )
            return ""
        case _:
            raise arguments.invalid(key, "a cron expression, a preset or a timedelta")


def _timezone(arguments: Located, defaults: Located) -> str:
    start, line = date_of(arguments, defaults, "start_date")
    zone = zone_of(start)
    return "" if zone is None else _zone_in(arguments, line, zone)


def _zone_in(arguments: Located, line: int, zone: object) -> str:
    """Return the name of a time zone; empty for UTC or, with a note, if it is not written."""
    name = zone_name(zone)
    if name is None:
        arguments.findings.lose(
            line, f"the time zone {zone!r} is not written in the file", "add timezone to the job"
        )
    return name if name and name != "UTC" else ""


def _misfire(arguments: Located, defaults: Located) -> Definition:
    start, line = date_of(arguments, defaults, "start_date")
    catchup = known(arguments, "catchup", bool)
    if catchup is False:
        return {}
    if catchup is True:
        arguments.findings.lose(
            arguments.line("catchup"),
            "catchup: the fire times between start_date and now",
            "rota backfill runs past fire times; later ones that are late all fire (misfire: all)",
        )
        return {"misfire": "all"}
    if start is not None:
        arguments.findings.change(
            line,
            "start_date without catchup: Airflow 2 makes up for the times since then",
            "the job fires from now on, or from startAt; rota backfill runs past fire times",
        )
    return {}
