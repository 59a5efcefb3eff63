"""``rota ledger``: outcomes of fire times."""

from typing import TYPE_CHECKING

import click

from rota.client.cli.display import live_table
from rota.client.cli.display.live_table import WatchCommand, watch_option
from rota.client.cli.display.table_columns import LEDGER, LEDGER_OF_ALL
from rota.client.cli.inputs.options import (
    as_time,
    complete_job,
    connect,
    examples,
    format_option,
    namespace_option,
    url_option,
)
from rota.wire.documents import LedgerEntryView

if TYPE_CHECKING:  # For speed, not to avoid a cycle: help texts load no HTTP library.
    from rota.client.client import Client

UNFIRED = ("skipped", "missed", "coalesced", "paused", "excluded")


@click.command(
    cls=WatchCommand,
    epilog=examples(
        "rota ledger report",
        "rota ledger report --reverse",
        "rota ledger report --since 2d --limit 1000 -o jsonl",
        "rota ledger --all --outcome skipped --since 1h",
    ),
)
@click.argument("job", required=False, shell_complete=complete_job)
@click.option(
    "--all",
    "is_of_all",
    is_flag=True,
    help="Fire times of all jobs that started no execution; with --namespace, of its jobs only.",
)
@click.option(
    "--outcome",
    type=click.Choice(UNFIRED),
    help="With --all: only fire times with this outcome.",
)
@click.option(
    "--since",
    metavar="TIME",
    callback=as_time,
    help="Only fire times since this time; a duration, such as 2d, is before now.",
)
@click.option("--until", metavar="TIME", callback=as_time, help="Only fire times before this time.")
@click.option(
    "--limit",
    type=click.IntRange(1),
    default=20,
    show_default=True,
    help="Maximum number of entries; the newest are shown.",
)
@click.option("-r", "--reverse", "is_reversed", is_flag=True, help="Show the newest entry first.")
@namespace_option
@watch_option
@format_option
@url_option
def ledger(
    job: str | None,
    *,
    is_of_all: bool,
    outcome: str | None,
    since: str | None,
    until: str | None,
    limit: int,
    is_reversed: bool,
    namespace: str | None,
    watch_s: float | None,
    form: str,
) -> None:
    """Show the outcome of each fire time of a job, oldest first.

    Every fire time has one outcome: fired, skipped (overlap), missed, paused, excluded (calendar),
    or coalesced into a later one. With --all: the fire times of all jobs that started no execution.
    """
    if (job is None) != is_of_all:
        raise click.UsageError("name a job, or give --all")
    if outcome is not None and not is_of_all:
        raise click.UsageError("--outcome is for --all; add --all, or omit --outcome")
    look = LEDGER_OF_ALL if job is None else LEDGER

    def read(client: "Client") -> list[LedgerEntryView]:
        if job is None:
            found = client.unfired(
                namespace=namespace, outcome=outcome, since=since, until=until, limit=limit
            )
        else:
            found = client.ledger(
                job,
                namespace=namespace,
                since=since,
                until=until,
                newest_first=True,
                limit=limit,
            )
        newest_first = list(found)
        return newest_first if is_reversed else newest_first[::-1]

    with connect() as client:
        live_table.show(
            lambda: read(client),
            look=look,
            form=form,
            watch_s=watch_s,
            is_newest_first=is_reversed,
            if_none="no such fire times" if since or until else "no fire times yet",
        )
