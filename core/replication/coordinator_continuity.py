"""Detection of a coordinator that lost its state; shared by a node's replicas, stored on its disk.

An epoch is a *generation*, which only a recovery raises, and a count within it (`generation_of`).
A coordinator that was restored from a backup, emptied or replaced has lost configurations of the
generations so far: its configurations of these generations are no longer obeyed (PROTOCOL R31).

These are evidence of a loss. An answer is compared with what was known when it was requested,
because answers may be reordered:

    a view without a configuration that was seen, or with an older one      `Replica.compare`
    a refused swap whose answer has an older configuration than expected    `Replica.answered`
    another configuration of an epoch that was seen                         `Replica.learn`
    a view of a lower revision                         `CoordinatorContinuity.check_revision`
    a view without the cluster's record, or with another cluster's          the node
    a report of another member                         `CoordinatorContinuity.accept_report`
"""

from dataclasses import dataclass

from rota.core.model.ids import Epoch
from rota.core.vocabulary.shard_configuration import generation_of

AHEAD_MAX = 1_000
"""A member's report is accepted up to this many generations above the highest known one; there is
one generation per recovery."""


@dataclass(frozen=True, slots=True)
class Known:
    """What was known when a view was requested; if the view has less, the coordinator lost it.

    Attributes:
        count: The number of configurations learned.
        revision: The highest revision seen.
        generation: The highest generation seen.
    """

    count: int
    revision: int
    generation: int


@dataclass(slots=True)
class CoordinatorContinuity:
    """A node's record of the coordinator's past states.

    Attributes:
        lost: The generation up to which the coordinator lost configurations; None if no loss is
            known. It never decreases.
        revision: The highest revision of the coordinator that was seen.
        generation: The highest generation that was seen, of the cluster or of a shard.
        revision_generation: The cluster's generation in the view with that revision.
        count: The number of configurations learned since the node started.
        reason: The evidence of the loss, for the log.
    """

    lost: int | None = None
    revision: int = 0
    generation: int = 0
    revision_generation: int = 0
    count: int = 0
    reason: str = ""

    def known(self) -> Known:
        """Return the values that a view that is requested now must have reached."""
        return Known(self.count, self.revision, self.generation)

    def count_configuration(self, epoch: Epoch) -> int:
        """Record that a configuration was learned; return its number, from 1."""
        self.add_epoch(epoch)
        self.count += 1
        return self.count

    def add_epoch(self, epoch: Epoch) -> None:
        """Record that there was a configuration of *epoch*."""
        self.add_generation(generation_of(epoch))

    def add_generation(self, generation: int) -> None:
        """Record that the cluster or a shard had this generation."""
        self.generation = max(self.generation, generation)

    def is_void(self, epoch: Epoch) -> bool:
        """Return True if configurations of *epoch* are of a generation that was lost."""
        return self.lost is not None and generation_of(epoch) <= self.lost

    @property
    def is_recovery_due(self) -> bool:
        """Whether the coordinator lost its state, and no recovery has been seen since."""
        return self.lost is not None and self.lost >= self.generation

    def lose(self, generation: int, reason: str) -> None:
        """Record that configurations of *generation* and all earlier ones are lost."""
        if self.lost is None or generation > self.lost:
            self.lost, self.reason = generation, reason

    def check_revision(self, revision: int, generation: int, known: Known) -> None:
        """Record a view's revision; it is evidence of a loss if it is lower than one seen before.

        The lost generation is that of the higher revision. A node that was cut off during a loss
        and its recovery may learn of the next generation from an answer before its next view.

        Args:
            revision: The revision of the view.
            generation: The generation of the cluster in the view.
            known: What was known when the view was requested.
        """
        if revision < known.revision:
            self.lose(
                self.revision_generation, f"its revision fell from {known.revision} to {revision}"
            )
            # A fall is recorded too, so that it is not found again after a recovery.
            self.revision, self.revision_generation = revision, generation
        else:
            self.raise_revision(revision, generation)

    def raise_revision(self, revision: int, generation: int) -> None:
        """Record a revision, of a view or of a watch event, unless a higher one was seen.

        Args:
            revision: The revision.
            generation: The generation of the cluster at that revision. Without it, a later loss
                would be mistaken for the loss of an earlier generation.
        """
        if revision > self.revision:
            self.revision, self.revision_generation = revision, generation
        elif revision == self.revision:
            self.revision_generation = max(self.revision_generation, generation)

    def accept_report(self, generation: int, member: str) -> bool:
        """Record a member's report that *generation* is lost; False if it cannot be true (R42)."""
        if generation > self.generation + AHEAD_MAX:
            return False
        self.lose(generation, f"{member} has evidence of it")
        return True
