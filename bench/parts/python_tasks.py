"""Benchmark of the Python executor alone: calls of warm functions per second, and their cost.

    .venv/bin/python -m bench.parts.python_tasks

There is no node and no disk: orders are passed to the executor, 64 at a time, as by a node with its
default slots, and its endings are counted. The executor is on the loop of the standard library, as
in the warden. No other load should run on the machine.

    nothing   returns None
    result    takes and returns a JSON object of 100 fields
    prints    writes a line
    async     a coroutine function that awaits nothing
    sleeps    sleeps 50 ms: shows how little blocking functions delay each other
"""

import argparse
import asyncio
import json
import os
import resource
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from rota.core.model.attempt import AttemptKey, Ending, Order, Outcome, Report, Token
from rota.core.model.ids import Epoch, ExecutionId, Index, NodeId
from rota.core.model.work import Call, Work
from rota.core.timing.instants import MINUTE, Duration, Instant
from rota.executor.python.executor import PythonExecutor
from rota.executor.python.pool import Bounds

AT_ONCE = 64
EXECUTION_ID = ExecutionId("3f2a9c0011223344-0647b1c2d3e4f5-0000")

FUNCTIONS = """
import time

def nothing():
    pass

def result(given):
    return given

def prints():
    print("a line of output")

async def coroutine():
    pass

def sleeps():
    time.sleep(0.05)
"""


@dataclass(frozen=True)
class Scenario:
    """One kind of function.

    Attributes:
        name: The name of the scenario.
        function: The name of the function.
        count: The number of calls that are measured.
        argument: The argument of each call; None for no argument.
    """

    name: str
    function: str
    count: int
    argument: object = None


SCENARIOS = (
    Scenario("nothing", "nothing", 40_000),
    Scenario("result", "result", 20_000, {f"field-{n}": n for n in range(100)}),
    Scenario("prints", "prints", 20_000),
    Scenario("async", "coroutine", 20_000),
    Scenario("sleeps", "sleeps", 1_000),
)


class Load:
    """Keeps `AT_ONCE` attempts running until *count* attempts have ended."""

    def __init__(self, work: Work, count: int) -> None:
        self.executor: PythonExecutor | None = None
        self._work = work
        self._left_to_launch = count
        self._left_to_end = count
        self._done = asyncio.Event()

    async def run(self) -> None:
        """Launch all attempts, and wait for their ends."""
        for _ in range(min(AT_ONCE, self._left_to_launch)):
            self._launch()
        await self._done.wait()

    def ended(self, key: AttemptKey, ending: Ending) -> None:
        """Count the end of an attempt, and launch the next one."""
        assert ending.outcome is Outcome.SUCCEEDED, (key, ending)
        self._left_to_end -= 1
        if self._left_to_launch:
            self._launch()
        if not self._left_to_end:
            self._done.set()

    def _launch(self) -> None:
        assert self.executor is not None
        self._left_to_launch -= 1
        self.executor.launch(
            Order(
                key=AttemptKey(EXECUTION_ID, f"task-{self._left_to_launch}", 1),
                token=Token(Epoch(3), Index(41)),
                work=self._work,
                fire_at=Instant(1_800_000_000_000_000),
            )
        )


async def measure(scenario: Scenario, share: int, folder: Path) -> str:
    """Measure after a warm-up, and return a line of figures."""
    arguments = [] if scenario.argument is None else [scenario.argument]
    work = Work(
        executor="python",
        call=Call(
            function=f"measured:{scenario.function}",
            arguments=json.dumps({"args": arguments}),
            path=(str(folder),),
        ),
        timeout=Duration(MINUTE),
    )
    warming, load = Load(work, 200), Load(work, scenario.count // share)
    loads = [warming, load]
    workers = os.cpu_count() or 1
    executor = PythonExecutor(
        folder / scenario.name,
        node_id=NodeId("node-a"),
        store_id=f"bench-{os.getpid()}",
        ended=lambda key, ending: loads[0].ended(key, ending),
        reported=_ignore,
        now=lambda: Instant(time.time_ns() // 1_000),
        bounds=Bounds(ready_max=workers, calls_max=1_000_000),
    )
    warming.executor = load.executor = executor
    await warming.run()
    loads.pop(0)
    cpu_began, began = _cpu_s(), time.perf_counter()
    await load.run()
    took_s, cpu_s = time.perf_counter() - began, _cpu_s() - cpu_began
    await executor.close()
    count = scenario.count // share
    return f"per_s {count / took_s:7,.0f}   executor_cpu_us_each {cpu_s / count * 1e6:5.0f}"


def _ignore(key: AttemptKey, report: Report) -> None:
    del key, report


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Measure, and print a line for each scenario."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--share", type=int, default=1, help="divisor of the numbers of calls")
    share = parser.parse_args().share
    print(f"python executor alone, {os.cpu_count()} cores, {AT_ONCE} attempts at a time")
    for scenario in SCENARIOS:
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "measured.py").write_text(FUNCTIONS)
            print(f"  {scenario.name:8}  {asyncio.run(measure(scenario, share, Path(folder)))}")


if __name__ == "__main__":
    main()
