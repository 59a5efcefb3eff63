"""Messages between the copies of a shard. The network adds shard, sender and receiver.

Messages may be lost, duplicated, delayed and reordered; each can be processed on its own.

    primary                         backup or learner
      Append  ----------------------->            entries; without entries a heartbeat
              <----------------------- Appended   all entries up to an index are durable
              <----------------------- Mismatch   an entry before them is missing
              <----------------------- Fenced     a higher epoch is promised (R2)
              <----------------------- Holding    the node has another copy, or none (R5)
      Query   ----------------------->            which copy does the node have?
              <----------------------- Holding
      Part    ----------------------->            one part of a snapshot
              <----------------------- PartTaken  the part is durable
      Succeed ----------------------->            the receiver is primary now (R27)

Two messages are about all shards of which one node is the primary and the other has a copy:

      QuietBeat ---------------------->            one heartbeat for many quiet shards (R44)
              <----------------------- QuietResponse   leases for all of them but the refused ones
"""

from typing import Annotated

import msgspec

from rota.core.model.checked_fields import (
    CheckedAllocation,
    CheckedEpoch,
    CheckedIndex,
    CheckedInstant,
    CheckedSession,
    CheckedShard,
    Count,
)
from rota.core.model.ids import SHARDS_MAX
from rota.core.timing.instants import Instant
from rota.core.vocabulary.journal import ORIGIN_HASH
from rota.core.vocabulary.shard_configuration import Configuration

EntryHash = Annotated[bytes, msgspec.Meta(min_length=len(ORIGIN_HASH), max_length=len(ORIGIN_HASH))]


class Beacon(msgspec.Struct, frozen=True, array_like=True):
    """The clocks and the health of a node, sent along with other messages (R19, R20).

    Attributes:
        wall: The sender's wall clock.
        at: The sender's monotonic clock.
        echo: A lower bound of the receiver's monotonic clock, estimated from its last beacon; None
            if that is too old.
        is_fit: Whether the sender should be primary of any shard.
        is_prompt: Whether the sender's disk is fast enough for others to wait for it.
        is_leaving: Whether the sender is about to stop, so that no write should wait for it.
        free: The number of free slots that the sender can lend.
    """

    wall: CheckedInstant
    at: CheckedInstant
    echo: CheckedInstant | None
    is_fit: bool
    is_prompt: bool = True
    is_leaving: bool = False
    free: Count = 0


class Append(msgspec.Struct, frozen=True, kw_only=True, tag="append", omit_defaults=True):
    """The primary's entries after *previous*, in order; a heartbeat has none.

    Attributes:
        configuration: The configuration under which the sender is primary; its epoch is that of the
            message.
        allocation: The allocation of the receiver's copy.
        previous: Index of the entry before *entries*, 0 if there is none.
        previous_hash: Hash of that entry.
        entries: The encoded entries.
        committed: Index up to which all entries are committed.
        sent_at: When the message was sent, by the sender's clock; the answer returns this value,
            and leases count from it.
    """

    configuration: Configuration
    allocation: CheckedAllocation
    previous: CheckedIndex
    previous_hash: EntryHash
    entries: tuple[bytes, ...]
    committed: CheckedIndex
    sent_at: CheckedInstant
    beacon: Beacon | None = None


class Appended(msgspec.Struct, frozen=True, kw_only=True, tag="appended", omit_defaults=True):
    """The sender's copy has the primary's entries up to *match*, durably (R9).

    Attributes:
        gives_lease: Whether the sender promises not to take over for a while (R14).
    """

    epoch: CheckedEpoch
    allocation: CheckedAllocation
    match: CheckedIndex
    gives_lease: bool
    sent_at: CheckedInstant
    beacon: Beacon | None = None


class Mismatch(msgspec.Struct, frozen=True, kw_only=True, tag="mismatch"):
    """The sender's copy lacks the entry before those of an `Append`.

    Attributes:
        previous: Index of the missing entry.
        last: Index of the last entry of this copy's journal.
        committed: Index up to which the journal certainly equals the primary's: send from there.
    """

    epoch: CheckedEpoch
    allocation: CheckedAllocation
    previous: CheckedIndex
    last: CheckedIndex
    committed: CheckedIndex
    gives_lease: bool
    sent_at: CheckedInstant


class Fenced(msgspec.Struct, frozen=True, kw_only=True, tag="fenced"):
    """The sender has promised a higher epoch than that of the message (R2)."""

    epoch: CheckedEpoch


class Query(msgspec.Struct, frozen=True, kw_only=True, tag="query"):
    """A query to a node that should become a learner, for the copy that it has."""

    epoch: CheckedEpoch
    sent_at: CheckedInstant


