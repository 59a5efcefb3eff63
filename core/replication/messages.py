"""Messages between the copies of a shard. Whoever carries them adds the shard, sender and receiver.

They may be lost, doubled, delayed and overtaken by one another; each is understood by itself.

    primary                         backup or learner
      Append  ----------------------->            entries; a beat when there are none
              <----------------------- Appended   all up to an index is durable here
              <----------------------- Mismatch   something is missing before them
              <----------------------- Fenced     a higher epoch is promised (R2)
              <----------------------- Holding    another copy is here, or none (R5)
      Query   ----------------------->            which copy is there?
              <----------------------- Holding
      Part    ----------------------->            a piece of a snapshot
              <----------------------- PartTaken
      Succeed ----------------------->            the shard is yours (R27)
"""

from typing import Annotated

import msgspec

from rota.core.model.checked_fields import (
    CheckedAllocation,
    CheckedEpoch,
    CheckedIndex,
    CheckedInstant,
    Count,
)
from rota.core.timing.instants import Instant
from rota.core.vocabulary.journal import ORIGIN_HASH
from rota.core.vocabulary.shard_configuration import Configuration

EntryHash = Annotated[bytes, msgspec.Meta(min_length=len(ORIGIN_HASH), max_length=len(ORIGIN_HASH))]


class Beacon(msgspec.Struct, frozen=True, array_like=True):
    """What a node tells of itself, now and then, with whatever it sends a peer anyway (R19, R20).

    Attributes:
        wall: What its calendar shows.
        at: Its time that only passes.
        echo: The receiver's time that only passes, or a little less, by what that told of it last;
            None if it told nothing of late.
        is_fit: Whether it ought to be primary of anything.
        is_prompt: Whether its disk keeps up, so that others may wait for it.
        is_leaving: Whether it is about to stop, so that nobody is to wait for it any more.
        free: Places for attempts that it has to spare.
    """

    wall: CheckedInstant
    at: CheckedInstant
    echo: CheckedInstant | None
    is_fit: bool
    is_prompt: bool = True
    is_leaving: bool = False
    free: Count = 0


class Append(msgspec.Struct, frozen=True, kw_only=True, tag="append", omit_defaults=True):
    """The primary's entries after *previous*, in order; none in a mere beat.

    Attributes:
        configuration: Under which it is primary; its epoch is the message's.
        allocation: The copy that is meant.
        previous: Index of the entry before *entries*, 0 if there is none; with its hash.
        committed: All up to here is committed.
        sent_at: By the sender's clock; it comes back with the answer, and leases count from it.
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
    """This copy has the primary's entries up to *match*, durably (R9).

    Attributes:
        gives_lease: Whether the sender keeps from taking over for a while (R14).
    """

    epoch: CheckedEpoch
    allocation: CheckedAllocation
    match: CheckedIndex
    gives_lease: bool
    sent_at: CheckedInstant
    beacon: Beacon | None = None


class Mismatch(msgspec.Struct, frozen=True, kw_only=True, tag="mismatch"):
    """The entry before those sent is not here.

    Attributes:
        previous: Which entry was looked for.
        last: Where this copy's journal ends.
        committed: Up to where it certainly is the primary's: send from there.
    """

    epoch: CheckedEpoch
    allocation: CheckedAllocation
    previous: CheckedIndex
    last: CheckedIndex
    committed: CheckedIndex
    gives_lease: bool
    sent_at: CheckedInstant


class Fenced(msgspec.Struct, frozen=True, kw_only=True, tag="fenced"):
    """A message was of a lower epoch than the one promised here (R2)."""

    epoch: CheckedEpoch


class Query(msgspec.Struct, frozen=True, kw_only=True, tag="query"):
    """Asks a node which copy it has; it is wanted as a learner."""

    epoch: CheckedEpoch
    sent_at: CheckedInstant


class Holding(msgspec.Struct, frozen=True, kw_only=True, tag="holding"):
    """Tells which copy is here.

    Attributes:
        epoch: Of the message that this answers.
        allocation: None if there is no whole copy.
        committed: Up to where it is certainly as any primary's.
        has_place: Whether a snapshot of several parts can be taken now.
        since: When what is here came to be here, or, if it was there before, when this life of the
            node began; by the sender's clock. It comes back with a part, for that to be refused
            when anything else is here by then, another nothing included (R5). 0 where the sender
            is of a version that does not tell.
    """

    epoch: CheckedEpoch
    allocation: CheckedAllocation | None
    committed: CheckedIndex
    sent_at: CheckedInstant
    has_place: bool = True
    since: CheckedInstant = Instant(0)


class Base(msgspec.Struct, frozen=True, array_like=True):
    """The entry after which a copy that comes from a snapshot goes on."""

    epoch: CheckedEpoch
    index: CheckedIndex
    at: CheckedInstant
    hash: EntryHash


class Part(msgspec.Struct, frozen=True, kw_only=True, tag="part"):
    """A piece of a snapshot, from which a new copy is made.

    Rows of different parts may be of different moments, all at or after *base*. That does no harm:
    entries hold whole values, so applying those after *base* makes all rows what they must be.

    Attributes:
        replaces: The copy that the receiver said it has, which is given up for this one.
        number: From 0.
        base: The entry at which the snapshot began.
        rows: Keys, without the shard, and values.
        since: What the receiver said with what it has.
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
        """Have no row without a key; of a decoded part this is garbage (`msgspec`)."""
        if not all(key for key, _ in self.rows):
            raise ValueError("a row has no key")

    @property
    def is_whole(self) -> bool:
        """Whether it is all of the snapshot."""
        return self.number == 0 and self.is_last


class PartTaken(msgspec.Struct, frozen=True, kw_only=True, tag="part_taken"):
    """A part is durable at the receiver."""

    epoch: CheckedEpoch
    allocation: CheckedAllocation
    number: Count
    sent_at: CheckedInstant


class Succeed(msgspec.Struct, frozen=True, kw_only=True, tag="succeed"):
    """The receiver is primary now, which the coordinator is to confirm (R27, R41)."""

    configuration: Configuration


Answer = Appended | Mismatch | Holding | PartTaken
ANSWERS = Appended, Mismatch, Holding, PartTaken
"""The same for `isinstance`, which takes a third of the time with a tuple."""
Message = Append | Query | Part | Succeed | Fenced | Answer


def name_of(message: msgspec.Struct) -> str:
    """Return the name of a message's kind, as it is sent and as metrics have it."""
    return str(message.__struct_config__.tag)
