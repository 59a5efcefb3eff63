"""Delivery of outbox items from this node's shards to other shards, in the order of their journal.

From one shard to another, one batch is under way at a time; items written during its delivery form
the next batch. Thus no item overtakes another, however often a batch is repeated, and a busy pair
of shards needs one commit for each batch, not for each item.
"""

from collections import deque
from dataclasses import dataclass, field

from rota.core.model.ids import ShardId
from rota.core.vocabulary.changes import Occurred, OutboxItem
from rota.core.vocabulary.commands import ConfirmDelivery, ReceiveMessage
from rota.node.attempts.delivery import Delivery
from rota.node.shards.local_shards import Shards
from rota.node.shards.shard import Shard

BATCH_MAX = 256
"""The most items of one batch, which the receiver decides in one turn."""
EVENTS_MAX = 8
"""The most events from outside among them: each may have 64 KiB, and a condition to evaluate."""

Route = tuple[ShardId, ShardId]
"""The sending shard and the receiving shard, which may be the same."""


@dataclass(slots=True)
class _Lane:
    """The items on one route.

    Attributes:
        batch: The items under way.
        number: The number of the delivery of the batch.
        waiting: The items after the batch.
    """

    batch: tuple[OutboxItem, ...] = ()
    number: int = 0
    waiting: deque[OutboxItem] = field(default_factory=deque[OutboxItem])

    def next_batch(self) -> tuple[OutboxItem, ...]:
        """Make the first waiting items the batch under way, and return them."""
        batch, events = list[OutboxItem](), 0
        while self.waiting and len(batch) < BATCH_MAX and events < EVENTS_MAX:
            batch.append(self.waiting.popleft())
            events += isinstance(batch[-1].message, Occurred)
        self.batch = tuple(batch)
        return self.batch

    def sent(self, number: int) -> None:
        """Record the number of the batch's delivery."""
        self.number = number


class OutboxRelay:
    """The outbox items of the shards that are open here.

    Args:
        shards: The shards of this node.
        delivery: Delivers batches.
    """

    def __init__(self, shards: Shards, delivery: Delivery) -> None:
        self._shards = shards
        self._delivery = delivery
        self._lanes: dict[Route, _Lane] = {}

    def send(self, sender: Shard, item: OutboxItem) -> None:
        """Deliver an item of *sender*; *sender* removes it after the receiver has committed it."""
        namespace, _, name = item.to.rpartition("/")
        route = sender.id, self._shards.of_name(namespace, name).id
        lane = self._lanes.get(route)
        if lane is not None:
            lane.waiting.append(item)
            return
        lane = self._lanes[route] = _Lane(waiting=deque([item]))
        self._deliver(route, lane)

    def closed(self, sender: Shard) -> None:
        """Deliver nothing more for *sender*; its next primary reads the items in its outbox."""
        for route in [route for route in self._lanes if route[0] == sender.id]:
            self._delivery.cancel(self._lanes.pop(route).number)

    def _deliver(self, route: Route, lane: _Lane) -> None:
        sender, receiver = route
        commands = tuple(
            ReceiveMessage(message=item.message, sender=sender, outbox_key=item.key)
            for item in lane.next_batch()
        )
        number = self._delivery.deliver(
            self._shards[receiver], commands, lambda _: self._delivered(route, lane)
        )
        lane.sent(number)

    def _delivered(self, route: Route, lane: _Lane) -> None:
        sender = self._shards[route[0]]
        for item in lane.batch:
            self._shards.submit(sender, ConfirmDelivery(key=item.key))
        if lane.waiting:
            self._deliver(route, lane)
        else:
            del self._lanes[route]
