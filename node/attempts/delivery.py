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
from rota.core.model.ids import NodeId
from rota.node.peers.messages import Deliver, DeliveredCommand, DeliveryReceipt
from rota.node.peers.network import Network
from rota.node.shards.local_shards import Shards
from rota.node.shards.shard import Answer, Shard

OnDelivered = Callable[[str], None]
"""Called with the reason why the commands were refused for good, or an empty text."""


@dataclass(frozen=True, slots=True)
class Route:
    """The shard that decides delivered commands.

    Attributes:
        shards: Those of this node among which *shard* is.
        commands: In the form for *shard*.
    """

    shards: Shards
    shard: Shard
    commands: tuple[DeliveredCommand, ...]


RouteOutcome = Callable[[Shard, tuple[DeliveredCommand, ...]], Route | None]
"""Returns the route of commands for a shard that another decides; None if the shard decides."""


@dataclass(slots=True)
class _Pending:
    """Commands under way.

    Attributes:
        is_submitted: Whether they are submitted to the shard on this node, without a reply yet.
    """

    number: int
    route: Route
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
        network: To the other nodes.
        node_id: This node.
        route_outcome: Called once for each delivery, before its commands are submitted or sent.
        first_number: Of a delivery; random, so that a receipt for an earlier process of this node
            confirms no delivery of this one.
    """

    def __init__(
        self,
        shards: Shards,
        network: Network,
        node_id: NodeId,
        *,
        route_outcome: RouteOutcome,
        first_number: int,
    ) -> None:
        self._shards = shards
        self._network = network
        self._node_id = node_id
        self._route_outcome = route_outcome
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
        route = self._route_outcome(shard, commands) or Route(self._shards, shard, commands)
        pending = _Pending(next(self._numbers), route, on_delivered)
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
        route, shard = pending.route, pending.route.shard
        if shard.is_open:
            pending.begin_submission()
            route.shards.submit_together(
                shard, route.commands, partial(self._decided_here, pending)
            )
        elif shard.primary_node is not None and shard.primary_node != self._node_id:
            message = Deliver(number=pending.number, commands=route.commands)
            self._network.send(shard.primary_node, shard.id, message)

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
        if pending is not None and pending.route.shard is shard:
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
