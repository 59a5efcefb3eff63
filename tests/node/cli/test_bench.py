"""``rota bench slo``: its measurements match the fires, and its jobs are deleted."""

import asyncio
import json

import pytest

from rota.client import AsyncClient
from rota.client.cli.human import now
from rota.client.errors import Invalid
from rota.client.slo.fire_load import FireLoad, Window
from rota.core.timing.instants import SECOND, Duration, format_instant
from support.rota_program import Rota
from support.rotad import Rotad

PERIOD = Duration(2 * SECOND)


def test_a_promise_that_is_kept_ends_with_0_and_what_was_named_has_run(rota: Rota) -> None:
    held = rota(
        *("bench", "slo", "--p99-lateness", "1m", "--rate", "2", "--for", "1s", "-o", "jsonl"),
        *("--", "echo", "it"),
    )

    [seen] = [json.loads(line) for line in held.out.splitlines()]
    assert held.status == 0
    assert (seen["isHeld"], seen["expected"], seen["missed"], seen["doubled"]) == (True, 10, 0, 0)
    assert 0 <= seen["p50Ms"] <= seen["p99Ms"] <= seen["maxMs"]
    assert rota("output", "@latest").out == "it\n"


def test_a_promise_that_is_not_kept_ends_with_8_and_the_jobs_are_gone(rota: Rota) -> None:
    broken = rota("bench", "slo", "--p99-lateness", "1us", "--rate", "1", "--for", "1s")

    assert broken.status == 8
    assert broken.out.split()[-1] == "no"
    assert json.loads(rota("jobs", "-o", "json").out) == []


async def test_a_fire_that_does_not_start_is_missed(
    node: Rotad, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.client.slo.fire_load.PATIENCE_S", 0.0)  # The others have started.
    async with AsyncClient(node.url) as client:
        load = FireLoad(client, "missing", 2.0, period=PERIOD)
        await load.create()
        await client.delete_job("fire-3", namespace="missing")
        window = load.window(now(), PERIOD)
        await asyncio.sleep((window.until - now()) / SECOND)
        while await started_count(client, window) < 3:  # noqa: ASYNC110 - a node has no event for this
            await asyncio.sleep(0.05)

        fires = await load.fires(window)

        await load.delete()
        assert [job for job, _ in fires.missed] == ["fire-3"]
        assert len(fires.lateness_ms) == 3
        assert fires.lateness_ms_at(1.0) == float("inf")


async def started_count(client: AsyncClient, window: Window) -> int:
    """Return how many executions of a window have started."""
    since, until = format_instant(window.since), format_instant(window.until)
    found = client.executions(namespace="missing", since=since, until=until)
    return len([each async for each in found if each.started_at is not None])


async def test_fires_are_spread_evenly_over_the_period(node: Rotad) -> None:
    async with AsyncClient(node.url) as client:
        load = FireLoad(client, "spread", 2.0, period=PERIOD)

        await load.create()

        jobs = [job async for job in client.jobs(namespace="spread")]
        await load.delete()
        assert [job.schedules[0].schedule for job in jobs] == [
            "@every 2s phase 0s",
            "@every 2s phase 500ms",
            "@every 2s phase 1s",
            "@every 2s phase 1s500ms",
        ]


async def test_a_load_of_jobs_that_are_invalid_is_refused(node: Rotad) -> None:
    async with AsyncClient(node.url) as client:
        load = FireLoad(client, "invalid", 1.0, body={"type": "scripted", "retries": -1})

        with pytest.raises(Invalid):
            await load.create()
