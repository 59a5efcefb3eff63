"""``rota jobs``: list, show, create, apply, pause, resume, delete."""

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rota.client.cli.groups import ListingGroup
from rota.client.cli.human import absolute, now, relative, span
from rota.client.cli.looks import JOB, full_name, schedule_text
from rota.client.cli.options import (
    connect,
    examples,
    format_option,
    namespace_option,
    url_option,
)
from rota.client.cli.show import print_facts, print_table, say, show_many, show_one
from rota.client.wire import JobView, TaskSpecView

if TYPE_CHECKING:  # No cycle is dodged: an HTTP library takes longer to load than a help text.
    from rota.client.client import Client

Fields = dict[str, Any]
"""A job's document: Any, for the node says what is wrong with it."""


@click.group(
    cls=ListingGroup,
    epilog=examples(
        "rota jobs",
        "rota jobs show report",
        'rota jobs create report --schedule "0 6 * * 1-5" -- python report.py',
        "rota jobs apply -f report.yaml",
        "rota jobs pause report",
        "rota jobs delete report",
    ),
)
def jobs() -> None:
    """List, show, create, change and delete jobs; alone: list them.

    A job is named by its name, by NAMESPACE/NAME, or by its id.
    """


@jobs.command("list", epilog=examples("rota jobs list", "rota jobs -n billing -o json"))
@click.option("-n", "--namespace", metavar="NAME", help="Only jobs in it.")
@click.option("-q", "--query", metavar="TEXT", help="Only jobs with this in their name.")
@click.option("--limit", type=click.IntRange(1), help="At most so many.")
@format_option
@url_option
def list_jobs(namespace: str | None, query: str | None, limit: int | None, form: str) -> None:
    """List jobs by name."""
    with connect() as client:
        found = list(client.jobs(namespace=namespace, q=query, limit=limit))
    if not found and form in ("table", "wide"):
        is_filtered = namespace is not None or query is not None
        say("no such jobs" if is_filtered else "no jobs yet; see `rota jobs create --help`")
        return
    show_many(found, JOB, form)


@jobs.command("show", epilog=examples("rota jobs show report", "rota jobs show billing/report"))
@click.argument("job")
@namespace_option
@format_option
@url_option
def show_job(job: str, namespace: str | None, form: str) -> None:
    """Show a job: when it runs, and what."""
    with connect() as client:
        view = client.job(job, namespace=namespace)
    if form not in ("table", "wide"):
        show_one(view, JOB, form)
        return
    _print_job(view)


@jobs.command(
    "create",
    epilog=examples(
        'rota jobs create hello --schedule "*/5 * * * *" -- echo hello',
        "rota jobs create sync --schedule @hourly --retries 3 -- 'fetch | load'",
        "rota jobs create -f report.yaml",
        "generate-jobs | rota jobs create -f -",
    ),
)
@click.argument("name", required=False)
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "-f",
    "--file",
    "files",
    metavar="FILE",
    multiple=True,
    help="Jobs in YAML or JSON, one a document; - is standard input. Repeatable.",
)
@click.option(
    "--schedule",
    "schedules",
    metavar="TEXT",
    multiple=True,
    help='When it runs: "*/5 * * * *", "@every 90s", "@daily", "@at 2027-01-01T00:00:00Z". '
    "Repeatable; without it, when triggered.",
)
@click.option("--timezone", metavar="ZONE", help="Of the schedules.  [default: UTC]")
@click.option(
    "--after",
    "dependencies",
    metavar="JOB",
    multiple=True,
    help="Run after this job succeeded. Repeatable: after each of them did.",
)
@click.option("--retries", type=int, help="How often a failed attempt is tried again.")
@click.option("--timeout", metavar="DURATION", help="How long an attempt may take, such as 10m.")
@click.option(
    "--misfire",
    type=click.Choice(("all", "latest", "skip")),
    help="Which fire times missed in an outage are made up for.  [default: latest]",
)
@click.option(
    "--overlap",
    type=click.Choice(("allow", "skip", "queue_one")),
    help="When it fires while it still runs.  [default: allow]",
)
@click.option("--env", metavar="K=V", multiple=True, help="For its processes; repeatable.")
@click.option("--cwd", metavar="DIR", help="Where its processes start.")
@click.option("--label", "labels", metavar="K=V", multiple=True, help="Repeatable.")
@click.option("--description", metavar="TEXT", help="What it is for.")
@namespace_option
@format_option
@url_option
def create_job(
    name: str | None,
    command: tuple[str, ...],
    files: tuple[str, ...],
    namespace: str | None,
    form: str,
    **given: Any,  # fields of a job, as flags
) -> None:
    """Create a job from flags, or jobs from files.

    The command follows two dashes: several words are a program and its arguments, a single one
    is a line for the shell. Creating a job that is already there, the same in everything, is fine.
    """
    if files:
        if name is not None or any(given.values()):
            raise click.UsageError("a job comes from flags or from a file, not both")
        definitions = _from_files(files)
    elif name is None or not command:
        raise click.UsageError(
            "name a job and, after two dashes, its command: rota jobs create hello -- echo hello"
        )
    else:
        definitions = [_from_flags(name, command, given)]
    if namespace is not None:
        definitions = [{"namespace": namespace, **each} for each in definitions]
    show_many(_send(definitions, lambda client, each: client.create_job(each)), JOB, form)


