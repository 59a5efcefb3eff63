"""The primary's record of another node's copy of its shard."""

from dataclasses import dataclass, field

import msgspec

from rota.core.model.ids import AllocationId, Epoch, Index
from rota.core.replication.answer_pace import AnswerPace
from rota.core.replication.messages import Part, QuietCopy
from rota.core.timing.instants import Instant

NEVER = Instant(0)


@dataclass(slots=True)
class Outgoing:
    """A snapshot that is being sent.

    Attributes:
        part: The last part sent, which is resent until it is acknowledged.
    """

    part: Part


@dataclass(slots=True)
class PeerCopy:
    """One copy on another node: a copy that counts, or a learner.

    Attributes:
        allocation: Identifies the copy; a copy of another allocation is not this one (R5).
        next: Index of the entry to be sent next, on the assumption that all entries before arrive.
        heard_at: When the last answer arrived.
        match: Index up to which the copy has the primary's entries durably.
        epoch: The highest epoch of its `Appended` answers; the copy has seen that configuration.
        lease_end: End of the lease that the copy gave (R15).
        answered_to: When the newest message that this copy has answered was sent; answers to
            earlier messages are out of date.
        sent_at: When the last message was sent.
        resent_at: When missing entries were last sent again.
        matched_at: When the answer with *match* arrived.
        is_broken: Whether the copy lost acknowledged entries or was replaced: it cannot count.
        snapshot: The snapshot that is being sent to it, if any.
        quiet: The copy as it is described in the heartbeats of its node, while it gets none of its
            own (R44).
        woken_at: The last tick before its own heartbeats began again.
        pace: Response times of its answers to entries; answers to heartbeats do not count.
    """

    allocation: AllocationId
    next: Index
    heard_at: Instant
    match: Index = Index(0)
    epoch: Epoch = Epoch(0)
    lease_end: Instant = NEVER
    answered_to: Instant = NEVER
    sent_at: Instant = NEVER
    resent_at: Instant = NEVER
    matched_at: Instant = NEVER
    is_broken: bool = False
    snapshot: Outgoing | None = None
    quiet: QuietCopy | None = None
    woken_at: Instant = NEVER
    pace: AnswerPace = field(default_factory=AnswerPace)

    def record_answer(self, sent_at: Instant, now: Instant) -> None:
        """Record an answer, which arrives *now*, to a message that was sent at *sent_at*."""
        self.heard_at = now
        self.answered_to = max(self.answered_to, sent_at)

    def record_lease(self, end: Instant) -> None:
        """Record a lease until *end*; an earlier lease may last longer."""
        self.lease_end = max(self.lease_end, end)

    def is_silent(self, since: Instant) -> bool:
        """Return True if no answer arrived since *since*."""
        return self.heard_at < since


class Asked(msgspec.Struct, frozen=True):
    """A query to a node for the copy that it has.

    Attributes:
        at: When the query was sent.
        allocation: The allocation for a new copy, if the node needs one.
    """

    at: Instant
    allocation: AllocationId
