"""Many tasks of one execution, which start together and are needed together, or are blocked."""

from collections.abc import Awaitable, Callable

from bench.api import Json
from bench.scenario import Outcome, Scenario, Stage
from bench.scenarios.chains import create_chain, hops_ms, whole_ms
from rota.client.slo.percentiles import percentile

BLOCKED = 5_000
HOUR_MS = 3_600_000


async def _create_fan(stage: Stage, name: str, width: int) -> None:
    leaves = [f"t{k}" for k in range(width)]
    tasks: list[Json] = [
        {"name": "root", "type": "scripted"},
        *({"name": leaf, "type": "scripted", "needs": ["root"]} for leaf in leaves),
        {"name": "join", "type": "scripted", "needs": leaves},
    ]
    await stage.api.create([{"name": name, "tasks": tasks}])


def _fan(width: int, runs: int) -> Callable[[Stage], Awaitable[Outcome]]:
    async def run(stage: Stage) -> Outcome:
        await _create_fan(stage, "fan", width)
        found = await whole_ms(stage, "fan", runs)
        return Outcome(figures={"ms_each_task": min(found) / width}, samples_ms=found)

    return run


async def _blocked(stage: Stage) -> Outcome:
    await create_chain(stage, "chain", 10)
    await hops_ms(stage, "chain", 5)  # Not counted.
    count = stage.sizes.some(50)
    before = sorted(await hops_ms(stage, "chain", count))
    blocker: Json = {"type": "scripted", "parameters": {"sleepMs": HOUR_MS}}
    tasks: list[Json] = [
        {"name": "root", **blocker},
        *({"name": f"t{k}", "type": "scripted", "needs": ["root"]} for k in range(BLOCKED)),
    ]
    await stage.api.create([{"name": "blocked", "tasks": tasks}])
    made = await stage.api.trigger("blocked")
    found = await hops_ms(stage, "chain", count)
    await stage.client.cancel(made)
    return Outcome(figures={"p50_ms_without": percentile(before, 0.5)}, samples_ms=found)


SCENARIOS = (
    Scenario(
        "fan-100",
        "One task, 100 tasks that need it, and one that needs them all, ten times: the time from "
        "the request to the end.",
        _fan(100, 10),
    ),
    Scenario("fan-1000", "The same with 1,000, three times.", _fan(1_000, 3)),
    Scenario(
        "fan-10000",
        "The same with 9,998, once: the largest number of tasks of a job.",
        _fan(9_998, 1),
    ),
    Scenario(
        "blocked-5000",
        "The times of `chain-10` while another execution has 5,000 blocked tasks.",
        _blocked,
    ),
)
