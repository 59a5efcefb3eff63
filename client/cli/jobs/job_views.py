"""``rota jobs list`` and ``rota jobs show``."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, cast

import click

from rota.client.cli.display import live_table
from rota.client.cli.display.live_table import WatchCommand, watch_option
from rota.client.cli.display.printing import out, say
from rota.client.cli.display.show import print_facts, print_table
from rota.client.cli.display.table_columns import (
    JOB,
    full_name,
    is_next_paused,
    paused_text,
    schedule_text,
)
from rota.client.cli.human import absolute, counted, now, relative
from rota.client.cli.inputs.options import (
    StatusChoice,
    connect,
    everywhere_option,
    examples,
    format_option,
    job_argument,
    namespace_option,
    url_option,
)
from rota.core.timing.instants import Instant
from rota.wire.documents import (
    HOOK_FIELDS,
    HookRetryView,
    JobView,
    LimitsView,
    SandboxView,
    TaskSpecView,
)

STATUSES = ("scheduled", "manual", "waiting", "running", "paused", "finished", "broken")
LAST_STATUSES = ("success", "failed", "cancelled")
COUNTED_MAX = 100
"""The most hidden jobs that are counted, so that the count is one page."""
OWN_FIELDS = ("misfire", "overlap", "jitter", "maxExecutions", "startAt", "endAt", "every")
NO_LIMIT = "0s"
"""A timeout or deadline that is not set."""


@click.command(
    "list",
    cls=WatchCommand,
    epilog=examples(
        "rota jobs list",
        "rota jobs -n billing --status paused -o json",
        "rota jobs --label team=core --label urgent",
        "rota jobs --watch",
    ),
)
@click.option("-q", "--query", metavar="TEXT", help="Only jobs with this text in their name.")
@click.option(
    "--status",
    type=StatusChoice((*STATUSES, *LAST_STATUSES)),
    help="Only jobs with this status; success, failed and cancelled as for --last.",
)
@click.option(
    "--last",
    "last_status",
    type=StatusChoice(LAST_STATUSES),
    help="Only jobs whose latest finished execution has this status.",
)
@click.option(
    "--failing",
    "last_status",
    flag_value="failed",
    type=StatusChoice(LAST_STATUSES),
    help="Short for --last failed.",
)
@click.option(
    "-l",
    "--label",
    "labels",
    metavar="K[=V]",
    multiple=True,
    help="Only jobs with this label; if repeated, with all of the labels.",
)
@click.option("--calendar", metavar="NAME", help="Only jobs that name this calendar.")
@click.option("--all", "is_all", is_flag=True, help="One-off jobs, such as of `rota run`, too.")
@click.option("--limit", type=click.IntRange(1), help="Maximum number of jobs.")
@namespace_option
@everywhere_option
@watch_option
@format_option
@url_option
def list_jobs(
    *,
    query: str | None,
    status: str | None,
    last_status: str | None,
    labels: tuple[str, ...],
    calendar: str | None,
    is_all: bool,
    limit: int | None,
    namespace: str | None,
    is_everywhere: bool,
    watch_s: float | None,
    form: str,
) -> None:
    """List jobs by name: those of the current namespace, or all."""
    within = None if is_everywhere else namespace
    if status in LAST_STATUSES:
        if last_status not in (None, status):
            raise click.UsageError(f"--status {status} contradicts --last {last_status}; omit one")
        status, last_status = None, status
    wanted = dict(_label(text) for text in labels)

    is_filtered = bool(within or query or status or last_status or labels or calendar)

    with connect() as client:
        found = partial(
            client.jobs,
            namespace=within,
            q=query,
            status=status,
            last_status=last_status,
            labels=wanted,
            calendar=calendar,
        )
        live_table.show(
            lambda: list(found(is_one_off=None if is_all else False, limit=limit)),
            look=JOB,
            form=form,
            watch_s=watch_s,
            if_none="no such jobs" if is_filtered else "no jobs yet; see `rota jobs create --help`",
        )
        if not is_all and watch_s is None:
            _report_hidden(sum(1 for _ in found(is_one_off=True, limit=COUNTED_MAX + 1)))


def _report_hidden(count: int) -> None:
    """Print how many one-off jobs a list leaves out, if any; *count* ends after `COUNTED_MAX`."""
    if count:
        number = f"more than {COUNTED_MAX}" if count > COUNTED_MAX else str(count)
        noun = "one-off job is" if count == 1 else "one-off jobs are"
        say(f"{number} {noun} hidden; --all shows one-off jobs, too")


@click.command(
    "show",
    cls=WatchCommand,
    epilog=examples(
        "rota jobs show report",
        "rota jobs show billing/report -o yaml",
        "rota jobs show report --version 1",
        "rota jobs show report -w",
    ),
)
@job_argument
@click.option(
    "--version", type=click.IntRange(1), help="A version that was replaced, if it is still stored."
)
@namespace_option
@watch_option
@format_option
@url_option
def show_job(
    job: str, *, version: int | None, namespace: str | None, watch_s: float | None, form: str
) -> None:
    """Show a job: schedules and tasks."""
    with connect() as client:
        live_table.show(
            lambda: [client.job(job, namespace=namespace, version=version)],
            look=JOB,
            form=form,
            watch_s=watch_s,
            details=_print_job,
        )


def _label(text: str) -> tuple[str, str | None]:
    key, equals, value = text.partition("=")
    return key, value if equals else None


def _last_text(job: JobView, at: Instant) -> str:
    last = job.last_execution
    if last is None:
        return ""
    ended = f"{last.status} {relative(last.finished_at, at)}, {last.execution_id}"
    return f"{ended}: {last.reason}" if last.reason else ended


def _recent_text(job: JobView) -> str:
    recent = job.recent
    if recent is None:
        return ""
    counts = {status: count for status, count in recent.counts.items() if count}
    parts: list[str] = []
    if counts:
        shown = ", ".join(f"{count} {each}" for each, count in counts.items())
        success = recent.last_success
        parts = [
            f"{shown} of the newest {sum(counts.values())}",
            f"last success {absolute(success.finished_at)} UTC" if success else "no success",
        ]
    if recent.failure_streak > 1:
        parts.append(f"{recent.failure_streak} failures in a row")
    if recent.skip_streak:
        missed = counted(recent.skip_streak, "fire time", "fire times")
        parts.append(f"the newest {missed} skipped or missed")
    return "; ".join(parts)


def _calendars_text(job: JobView) -> str:
    """Return the calendars of a job; empty for none."""
    definition = job.definition or {}
    only, without = definition.get("onlyCalendars", ()), definition.get("exceptCalendars", ())
    texts = ["only in", *only] * bool(only) + ["not in", *without] * bool(without)
    deferred = definition.get("onExcluded", "skip")
    return " ".join(texts) + (f", onExcluded {deferred}" if deferred != "skip" else "")


def _own_fields(job: JobView) -> Iterator[str]:
    """Yield the fields of each schedule that has some of its own, beside the times."""
    schedules: list[Any] = (job.definition or {}).get("schedules", [])  # Any: plain JSON.
    for number, each in enumerate(schedules):
        own = cast("dict[str, Any]", each) if isinstance(each, dict) else {}
        texts = [f"{field} {own[field]}" for field in OWN_FIELDS if own.get(field)]
        if texts:
            yield f"schedule {number}: {', '.join(texts)}"


def _overlap_text(job: JobView) -> str:
    definition: Mapping[str, Any] = job.definition or {}  # Any: plain JSON.
    most, key = definition.get("maxParallel", 1), definition.get("concurrencyKey")
    parts = [job.overlap, f"{most} in parallel" * (most > 1), f"for each {key}" if key else ""]
    return ", ".join(filter(None, parts))


def _breaker_text(job: JobView) -> str:
    limit = (job.definition or {}).get("pauseAfterFailures", 0)
    return f"paused after {counted(limit, 'failure', 'failures')} in a row" if limit else ""


def _print_job(job: JobView) -> None:
    at = now()
    coming = f"{absolute(job.next_fire_at)} UTC, {relative(job.next_fire_at, at)}"
    print_facts(
        [
            ("job", full_name(job)),
            ("id", job.job_id),
            ("description", job.description),
            ("status", job.status),
            ("broken", job.broken),
            ("paused", paused_text(job)),
            ("last", _last_text(job, at)),
            ("recent", _recent_text(job)),
            ("schedule", schedule_text(job)),
            *(("", each) for each in _own_fields(job)),
            ("next", coming if job.next_fire_at and not is_next_paused(job) else ""),
            ("calendars", _calendars_text(job)),
            ("misfire", f"{job.misfire}, grace {job.grace}"),
            ("overlap", _overlap_text(job)),
            ("breaker", _breaker_text(job)),
            ("consistency", job.consistency if job.consistency != "strict" else ""),
            ("priority", str(job.priority) if job.priority else ""),
            ("deadlines", _deadlines_text(job)),
            ("hooks", _hooks_text(job)),
            *(("retrying", _retry_text(each)) for each in job.retrying_hooks),
            ("labels", " ".join(f"{key}={value}" for key, value in job.labels.items())),
            ("execution" if job.ended_at else "running", job.execution_id or ""),
            ("version", _version_text(job)),
        ]
    )
    out("")
    titles = ("TASK", "NEEDS", "RETRIES", "TIMEOUT", "SANDBOX", "LIMITS", "COMMAND")
    print_table(titles, [_task_row(task) for task in job.tasks], optional=("SANDBOX", "LIMITS"))


def _version_text(job: JobView) -> str:
    if job.status == "replaced":
        return str(job.version)  # The date is that of the present version.
    return f"{job.version}, of {absolute(job.updated_at)} UTC"


def _deadlines_text(job: JobView) -> str:
    starts = f"starts within {job.start_deadline}" if job.start_deadline != NO_LIMIT else ""
    ends = f"ends within {job.execution_timeout}" if job.execution_timeout != NO_LIMIT else ""
    return ", ".join(filter(None, (starts, ends)))


def _hooks_text(job: JobView) -> str:
    """Return the receivers of each event; of a URL only scheme and host are shown."""
    from urllib.parse import urlsplit

    texts: list[str] = []
    for field in HOOK_FIELDS:
        hooks: Any = (job.definition or {}).get(field, [])  # Any: a definition is plain JSON.
        for hook in hooks:
            url = urlsplit(hook.get("webhook") or "")
            target = f"{url.scheme}://{url.netloc}" if url.netloc else f"job {hook.get('job')}"
            texts.append(f"{field} {target}")
    return ", ".join(texts)


def _retry_text(hook: HookRetryView) -> str:
    waiting = counted(hook.waiting, "webhook", "webhooks")
    where = f"{waiting} of {hook.event} to {hook.receiver}"
    return f"{where}: {hook.reason}; next attempt at {absolute(hook.next_at)} UTC"


def _task_row(task: TaskSpecView) -> tuple[str, ...]:
    import shlex

    command = task.command
    shown = command if isinstance(command, str) else shlex.join(command or [])
    rule = "" if task.trigger_rule == "all_success" else f" ({task.trigger_rule})"
    return (
        task.name,
        " ".join(task.needs) + rule,
        str(task.retries),
        "" if task.timeout == NO_LIMIT else task.timeout,
        _sandbox_text(task.sandbox) if task.sandbox else "",
        _limits_text(task.limits) if task.limits else "",
        " ".join(each for each in (task.container, task.python, shown) if each) or task.type,
    )


def _sandbox_text(sandbox: SandboxView) -> str:
    network = "network" if sandbox.network else "no network"
    is_plain = sandbox.profile == "default" and sandbox.network
    return ", ".join((sandbox.profile, *(() if is_plain else (network,)), *sandbox.binds))


def _limits_text(limits: LimitsView) -> str:
    texts = (
        f"{limits.cpu:g} cpu" if limits.cpu else "",
        limits.memory or "",
        counted(limits.pids, "process", "processes") if limits.pids else "",
    )
    return ", ".join(filter(None, texts))
