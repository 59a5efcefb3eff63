"""Messages between nodes other than those of replicas: commands, attempts, slots, stand-ins.

Like the messages of replicas they may be lost, repeated, delayed and reordered. Most are about one
shard, whose number is in the envelope (`rota.node.links.frames.Item`).

    any node                        primary
      Deliver   --------------------->            commands for the shard
                <--------------------- DeliveryReceipt   committed, or refused for good

    possible stand-in               another copy
      StandIn   --------------------->            a stand-in is needed here
                <--------------------- Served     none is: the copy has contact with a primary

    runs attempts                   primary
                <--------------------- Dispatch   an attempt; it begins with a lease that names it
      AskLease  --------------------->            the attempts that run, or are to begin
                <--------------------- GiveLease  the lease, and the attempts that are to be stopped
                <--------------------- AskList    request for `AskLease`

    has a copy that counts          primary
                <--------------------- AskDigest  request for the digest of the rows after an entry
      GiveDigest --------------------->           the digest

Those of `NODE_KINDS` are about the nodes themselves, and their envelope has no shard: the slots
that nodes lend each other (`rota.node.attempts.slot_lending`), and the loss of the coordinator's
state.
"""

from typing import Annotated, get_args

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
"""In one message, four times what a node sends at once."""
ATTEMPTS_MAX = 100_000
"""Of a shard on one node, in one message."""

Number = Annotated[int, msgspec.Meta(ge=0)]
"""Number of a message; its sender counts from 64 random bits."""
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
    """The commands of message *number* are committed, or refused for good.

    Attributes:
        refusal: The reason why the last of its commands was refused; empty if it was not.
    """

    number: Number
    refusal: str = ""


class AskLease(msgspec.Struct, frozen=True, kw_only=True, tag="ask_lease"):
    """Request for a lease for all of the shard's attempts on the sender.

    Attributes:
        incarnation: Of the sender. Requests are ordered by incarnation and *sent_at*, since the
            clock of *sent_at* starts at zero when the machine starts.
        epoch: Of the newest configuration that the sender has seen: it started none after that.
        attempts: All that run, wait to be confirmed, or whose outcome is not known to be recorded.
        sent_at: By the sender's clock; the response repeats it, and the lease counts from it.
        only_of: The list is complete for this session alone (`NO_SESSION`: for none yet): the data
            directory of the sender is so new that the warden of another may still run attempts of
            earlier sessions. None: The list is complete.
    """

    incarnation: Count
    epoch: CheckedEpoch
    attempts: AttemptKeys
    sent_at: CheckedInstant
    only_of: CheckedSession | None = None


class GiveLease(msgspec.Struct, frozen=True, kw_only=True, tag="give_lease"):
    """The shard's attempts have a lease.

    Attributes:
        stop: Those of them that are to be stopped.
        sent_at: That of the request.
    """

    stop: AttemptKeys
    sent_at: CheckedInstant


class AskList(msgspec.Struct, frozen=True, kw_only=True, tag="ask_list"):
    """Request for `AskLease`, even if no attempt of the shard is on the receiver."""


class Dispatch(msgspec.Struct, frozen=True, kw_only=True, tag="dispatch"):
    """Run an attempt whose start is committed, once a lease that names it is granted."""

    order: Order


class AskSlots(msgspec.Struct, frozen=True, kw_only=True, tag="ask_places"):
    """Request for slots: *count* tasks wait on the sender that may run on the receiver.

    Attributes:
        incarnation: Of the sender.
        number: The sender's; it grows with each request in an incarnation.
    """

    incarnation: Count
    number: Number
    count: Count


class LendSlots(msgspec.Struct, frozen=True, kw_only=True, tag="give_places"):
    """Loan of *count* slots for a limited time; the response to request *number*.

    Attributes:
        session: The sender's. Attempts in these slots are recorded under it, and begin in no other:
            the borrower may have seen only an earlier one, whose process has ended.
    """

    number: Number
    count: Count
    session: CheckedSession


class ReturnSlots(msgspec.Struct, frozen=True, kw_only=True, tag="return_places"):
    """Return of *count* lent slots that are not needed."""

    count: Count


class StandIn(msgspec.Struct, frozen=True, kw_only=True, tag="stand_in"):
    """The sender has no contact with a primary that can commit.

    Attributes:
        is_standing: Whether it stands in already.
    """

    is_standing: bool


class Served(msgspec.Struct, frozen=True, kw_only=True, tag="served"):
    """Response to `StandIn`: the sender has contact with a primary."""


class AskDigest(msgspec.Struct, frozen=True, kw_only=True, tag="ask_digest"):
    """Request for the digest of the shard's rows between entry *index* and the next one (R43).

    Attributes:
        epoch: Of the configuration in which the receiver's copy counts.
        allocation: That copy.
        number: Random; the response repeats it.
    """

    epoch: CheckedEpoch
    allocation: CheckedAllocation
    index: CheckedIndex
    number: Number


class GiveDigest(msgspec.Struct, frozen=True, kw_only=True, tag="give_digest"):
    """Response to request *number* for a digest.

    Attributes:
        digest: None if there is none: later entries are applied, or too many digests wait.
    """

    number: Number
    digest: RowsDigestValue | None


class CoordinationLost(msgspec.Struct, frozen=True, kw_only=True, tag="coordination_lost"):
    """The coordinator lost configurations of *generation*, and of all before it (PROTOCOL R31)."""

    generation: Count


Lending = AskSlots | LendSlots | ReturnSlots
Comparing = AskDigest | GiveDigest
Attempting = AskLease | GiveLease | AskList | Dispatch
NodeMessage = Lending | CoordinationLost
ShardMessage = Message | Deliver | DeliveryReceipt | Attempting | StandIn | Served | Comparing
Sent = ShardMessage | NodeMessage
"""Every kind of message between nodes."""
NODE_KINDS: frozenset[type[Sent]] = frozenset(get_args(NodeMessage))
"""The kinds that are about no shard."""
