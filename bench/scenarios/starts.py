"""The time from the request for an execution to its start, on an otherwise idle cluster."""

from bench.api import Json
from bench.open_loop import open_loop
from bench.scenario import Outcome, Scenario, Stage
from bench.scenarios.throughput import NO_OP, create_jobs
from rota.core.timing.instants import Instant, parse_instant

RATE = 50.0
"""Requests per second: the cluster is nearly idle, but there are 500 samples in 10 s."""
COUNT = 500


async def _start(stage: Stage) -> Outcome:
    jobs = await create_jobs(stage.api, NO_OP)

    async def send(due: Instant) -> float:
        made = await stage.api.trigger(jobs[due % len(jobs)])
        execution: Json
        [execution] = await stage.api.ended([made])
        return (parse_instant(execution["startedAt"]) - due) / 1e3

    await open_loop(send, rate=RATE, count=COUNT // 10)  # Not counted.
    found = await open_loop(send, rate=RATE, count=stage.sizes.some(COUNT))
    return Outcome(samples_ms=found)


SCENARIOS = (
    Scenario(
        "start",
        "The time from when a `POST` is due to the start of its no-op; 50 per second, open loop.",
        _start,
    ),
)
