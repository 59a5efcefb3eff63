"""``rota changes list``, ``follow`` and ``verify``."""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar

import click

from rota.client.cli.display.printing import say
from rota.client.cli.display.show import Column, Look, Rows, show_many
from rota.client.cli.documents.kinds import document_named, word_of
from rota.client.cli.human import absolute, now
from rota.client.cli.inputs.execution_names import execution_id_of
from rota.client.cli.inputs.options import (
    as_time,
    connect,
    examples,
    format_option,
    namespace_option,
    url_option,
)
from rota.core.timing.instants import MINUTE, Instant, format_instant, parse_instant
from rota.wire.documents import AuthorView, ChainView, ChangeView

if TYPE_CHECKING:  # For speed, not to avoid a cycle: help texts load no HTTP library.
    from rota.client.client import Client

EX_DIFFERENT = 8
LOOK_S = 2.0
"""The number of seconds between two looks for new changes."""
F = TypeVar("F", bound=Callable[..., object])

CHANGE: Look[ChangeView] = Look(
    name=lambda change: f"{change.shard}/{change.number}",
    columns=(
        Column("TIME (UTC)", lambda change, _: absolute(change.at)),
        Column("BY", lambda change, _: change.by.principal if change.by else ""),
        Column("CHANGE", lambda change, _: change.action),
        Column("OBJECT", lambda change, _: _object(change)),
        Column("EXECUTION", lambda change, _: change.execution_id or "", is_optional=True),
        Column("VERSION", lambda change, _: _versions(change)),
        Column("DETAIL", lambda change, _: _detail(change), is_optional=True),
        Column("ADDRESS", lambda change, _: _author(change).address or "", is_wide=True),
        Column("KEY", lambda change, _: _author(change).key or "", is_wide=True),
        Column("REQUEST", lambda change, _: _author(change).request_id, is_wide=True),
        Column("NUMBER", lambda change, _: f"{change.shard}/{change.number}", is_wide=True),
    ),
)

CHAIN: Look[ChainView] = Look(
    name=lambda chain: str(chain.shard),
    columns=(
        Column("SHARD", lambda chain, _: str(chain.shard)),
        Column("CHANGES", lambda chain, _: f"{chain.first} to {chain.last}"),
        Column("INTACT", lambda chain, _: str(chain.checked)),
        Column("FAULT", lambda chain, _: chain.fault),
        Column("HASH", lambda chain, _: chain.hash, is_wide=True),
    ),
)


def _author(change: ChangeView) -> AuthorView:
    return change.by or AuthorView(principal="")


def _object(change: ChangeView) -> str:
    if change.kind is None:
        return change.job
    return f"{word_of(change.kind)}:{change.document}"


def _detail(change: ChangeView) -> str:
    parts = change.detail or change.broken, ", ".join(change.fields)
    return "; ".join(filter(None, parts))


def _versions(change: ChangeView) -> str:
    before, after = change.before, change.after
    if before == after:
        return str(after or "")
    return f"{before or '-'} -> {after or '-'}"


OVERLAP = MINUTE
DROP_AT = 1_000
"""The number of changes from which older ones are dropped."""


class SeenChanges:
    """The changes of the last minute that were seen.

    Changes of different shards are not committed in the order of their instants, because clocks
    differ and a commit takes time. Each look for new changes therefore begins a minute before the
    newest one.

    Args:
        since: The time of the first change to be seen.
    """

    def __init__(self, since: str) -> None:
        self._since = self._newest = parse_instant(since)
        self._seen: dict[tuple[int, int], Instant] = {}
        self._drop_at = DROP_AT

    @property
    def count(self) -> int:
        """The number of changes that are remembered."""
        return len(self._seen)

    @property
    def look_from(self) -> str:
        """The instant at which the next look begins."""
        return format_instant(self._first)

    @property
    def _first(self) -> Instant:
        return Instant(max(self._since, self._newest - OVERLAP))

    def add(self, change: ChangeView) -> bool:
        """Return True if *change* is new."""
        key, at = (change.shard, change.number), parse_instant(change.at)
        if key in self._seen:
            return False
        self._seen[key] = at
        self._newest = max(self._newest, at)
        if len(self._seen) >= self._drop_at:
            first = self._first
            self._seen = {each: seen for each, seen in self._seen.items() if seen >= first}
            self._drop_at = max(DROP_AT, 2 * len(self._seen))
        return True


def _as_object(_ctx: click.Context, _param: click.Parameter, value: str | None) -> str | None:
    return None if value is None else document_named(value)


