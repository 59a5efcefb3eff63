"""Check of messages that only a primary may send against the coordinator's configurations (R41).

A message proves nothing about its sender's role: the sender may be wrong, out of date or malicious.
Configurations come only from the coordinator, by its watch, its views and its answers to swaps. A
claim, a message that only a primary may send, is compared with them:

    its epoch                                           verdict
    lower than the promised one, or out of date         STALE    the sender gets `Fenced` (R2)
    that of a known configuration; the sender is its    VALID
      primary
    that of a known configuration; the sender is not    FORBIDDEN
      its primary, or the claim has another one
    higher than all known epochs                        EARLY    waits for the coordinator

An honest primary acts only under a configuration that the coordinator has, so an early claim is
valid when that configuration arrives. A claim that is not confirmed in time is dropped.
"""

from collections import deque
from dataclasses import dataclass
from enum import Enum

from rota.core.model.ids import Epoch, NodeId
from rota.core.replication.messages import Append, Part, Query, Succeed
from rota.core.timing.instants import SECOND, Duration, Instant
from rota.core.vocabulary.shard_configuration import Configuration

Claim = Append | Part | Query | Succeed
"""The messages that only a primary may send."""
CLAIMS = Append, Part, Query, Succeed
"""The same types for `isinstance`, which takes a third of the time with a tuple."""

WAITING_MAX = 8
"""The number of early claims of one shard that wait; others are dropped, and resent with the next
heartbeat."""
WAITING_BYTES_MAX = 64 << 10
"""The total size of these claims, in bytes of entries and rows."""
WAITING_FOR = Duration(2 * SECOND)
"""The time within which the coordinator has to confirm an early claim."""


class ClaimVerdict(Enum):
    """The result of the check of a claim."""

    VALID = "valid"
    STALE = "stale"
    EARLY = "early"
    FORBIDDEN = "forbidden"


def claimed_epoch(claim: Claim) -> Epoch:
    """Return the epoch of *claim*."""
    return claim.epoch if isinstance(claim, Query) else claim.configuration.epoch


def judge(
    claim: Claim, sender: NodeId, *, known: tuple[Configuration, ...], promised: Epoch
) -> ClaimVerdict:
    """Return the verdict on a claim.

    Args:
        claim: The message.
        sender: The node that sent it.
        known: Configurations from the coordinator, the newest last.
        promised: The highest epoch that this copy has promised.
    """
    epoch = claimed_epoch(claim)
    if epoch < promised:
        return ClaimVerdict.STALE
    if not known or epoch > known[-1].epoch:
        return ClaimVerdict.EARLY
    for given in known:
        if given.epoch == epoch:
            return _judge_under(given, claim, sender)
    return ClaimVerdict.STALE


def _judge_under(given: Configuration, claim: Claim, sender: NodeId) -> ClaimVerdict:
    """Return the verdict on a claim under the epoch of *given*."""
    if not isinstance(claim, Query) and claim.configuration != given:
        return ClaimVerdict.FORBIDDEN
    # `Succeed` comes from the primary before, which *given* does not name.
    is_primarys = given.primary == sender or isinstance(claim, Succeed)
    return ClaimVerdict.VALID if is_primarys else ClaimVerdict.FORBIDDEN


@dataclass(frozen=True, slots=True)
class Early:
    """A claim that waits for the coordinator's confirmation."""

    claim: Claim
    sender: NodeId
    came_at: Instant


class EarlyClaims:
    """The claims of one shard that wait for the coordinator's confirmation.

    Attributes:
        waiting: The claims, oldest first; for reading.
    """

    def __init__(self) -> None:
        self.waiting: deque[Early] = deque()
        self._bytes = 0

    def put(self, claim: Claim, sender: NodeId, now: Instant) -> None:
        """Add a claim; if there is no room, it is dropped, and its sender repeats it."""
        size = _size(claim)
        if len(self.waiting) < WAITING_MAX and self._bytes + size <= WAITING_BYTES_MAX:
            self.waiting.append(Early(claim, sender, now))
            self._bytes += size

    def take(self, epoch: Epoch) -> list[Early]:
        """Remove and return the claims up to *epoch*, whose configuration is known now."""
        taken = [each for each in self.waiting if claimed_epoch(each.claim) <= epoch]
        for each in taken:
            self.waiting.remove(each)
            self._bytes -= _size(each.claim)
        return taken

    def expire(self, now: Instant) -> list[Claim]:
        """Drop and return the claims that were not confirmed in time."""
        dropped: list[Claim] = []
        while self.waiting and now - self.waiting[0].came_at >= WAITING_FOR:
            claim = self.waiting.popleft().claim
            self._bytes -= _size(claim)
            dropped.append(claim)
        return dropped


def _size(claim: Claim) -> int:
    match claim:
        case Append():
            return sum(map(len, claim.entries))
        case Part():
            return sum(len(key) + len(row) for key, row in claim.rows)
        case _:
            return 0
