"""``rotad`` with a monitor of its event loop, whose longest delays are logged at the end.

*Held* is the CPU time of one turn of the loop. *Late* is the delay of a timer, which on a busy
machine also has causes outside this process.
"""

import asyncio
import logging
import signal
import sys
from pathlib import Path
from time import perf_counter, thread_time

import uvloop

from rota.node.runtime.node import Node
from rota.node.system.background import beside
from rota.node.system.config import NodeConfig, load_config
from rota.node.system.logs import begin_logging

log = logging.getLogger("fuzz.watched_node")
PACE_S = 0.005


class Watched:
    """The longest delays of an event loop, in seconds."""

    def __init__(self) -> None:
        self.held_s = self.late_s = 0.0

    async def watch(self) -> None:
        """Measure until cancelled."""
        while True:
            at, used = perf_counter(), thread_time()
            await asyncio.sleep(PACE_S)
            self.late_s = max(self.late_s, perf_counter() - at - PACE_S)
            self.held_s = max(self.held_s, thread_time() - used)


async def run(config: NodeConfig) -> None:
    """Run a node until SIGTERM."""
    node, watched = Node(config), Watched()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, node.stop)

    async def watch_when_started() -> None:
        await node.started.wait()
        await watched.watch()

    async with beside(watch_when_started()):
        await node.run()
    held_ms, late_ms = round(watched.held_s * 1_000, 1), round(watched.late_s * 1_000, 1)
    log.info("loop watched", extra={"held_ms": held_ms, "late_ms": late_ms})


TESTING = "--testing-executors"


def main(argv: list[str]) -> None:
    """Run a node with the flags that follow the name of its module."""
    flags = argv[argv.index("rota.node") + 1 :]
    flags.remove(TESTING)  # The only flag without a value.
    names = (flag.removeprefix("--").replace("-", "_") for flag in flags[::2])
    given = dict(zip(names, flags[1::2], strict=True))
    flagged = {**given, "data_dir": Path(given["data_dir"]), "testing_executors": True}
    config = load_config(None, {}, flagged)
    begin_logging(config.log_level)
    uvloop.run(run(config))


if __name__ == "__main__":
    main(sys.argv)