def _with_id(client: "Client", of: str | None, namespace: str | None) -> str | None:
    """Return *of* with the id of the execution in place of ``JOB@latest``."""
    is_latest = of is not None and "@" in of and ":" not in of
    return execution_id_of(client, of, namespace) if of and is_latest else of


def filter_options(command: F) -> F:
    """Add the options that select changes."""
    for option in (
        click.option("--by", metavar="PRINCIPAL", help="Only changes of this principal."),
        click.option(
            "--of",
            metavar="OBJECT",
            callback=_as_object,
            help="Only changes of this job (NAMESPACE/NAME, or its id), of this execution (its id "
            "or JOB@latest), or of this document (KIND:NAME, such as role:deployer).",
        ),
        click.option(
            "--action", metavar="ACTION", help="Only changes of this kind, such as job.deleted."
        ),
        click.option(
            "--since",
            metavar="TIME",
            callback=as_time,
            help="Only changes since this time; a duration, such as 2d, is before now.",
        ),
    ):
        command = option(command)
    return command


@click.command(
    "list",
    epilog=examples(
        "rota changes list --by alice --since 7d -o wide",
        "rota changes list --of billing/report",
        "rota changes list --action job.deleted --limit 100",
        "rota changes list --of role:deployer",
    ),
)
@filter_options
@click.option("--until", metavar="TIME", callback=as_time, help="Only changes before this time.")
@click.option(
    "--limit", type=click.IntRange(1), default=20, show_default=True, help="Maximum number."
)
@namespace_option
@format_option
@url_option
def list_changes(
    *,
    by: str | None,
    of: str | None,
    action: str | None,
    since: str | None,
    until: str | None,
    limit: int,
    namespace: str | None,
    form: str,
) -> None:
    """List the latest changes, the newest first."""
    with connect() as client:
        of = _with_id(client, of, namespace)
        found = client.changes(
            namespace=namespace, by=by, of=of, action=action, since=since, until=until, limit=limit
        )
        views = list(found)
    if not views and form in ("table", "wide"):
        say("no such changes" if by or of or action or since or until else "no changes yet")
        return
    show_many(views, CHANGE, form)


@click.command(
    "follow",
    epilog=examples(
        "rota changes follow",
        "rota changes follow --since 1h -o jsonl >> changes.jsonl",
    ),
)
@filter_options
@namespace_option
@format_option
@url_option
def follow_changes(
    *,
    by: str | None,
    of: str | None,
    action: str | None,
    since: str | None,
    namespace: str | None,
    form: str,
) -> None:
    """Print changes from a time on, by default now, and then as they are made, until Ctrl-C.

    Each change has a shard and a number: the numbers of a shard have no gaps. After an
    interruption, begin a minute before the last change that was printed, and drop those that you
    have.
    """
    rows, seen = Rows(CHANGE, form), SeenChanges(since or format_instant(now()))

    def look() -> Iterator[ChangeView]:
        yield from client.changes(
            namespace=namespace,
            by=by,
            of=of,
            action=action,
            since=seen.look_from,
            newest_first=False,
        )

    rows.print([])  # The titles: a user sees that the command waits.
    with connect() as client:
        of = _with_id(client, of, namespace)
        is_first = True
        while True:
            _print_new(rows, seen, look, is_first=is_first)
            is_first = False
            time.sleep(LOOK_S)


@click.command("verify", epilog=examples("rota changes verify", "rota changes verify -o json"))
@format_option
@url_option
def verify_changes(*, form: str) -> int:
    """Check that no change was altered, removed or inserted after it was recorded.

    The exit status is 8 if a shard has a fault.
    """
    with connect() as client:
        chains = client.verify_changes()
    faulty = [each for each in chains if each.fault]
    if form not in ("table", "wide"):
        show_many(chains, CHAIN, form)
    elif faulty:
        show_many(faulty, CHAIN, form)
    else:
        count = sum(each.checked for each in chains)
        say(f"{count:,} changes in {len(chains)} shards are intact")
    return EX_DIFFERENT if faulty else 0


def _print_new(
    rows: Rows[ChangeView],
    seen: SeenChanges,
    look: Callable[[], Iterable[ChangeView]],
    *,
    is_first: bool,
) -> None:
    """Print the changes that are new; unless it is the first look, a node may not respond."""
    from rota.client.errors import TooBusy, Unreachable

    try:
        for change in look():
            if seen.add(change):
                rows.print([change])
    except (TooBusy, Unreachable) as error:
        if is_first:
            raise
        say(f"{error.detail}; trying again")
