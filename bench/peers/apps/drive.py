"""The driver: measures one scenario on the system whose app is named, and prints it as JSON.

    python -m bench.peers.apps.drive celery_app throughput 1000

It runs in the system's own environment, and needs only the standard library and the app.

    throughput   all at once: from the first call to the last start
    start        50 per second, or `BENCH_STARTS_PER_S`, open loop: from the time at which a call is
                 due to the start
    timers       due over 5 s: from the time at which each is due to its start
    timers-at-once   the same, all due in one instant
    chain        ten, each after the one before, repeatedly: from one start to the next
    processes    all at once, each marked by a process of its own: from the first call to the last
                 mark
    restart      all processes were killed at `BENCH_KILLED_AT`, in seconds since 1970, and are
                 being started again: from then to the start of each; they are requested one after
                 the other, each repeatedly until the request is accepted

There is a warm-up before all scenarios but `restart`. For that one, the time includes the start of
this process and the import of its modules, for all systems; for APScheduler, this is the start of
the scheduler.
"""

import importlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any, TypeVar

from bench.peers.apps.marks import last_marked_at, wait_marks

App = Any  # Any: a module with submit, at, chain, spawn and close; see `rota_app`.
T = TypeVar("T")
STARTS_PER_S = float(os.environ.get("BENCH_STARTS_PER_S", "50"))
AHEAD_S = 3.0
SET_PER_S = 100.0
SPREAD_S = 5.0
CHAIN = 10
WAIT_S = 180.0
TAKEN_S = 120.0
"""The time limit, after a kill, until the system accepts requests."""
ASK_AGAIN_S = 0.02
Found = dict[str, float | list[float]]


def throughput(app: App, path: str, count: int) -> Found:
    """Return the number of starts per second."""
    began = time.time()
    app.submit(path, range(count))
    last = max(wait_marks(path, count, WAIT_S).values())
    return {"per_s": count / (last - began), "run": count}


def start(app: App, path: str, count: int) -> Found:
    """Return the latency of each start, in ms."""
    began = time.time()
    dues = [began + number / STARTS_PER_S for number in range(count)]
    for number, due in enumerate(dues):
        time.sleep(max(0.0, due - time.time()))
        app.submit(path, [number])
    return {"ms": _late_ms(path, dict(enumerate(dues))), "run": count}


def timers(app: App, path: str, count: int, spread_s: float = SPREAD_S) -> Found:
    """Return the lateness of each timer, in ms."""
    began = time.time() + AHEAD_S + count / SET_PER_S
    dues = {number: began + number * spread_s / count for number in range(count)}
    app.at(path, dues)
    if time.time() > began:
        # Only a warning: that timers cannot be set so fast is a result, too.
        print("timers were still being set when the first was due", file=sys.stderr)
    return {"ms": _late_ms(path, dues), "run": count}


def timers_at_once(app: App, path: str, count: int) -> Found:
    """Return the lateness of each timer, in ms; all are due in one instant."""
    return timers(app, path, count, spread_s=0.0)


def chain(app: App, path: str, count: int) -> Found:
    """Return every time from one start to the next, in ms."""
    hops: list[float] = []
    for first in range(0, count * CHAIN, CHAIN):
        numbers = range(first, first + CHAIN)
        app.chain(path, numbers)
        seen = wait_marks(path, first + CHAIN, WAIT_S)
        hops += [1e3 * (after - before) for before, after in pairwise(seen[n] for n in numbers)]
    return {"ms": hops, "run": count * CHAIN}


def processes(app: App, path: str, count: int) -> Found:
    """Return the number of processes per second."""
    began = time.time()
    app.spawn(path, range(count))
    wait_marks(path, count, WAIT_S)
    return {"per_s": count / (last_marked_at(path) - began), "run": count}


def restart(app: App, path: str, count: int) -> Found:
    """Return the time from the kill to each start, in ms."""
    killed_at = float(os.environ["BENCH_KILLED_AT"])
    for number in range(count):
        patiently(partial(app.submit, path, [number]), until=killed_at + TAKEN_S)
    return {"ms": _late_ms(path, dict.fromkeys(range(count), killed_at)), "run": count}


def patiently(ask: Callable[[], T], *, until: float) -> T:
    """Return the result of *ask*, which is called again when it raises, until the time *until*.

    Raises:
        TimeoutError: The call still raised after that time.
    """
    while True:
        try:
            return ask()
        except Exception as error:  # Each system has its own error for a server that is away.
            if time.time() > until:
                raise TimeoutError(f"no request was accepted in time: {error}") from error
        time.sleep(ASK_AGAIN_S)


def _late_ms(path: str, dues: dict[int, float]) -> list[float]:
    seen = wait_marks(path, len(dues), WAIT_S)
    return [1e3 * (seen[number] - due) for number, due in dues.items()]


SCENARIOS: dict[str, Callable[[App, str, int], Found]] = {
    "throughput": throughput,
    "start": start,
    "timers": timers,
    "timers-at-once": timers_at_once,
    "chain": chain,
    "processes": processes,
    "restart": restart,
}


def main() -> None:
    """Measure, after a warm-up unless the scenario is `restart`."""
    name, scenario, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    load = partial(importlib.import_module, f"bench.peers.apps.{name}")
    is_restart = scenario == "restart"
    # The app of APScheduler connects when it is imported.
    app = patiently(load, until=time.time() + TAKEN_S) if is_restart else load()
    with tempfile.TemporaryDirectory(dir=os.environ["BENCH_FOLDER"]) as folder:
        if not is_restart:
            app.submit(f"{folder}/warm-up", range(20))
            wait_marks(f"{folder}/warm-up", 20, WAIT_S)
        found = SCENARIOS[scenario](app, f"{folder}/marks", count)
    app.close()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
