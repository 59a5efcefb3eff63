"""The rate of executions, from the first request to the last recorded end.

These loads are closed: the number of requests under way is constant. Only their rate is measured,
as a closed load does not show latency.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import chain

from bench.api import Api, Json
from bench.scenario import Outcome, Scenario, Stage

JOBS = 50
"""The number of jobs of a load, so that many shards have work."""
BATCH = 500
BATCHES_AT_ONCE = 4
POSTS_AT_ONCE = 64
NO_OP: Json = {"type": "scripted"}
PROCESS: Json = {"command": ["/bin/true"]}
FUNCTION: Json = {"python": {"function": "operator:add", "args": [1, 2]}}

Load = Callable[[Api, Sequence[str], int], Awaitable[None]]
"""A function that submits a number of executions of jobs, and waits for their ends."""


async def bulk(api: Api, jobs: Sequence[str], count: int) -> None:
    """Submit *count* executions in batches, several at a time, and wait for all of them."""
    starts = iter(range(0, count, BATCH))

    async def worker() -> None:
        for start in starts:
            numbers = range(start, min(start + BATCH, count))
            await api.ended(await api.trigger_many([jobs[each % len(jobs)] for each in numbers]))

    await asyncio.gather(*(worker() for _ in range(BATCHES_AT_ONCE)))


async def one_by_one(
    api: Api, jobs: Sequence[str], count: int, *, of_anybody: bool = False
) -> None:
    """Submit *count* executions with a request for each, many at a time, and wait for all."""
    numbers = iter(range(count))

    async def worker() -> list[str]:
        return [
            await api.trigger(jobs[number % len(jobs)], of_anybody=of_anybody) for number in numbers
        ]

    made = await asyncio.gather(*(worker() for _ in range(POSTS_AT_ONCE)))
    await api.all_ended([*chain.from_iterable(made)])


async def create_jobs(api: Api, body: Json, count: int = JOBS, prefix: str = "job") -> list[str]:
    """Create jobs with the same body, and return their names."""
    names = [f"{prefix}-{number}" for number in range(count)]
    await api.create([{"name": name, **body} for name in names])
    return names


def _throughput(body: Json, load: Load, count: int) -> Callable[[Stage], Awaitable[Outcome]]:
    async def run(stage: Stage) -> Outcome:
        jobs = await create_jobs(stage.api, body)
        # The first executions of a kind start workers, for example, so they are not counted.
        await load(stage.api, jobs, stage.sizes.some(count) // 10)

        async def loaded() -> int:
            await load(stage.api, jobs, stage.sizes.some(count))
            return stage.sizes.some(count)

        costs = await stage.costed(loaded())
        return Outcome(figures={"per_s": costs.rate}, costs=costs)

    return run


SCENARIOS = (
    Scenario(
        "bulk",
        "No-ops, 500 per request, four requests at a time.",
        _throughput(NO_OP, bulk, 40_000),
    ),
    Scenario(
        "posts",
        "No-ops, one `POST` each, 64 at a time, sent to the primary, as rota's clients do.",
        _throughput(NO_OP, one_by_one, 8_000),
    ),
    Scenario(
        "posts-any",
        "The same, sent to any node, as through a load balancer.",
        _throughput(NO_OP, partial(one_by_one, of_anybody=True), 8_000),
    ),
    Scenario(
        "process",
        "`/bin/true` as a process, in bulk.",
        _throughput(PROCESS, bulk, 4_000),
    ),
    Scenario(
        "python",
        "`operator.add(1, 2)` in warm workers, in bulk.",
        _throughput(FUNCTION, bulk, 10_000),
    ),
)
