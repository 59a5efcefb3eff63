"""What history and jobs that do nothing cost those that do."""

import asyncio
import time
from itertools import count, takewhile

from bench.api import Json
from bench.costs import memory_mib
from bench.processes import cpu_s
from bench.scenario import Outcome, Scenario, Stage
from bench.scenarios.throughput import NO_OP, bulk, create_jobs
from bench.scenarios.timers import timers
from rota.client.percentiles import percentile

TIMERS, SPREAD_S = 1_000, 5.0
FIRST_HISTORY = 10_000
QUIET_S = 300.0
IDLE_CORES = 0.15
"""Of each node; with its ticks and its answers to this question an idle one uses half of it."""


async def _p99_ms(stage: Stage, prefix: str) -> float:
    found = await timers(stage, TIMERS, SPREAD_S, prefix)
    return percentile(sorted(found), 0.99)


async def _quiet(stage: Stage) -> None:
    """Wait until the nodes do next to nothing.

    Tables that a load has just written are merged for a while. That is what loading costs, and not
    what it costs to have loaded.
    """
    async with asyncio.timeout(QUIET_S):
        while True:
            before = _used_s(stage)
            await asyncio.sleep(1)
            if _used_s(stage) - before < IDLE_CORES * stage.fleet.size:
                return


def _used_s(stage: Stage) -> float:
    return sum(cpu_s(pid) for kind, pid in stage.fleet.processes() if kind == "node")


async def _history(stage: Stage) -> Outcome:
    figures = {"p99_ms_at_0": await _p99_ms(stage, "empty")}
    jobs = await create_jobs(stage.api, NO_OP)
    steps = takewhile(
        lambda size: size <= stage.sizes.history, (FIRST_HISTORY * 10**n for n in count())
    )
    stored = 0
    for size in steps:
        await bulk(stage.api, jobs, size - stored)
        stored = size
        await _quiet(stage)
        figures[f"p99_ms_at_{size}"] = await _p99_ms(stage, f"after-{size}")
    figures["node_mib"] = memory_mib(stage.fleet)["node"]
    return Outcome(figures=figures)


async def _scheduled(stage: Stage) -> Outcome:
    figures = {
        "node_mib_before": memory_mib(stage.fleet)["node"],
        "p99_ms_before": await _p99_ms(stage, "empty"),
    }
    began = time.perf_counter()
    await stage.api.create([_yearly(number) for number in range(stage.sizes.jobs)])
    took_s = time.perf_counter() - began
    await _quiet(stage)
    return Outcome(
        figures=figures
        | {
            "created_per_s": stage.sizes.jobs / took_s,
            "node_mib": memory_mib(stage.fleet)["node"],
            "p99_ms": await _p99_ms(stage, "full"),
        }
    )


def _yearly(number: int) -> Json:
    """Return a job with a schedule out of 1,440 that does not fire while anybody measures."""
    schedule = f"{number % 60} {number // 60 % 24} 1 1 *"
    return {"name": f"yearly-{number}", "schedule": schedule} | NO_OP


SCENARIOS = (
    Scenario(
        "history",
        "The lateness of `timers-1k` on an empty store, and with 10,000, 100,000, … finished "
        "executions in it (`HISTORY=10000000` for more).",
        _history,
    ),
    Scenario(
        "jobs-1m",
        "A million jobs with cron schedules: how fast they are created in batches of 1,000, the "
        "memory of the largest node, and the lateness of `timers-1k` beside them.",
        _scheduled,
    ),
)
