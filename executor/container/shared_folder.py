"""The folder for the reports of a container, corresponding to a process's private folder.

The folder is bound into the container, which requires an engine with access to this machine's
files. All disk access is in threads.
"""

import asyncio
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from rota.core.model.attempt import AttemptKey, Order, Report
from rota.executor.launch.task_channel import CHECKPOINT, RESULTS, TaskChannel


class SharedFolder:
    """The folder of one attempt.

    Args:
        path: The folder, which may not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._channel = TaskChannel(path)

    async def make(self, order: Order) -> None:
        """Make the folder with the last checkpoint and the needed results of *order*."""
        await asyncio.to_thread(self._make, order)

    def news(self) -> Report | None:
        """Return the changes since the last call, None if there are none; reads the disk."""
        return self._channel.news()

    async def collect(self) -> tuple[Report | None, bytes, str]:
        """Return the last changes, the result, and the error in either; empty without an error."""
        return await asyncio.to_thread(self._collect)

    async def remove(self) -> None:
        """Remove the folder and its content, as far as possible."""
        await asyncio.to_thread(shutil.rmtree, self.path, ignore_errors=True)

    def _make(self, order: Order) -> None:
        self.path.mkdir(exist_ok=True)
        self.path.chmod(0o777)  # For any user of the container; no other user can reach it.
        self._channel.begin(order)
        for name in (CHECKPOINT, RESULTS):
            with suppress(FileNotFoundError):
                (self.path / name).chmod(0o644)

    def _collect(self) -> tuple[Report | None, bytes, str]:
        collected = self._channel.collect()
        return collected.report, collected.result, collected.bad_result or collected.complaint


def new_reports(folders: Mapping[AttemptKey, SharedFolder]) -> list[tuple[AttemptKey, Report]]:
    """Return the reports of *folders* that have changed; reads the disk."""
    reports = ((key, folder.news()) for key, folder in folders.items())
    return [(key, report) for key, report in reports if report is not None]
