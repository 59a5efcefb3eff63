"""``rota jobs set``, ``pause``, ``resume`` and ``delete``: changes of jobs without a file."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import click
import msgspec

from rota.client.cli.display.printing import say, say_done
from rota.client.cli.display.show import show_one
from rota.client.cli.display.table_columns import APPLIED, AppliedView
from rota.client.cli.human import counted, now
from rota.client.cli.inputs.options import (
    as_seconds,
    as_time,
    connect,
    dry_run_option,
    examples,
    format_option,
    job_argument,
    namespace_option,
    url_option,
)
from rota.client.cli.jobs.job_selection import Selection, selection_options
from rota.client.cli.jobs.saved_jobs import say_if_dry, say_warnings
from rota.core.timing.instants import format_instant, later, seconds

if TYPE_CHECKING:  # For speed, not to avoid a cycle: help texts load no HTTP library.
    from rota.client.client import Client

OF_TEXTS = ("labels", "env", "nodeSelector")
"""Fields that are objects whose values are text: labels.tier=2 sets the text "2"."""


@click.command(
    "set",
    epilog=examples(
        "rota jobs set report retries=3 timeout=10m",
        'rota jobs set report schedule="0 6 * * 1-5" labels.team=core',
        "rota jobs set report description= --dry-run",
    ),
)
@job_argument
@click.argument("fields", metavar="FIELD=VALUE...", nargs=-1, required=True)
@dry_run_option
@namespace_option
@format_option
@url_option
def set_fields(
    job: str, *, fields: tuple[str, ...], is_dry: bool, namespace: str | None, form: str
) -> None:
    """Change fields of a job; the others stay as they are.

    A value is YAML, such as 3, true or [a, b]; an empty value removes the field. A dot separates an
    object from its member: labels.team=core.
    """
    patch = patch_of(fields)
    with connect() as client:
        before = client.job(job, namespace=namespace)
        after = client.patch_job(job, patch, namespace=namespace, dry_run=is_dry)
    change = "unchanged" if after.version == before.version else "replaced"
    show_one(AppliedView(change=change, **msgspec.structs.asdict(after)), APPLIED, form)
    say_warnings([after])
    say_if_dry(is_dry=is_dry)


def patch_of(fields: tuple[str, ...]) -> dict[str, Any]:  # Any: JSON, which the node checks
    """Return the merge patch (RFC 7396) of fields such as ``labels.team=core``.

    Raises:
        click.UsageError: A field is malformed, or contradicts another field.
    """
    patch: dict[str, Any] = {}
    for text in fields:
        path, equals, value = text.partition("=")
        *parents, name = path.split(".")
        if not equals or not all((*parents, name)):
            raise click.UsageError(f"{text!r} is not FIELD=VALUE, such as retries=3")
        target = patch
        for parent in parents:
            inner: Any = target.setdefault(parent, {})  # Any: as above
            if not isinstance(inner, dict):
                raise click.UsageError(
                    f"{text!r} contradicts the field {parent} before it; omit one of them"
                )
            target = cast("dict[str, Any]", inner)
        if name in target:
            raise click.UsageError(
                f"{text!r} contradicts the field {name} before it; omit one of them"
            )
        is_text = path.partition(".")[0] in OF_TEXTS and bool(parents)
        target[name] = (value or None) if is_text else _value(text, value)
    for given, other in (("schedule", "schedules"), ("schedules", "schedule")):
        # One is a shorthand of the other: what the job had before does not fire beside it.
        if given in patch:
            patch.setdefault(other, None)
    return patch


def _value(field: str, text: str) -> object:
    from rota.client.definitions import InvalidFile, parse_value

    try:
        return parse_value(text) if text else None
    except InvalidFile as error:
        raise click.UsageError(f"{field!r}: {error}") from error


@click.command(
    "pause",
    epilog=examples(
        "rota jobs pause report",
        'rota jobs pause report --reason "moving house"',
        "rota jobs pause report --for 2h",
        "rota jobs pause --label team=core --yes",
    ),
)
@selection_options
@click.option("--reason", metavar="TEXT", default="", help="Reason, recorded in the ledger.")
@click.option("--until", metavar="TIME", callback=as_time, help="Resume them then.")
@click.option(
    "--for", "for_s", metavar="DURATION", callback=as_seconds, help="Resume them after this time."
)
@dry_run_option
@namespace_option
@url_option
def pause_job(
    *,
    reason: str,
    until: str | None,
    for_s: float | None,
    is_dry: bool,
    namespace: str | None,
    **selected: Any,
) -> None:
    """Pause jobs: they do not fire, and their fire times are recorded as paused.

    Unfinished executions continue, and `rota trigger` still works.
    """
    if for_s is not None:
        if until is not None:
            raise click.UsageError("give --until or --for, not both")
        until = format_instant(later(now(), seconds(for_s)))

    def pause(client: "Client", name: str) -> None:
        client.pause_job(name, namespace=namespace, reason=reason, until=until, dry_run=is_dry)

    _change(Selection(namespace=namespace, **selected), "pause", "paused", pause, is_dry=is_dry)


@click.command("resume", epilog=examples("rota jobs resume report", "rota jobs resume --all --yes"))
@selection_options
@dry_run_option
@namespace_option
@url_option
def resume_job(*, is_dry: bool, namespace: str | None, **selected: Any) -> None:
    """Resume paused jobs, from their next fire time on.

    Schedules that skip fire times because the clock was ahead count from now again.
    """

    def resume(client: "Client", name: str) -> None:
        client.resume_job(name, namespace=namespace, dry_run=is_dry)

    _change(Selection(namespace=namespace, **selected), "resume", "resumed", resume, is_dry=is_dry)


@click.command(
    "delete",
    epilog=examples(
        "rota jobs delete hello",
        "rota jobs delete report flaky --dry-run",
        "rota jobs delete --label team=core --yes",
    ),
)
@selection_options
@dry_run_option
@namespace_option
@url_option
def delete_jobs(*, is_dry: bool, namespace: str | None, **selected: Any) -> None:
    """Delete jobs; their unfinished executions are cancelled, and their history stays."""

    def delete(client: "Client", name: str) -> None:
        client.delete_job(name, namespace=namespace, dry_run=is_dry)

    _change(Selection(namespace=namespace, **selected), "delete", "deleted", delete, is_dry=is_dry)


def _change(
    selection: Selection,
    verb: str,
    past: str,
    change: Callable[["Client", str], None],
    *,
    is_dry: bool,
) -> None:
    """Change the selected jobs one after another, and print each."""
    with connect() as client:
        names = selection.named(client)
        selection.confirm(verb, "job", len(names), is_dry=is_dry)
        for name in names:
            change(client, name)
            say_done(past, name, is_dry=is_dry)
    if not selection.names:
        say(f"{counted(len(names), 'job', 'jobs')} of namespace {selection.within}")
