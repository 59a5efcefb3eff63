"""Sandboxed attempts of the suites: profiles, and an executor that runs one attempt."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from contract.executor.executor_host import Host, Scenario, make_process_executor, run_scenario
from rota.core.model.attempt import Ending
from rota.core.model.work import Sandbox, Work
from rota.executor.kernel.procfs import children_of

T = TypeVar("T")

OFF, DEFAULT = Sandbox(profile="none"), Sandbox(profile="default")
STRICT = Sandbox(profile="strict", has_network=False)
EGRESS = Sandbox(profile="strict", has_network=True)


class Bench:
    """A process executor in a folder of its own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    # Any: options of `ProcessExecutor`, of several types.
    def run(self, scenario: Scenario[T], **options: Any) -> T:
        """Return what *scenario* returns, after closing the executor."""
        return run_scenario("asyncio", make_process_executor(self.directory, **options), scenario)

    def ending_of(self, work: Work, **options: Any) -> Ending:
        """Return how an attempt at *work* ends."""

        async def scenario(host: Host) -> Ending:
            return await host.run(work)

        return self.run(scenario, **options)

    def output_of(self, sandbox: Sandbox, shell: str, **more: Any) -> str:
        """Return what a shell line in *sandbox* writes."""
        return self.ending_of(Work(shell=shell, sandbox=sandbox, **more)).output.decode()


def own_children() -> list[str]:
    """Return the names of this process's children, without those that end meanwhile."""
    names: list[str] = []
    for pid in children_of(os.getpid()):
        with suppress(FileNotFoundError, ProcessLookupError):
            names.append(Path(f"/proc/{pid}/comm").read_text().strip())
    return names
