"""Chains of tasks: the time from the start of one task to the start of the next."""

from collections.abc import Awaitable, Callable
from itertools import pairwise

from bench.api import Json, now
from bench.scenario import Outcome, Scenario, Stage
from rota.core.timing.instants import parse_instant
from rota.wire.documents import ExecutionView

HOPS_EXECUTIONS = 50
RUNS = 10


async def create_chain(stage: Stage, name: str, length: int, sleep_ms: int = 0) -> None:
    """Create a job of *length* tasks, each of which needs the one before."""
    tasks: list[Json] = [
        {"name": f"t{k}", "type": "scripted", "parameters": {"sleepMs": sleep_ms}}
        | ({"needs": [f"t{k - 1}"]} if k else {})
        for k in range(length)
    ]
    await stage.api.create([{"name": name, "tasks": tasks}])


async def hops_ms(stage: Stage, name: str, count: int) -> list[float]:
    """Run a chain of no-ops *count* times; return all times from one start to the next, in ms."""
    found: list[float] = []
    for _ in range(count):
        made = await stage.api.trigger(name)
        await stage.api.ended([made])
        starts = _starts_ms(await stage.client.execution(made))
        found += [after - before for before, after in pairwise(starts)]
    return found


def _starts_ms(execution: ExecutionView) -> list[float]:
    assert execution.tasks is not None, "a single execution has its tasks"
    starts = [task.attempts[0].started_at for task in execution.tasks.values()]
    return [parse_instant(each) / 1e3 for each in starts]


async def _hops(stage: Stage) -> Outcome:
    await create_chain(stage, "chain", 10)
    await hops_ms(stage, "chain", 5)  # Not counted.
    return Outcome(samples_ms=await hops_ms(stage, "chain", stage.sizes.some(HOPS_EXECUTIONS)))


def _sequential(sleep_ms: int) -> Callable[[Stage], Awaitable[Outcome]]:
    async def run(stage: Stage) -> Outcome:
        await create_chain(stage, "sequence", 40, sleep_ms)
        return Outcome(samples_ms=await whole_ms(stage, "sequence", RUNS))

    return run


async def whole_ms(stage: Stage, name: str, count: int) -> list[float]:
    """Run a job on the idle cluster *count* times; return the times from request to end, in ms."""
    found: list[float] = []
    for number in range(count + 1):
        asked_at = now()
        [execution] = await stage.api.ended([await stage.api.trigger(name)])
        if number:  # The first is not counted.
            found.append((parse_instant(execution["finishedAt"]) - asked_at) / 1e3)
    return found


SCENARIOS = (
    Scenario(
        "chain-10",
        "A job of ten no-ops, each of which needs the one before, run 50 times: the time from one "
        "start to the next.",
        _hops,
    ),
    Scenario(
        "sequential-40",
        "Forty no-ops one after the other, ten times: the time from the request to the end.",
        _sequential(0),
    ),
    Scenario(
        "sequential-40-10ms",
        "Forty tasks of 10 ms one after the other, ten times: the time from the request to the "
        "end.",
        _sequential(10),
    ),
)
