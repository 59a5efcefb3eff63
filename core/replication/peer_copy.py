"""What a primary knows of another node's copy of its shard."""

from dataclasses import dataclass, field

import msgspec

from rota.core.model.ids import AllocationId, Epoch, Index
from rota.core.replication.answer_throttle import AnswerPace
from rota.core.replication.messages import Part
from rota.core.timing.instants import Instant

NEVER = Instant(0)


@dataclass(slots=True)
class Outgoing:
    """A snapshot on its way.

    Attributes:
        part: The last part sent, which is sent again until it is taken.
    """

    part: Part


@dataclass(slots=True)
class PeerCopy:
    """One copy on another node, one that counts or a learner.

    Attributes:
        allocation: The copy that is meant; another one there is none of ours (R5).
        next: Index of the entry to be sent next, in the hope that all before arrive.
        heard_at: When the last answer came.
        match: Up to here it has our entries, durably.
        epoch: The highest under which it answered so, whose configuration it has therefore seen.
        lease_end: Until when it keeps from taking over (R15).
        answered_to: When that was sent of which an answer tells that this copy is there; an answer
            to what was sent before was overtaken, and tells no news.
        sent_at: When something was sent last.
        resent_at: When entries that it had missed were sent again.
        matched_at: When the answer came that told of *match*.
        is_broken: It lost what it had acknowledged, or has another copy: it cannot count.
        snapshot: While it is being filled.
        pace: What its answers took that told of more entries; not those to mere beats.
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
    pace: AnswerPace = field(default_factory=AnswerPace)

    def is_silent(self, since: Instant) -> bool:
        """Tell whether no answer came since then."""
        return self.heard_at < since


class Asked(msgspec.Struct, frozen=True):
    """A node that was asked which copy it has.

    Attributes:
        allocation: For the copy that is made there if it has none.
    """

    at: Instant
    allocation: AllocationId
