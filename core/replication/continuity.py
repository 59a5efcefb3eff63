"""Whether the coordinator still has what it had: shared by a node's replicas, kept on its disk.

An epoch is a *generation*, which only a recovery raises, and a count within it (`generation_of`).
A coordinator that was restored from a backup, emptied or replaced has lost configurations of the
generations that there were: what it says of these is not obeyed any more (PROTOCOL R31).
"""

from dataclasses import dataclass

from rota.core.configuration import generation_of
from rota.core.ids import Epoch


@dataclass(slots=True)
class Continuity:
    """What a node knows of the coordinator's past.

    Attributes:
        lost: The coordinator lost configurations of this generation or of earlier ones; None if
            nothing is known to be lost. It never falls.
        revision: The highest revision of the coordinator that was seen.
        generation: The highest generation that was seen, be it of the cluster or of a shard.
    """

    lost: int | None = None
    revision: int = 0
    generation: int = 0

    def saw(self, epoch: Epoch) -> None:
        """Note that there was a configuration of *epoch*."""
        self.generation = max(self.generation, generation_of(epoch))

    def is_void(self, epoch: Epoch) -> bool:
        """Return True if configurations of *epoch* are of a generation that was lost."""
        return self.lost is not None and generation_of(epoch) <= self.lost
