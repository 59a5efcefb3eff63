"""``rota ledger``: outcomes of fire times."""

from collections.abc import Sequence

import click

from rota.client.cli.display import live_table
from rota.client.cli.display.live_table import WatchCommand, watch_option
from rota.client.cli.display.printing import say
from rota.client.cli.display.show import show_many
from rota.client.cli.display.table_columns import LEDGER
from rota.client.cli.inputs.options import (
    as_time,
    connect,
    examples,
    format_option,
    job_argument,
    namespace_option,
    url_option,
)
from rota.wire.documents import LedgerEntryView


@click.command(
    cls=WatchCommand,
    epilog=examples(
        "rota ledger report",
        "rota ledger report --reverse",
        "rota ledger report --since 2d --limit 1000 -o jsonl",
    ),
)
@job_argument
@click.option(
    "--since",
    metavar="TIME",
    callback=as_time,
    help="Fire times since a time, or a duration before now, such as 2d.",
)
@click.option("--until", metavar="TIME", callback=as_time, help="Fire times before this time.")
@click.option(
    "--limit",
    type=click.IntRange(1),
    default=20,
    show_default=True,
    help="Number of the newest entries.",
)
@click.option("-r", "--reverse", "is_reversed", is_flag=True, help="Newest first.")
@namespace_option
@watch_option
@format_option
@url_option
def ledger(
    job: str,
    *,
    since: str | None,
    until: str | None,
    limit: int,
    is_reversed: bool,
    namespace: str | None,
    watch_s: float | None,
    form: str,
) -> None:
    """Show the outcome of each fire time of a job: every one has exactly one.

    fired, skipped (overlap), missed, paused, or coalesced into a later one. Oldest first.
    """

    def draw(newest_first: Sequence[LedgerEntryView]) -> None:
        if not newest_first and form in ("table", "wide"):
            say("no fire time there" if since or until else "no fire time has come yet")
            return
        show_many(newest_first if is_reversed else newest_first[::-1], LEDGER, form)

    with connect() as client:
        live_table.show(
            lambda: list(
                client.ledger(
                    job,
                    namespace=namespace,
                    since=since,
                    until=until,
                    newest_first=True,
                    limit=limit,
                )
            ),
            draw,
            look=LEDGER,
            form=form,
            watch_s=watch_s,
            is_newest_first=True,
        )
