"""``rota bench slo``: the test of a target for lateness on a cluster."""

import asyncio
import secrets
from collections.abc import Sequence
from math import isfinite

import click

from rota.client.cli.display.printing import say
from rota.client.cli.display.show import Column, Look, Rows
from rota.client.cli.human import now
from rota.client.cli.inputs.options import (
    as_seconds,
    connect_async,
    examples,
    output_option,
    url_option,
)
from rota.client.cli.inputs.program_words import ProgramCommand
from rota.client.slo.slo import Measured, Target, find_rate, measure
from rota.core.timing.instants import SECOND, Duration

EX_NOT_HELD = 8


def _ms(lateness_ms: float) -> str:
    return f"{lateness_ms:.1f}ms" if isfinite(lateness_ms) else "never"


LOOK: Look[Measured] = Look(
    name=lambda seen: f"{seen.rate:g}",
    columns=(
        Column("FIRES/S", lambda seen, _: f"{seen.rate:g}"),
        Column("FOR", lambda seen, _: f"{seen.seconds:g}s"),
        Column("EXPECTED", lambda seen, _: f"{seen.expected}"),
        Column("MISSED", lambda seen, _: f"{seen.missed}"),
        Column("DOUBLED", lambda seen, _: f"{seen.doubled}"),
        Column("P50", lambda seen, _: _ms(seen.p50_ms)),
        Column("P99", lambda seen, _: _ms(seen.p99_ms)),
        Column("MAX", lambda seen, _: _ms(seen.max_ms)),
        Column("HELD", lambda seen, _: "yes" if seen.is_held else "no"),
    ),
)


@click.command(
    cls=ProgramCommand,
    epilog=examples(
        "rota bench slo --p99-lateness 25ms --rate 1000 --for 60s",
        "rota bench slo --p99-lateness 25ms --find",
        "rota bench slo --p99-lateness 1s --rate 20 --for 10s -- /bin/true",
    ),
)
@click.option(
    "--p99-lateness",
    "p99_lateness_s",
    metavar="DURATION",
    required=True,
    callback=as_seconds,
    help="Target: 99 of 100 fires start within this time after their fire time.",
)
@click.option(
    "--rate",
    type=click.FloatRange(min=0, min_open=True),
    default=100.0,
    show_default=True,
    help="Fires per second; with --find, the rate of the first measurement.",
)
@click.option(
    "--for",
    "for_s",
    metavar="DURATION",
    default="10s",
    show_default=True,
    callback=as_seconds,
    help="Duration of each measurement, rounded up to multiples of 5 s.",
)
@click.option(
    "--find", "is_search", is_flag=True, help="Search for the highest rate that meets the target."
)
@output_option(("table", "jsonl"))
@click.argument("argv", metavar="[-- COMMAND...]", nargs=-1)
@url_option
def slo(
    p99_lateness_s: float,
    *,
    rate: float,
    for_s: float,
    is_search: bool,
    form: str,
    argv: Sequence[str],
) -> int:
    """Test a target for lateness on a running cluster; exit with 8 if it is missed.

    The test creates jobs in a namespace of its own, and deletes them at the end. Each job fires
    every 5 seconds, and the fires of all jobs are spread evenly. Each fire starts a process, `true`
    unless a COMMAND is given. No fire may be missed, and none may start twice.
    """
    target = Target(
        p99_lateness=Duration(round(p99_lateness_s * SECOND)),
        rate=rate,
        duration=Duration(round(for_s * SECOND)),
    )
    is_kept = asyncio.run(_hold(target, argv, form, is_search=is_search))
    return 0 if is_kept else EX_NOT_HELD


async def _hold(target: Target, argv: Sequence[str], form: str, *, is_search: bool) -> bool:
    from rota.client.slo.fire_load import SHORTEST, FireLoad

    rows = Rows(LOOK, form)
    body = {"command": list(argv)} if argv else SHORTEST

    async with connect_async() as client:

        async def trial(rate: float) -> Measured:
            load = FireLoad(client, f"slo-{secrets.token_hex(4)}", rate, body=body)
            say(f"{load.rate:g} fires/s: {load.job_count} jobs in namespace {load.namespace}")
            seen = await measure(load, target, now=now)
            rows.print([seen])
            return seen

        if not is_search:
            return (await trial(target.rate)).is_held
        found = await find_rate(trial, target.rate)
    say(
        f"the target is met up to {found:g} fires/s"
        if found
        else "the target is met at none of the rates"
    )
    return found > 0
