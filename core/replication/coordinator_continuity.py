"""Whether the coordinator still has what it had: shared by a node's replicas, kept on its disk.

An epoch is a *generation*, which only a recovery raises, and a count within it (`generation_of`).
A coordinator that was restored from a backup, emptied or replaced has lost configurations of the
generations that there were: what it has of these is not obeyed any more (PROTOCOL R31).

Evidence of a loss, always against what had been seen before the coordinator was asked, because
answers may overtake each other:

    a view without a configuration that was seen, or with an older one     `Replica.compare`
    a refused swap, answered with an older configuration than the expected `Replica.answered`
    another configuration of an epoch that was seen                        `Replica.learn`
    a view of a lower revision
    `CoordinatorContinuity.see_revision` a view without the cluster's record, or with another
    cluster's         the node the word of another member
    `CoordinatorContinuity.hear`
"""

from dataclasses import dataclass

from rota.core.model.ids import Epoch
from rota.core.vocabulary.shard_configuration import generation_of

AHEAD_MAX = 1_000
"""A member's word counts up to so many generations above those known here: each is a recovery."""


@dataclass(frozen=True, slots=True)
class Known:
    """What had been seen when a view was requested: the view has all of it, or it is lost.

    Attributes:
        count: How many configurations had been learned.
        revision: The highest revision.
        generation: The highest generation.
    """

    count: int
    revision: int
    generation: int


@dataclass(slots=True)
class CoordinatorContinuity:
    """What a node knows of the coordinator's past.

    Attributes:
        lost: The coordinator lost configurations of this generation or of earlier ones; None if
            nothing is known to be lost. It never falls.
        revision: The highest revision of the coordinator that was seen.
        generation: The highest generation that was seen, be it of the cluster or of a shard.
        revision_generation: That of the cluster in the view which had the revision.
        count: Configurations that were learned in this life of the node.
        reason: What showed the loss, for the log.
    """

    lost: int | None = None
    revision: int = 0
    generation: int = 0
    revision_generation: int = 0
    count: int = 0
    reason: str = ""

    def known(self) -> Known:
        """Return what a view must have that is requested now."""
        return Known(self.count, self.revision, self.generation)

    def saw(self, epoch: Epoch) -> None:
        """Note that there was a configuration of *epoch*."""
        self.generation = max(self.generation, generation_of(epoch))

    def is_void(self, epoch: Epoch) -> bool:
        """Return True if configurations of *epoch* are of a generation that was lost."""
        return self.lost is not None and generation_of(epoch) <= self.lost

    def lose(self, generation: int, reason: str) -> None:
        """Note that configurations of *generation* are lost, and with them all earlier ones."""
        if self.lost is None or generation > self.lost:
            self.lost, self.reason = generation, reason

    def see_revision(self, revision: int, generation: int, known: Known) -> None:
        """Note a view's revision, which is evidence if it is lower than one seen before.

        What is lost is the generation that had the higher revision. A node that was cut off during
        a loss and its recovery may learn of the next generation by an answer before its next view.

        Args:
            revision: Of the view.
            generation: Of the cluster in the view.
            known: What had been seen when the view was requested.
        """
        if revision < known.revision:
            self.lose(
                self.revision_generation, f"its revision fell from {known.revision} to {revision}"
            )
        if revision < known.revision or revision > self.revision:
            # A fall, too, so that it is not found again after a recovery.
            self.revision, self.revision_generation = revision, generation

    def hear(self, generation: int, member: str) -> bool:
        """Take a member's word that *generation* is lost; False if that cannot be (R42)."""
        if generation > self.generation + AHEAD_MAX:
            return False
        self.lose(generation, f"{member} has evidence of it")
        return True
