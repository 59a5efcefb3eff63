"""``rota ledger``: what became of fire times."""

from collections import deque

import click

from rota.client.cli.human import now
from rota.client.cli.looks import LEDGER
from rota.client.cli.options import (
    as_time,
    connect,
    examples,
    format_option,
    namespace_option,
    url_option,
)
from rota.client.cli.show import say, show_many
from rota.client.client import Client
from rota.client.wire import LedgerEntryView
from rota.core.instants import DAY, HOUR, MINUTE, WEEK, Instant, format_instant, parse_instant

WINDOWS = (10 * MINUTE, 3 * HOUR, 2 * DAY, 5 * WEEK)
"""Looked at in turn for the newest entries: a ledger is read from its old end, and may be long."""


@click.command(
    epilog=examples(
        "rota ledger report",
        "rota ledger report --since 2d --limit 1000 -o jsonl",
    )
)
@click.argument("job")
@click.option(
    "--since",
    metavar="TIME",
    callback=as_time,
    help="Fire times from then on, or so long ago, such as 2d.",
)
@click.option("--until", metavar="TIME", callback=as_time, help="Fire times before then.")
@click.option(
    "--limit", type=click.IntRange(1), default=20, show_default=True, help="The newest so many."
)
@namespace_option
@format_option
@url_option
def ledger(
    job: str,
    *,
    since: str | None,
    until: str | None,
    limit: int,
    namespace: str | None,
    form: str,
) -> None:
    """Show what became of each fire time of a job: every one has exactly one outcome.

    fired, skipped (overlap), missed, or coalesced into a later one. Oldest first.
    """
    with connect() as client:
        starts = [since] if since else _starts(until)
        entries: list[LedgerEntryView] = []
        for start in starts:
            entries = _newest(client, job, namespace, since=start, until=until, limit=limit)
            if len(entries) >= limit:
                break
    if not entries and form in ("table", "wide"):
        say("no fire time has come yet" if not (since or until) else "no fire time there")
        return
    show_many(entries, LEDGER, form)


def _starts(until: str | None) -> list[str | None]:
    end = parse_instant(until) if until else now()
    return [*(format_instant(Instant(max(0, end - window))) for window in WINDOWS), None]


def _newest(
    client: Client,
    job: str,
    namespace: str | None,
    *,
    since: str | None,
    until: str | None,
    limit: int,
) -> list[LedgerEntryView]:
    return list(
        deque(client.ledger(job, namespace=namespace, since=since, until=until), maxlen=limit)
    )
