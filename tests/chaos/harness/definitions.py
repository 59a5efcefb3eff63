"""The jobs of a run. Their definitions are in the clients' history, for the judge."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

Json = Any  # Any: the body of a job, as the API takes it.

TASKS = Path(__file__).parent.parent / "tasks"
GRACE = "2s"
WAYS = ("python",) * 6 + ("process",) * 2 + ("scripted",) * 2
"""Executor of a job's task, by its number: mostly the cheap one."""
MISFIRES = ("all", "latest", "skip")
MANY_S = 5
"""Interval of each job of `Definitions.many`."""
WIDTH = 10
"""Tasks side by side in a graph."""
GRAPHS, LONG, TRIGGERED, RACED, SINKS, AVAILABLE = 4, 8, 20, 6, 3, 6
"""Number of jobs of each kind."""


@dataclass(frozen=True)
class Definitions:
    """Makes jobs whose tasks write to the file *said*, some of them also to the fenced *sink*."""

    said: Path
    sink: str

    def scheduled(self, count: int) -> Iterator[Json]:
        """Yield jobs that fire once a second each, spread over the second; none may overlap."""
        for number in range(count):
            phase = number * 1000 // count
            every = f"@every 1s phase {phase}ms" if phase else "@every 1s"
            yield {
                "name": f"tick-{number}",
                "schedule": "* * * * * *" if number % 10 == 9 else every,
                "misfire": MISFIRES[number % 3],
                "grace": GRACE,
                "overlap": "skip",
                **self._work(number, fails=number % 20 == 5),
            }

    def many(self, count: int) -> Iterator[Json]:
        """Yield jobs that fire every 5 s, and must not miss a fire; one in twenty writes lines."""
        for number in range(count):
            phase = number * 1000 * MANY_S // count
            yield {
                "name": f"tick-{number}",
                "schedule": f"@every {MANY_S}s phase {phase}ms" if phase else f"@every {MANY_S}s",
                "misfire": "all",
                "overlap": "skip",
                **(self._python() if number % 20 == 0 else {"type": "scripted"}),
            }

    def raced(self, count: int) -> Iterator[Json]:
        """Yield jobs that fire once a second, and are paused, triggered and cancelled meanwhile."""
        for number in range(count):
            schedule = f"@every 1s phase {number * 1000 // count + 1}ms"
            yield {
                "name": f"race-{number}",
                "schedule": schedule,
                "misfire": "all",
                **self._python(),
            }

    def available(self, count: int) -> Iterator[Json]:
        """Yield available jobs that fire once a second."""
        for number in range(count):
            yield {
                "name": f"available-{number}",
                "schedule": f"@every 1s phase {number * 1000 // count + 2}ms",
                "consistency": "available",
                "grace": GRACE,
                **self._python(),
            }

    def unscheduled(self) -> Iterator[Json]:
        """Yield all jobs without a schedule, which clients trigger."""
        kinds = self.triggered(TRIGGERED), self.graphs(GRAPHS), self.long(LONG), self.sinks(SINKS)
        return chain(*kinds)

    def triggered(self, count: int) -> Iterator[Json]:
        """Yield jobs that clients trigger, whose executions may overlap."""
        for number in range(count):
            yield {"name": f"run-{number}", **self._work(number, fails=number % 10 == 3)}

    def once(self, number: int, at: str) -> Json:
        """Return a job that fires once."""
        return {
            "name": f"once-{number}",
            "schedule": f"@at {at}",
            "misfire": "all",
            **self._work(number, fails=False),
        }

    def graphs(self, count: int) -> Iterator[Json]:
        """Yield jobs that fan out and in again; one of the middle tasks fails twice."""
        for number in range(count):
            middle = [
                {
                    "name": f"part-{part}",
                    "needs": ["split"],
                    **self._python(ms=30, fail_times=2 if part == 0 else 0),
                }
                for part in range(WIDTH)
            ]
            names = [each["name"] for each in middle]
            yield {
                "name": f"graph-{number}",
                "tasks": [
                    {"name": "split", **self._python()},
                    *middle,
                    {"name": "join", "needs": names, **self._python()},
                ],
            }

    def long(self, count: int) -> Iterator[Json]:
        """Yield jobs that take 10 to 30 s, and write ticks meanwhile."""
        for number in range(count):
            yield {"name": f"long-{number}", "command": self._long(10 + 20 * number // count)}

    def sinks(self, count: int) -> Iterator[Json]:
        """Yield jobs that take 5 to 20 s and write to the sink; their executions never overlap."""
        for number in range(count):
            name, seconds = f"sink-{number}", 5 + 15 * number // count
            command = self._long(seconds, self.sink, name)
            yield {"name": name, "overlap": "skip", "command": command}

    def register(self, number: int, value: int) -> Json:
        """Return a job that serves as a register: it only has a value."""
        return {"name": f"register-{number}", "type": "scripted", "labels": {"value": str(value)}}

    def _work(self, number: int, *, fails: bool) -> Json:
        match WAYS[number % len(WAYS)]:
            case "python":
                return self._python(fail_times=1 if fails else 0)
            case "process":
                return {"command": self._line()}
            case _:
                return {"type": "scripted", "parameters": {"sleepMs": 10}}

    def _python(self, ms: int = 20, fail_times: int = 0) -> Json:
        work: Json = {
            "python": {
                "function": "say:short",
                "kwargs": {"said": str(self.said), "ms": ms, "fail_times": fail_times},
                "path": [str(TASKS)],
                "interpreter": sys.executable,
            }
        }
        if fail_times:
            work["retries"] = {"limit": fail_times + 1, "backoff": "fixed", "delay": "100ms"}
        return work

    def _long(self, seconds: int, *sink: str) -> list[str]:
        program = str(TASKS / "say.py")
        return [sys.executable, "-S", "-E", program, str(self.said), str(seconds), *sink]

    def _line(self) -> str:
        """Return a shell script that writes start and end as `tasks/say.py` does."""
        names = " ".join(
            f"$ROTA_{name}" for name in ("EXECUTION_ID", "TASK", "ATTEMPT", "TOKEN", "NODE_ID")
        )
        say = f"read at idle </proc/uptime; echo {names} $at"
        return f"{say} start >>{self.said}; {say} end >>{self.said}"
