"""Repeated transmission of commands to a shard, until they are committed or refused for good.

Outcomes of attempts and outbox items are delivered this way. If the shard is open here, it gets the
commands at once; otherwise they are sent to the newest known primary, and again at every tick, to
the primary known by then. Commands may thus be decided twice: the second time they change nothing.

The number of deliveries under way is bounded: one for each running attempt, and one for each two
shards that send each other outbox items.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import count

from rota.core.errors import Kind, Refused
from rota.core.model.fallback_ids import is_fallback_shard
from rota.core.model.ids import NodeId
from rota.node.peers.messages import Deliver, DeliveredCommand, DeliveryReceipt
from rota.node.peers.network import Network
from rota.node.shards.fallback_shards import FallbackShards, inward_commands
from rota.node.shards.local_shards import Shards
from rota.node.shards.shard import Answer, Shard

OnDelivered = Callable[[str], None]
"""Called with the reason why the commands were refused for good, or an empty text."""


@dataclass(slots=True)
class _Pending:
    """Commands under way.

    Attributes:
        is_submitted: Whether they are submitted to the shard on this node, without a reply yet.
    """

    number: int
    shard: Shard
    commands: tuple[DeliveredCommand, ...]
    on_delivered: OnDelivered
    is_submitted: bool = False

    def begin_submission(self) -> None:
        """Note that the commands are submitted to the shard on this node."""
        self.is_submitted = True

    def end_submission(self) -> None:
        """Note the reply of the shard on this node."""
        self.is_submitted = False


class Delivery:
    """Deliveries from this node, and commands delivered by other nodes.

    Args:
        shards: The shards of this node.
        fallback_shards: Its fallback shards; commands about their attempts are submitted to them,
            and never leave the node.
        network: To the other nodes.
        node_id: This node.
        first_number: Of a delivery; random, so that a receipt for an earlier process of this node
            confirms no delivery of this one.
    """

    def __init__(
        self,
        shards: Shards,
        fallback_shards: FallbackShards,
        network: Network,
        node_id: NodeId,
        *,
        first_number: int,
    ) -> None:
        self._shards = shards
        self._fallback_shards = fallback_shards
        self._network = network
        self._node_id = node_id
        self._numbers = count(first_number)
        self._pending: dict[int, _Pending] = {}
        self._deciding: set[tuple[NodeId, int]] = set()
        """Sender and number of deliveries that are being decided here; repetitions are ignored."""

    def __len__(self) -> int:
        return len(self._pending)

    def deliver(
        self, shard: Shard, commands: tuple[DeliveredCommand, ...], on_delivered: OnDelivered
    ) -> int:
        """Deliver *commands*; the primary decides them together and in this order.

        Returns:
            The number of the delivery, for `cancel`.
        """
        if inward := inward_commands(commands):
            shard, commands = self._fallback_shards.of(shard), inward
        pending = _Pending(next(self._numbers), shard, commands, on_delivered)
        self._pending[pending.number] = pending
        self._try(pending)
        return pending.number

    def cancel(self, number: int) -> None:
        """Stop a delivery; its commands may have been decided, or still be."""
        self._pending.pop(number, None)

    def tick(self) -> None:
        """Repeat the deliveries that are not confirmed."""
        for pending in list(self._pending.values()):
            if not pending.is_submitted:
                self._try(pending)

    def _try(self, pending: _Pending) -> None:
        shard, primary = pending.shard, pending.shard.primary_node
        if shard.is_open:
            pending.begin_submission()
            owner = self._fallback_shards if is_fallback_shard(shard.id) else self._shards
            owner.submit_together(shard, pending.commands, partial(self._decided_here, pending))
        elif primary is not None and primary != self._node_id:
            message = Deliver(number=pending.number, commands=pending.commands)
            self._network.send(primary, shard.id, message)

    def _decided_here(self, pending: _Pending, answer: Answer) -> None:
        pending.end_submission()
        if not _is_to_be_repeated(answer):
            self._end(pending.number, _refusal(answer))

    def _end(self, number: int, refusal: str) -> None:
        pending = self._pending.pop(number, None)
        if pending is not None:
            pending.on_delivered(refusal)

    # -- between nodes --------------------------------------------------------------------------

    def confirm(self, shard: Shard, receipt: DeliveryReceipt) -> None:
        """End a delivery of this node, which the primary of *shard* has confirmed."""
        pending = self._pending.get(receipt.number)
        if pending is not None and pending.shard is shard:
            self._end(receipt.number, receipt.refusal)

    def accept(self, shard: Shard, sender: NodeId, message: Deliver) -> None:
        """Submit commands from another node; ignored unless this node is primary."""
        mark = sender, message.number
        if shard.is_open and mark not in self._deciding:
            self._deciding.add(mark)
            self._shards.submit_together(
                shard, message.commands, partial(self._decided, shard, mark)
            )

    def _decided(self, shard: Shard, mark: tuple[NodeId, int], answer: Answer) -> None:
        self._deciding.discard(mark)
        sender, number = mark
        if not _is_to_be_repeated(answer):
            receipt = DeliveryReceipt(number=number, refusal=_refusal(answer))
            self._network.send(sender, shard.id, receipt)


def _is_to_be_repeated(answer: Answer) -> bool:
    """Return True if nothing was decided, or if that is unknown: this node ceased to be primary."""
    return isinstance(answer, Refused) and answer.kind is Kind.UNAVAILABLE


def _refusal(answer: Answer) -> str:
    return answer.detail if isinstance(answer, Refused) else ""
