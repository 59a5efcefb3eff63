"""The cost of a long history, and of many idle jobs, for the jobs that run."""

import asyncio
import time
from collections.abc import Sequence
from itertools import count, takewhile
from statistics import median

from bench.api import Json
from bench.costs import memory_mib
from bench.fleet import Fleet
from bench.preload import preload
from bench.processes import cpu_s
from bench.scenario import Outcome, Scenario, Stage, settled
from bench.scenarios.throughput import NO_OP, bulk, create_jobs
from bench.scenarios.timers import timers
from rota.client.slo.percentiles import percentile

TIMERS, SPREAD_S = 1_000, 5.0
TAKES = 5
FIRST_HISTORY = 10_000
QUIET_S = 300.0
IDLE_CORES = 0.15
"""The processor use below which a node counts as idle, in cores; an idle node uses half of it."""


async def _p99_ms(stage: Stage, prefix: str, takes: int = 1) -> float:
    """Return the median p99 of several measurements, as a short stall of the disk spoils one."""
    found = [
        percentile(sorted(await timers(stage, TIMERS, SPREAD_S, f"{prefix}-{take}")), 0.99)
        for take in range(takes)
    ]
    return median(found)


async def _quiet(stage: Stage) -> None:
    """Wait until the nodes are nearly idle.

    After a load, the store merges tables for some time. This is a cost of the loading itself, and
    not of the stored data, which is to be measured.
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
    jobs = await create_jobs(stage.api, NO_OP)
    await bulk(stage.api, jobs, len(jobs))
    figures = {"p99_ms_at_0": await _p99_ms(stage, "empty", TAKES)}
    steps = takewhile(
        lambda size: size <= stage.sizes.history, (FIRST_HISTORY * 10**n for n in count())
    )
    names = [f"default/{job}" for job in jobs]
    stored = 0
    for size in steps:
        await asyncio.to_thread(_preload, stage.fleet, names, range(stored, size))
        await settled(stage.client)
        stored = size
        await _quiet(stage)
        figures[f"p99_ms_at_{size}"] = await _p99_ms(stage, f"after-{size}", TAKES)
    figures["node_mib"] = memory_mib(stage.fleet)["node"]
    return Outcome(figures=figures)


def _preload(fleet: Fleet, jobs: Sequence[str], numbers: range) -> None:
    with fleet.stopped() as folders:
        for folder in folders:
            preload(folder, jobs, numbers)


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
    """Return a job with one of 1,440 schedules, all of which fire only on the first of January."""
    schedule = f"{number % 60} {number // 60 % 24} 1 1 *"
    return {"name": f"yearly-{number}", "schedule": schedule} | NO_OP


SCENARIOS = (
    Scenario(
        "history",
        "The lateness of `timers-1k` on an empty store, and with 10,000, 100,000, … stored "
        "finished executions (`HISTORY=10000000` for more): the median p99 of five measurements.",
        _history,
    ),
    Scenario(
        "jobs-1m",
        "A million jobs with cron schedules: the rate at which they are created in batches of "
        "1,000, the memory of the largest node, and the lateness of `timers-1k` beside them.",
        _scheduled,
    ),
)
