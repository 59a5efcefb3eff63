"""Router of the messages of other nodes to the parts of this node."""

from collections import Counter
from collections.abc import Mapping

from rota.core.model.ids import NodeId, Session, ShardId
from rota.core.replication.messages import (
    Append,
    Appended,
    QuietBeat,
    QuietResponse,
    name_of,
)
from rota.node.attempts.attempt_leases import AttemptLeases
from rota.node.attempts.delivery import Delivery
from rota.node.attempts.inbound_attempts import InboundAttempts
from rota.node.attempts.outbound_attempts import OutboundAttempts
from rota.node.attempts.slot_lending import SlotLending
from rota.node.cluster.health_gossip import HealthGossip
from rota.node.cluster.membership import Membership
from rota.node.fallback.stand_ins import StandIns
from rota.node.peers.death_proof import Left
from rota.node.peers.messages import (
    AskDigest,
    AskLease,
    AskList,
    AskSlots,
    CoordinationLost,
    Deliver,
    DeliveryReceipt,
    Dispatch,
    GiveDigest,
    GiveLease,
    LendSlots,
    NodeMessage,
    ReportUse,
    ReturnSlots,
    Sent,
    Served,
    StandIn,
)
from rota.node.peers.sender_rights import may_send
from rota.node.shards.copy_comparison import CopyComparison
from rota.node.shards.local_shards import Shards
from rota.node.shards.quota_use import QuotaUse
from rota.node.shards.shard import Shard


class MessageRouter:
    """Router of messages by type, which also counts refused messages.

    Args:
        shards: Receive the messages of replicas, and failures.
        membership: Receives new links, proofs of death, and losses of the coordinator's state.
        gossip: Receives the beacons in messages of replicas.
        delivery: Receives outcomes, outbox items and their receipts.
        outbound: Receives lease requests for attempts, and proofs of death.
        leases: Receives granted leases.
        inbound: Receives attempts that are sent here, and their leases.
        lending: Receives requests for slots, lent slots and returned slots.
        stand_ins: Receive messages of other stand-ins.
        digests: Receives requests for digests of rows, and answers.
        quota_use: Receives reports of the use of namespaces.
    """

    def __init__(
        self,
        shards: Shards,
        membership: Membership,
        *,
        gossip: HealthGossip,
        delivery: Delivery,
        outbound: OutboundAttempts,
        leases: AttemptLeases,
        inbound: InboundAttempts,
        lending: SlotLending,
        stand_ins: StandIns,
        digests: CopyComparison,
        quota_use: QuotaUse,
    ) -> None:
        self._shards = shards
        self._membership = membership
        self._gossip = gossip
        self._delivery = delivery
        self._outbound = outbound
        self._leases = leases
        self._inbound = inbound
        self._lending = lending
        self._stand_ins = stand_ins
        self._digests = digests
        self._quota_use = quota_use
        self._refused: Counter[str] = Counter()

    @property
    def refused(self) -> Mapping[str, int]:
        """The number of messages refused so far, by name; reading it takes O(shards)."""
        return sum((shard.replica.refused for shard in self._shards), self._refused)

    def receive(self, number: ShardId | None, sender: NodeId, message: Sent) -> None:
        """Handle a message of another node; the network calls this.

        An error here ends the node, like an error in its own work, since the network cannot handle
        it.

        Args:
            number: The shard that the message is about; None for a message of `NODE_KINDS`.
            sender: The other node.
            message: The message.
        """
        try:
            shard = None if number is None else self._shards[number]
            newest = shard.replica.newest if shard else None
            if not may_send(type(message), sender, newest, self._membership.members):
                self._refused[name_of(message)] += 1
            elif shard is not None:
                self._take(shard, sender, message)
            else:
                assert isinstance(message, NodeMessage), f"{name_of(message)} is about a shard"
                self._take_of_node(sender, message)
        except Exception as error:
            self._shards.fail(error)

    def _take_of_node(self, sender: NodeId, message: NodeMessage) -> None:
        match message:  # Without a default, so that type checkers find a missing message.
            case QuietBeat() | QuietResponse():
                self._gossip.take_from(message, sender)
                if not self._shards.receive_quiet(sender, message):
                    self._refused[name_of(message)] += 1
            case AskSlots():
                self._lending.asked(sender, message)
            case LendSlots():
                self._lending.given(sender, message)
            case ReturnSlots():
                self._lending.returned(sender, message)
            case ReportUse():
                self._quota_use.take(sender, message)
            case CoordinationLost():
                if not self._membership.heard_loss(sender, message.generation):
                    self._refused[name_of(message)] += 1

    def _take(self, shard: Shard, sender: NodeId, message: Sent) -> None:
        match message:
            case Append() | Appended():  # First, because nearly all messages are of these types.
                self._gossip.take_from(message, sender)
                self._shards.receive(shard.id, sender, message)
            case Deliver():
                self._delivery.accept(shard, sender, message)
            case DeliveryReceipt():
                self._delivery.confirm(shard, message)
            case AskLease():
                self._outbound.asked(shard, sender, message)
            case GiveLease():
                if self._leases.given(shard, sender, message):
                    self._inbound.given(shard, message)
                else:
                    self._refused[name_of(message)] += 1
            case AskList():
                self._leases.asked(shard)
            case Dispatch():
                self._inbound.came(shard, sender, message)
            case StandIn():
                self._stand_ins.announced(shard, sender, message)
            case AskDigest():
                self._digests.asked(shard, sender, message)
            case GiveDigest():
                if not self._digests.given(shard, sender, message):
                    self._refused[name_of(message)] += 1
            case Served():
                self._stand_ins.served(shard)
            case (
                AskSlots()
                | LendSlots()
                | ReturnSlots()
                | CoordinationLost()
                | ReportUse()
                | QuietBeat()
                | QuietResponse()
            ):
                raise AssertionError(f"{name_of(message)} of {sender} is about {shard.id}")
            case _:
                self._gossip.take_from(message, sender)
                self._shards.receive(shard.id, sender, message)

    def linked(self, node_id: NodeId) -> None:
        """Handle a new link to a node; the network calls this."""
        try:
            self._membership.linked(node_id)
        except Exception as error:
            self._shards.fail(error)

    def saw_death(self, node_id: NodeId, session: Session, left: Left | None) -> None:
        """Handle the proof that a node's process in *session* has ended (PROTOCOL note 2).

        Args:
            node_id: The node.
            session: The last session of the process.
            left: The attempts that the node's warden still holds; None if unknown.
        """
        try:
            self._membership.saw_death(node_id, session)
            if left is not None:
                self._outbound.saw_death(node_id, session, left)
        except Exception as error:
            self._shards.fail(error)
