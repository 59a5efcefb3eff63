"""``rota changes list``, ``follow`` and ``verify``."""

import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from rota.client.cli.changes.seen_changes import SeenChanges
from rota.client.cli.display.document_words import document_named
from rota.client.cli.display.printing import say
from rota.client.cli.display.show import Rows, show_many
from rota.client.cli.display.table_columns import CHAIN, CHANGE
from rota.client.cli.human import now
from rota.client.cli.inputs.options import (
    as_time,
    connect,
    examples,
    format_option,
    namespace_option,
    url_option,
)
from rota.core.timing.instants import MICROSECOND, format_instant, later, parse_instant
from rota.wire.documents import ChainView, ChangeView

if TYPE_CHECKING:  # For speed, not to avoid a cycle.
    from rota.client import Client
    from rota.client.cli.changes.saved_heads import SavedHead

EX_DIFFERENT = 8
LOOK_S = 2.0
"""The number of seconds between two looks for new changes."""
F = TypeVar("F", bound=Callable[..., object])


def _as_object(_ctx: click.Context, _param: click.Parameter, value: str | None) -> str | None:
    return None if value is None else document_named(value)


def filter_options(command: F) -> F:
    """Add the options that select changes."""
    for option in (
        click.option("--by", metavar="PRINCIPAL", help="Only changes of this principal."),
        click.option(
            "--of",
            metavar="OBJECT",
            callback=_as_object,
            help="Only changes of this job (NAMESPACE/NAME, or its id), of this execution, or of "
            "this document (KIND:NAME, such as role:deployer).",
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
        is_first = True
        while True:
            _print_new(rows, seen, look, is_first=is_first)
            is_first = False
            time.sleep(LOOK_S)


@click.command(
    "verify",
    epilog=examples(
        "rota changes verify",
        "rota changes verify --heads heads.json",
        "rota changes verify -o json",
    ),
)
@click.option(
    "--heads",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Compare with the newest changes in this file, then write the present ones to it.",
)
@format_option
@url_option
def verify_changes(*, heads: Path | None, form: str) -> int:
    """Check that no change was altered, removed or inserted after it was recorded.

    The exit status is 8 if a shard has a fault; the file of --heads then stays as it is. Keep the
    file where the nodes cannot write.
    """
    from rota.client.cli.changes.saved_heads import HeadsInvalid, read_heads, write_heads

    try:
        saved = read_heads(heads) if heads else None
    except HeadsInvalid as error:
        raise click.ClickException(str(error)) from error
    with connect() as client:
        chains = client.verify_changes()
        if saved:
            chains = [_compared(client, each, saved.get(each.shard)) for each in chains]
    if heads is not None and not any(each.fault for each in chains):
        write_heads(heads, chains)
    faulty = [each for each in chains if each.fault]
    if form not in ("table", "wide"):
        show_many(chains, CHAIN, form)
    elif faulty:
        show_many(faulty, CHAIN, form)
    else:
        count = sum(each.checked for each in chains)
        say(f"{count:,} changes in {len(chains)} shards are intact{_signatures(chains)}")
    return EX_DIFFERENT if faulty else 0


def _compared(client: "Client", chain: ChainView, saved: "SavedHead | None") -> ChainView:
    from rota.client.cli.changes.saved_heads import compared

    def hash_of(shard: int, head: "SavedHead") -> str:
        after = format_instant(later(parse_instant(head.at), MICROSECOND))
        found = client.changes(since=head.at, until=after, newest_first=False)
        one = (each.hash for each in found if (each.shard, each.number) == (shard, head.number))
        return next(one, "")

    return compared(chain, saved, hash_of)


def _signatures(chains: Iterable[ChainView]) -> str:
    used = [each for each in chains if each.last]
    signed = sum(each.signature == "valid" for each in used)
    return f"; {signed} of {len(used)} shards with changes have a valid signature" if signed else ""


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
