"""Messages between nodes about what their shards have others do: commands, attempts.

Like those of replicas they may be lost, doubled, delayed and overtaken by one another, and each is
about one shard, which whoever carries them adds.

    whoever has news                primary
      Carry   ----------------------->           commands for the shard
              <----------------------- Carried   they are committed, or refused for good

    wants to stand in               another copy
      StandIn   --------------------->           unless you hear a primary, or come before me
                <--------------------- Served    I hear one

    runs attempts                   primary
                <--------------------- Dispatch  run this one, when I have said so again
      AskLease  --------------------->           these still run, or are about to
                <--------------------- GiveLease they may go on, or begin, except some
                <--------------------- AskList   which still run?

    has a copy that counts          primary
                <--------------------- AskDigest    what are your rows after this entry?
      GiveDigest --------------------->             their digest

Of no shard are the places that nodes lend each other, which `rota.node.attempts.slot_lending`
shows, and the news that the coordinator lost its state (`CoordinationLost`). They go as if about
shard 0.
"""

from typing import Annotated

import msgspec

from rota.core.model.attempt import AttemptKey, Order
from rota.core.model.checked_fields import (
    CheckedAllocation,
    CheckedEpoch,
    CheckedIndex,
    CheckedInstant,
    CheckedSession,
    Count,
)
from rota.core.model.ids import ShardId
from rota.core.replication.messages import Message
from rota.core.replication.row_digests import DIGEST_BYTES
from rota.core.vocabulary.commands import (
    FinishAttempt,
    ReceiveMessage,
    ReconcileExecution,
    ReconcileFires,
    ReportAttempt,
)

COMMANDS_MAX = 1_024
"""In one message, four times what a node brings at once."""
ATTEMPTS_MAX = 100_000
"""Of a shard on one node, in one message."""

ABOUT_NONE = ShardId(0)
"""The shard of messages that are about no shard."""

Number = Annotated[int, msgspec.Meta(ge=0)]
"""Of a message of its sender, which counts on from 64 random bits."""
AttemptKeys = Annotated[tuple[AttemptKey, ...], msgspec.Meta(max_length=ATTEMPTS_MAX)]
RowsDigestValue = Annotated[bytes, msgspec.Meta(min_length=DIGEST_BYTES, max_length=DIGEST_BYTES)]
DeliveredCommand = (
    FinishAttempt | ReportAttempt | ReceiveMessage | ReconcileFires | ReconcileExecution
)
"""The commands that come from other nodes; each changes nothing the second time."""


class Deliver(msgspec.Struct, frozen=True, kw_only=True, tag="carry"):
    """Commands for the shard, to be decided together and in this order.

    Attributes:
        number: The sender's; never that of another message of the same node, in no life.
    """

    number: Number
    commands: Annotated[
        tuple[DeliveredCommand, ...], msgspec.Meta(min_length=1, max_length=COMMANDS_MAX)
    ]


class DeliveryReceipt(msgspec.Struct, frozen=True, kw_only=True, tag="carried"):
    """What message *number* brought is committed; nobody else need be told.

    Attributes:
        refusal: Why the last of its commands was refused for good; empty if it was not.
    """

    number: Number
    refusal: str = ""


class AskLease(msgspec.Struct, frozen=True, kw_only=True, tag="ask_lease"):
    """Let the shard's attempts on this node go on, or begin; these are all that there are.

    Attributes:
        incarnation: Of the sender: questions are ordered by incarnation and *sent_at*, since the
            clock of *sent_at* begins again when the machine does.
        epoch: Of the newest configuration known to the sender: it started nothing after that.
        attempts: All that run, wait to be confirmed, or whose outcome is not known to be recorded.
        sent_at: By the sender's clock; it comes back with the answer, and the lease counts from it.
        only_of: The sender knows of attempts of this session alone (`NO_SESSION`: none yet):
            its data directory is so new that a warden of another may still run attempts of earlier
            sessions.
            None: It knows of all.
    """

    incarnation: Count
    epoch: CheckedEpoch
    attempts: AttemptKeys
    sent_at: CheckedInstant
    only_of: CheckedSession | None = None


class GiveLease(msgspec.Struct, frozen=True, kw_only=True, tag="give_lease"):
    """The shard's attempts may go on for an attempt lease.

    Attributes:
        stop: Those of them that are to be stopped all the same.
        sent_at: That of the question.
    """

    stop: AttemptKeys
    sent_at: CheckedInstant


class AskList(msgspec.Struct, frozen=True, kw_only=True, tag="ask_list"):
    """Ask for a lease, even if no attempt of the shard is there."""


class Dispatch(msgspec.Struct, frozen=True, kw_only=True, tag="dispatch"):
    """Run an attempt whose start is committed, once a lease that names it is given."""

    order: Order


class AskSlots(msgspec.Struct, frozen=True, kw_only=True, tag="ask_places"):
    """Lend me places: *count* tasks wait that may run on your node.

    Attributes:
        incarnation: Of the sender.
        number: The sender's; higher than that of its question before in this incarnation.
    """

    incarnation: Count
    number: Number
    count: Count


class LendSlots(msgspec.Struct, frozen=True, kw_only=True, tag="give_places"):
    """Here are *count* places, for a while; the answer to question *number*.

    Attributes:
        session: The sender's. What is started there is recorded under it, and begins in no other:
            the borrower may know of an earlier one only, whose process has ended.
    """

    number: Number
    count: Count
    session: CheckedSession


class ReturnSlots(msgspec.Struct, frozen=True, kw_only=True, tag="return_places"):
    """Of the places that you lent, *count* are not needed."""

    count: Count


class StandIn(msgspec.Struct, frozen=True, kw_only=True, tag="stand_in"):
    """No primary is heard here that can commit: I want to stand in for it, or do."""

    is_standing: bool


class Served(msgspec.Struct, frozen=True, kw_only=True, tag="served"):
    """To who wants to stand in: a primary is heard here."""


class AskDigest(msgspec.Struct, frozen=True, kw_only=True, tag="ask_digest"):
    """Digest the shard's rows as they are after entry *index*, before the next one (R43).

    Attributes:
        epoch: Of the configuration in which the receiver's copy counts.
        allocation: That copy.
        number: Random; it comes back with the answer.
    """

    epoch: CheckedEpoch
    allocation: CheckedAllocation
    index: CheckedIndex
    number: Number


class GiveDigest(msgspec.Struct, frozen=True, kw_only=True, tag="give_digest"):
    """The digest that question *number* asked for.

    Attributes:
        digest: None if there is none: that entry has passed, or too many digests wait.
    """

    number: Number
    digest: RowsDigestValue | None


class CoordinationLost(msgspec.Struct, frozen=True, kw_only=True, tag="coordination_lost"):
    """The coordinator lost configurations of *generation*, and of all before it (PROTOCOL R31)."""

    generation: Count


Lending = AskSlots | LendSlots | ReturnSlots
Comparing = AskDigest | GiveDigest
Attempting = AskLease | GiveLease | AskList | Dispatch
NodeMessage = Deliver | DeliveryReceipt | Attempting | Lending | StandIn | Served | Comparing
Sent = Message | NodeMessage | CoordinationLost
"""All that one node sends another."""
