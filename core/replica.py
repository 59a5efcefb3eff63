"""A shard's journal in the hands of its primary: what is appended, and what is committed.

The replica set has one member here, so an entry is committed as soon as it is durable on this node
(PROTOCOL R10, with the sync set {self}). Acknowledgements of backups, leases and takeover join
without a change to the journal.
"""

from rota.core.attempt import Token
from rota.core.ids import Epoch, Index
from rota.core.instants import MICROSECOND, Instant
from rota.core.journal import Entry, EntryKind, Tip, encode_entry, hash_of


class Replica:
    """The primary's copy of one shard's journal.

    Args:
        tip: Where the stored journal ends; all of it counts as committed, for whoever reads a
            journal after a crash finds only what was acknowledged or harmlessly more.
        epoch: The configuration under which this node is primary.
    """

    def __init__(self, tip: Tip, epoch: Epoch) -> None:
        assert epoch >= tip.epoch, (epoch, tip)
        self.tip = tip
        self.epoch = epoch
        self.committed = tip.index

    @property
    def position(self) -> Token:
        """Where the next entry will stand."""
        return Token(self.epoch, Index(self.tip.index + 1))

    def shard_time(self, wall: Instant) -> Instant:
        """Return the instant of a decision made now: later than every one before (R7).

        Strictly later, by a microsecond if the clock gives no more, so that ids made of instants
        are unique.
        """
        return max(wall, Instant(self.tip.at + MICROSECOND))

    def append(self, body: bytes, at: Instant, kind: EntryKind = EntryKind.CHANGES) -> bytes:
        """Return the next entry, encoded, to be made durable; it is not yet committed."""
        entry = Entry(kind, self.epoch, self.position.index, at, self.tip.hash, body)
        value = encode_entry(entry)
        self.tip = Tip(self.epoch, entry.index, at, hash_of(value))
        return value

    def made_durable(self, index: Index) -> None:
        """Note that this node's journal is durable up to *index*."""
        self.committed = max(self.committed, index)

    @property
    def is_settled(self) -> bool:
        """Whether everything appended is committed."""
        return self.committed == self.tip.index