class Holding(msgspec.Struct, frozen=True, kw_only=True, tag="holding"):
    """The copy that the sender has.

    Attributes:
        epoch: The epoch of the message that this one answers.
        allocation: The allocation of the copy; None if the sender has no complete copy.
        committed: Index up to which the journal certainly equals any primary's.
        has_room: Whether the sender can receive a snapshot of several parts now.
        since: When the present data was created, or when the node started, if that is later; by the
            sender's clock. A part returns this value, and is refused if the data has changed since,
            even if there was no data before and after (R5). 0 from versions without this field.
    """

    epoch: CheckedEpoch
    allocation: CheckedAllocation | None
    committed: CheckedIndex
    sent_at: CheckedInstant
    has_room: bool = True
    since: CheckedInstant = Instant(0)


class Base(msgspec.Struct, frozen=True, array_like=True):
    """The entry before the journal of a copy that was made from a snapshot."""

    epoch: CheckedEpoch
    index: CheckedIndex
    at: CheckedInstant
    hash: EntryHash


class Part(msgspec.Struct, frozen=True, kw_only=True, tag="part"):
    """One part of a snapshot, from which a new copy is made.

    The parts may show the rows at different moments, all at or after *base*. That does no harm:
    entries hold whole values, so applying the entries after *base* corrects all rows.

    Attributes:
        replaces: The allocation in the receiver's `Holding`, whose copy is replaced.
        number: The number of the part, from 0.
        base: The entry at which the snapshot began.
        rows: Keys, without the shard, and values.
        since: The value in the receiver's `Holding`.
    """

    configuration: Configuration
    allocation: CheckedAllocation
    replaces: CheckedAllocation | None
    number: Count
    base: Base
    rows: tuple[tuple[bytes, bytes], ...]
    is_last: bool
    sent_at: CheckedInstant
    since: CheckedInstant = Instant(0)

    def __post_init__(self) -> None:
        """Refuse a row without a key, which no valid part has."""
        if not all(key for key, _ in self.rows):
            raise ValueError("a row has no key")

    @property
    def is_whole(self) -> bool:
        """Whether this part is the whole snapshot."""
        return self.number == 0 and self.is_last


class PartTaken(msgspec.Struct, frozen=True, kw_only=True, tag="part_taken"):
    """A part is durable at the receiver."""

    epoch: CheckedEpoch
    allocation: CheckedAllocation
    number: Count
    sent_at: CheckedInstant


class Succeed(msgspec.Struct, frozen=True, kw_only=True, tag="succeed"):
    """The receiver is primary now; it acts once the coordinator confirms that (R27, R41)."""

    configuration: Configuration


class QuietCopy(msgspec.Struct, frozen=True, array_like=True):
    """A copy that has all entries of its primary, as the primary states it.

    Attributes:
        epoch: The epoch of the configuration under which the sender is primary.
        allocation: The allocation of the receiver's copy.
        index: The index of the last entry, which is committed.
    """

    shard: CheckedShard
    epoch: CheckedEpoch
    allocation: CheckedAllocation
    index: CheckedIndex


class QuietBeat(msgspec.Struct, frozen=True, kw_only=True, tag="quiet_beat", omit_defaults=True):
    """The heartbeat of one node for its quiet shards of which the receiver has copies (R44).

    Attributes:
        session: The session of the sender under which it is the primary of these shards.
        number: The number of the heartbeat, from 1 in each process of the sender.
        copies: The receiver's copies.
    """

    session: CheckedSession
    number: Count
    copies: Annotated[tuple[QuietCopy, ...], msgspec.Meta(max_length=SHARDS_MAX)]
    beacon: Beacon | None = None


class QuietResponse(
    msgspec.Struct, frozen=True, kw_only=True, tag="quiet_response", omit_defaults=True
):
    """Each copy of a `QuietBeat` follows the sender and gives it a lease, except the refused ones.

    Attributes:
        session: The session in the heartbeat.
        number: The number of the heartbeat.
        refused: The shards of the copies that give no lease, or differ from the description.
    """

    session: CheckedSession
    number: Count
    refused: Annotated[tuple[CheckedShard, ...], msgspec.Meta(max_length=SHARDS_MAX)] = ()
    beacon: Beacon | None = None


QuietMessage = QuietBeat | QuietResponse
ReplicaResponse = Appended | Mismatch | Holding | PartTaken
ANSWERS = Appended, Mismatch, Holding, PartTaken
"""The same types for `isinstance`, which takes a third of the time with a tuple."""
Message = Append | Query | Part | Succeed | Fenced | ReplicaResponse


def name_of(message: msgspec.Struct) -> str:
    """Return the name of a message's kind, which is used on the wire and in metrics."""
    return str(message.__struct_config__.tag)
