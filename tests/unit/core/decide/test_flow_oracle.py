"""The core against a second interpreter of flows, on random flows: event by event, the same."""

from random import Random  # noqa: TID251 - seeded, so that a failure repeats
from typing import Any

import msgspec
import pytest

from rota.core.model.attempt import Outcome
from rota.core.model.trigger_rules import TriggerRule
from rota.core.timing.instants import SECOND, Duration
from rota.wire import documents
from rota.wire.bodies.job_bodies import job_spec
from unit.core.decide.flow_oracle import FlowOracle
from unit.core.shard import Shard

Json = Any  # Any, as definitions are.

CASES = 300
TASKS_MAX = 200
"""One flow in a hundred has as many; the others have 15 on average."""
SKIP_CODE = 99
DELAY = Duration(10 * SECOND)
ENDS = {
    "success": (Outcome.SUCCEEDED, 0),
    "failed": (Outcome.FAILED, 1),
    "skipped": (Outcome.FAILED, SKIP_CODE),
}


@pytest.mark.parametrize("first", range(0, CASES, 50))
def test_the_core_agrees_with_a_second_interpreter(first: int) -> None:
    for seed in range(first, first + 50):
        compare(seed)


def compare(seed: int) -> None:
    """Run one random flow in both, and fail at the first difference."""
    random = Random(seed)
    job = random_job(random)
    shard = Shard(slots=100_000)
    execution_id = shard.trigger(shard.save_spec(job_spec(msgspec.convert(job, documents.JobBody))))
    oracle = FlowOracle(job)

    while execution_id in shard.state.executions:
        found = shard.state.tasks[execution_id]
        statuses = {name: task.status.value for name, task in found.items()}
        assert statuses == oracle.status, (seed, differences(statuses, oracle.status), job)
        running = sorted(oracle.running())
        if not running or random.random() < 0.1:
            shard.pass_time(DELAY)
            oracle.pass_delays()
            continue
        name = random.choice(running)
        outcome = random.choices(list(ENDS), (8, 2, 1))[0]
        ended, exit_code = ENDS[outcome]
        shard.finish(execution_id, name, ended, exit_code)
        oracle.end(name, outcome)

    statuses = shard.statuses(execution_id)
    assert statuses == oracle.status, (seed, differences(statuses, oracle.status), job)
    assert shard.status(execution_id) == oracle.verdict(), (seed, job)


def differences(found: dict[str, str], wanted: dict[str, str]) -> dict[str, tuple[str, str]]:
    """Return the tasks whose status differs, with both."""
    names = sorted(found.keys() | wanted.keys())
    both = {name: (found.get(name, ""), wanted.get(name, "")) for name in names}
    return {name: pair for name, pair in both.items() if pair[0] != pair[1]}


# -- random jobs -----------------------------------------------------------------------------------


def random_job(random: Random) -> Json:
    """Return a definition of 1 to `TASKS_MAX` tasks, mostly few."""
    size = min(TASKS_MAX, 1 + int(random.expovariate(1 / 15)))
    if random.random() < 0.01:
        size = TASKS_MAX
    teardowns = random.choice((0, 0, 0, 1, 3)) if size > 3 else 0
    tasks = [random_task(random, number, number >= size - teardowns) for number in range(size)]
    for task in tasks:
        if "switch" in task:
            choose(random, task, [each for each in tasks if task["name"] in each["needs"]])
    return {"name": "flow", "failFast": random.random() < 0.15, "tasks": tasks}


def random_task(random: Random, number: int, is_teardown: bool) -> Json:
    """Return a task that needs some of the tasks before it, mostly the last ones."""
    near = range(max(0, number - 8), number)
    needs = sorted({f"t{random.choice(near)}" for _ in range(random.randint(0, 3)) if near})
    rule = random.choice(list(TriggerRule)) if random.random() < 0.5 else TriggerRule.ALL_SUCCESS
    task: Json = {"name": f"t{number}", "needs": needs, "triggerRule": rule.value}
    if random.random() < 0.2:
        task["when"] = random_condition(random, needs)
    if is_teardown:
        task["teardown"] = True
    elif random.random() < 0.1:
        task["handlesFailure"] = True
    if random.random() < 0.1:
        task["allowFailure"] = True
    kind = random.random()
    if kind < 0.15 and not is_teardown:
        return {**task, "switch": []}
    if kind < 0.3:
        items = list(range(random.randint(0, 5)))
        task["foreach"] = {
            "items": items,
            "maxParallel": random.randint(1, 3),
            "toleratedFailures": random.choice((0, 0, 1, 3)),
            "onEmpty": random.choice(("skip", "success")),
        }
    elif kind < 0.4:
        task["repeat"] = {
            "until": f"index >= {random.randint(1, 4)}",
            "limit": random.randint(1, 4),
            "delay": 0,
        }
    retries = {"limit": random.choice((0, 0, 1, 2)), "backoff": "fixed", "delay": "10s"}
    return {**task, "command": "true", "retries": retries, "skipExitCodes": [SKIP_CODE]}


def random_condition(random: Random, needs: list[str]) -> str:
    """Return a condition: constant, of a needed task, or without a value."""
    if needs and random.random() < 0.5:
        status = random.choice(("success", "failed", "skipped"))
        return f'states.{random.choice(needs)} == "{status}"'
    return random.choice(("true", "true", "true", "false", "false", "params.none.none"))


def choose(random: Random, switch: Json, dependents: list[Json]) -> None:
    """Give a switch cases that choose between tasks that need it."""
    names = [task["name"] for task in dependents if not task.get("teardown")]
    for _ in range(random.randint(1, 3)):
        to = [name for name in names if random.random() < 0.5]
        condition = random_condition(random, switch["needs"])
        switch["switch"].append({"when": condition, "to": to})
    if random.random() < 0.3:
        del switch["switch"][-1]["when"]
