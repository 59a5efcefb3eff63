"""Bringing commands to a shard, wherever its primary is, until somebody has them committed.

Outcomes of attempts and letters between jobs go this way. A shard that is open here takes them at
once; else they are sent to the newest primary known, and again at every tick, to whoever is
primary by then. A command may so be decided twice: each of them changes nothing the second time.

What is kept is bounded by what it is about: an errand for each running attempt, and one for each
two shards that write to each other.
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
from rota.node.shards.fallback_shards import FallbackShards, brought_inward
from rota.node.shards.local_shards import Shards
from rota.node.shards.shard import Answer, Shard

OnBrought = Callable[[str], None]
"""Called with why it was refused for good, or an empty text."""


@dataclass(slots=True)
class _Errand:
    number: int
    shard: Shard
    commands: tuple[DeliveredCommand, ...]
    on_brought: OnBrought
    is_asked_here: bool = False
    """Whether this node's own shard has it and has not answered."""


class Delivery:
    """What this node brings to shards, and what others bring to its own.

    Args:
        shards: Of this node.
        fallback_shards: Likewise; what attempts of a side tell goes to that, and never leaves the
        node.
        network: To the others.
        node_id: This node.
        first_number: Of an errand; random, so that what was for an earlier life of this node
            answers nothing now.
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
        self._errands: dict[int, _Errand] = {}
        self._under_way: set[tuple[NodeId, int]] = set()
        """Brought by others and being decided: a repetition waits for the same answer."""

    def __len__(self) -> int:
        return len(self._errands)

    def bring(
        self, shard: Shard, commands: tuple[DeliveredCommand, ...], on_brought: OnBrought
    ) -> int:
        """Have *commands* decided together and in this order, by whoever is primary.

        Returns:
            The errand's number, for `forget`.
        """
        if inward := brought_inward(commands):
            shard, commands = self._fallback_shards.of(shard), inward
        errand = _Errand(next(self._numbers), shard, commands, on_brought)
        self._errands[errand.number] = errand
        self._try(errand)
        return errand.number

    def forget(self, number: int) -> None:
        """Bring it no longer; it may have been, or still be."""
        self._errands.pop(number, None)

    def tick(self) -> None:
        """Try again what nobody has answered."""
        for errand in list(self._errands.values()):
            if not errand.is_asked_here:
                self._try(errand)

    def _try(self, errand: _Errand) -> None:
        shard, primary = errand.shard, errand.shard.primary_node
        if shard.is_open:
            errand.is_asked_here = True
            deciding = self._fallback_shards if is_fallback_shard(shard.id) else self._shards
            deciding.submit_together(shard, errand.commands, partial(self._answered_here, errand))
        elif primary is not None and primary != self._node_id:
            carry = Deliver(number=errand.number, commands=errand.commands)
            self._network.send(primary, shard.id, carry)

    def _answered_here(self, errand: _Errand, answer: Answer) -> None:
        errand.is_asked_here = False
        if not _is_to_be_repeated(answer):
            self._brought(errand.number, _refusal(answer))

    def _brought(self, number: int, refusal: str) -> None:
        errand = self._errands.pop(number, None)
        if errand is not None:
            errand.on_brought(refusal)

    # -- between nodes --------------------------------------------------------------------------

    def carried(self, shard: Shard, answer: DeliveryReceipt) -> None:
        """Note that the primary of *shard* has had an errand of this node committed."""
        errand = self._errands.get(answer.number)
        if errand is not None and errand.shard is shard:
            self._brought(answer.number, answer.refusal)

    def take(self, shard: Shard, sender: NodeId, carry: Deliver) -> None:
        """Have decided what another node brings; one that is not primary leaves it at that."""
        mark = sender, carry.number
        if shard.is_open and mark not in self._under_way:
            self._under_way.add(mark)
            self._shards.submit_together(
                shard, carry.commands, partial(self._answered, shard, mark)
            )

    def _answered(self, shard: Shard, mark: tuple[NodeId, int], answer: Answer) -> None:
        self._under_way.discard(mark)
        sender, number = mark
        if not _is_to_be_repeated(answer):
            carried = DeliveryReceipt(number=number, refusal=_refusal(answer))
            self._network.send(sender, shard.id, carried)


def _is_to_be_repeated(answer: Answer) -> bool:
    """Tell whether nothing was decided, or it is not known what: this node ceased to be primary."""
    return isinstance(answer, Refused) and answer.kind is Kind.UNAVAILABLE


def _refusal(answer: Answer) -> str:
    return answer.detail if isinstance(answer, Refused) else ""