@jobs.command(
    "apply",
    short_help="Create or replace jobs.",
    epilog=examples("rota jobs apply -f report.yaml", "generate-jobs | rota jobs apply -f -"),
)
@click.option(
    "-f",
    "--file",
    "files",
    metavar="FILE",
    multiple=True,
    required=True,
    help="Jobs in YAML or JSON, one a document; - is standard input. Repeatable.",
)
@namespace_option
@format_option
@url_option
def apply_jobs(files: tuple[str, ...], namespace: str | None, form: str) -> None:
    """Create jobs, or give those that exist their next version; the same again changes nothing.

    Unfinished executions go on with the version that they began with.
    """
    definitions = _from_files(files)
    if namespace is not None:
        definitions = [{"namespace": namespace, **each} for each in definitions]
    show_many(_send(definitions, lambda client, each: client.put_job(each)), JOB, form)


@jobs.command(
    "pause",
    short_help="Pause a job.",
    epilog=examples("rota jobs pause report", 'rota jobs pause report --reason "moving house"'),
)
@click.argument("job")
@click.option("--reason", metavar="TEXT", default="", help="Its ledger will repeat it.")
@namespace_option
@url_option
def pause_job(job: str, reason: str, namespace: str | None) -> None:
    """Keep a job from running by itself; its fire times are recorded as paused.

    What runs goes on, and `rota trigger` still works.
    """
    with connect() as client:
        client.pause_job(job, namespace=namespace, reason=reason)
    say(f"paused {job}")


@jobs.command(
    "resume", short_help="Resume a paused job.", epilog=examples("rota jobs resume report")
)
@click.argument("job")
@namespace_option
@url_option
def resume_job(job: str, namespace: str | None) -> None:
    """Let a paused job run again, from its next fire time on."""
    with connect() as client:
        client.resume_job(job, namespace=namespace)
    say(f"resumed {job}")


@jobs.command(
    "delete",
    short_help="Delete jobs.",
    epilog=examples("rota jobs delete hello", "rota jobs delete a b c"),
)
@click.argument("names", metavar="JOB...", nargs=-1, required=True)
@namespace_option
@url_option
def delete_jobs(names: tuple[str, ...], namespace: str | None) -> None:
    """Delete jobs; unfinished executions are cancelled, the history stays."""
    with connect() as client:
        for name in names:
            client.delete_job(name, namespace=namespace)
            say(f"deleted {name}")


def _from_files(files: Iterable[str]) -> list[Fields]:
    from rota.client.definitions import parse_definitions, read_definitions

    definitions: list[Fields] = []
    for file in files:
        if file == "-":
            definitions += parse_definitions(sys.stdin.read(), "standard input")
        else:
            definitions += read_definitions(Path(file))
    return definitions


def _from_flags(name: str, command: tuple[str, ...], given: Fields) -> Fields:
    fields: Fields = {"name": name, "command": command[0] if len(command) == 1 else command}
    fields |= {key: value for key, value in given.items() if value not in (None, ())}
    for key in ("env", "labels"):
        if key in fields:
            fields[key] = dict(_pair(text) for text in fields[key])
    timeout = fields.get("timeout", "")
    if timeout.isdecimal():
        fields["timeout"] = int(timeout)
    return fields


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise click.UsageError(f"{text!r} is not KEY=VALUE")
    return key, value


def _send(definitions: list[Fields], send: "Callable[[Client, Fields], JobView]") -> list[JobView]:
    from rota.client.errors import RequestFailed

    done: list[JobView] = []
    with connect() as client:
        for definition in definitions:
            try:
                done.append(send(client, definition))
            except RequestFailed:
                if len(definitions) > 1:
                    before = f"after {len(done)} taken, " if done else ""
                    say(f"{before}job {definition.get('name')!r} is refused:")
                raise
    return done


def _print_job(job: JobView) -> None:
    at = now()
    coming = f"{absolute(job.next_fire_at)} UTC, {relative(job.next_fire_at, at)}"
    print_facts(
        [
            ("job", full_name(job)),
            ("id", job.job_id),
            ("description", job.description),
            ("status", job.status),
            ("paused", _paused_text(job)),
            ("schedule", schedule_text(job)),
            ("next", coming if job.next_fire_at else ""),
            ("misfire", f"{job.misfire}, grace {span(job.grace_s)}"),
            ("overlap", job.overlap),
            ("labels", " ".join(f"{key}={value}" for key, value in job.labels.items())),
            ("running", job.execution_id or ""),
            ("version", f"{job.version}, of {absolute(job.updated_at)} UTC"),
        ]
    )
    click.echo()
    titles = ("TASK", "NEEDS", "RETRIES", "TIMEOUT", "COMMAND")
    print_table(titles, [_task_row(task) for task in job.tasks])


def _paused_text(job: JobView) -> str:
    if job.paused_at is None:
        return ""
    why = f": {job.pause_reason}" if job.pause_reason else ""
    return f"since {absolute(job.paused_at)} UTC by {job.paused_by}{why}"


def _task_row(task: TaskSpecView) -> tuple[str, ...]:
    import shlex

    command = task.command
    shown = command if isinstance(command, str) else shlex.join(command or [])
    rule = "" if task.trigger_rule == "all_success" else f" ({task.trigger_rule})"
    return (
        task.name,
        " ".join(task.needs) + rule,
        str(task.retries),
        span(task.timeout_s) if task.timeout_s else "",
        shown or task.type,
    )
