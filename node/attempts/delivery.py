"""Repeated transmission of commands to a shard, until they are committed or refused for good.

Outcomes of attempts and outbox items are delivered this way. If the shard is open here, it gets the
commands at once; otherwise they are sent to the shard's primary in the view of this node, and sent
again at every tick to the primary at that time. Commands may thus be decided twice; the second time
they change nothing.

The number of deliveries under way is limited: at most two for each running attempt, and one for
each pair of a shard with outbox items and a receiving shard.
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
"""Called with the reason why the commands were refused for good; empty if they were committed."""


@dataclass(frozen=True, slots=True)
class Route:
    """The shard that decides delivered commands.

    Attributes:
        shards: The shards of this node to which *shard* belongs.
        shard: The shard that decides the commands.
        commands: The commands in the form for *shard*.
    """

    shards: Shards
    shard: Shard
    commands: tuple[DeliveredCommand, ...]


RouteOutcome = Callable[[Shard, tuple[DeliveredCommand, ...]], Route | None]
"""Returns the route of commands that another shard decides; None if the given shard decides."""


@dataclass(slots=True)
class _Pending:
    """Commands under way.

    Attributes:
        number: The number of the delivery.
        route: The shard that decides the commands, and the commands.
        on_delivered: Called when the commands are committed or refused for good.
        is_submitted: Whether the commands wait for a reply of the shard on this node.
    """

    number: int
    route: Route
    on_delivered: OnDelivered
    is_submitted: bool = False

    def begin_submission(self) -> None:
        """Record that the commands were submitted to the shard on this node."""
        self.is_submitted = True

    def end_submission(self) -> None:
        """Record that the shard on this node replied."""
        self.is_submitted = False


class Delivery:
    """Deliveries from this node, and commands delivered by other nodes.

    Args:
        shards: The shards of this node.
        network: The network to the other nodes.
        node_id: This node.
        route_outcome: Called once for each delivery, before its commands are submitted or sent.
        first_number: The number of the first delivery; random, so that a receipt for an earlier
            process of this node confirms no delivery of this process.
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
        """The sender and number of each delivery that is being decided here; repetitions of these
        deliveries are ignored."""

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
        """Stop a delivery; its commands may have been decided, or may still be decided."""
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
        """End the delivery of this node to *shard* that *receipt* confirms."""
        pending = self._pending.get(receipt.number)
        if pending is not None and pending.route.shard is shard:
            self._end(receipt.number, receipt.refusal)

    def accept(self, shard: Shard, sender: NodeId, message: Deliver) -> None:
        """Submit commands from another node; ignore them if *shard* is not open here."""
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
    """Return True if the commands were not decided, or if it is unknown whether they were."""
    return isinstance(answer, Refused) and answer.kind is Kind.UNAVAILABLE


def _refusal(answer: Answer) -> str:
    return answer.detail if isinstance(answer, Refused) else ""
