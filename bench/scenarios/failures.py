"""The effect of killed nodes on fires and requests."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence

from bench.api import Json, now
from bench.scenario import Outcome, Scenario, Stage
from bench.scenarios.throughput import NO_OP, create_jobs
from bench.scenarios.timers import timeline
from rota.client.async_client import AsyncClient
from rota.client.errors import TooBusy, Unreachable
from rota.client.slo.fire_load import FireLoad, Start, Window
from rota.client.slo.percentiles import percentile
from rota.core.timing.instants import SECOND, Duration, Instant, format_instant, parse_instant
from rota.ring.placement import shard_of

NAMESPACE = "fires"
TAKEOVER = Duration(5 * SECOND)
"""The time after a kill that counts as the takeover; other percentiles exclude it."""
SECONDS_MIN = 30
"""The shortest run, in seconds, so that a node is killed and back within it."""
AWAY_S = 10.0
"""The time for which a killed node stays away; a single node is started again at once."""
ANSWER_S = 60.0
ASK_AGAIN_S = 0.02


def _through_kill(rate: int, body: Json, seconds: int) -> Callable[[Stage], Awaitable[Outcome]]:
    async def run(stage: Stage) -> Outcome:
        load = FireLoad(stage.client, NAMESPACE, stage.sizes.some(rate), body=body)
        await load.create()
        window = load.window(
            now(), Duration(max(SECONDS_MIN, seconds // stage.sizes.part) * SECOND)
        )
        await _sleep_until(Instant((window.since + window.until) // 2))
        victim = [*stage.fleet.nodes][-1]
        held = await _shards_of(stage, victim)
        killed_at = now()
        stage.fleet.kill([victim])
        await asyncio.sleep(AWAY_S if stage.fleet.size > 1 else 0)
        stage.fleet.launch([victim])
        await _sleep_until(window.until)
        await asyncio.sleep(2)
        fires = await load.fires(window)
        return Outcome(
            figures={
                "per_s": load.rate,
                "missed": await _unrecorded(stage, window, fires.missed),
                "recorded_without_start": len(fires.missed),
                "doubled": fires.doubled_count,
            }
            | _seen(fires.starts, killed_at, held),
            samples_ms=fires.lateness_ms,
            timeline=timeline(fires.starts, window.since),
            marks={"kill -9": (killed_at - window.since) / SECOND},
        )

    return run


def _seen(
    starts: Sequence[Start], killed_at: Instant, held: Mapping[int, bool]
) -> dict[str, float]:
    """Return the lateness of fires of the killed node's shards, of other shards, and outside."""
    outside: list[float] = []
    theirs: list[float] = []
    others: list[float] = []
    for each in starts:
        since_kill = each.fire_at - killed_at
        if not 0 <= since_kill < TAKEOVER:
            outside.append(each.lateness_ms)
        elif held[shard_of(each.slot, len(held))]:
            theirs.append(each.lateness_ms)
        else:
            others.append(each.lateness_ms)
    named = {
        "p99_ms_outside_takeover": (outside, 0.99),
        "takeover_ms": (theirs, 1.0),
        "p99_ms_of_other_shards_meanwhile": (others, 0.99),
    }
    return {
        name: percentile(sorted(found), share) for name, (found, share) in named.items() if found
    }


async def _shards_of(stage: Stage, node: str) -> dict[int, bool]:
    """Return for each shard whether *node* is its primary; a single node is primary of all."""
    shards = (await stage.client.cluster()).shards
    return {each.shard: stage.fleet.size == 1 or each.primary == node for each in shards}


async def _unrecorded(stage: Stage, window: Window, missed: Sequence[tuple[str, Instant]]) -> int:
    """Return how many of *missed* are absent from the ledger, or recorded there as missed."""
    by_job: defaultdict[str, set[Instant]] = defaultdict(set)
    for job, fire_at in missed:
        by_job[job].add(fire_at)
    unrecorded = 0
    for job, fire_times in by_job.items():
        entries = stage.client.ledger(
            job,
            namespace=NAMESPACE,
            since=format_instant(window.since),
            until=format_instant(window.until),
        )
        async for entry in entries:
            if entry.outcome != "missed":
                first, last = parse_instant(entry.fire_time), parse_instant(entry.until)
                fire_times -= {at for at in fire_times if first <= at <= last}
        unrecorded += len(fire_times)
    return unrecorded


async def _sleep_until(at: Instant) -> None:
    await asyncio.sleep((at - now()) / SECOND)


async def _all_killed(stage: Stage) -> Outcome:
    jobs = await create_jobs(stage.api, NO_OP)
    names = [*stage.fleet.nodes]
    killed_at = now()
    stage.fleet.kill(names)
    stage.fleet.launch(names)
    launched_at = now()

    async def started_ms(job: str) -> float:
        made = await _trigger_patiently(client, job)
        [execution] = await stage.client.wait_many([made], has_tasks=False)
        assert execution.started_at is not None, execution
        return (parse_instant(execution.started_at) - killed_at) / 1e3

    # The client must not repeat requests itself: its pauses, of up to 2 s, would be measured, too.
    async with AsyncClient(stage.fleet.urls, repeats_max=0) as client:
        found = await asyncio.gather(*map(started_ms, jobs))
    return Outcome(figures={"launched_ms": (launched_at - killed_at) / 1e3}, samples_ms=found)


async def _trigger_patiently(client: AsyncClient, job: str) -> str:
    """Request an execution until a node accepts the request; return its id."""
    async with asyncio.timeout(ANSWER_S):
        while True:
            try:
                return (await client.trigger(job)).execution_id
            except (Unreachable, TooBusy):
                await asyncio.sleep(ASK_AGAIN_S)


SCENARIOS = (
    Scenario(
        "kill-one",
        "200 fires of no-ops per second, while one node is killed with `kill -9` and started again "
        "10 s later (a single node at once). `takeover_ms`: the latest start of a fire of its "
        "shards.",
        _through_kill(200, NO_OP, 60),
    ),
    Scenario(
        "kill-one-every-5s",
        "4,000 no-op jobs, each every 5 s and without overlap, with the same kill. `missed`: fires "
        "that neither started nor have another outcome in the ledger.",
        _through_kill(800, NO_OP | {"overlap": "skip"}, 60),
    ),
    Scenario(
        "kill-all",
        "All nodes are killed with `kill -9` and started again at once: the time from the kill to "
        "the start of a no-op that is then requested, for each of 50 jobs.",
        _all_killed,
    ),
)
