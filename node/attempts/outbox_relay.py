"""Letters between jobs, brought from this node's shards to others in the order of their journal.

Between two shards one load of messages is under way at a time, and what is written meanwhile is the
next load. So none overtakes another, however often they have to be brought, and a busy pair of
shards pays for one commit a load and not a message.
"""

from collections import deque
from dataclasses import dataclass, field

from rota.core.model.ids import ShardId
from rota.core.vocabulary.changes import OutboxItem
from rota.core.vocabulary.commands import ConfirmDelivery, ReceiveMessage
from rota.node.attempts.delivery import Delivery
from rota.node.shards.local_shards import Shards
from rota.node.shards.shard import Shard

LOAD_MAX = 256
"""Letters of one load: the receiver decides them in one turn."""

Route = tuple[ShardId, ShardId]
"""From a shard to another, or to itself."""


@dataclass(slots=True)
class _Way:
    """What is under way on a lane, as which errand, and what waits behind it."""

    load: tuple[OutboxItem, ...] = ()
    number: int = 0
    waiting: deque[OutboxItem] = field(default_factory=deque[OutboxItem])


class OutboxRelay:
    """The messages of the shards that are open here.

    Args:
        shards: Of this node.
        delivery: Brings a load.
    """

    def __init__(self, shards: Shards, delivery: Delivery) -> None:
        self._shards = shards
        self._delivery = delivery
        self._ways: dict[Route, _Way] = {}

    def send(self, sender: Shard, item: OutboxItem) -> None:
        """Bring a item of *sender*, which forgets it when its receiver has it committed."""
        namespace, _, name = item.to.rpartition("/")
        lane = sender.id, self._shards.of_name(namespace, name).id
        way = self._ways.get(lane)
        if way is not None:
            way.waiting.append(item)
            return
        way = self._ways[lane] = _Way(waiting=deque([item]))
        self._load(lane, way)

    def closed(self, sender: Shard) -> None:
        """Bring nothing more for *sender*: its next primary finds it in the outbox."""
        for lane in [lane for lane in self._ways if lane[0] == sender.id]:
            self._delivery.forget(self._ways.pop(lane).number)

    def _load(self, lane: Route, way: _Way) -> None:
        way.load = tuple(way.waiting.popleft() for _ in range(min(LOAD_MAX, len(way.waiting))))
        commands = tuple(
            ReceiveMessage(message=item.message, sender=lane[0], outbox_key=item.key)
            for item in way.load
        )
        way.number = self._delivery.bring(
            self._shards[lane[1]], commands, lambda _: self._brought(lane, way)
        )

    def _brought(self, lane: Route, way: _Way) -> None:
        sender = self._shards[lane[0]]
        for item in way.load:
            self._shards.submit(sender, ConfirmDelivery(key=item.key))
        if way.waiting:
            self._load(lane, way)
        else:
            del self._ways[lane]
