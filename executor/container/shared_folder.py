"""The folder for the reports of a container, corresponding to a process's private folder.

It is bound into the container, which requires an engine with access to this machine's files. All
disk access is in threads.
"""

import asyncio
import shutil
from collections.abc import Mapping
from pathlib import Path

from rota.core.model.attempt import AttemptKey, Report
from rota.executor.launch.task_channel import CHECKPOINT, TaskChannel


class SharedFolder:
    """The folder of one attempt.

    Args:
        path: Where it is, or is going to be.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._channel = TaskChannel(path)

    async def make(self, checkpoint: bytes) -> None:
        """Make it, with what the attempt before has saved."""
        await asyncio.to_thread(self._make, checkpoint)

    def news(self) -> Report | None:
        """Return what has changed since the last call; reads the disk."""
        return self._channel.news()

    async def last_words(self) -> tuple[Report | None, bytes, str]:
        """Return what is new, what is handed on, and what was wrong with either."""
        return await asyncio.to_thread(self._last_words)

    async def remove(self) -> None:
        """Remove it, as far as what the container put there can be removed."""
        await asyncio.to_thread(shutil.rmtree, self.path, ignore_errors=True)

    def _make(self, checkpoint: bytes) -> None:
        self.path.mkdir(exist_ok=True)
        self.path.chmod(0o777)  # For any user of the container; no other user can reach it.
        self._channel.begin(checkpoint)
        if checkpoint:
            (self.path / CHECKPOINT).chmod(0o644)

    def _last_words(self) -> tuple[Report | None, bytes, str]:
        collected = self._channel.collect()
        return collected.report, collected.result, collected.bad_result or collected.complaint


def all_news(folders: Mapping[AttemptKey, SharedFolder]) -> list[tuple[AttemptKey, Report]]:
    """Return what has changed in any of *folders*; reads the disk."""
    reports = ((key, folder.news()) for key, folder in folders.items())
    return [(key, report) for key, report in reports if report is not None]
