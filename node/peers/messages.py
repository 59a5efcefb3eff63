"""Messages between nodes other than those of replicas: commands, attempts, slots, stand-ins.

Like the messages of replicas, these messages may be lost, repeated, delayed and reordered. Most are
about one shard, whose number is in the envelope (`rota.node.links.frames.Item`).

    any node                        primary
      Deliver   --------------------->            commands for the shard
                <--------------------- DeliveryReceipt   committed, or refused for good

    possible stand-in               another copy
      StandIn   --------------------->            a stand-in is needed here
                <--------------------- Served     not needed: the copy has contact with a primary

    node with attempts              primary
                <--------------------- Dispatch   an attempt; it begins with a lease that names it
      AskLease  --------------------->            the attempts that run, or are to begin
                <--------------------- GiveLease  the lease, and the attempts that are to be stopped
                <--------------------- AskList    request for `AskLease`

    node with a counting copy       primary
                <--------------------- AskDigest  request for the digest of the rows after an entry
      GiveDigest --------------------->           the digest

The messages of `NODE_KINDS` are about the nodes themselves, and their envelope has no shard. They
are about the slots that nodes lend each other (`rota.node.attempts.slot_lending`), the loss of the
coordinator's state, the use of namespaces (`rota.node.namespaces.use_reporter`), and quiet shards
(`rota.core.replication.quiet_beats`).
"""

from typing import Annotated, get_args

import msgspec

from rota.core.model.attempt import AttemptKey, Order
from rota.core.model.checked_fields import (
    CheckedAllocation,
    CheckedEpoch,
    CheckedIndex,
    CheckedInstant,
    CheckedName,
    CheckedSession,
    Count,
)
from rota.core.replication.messages import Message, QuietMessage
from rota.core.replication.row_digests import DIGEST_BYTES
from rota.core.vocabulary.commands import (
    FinishAttempt,
    ReceiveMessage,
    ReconcileExecution,
    ReconcileFires,
    ReportAttempt,
)

USES_MAX = 10_000
"""The most namespaces in one message."""
COMMANDS_MAX = 1_024
"""The most commands in one message; a node sends at most a quarter of this number at once."""
ATTEMPTS_MAX = 100_000
"""The most attempts in one message, all of one shard on one node."""

Number = Annotated[int, msgspec.Meta(ge=0)]
"""The number of a message; its sender counts from a random number of 64 bits."""
AttemptKeys = Annotated[tuple[AttemptKey, ...], msgspec.Meta(max_length=ATTEMPTS_MAX)]
RowsDigestValue = Annotated[bytes, msgspec.Meta(min_length=DIGEST_BYTES, max_length=DIGEST_BYTES)]
DeliveredCommand = (
    FinishAttempt | ReportAttempt | ReceiveMessage | ReconcileFires | ReconcileExecution
)
"""The commands that other nodes send; a repeated command changes nothing."""


class Deliver(msgspec.Struct, frozen=True, kw_only=True, tag="carry"):
    """Commands for the shard, to be decided together and in this order.

    Attributes:
        number: The number of the delivery, which no other delivery of the sender has, in any life.
        commands: The commands, in their order.
    """

    number: Number
    commands: Annotated[
        tuple[DeliveredCommand, ...], msgspec.Meta(min_length=1, max_length=COMMANDS_MAX)
    ]


class DeliveryReceipt(msgspec.Struct, frozen=True, kw_only=True, tag="carried"):
    """The commands of a delivery are committed, or refused for good.

    Attributes:
        number: The number of the delivery.
        refusal: The reason why the last of its commands was refused; empty if it was not refused.
    """

    number: Number
    refusal: str = ""


class AskLease(msgspec.Struct, frozen=True, kw_only=True, tag="ask_lease"):
    """Request for a lease for all of the shard's attempts on the sender.

    Attributes:
        incarnation: The incarnation of the sender. Requests are ordered by incarnation and
            *sent_at*, since the clock of *sent_at* starts at zero when the machine starts.
        epoch: The epoch of the newest configuration that the sender has seen; the sender has
            started no attempts as the primary of an earlier epoch since then.
        attempts: All attempts that run, that wait to be confirmed, or whose outcome is not yet
            confirmed as recorded.
        sent_at: The time by the sender's clock; the response repeats it, and the lease counts from
            it.
        only_of: The only session for which *attempts* is complete (`NO_SESSION`: for none yet),
            because the sender's data directory is so new that the warden of an earlier directory
            may still run attempts of earlier sessions. None if *attempts* is complete.
    """

    incarnation: Count
    epoch: CheckedEpoch
    attempts: AttemptKeys
    sent_at: CheckedInstant
    only_of: CheckedSession | None = None


class GiveLease(msgspec.Struct, frozen=True, kw_only=True, tag="give_lease"):
    """The shard's attempts have a lease.

    Attributes:
        stop: The attempts of the request that are to be stopped.
        sent_at: The *sent_at* of the request.
    """

    stop: AttemptKeys
    sent_at: CheckedInstant


class AskList(msgspec.Struct, frozen=True, kw_only=True, tag="ask_list"):
    """Request for `AskLease`, even if no attempt of the shard is on the receiver."""


class Dispatch(msgspec.Struct, frozen=True, kw_only=True, tag="dispatch"):
    """An attempt whose start is committed, to be run once a lease that names it is granted."""

    order: Order


class AskSlots(msgspec.Struct, frozen=True, kw_only=True, tag="ask_slots"):
    """Request for slots.

    Attributes:
        incarnation: The incarnation of the sender.
        number: The number of the request, which grows with each request of an incarnation.
        count: The number of tasks that wait on the sender and may run on the receiver.
    """

    incarnation: Count
    number: Number
    count: Count


class LendSlots(msgspec.Struct, frozen=True, kw_only=True, tag="lend_slots"):
    """Loan of slots for a limited time, in response to `AskSlots`.

    Attributes:
        number: The number of the request.
        count: The number of lent slots.
        session: The session of the sender. Attempts in these slots are recorded under this session,
            and begin under no other: the borrower may have seen only an earlier session, whose
            process has ended.
    """

    number: Number
    count: Count
    session: CheckedSession


class ReturnSlots(msgspec.Struct, frozen=True, kw_only=True, tag="return_slots"):
    """Return of lent slots that are not needed.

    Attributes:
        count: The number of these slots.
    """

    count: Count


class StandIn(msgspec.Struct, frozen=True, kw_only=True, tag="stand_in"):
    """The sender has no contact with a primary that can commit.

    Attributes:
        is_standing: Whether the sender already stands in.
    """

    is_standing: bool


class Served(msgspec.Struct, frozen=True, kw_only=True, tag="served"):
    """Response to `StandIn`: the sender has contact with a primary."""


class AskDigest(msgspec.Struct, frozen=True, kw_only=True, tag="ask_digest"):
    """Request for the digest of the shard's rows between entry *index* and the next one (R43).

    Attributes:
        epoch: The epoch of the configuration in which the receiver's copy counts.
        allocation: The receiver's copy.
        index: The index of the entry.
        number: A random number, which the response repeats.
    """

    epoch: CheckedEpoch
    allocation: CheckedAllocation
    index: CheckedIndex
    number: Number


class GiveDigest(msgspec.Struct, frozen=True, kw_only=True, tag="give_digest"):
    """Response to `AskDigest`.

    Attributes:
        number: The number of the request.
        digest: The digest; None if it cannot be made, for example because later entries are applied
            or too many digests wait.
    """

    number: Number
    digest: RowsDigestValue | None


class CoordinationLost(msgspec.Struct, frozen=True, kw_only=True, tag="coordination_lost"):
    """The coordinator lost the configurations of all generations up to *generation* (R31)."""

    generation: Count


class ReportUse(msgspec.Struct, frozen=True, kw_only=True, tag="report_use"):
    """The use of the namespaces with quotas in the shards of which the sender is the primary.

    Attributes:
        session: The session of the sender.
        uses: The numbers of jobs and of unfinished executions, by namespace; one that is not here
            has none.
    """

    session: CheckedSession
    uses: Annotated[dict[CheckedName, tuple[Count, Count]], msgspec.Meta(max_length=USES_MAX)]


Lending = AskSlots | LendSlots | ReturnSlots
Comparing = AskDigest | GiveDigest
Attempting = AskLease | GiveLease | AskList | Dispatch
NodeMessage = Lending | CoordinationLost | ReportUse | QuietMessage
ShardMessage = Message | Deliver | DeliveryReceipt | Attempting | StandIn | Served | Comparing
Sent = ShardMessage | NodeMessage
"""Every kind of message between nodes."""
NODE_KINDS: frozenset[type[Sent]] = frozenset(get_args(NodeMessage))
"""The kinds of messages that are not about a shard."""
