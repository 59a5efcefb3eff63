"""Requests of swaps at the coordinator, with swaps of many shards in one request (PROTOCOL R28)."""

import asyncio

from rota.core.replication.coordinator_continuity import CoordinatorContinuity
from rota.core.vocabulary.shard_configuration import Swap, Swapped
from rota.node.cluster.coordinator_refusals import CoordinatorRefusals
from rota.node.cluster.loss_notices import LossNotices
from rota.node.cluster.swap_gate import SwapGate
from rota.node.cluster.swap_queue import SwapQueue
from rota.node.coordination.coordinator import Coordinator
from rota.node.coordination.coordinator_errors import CoordinatorUnavailable, OutcomeUnknown
from rota.node.shards.local_shards import Shards

RETRY_S = 0.5
SWAPS_AT_ONCE = 32  # etcd took 22 ms for 64 in one request, during which other requests wait.


class SwapRequester:
    """Requester of the swaps of a queue.

    Args:
        coordinator: The coordinator, which has the configurations.
        requests: The queue of swaps.
        gate: The gate of swap requests, closed while no swap may be requested.
        shards: The shards of this node, which get the answers.
        continuity: This node's record of the coordinator's past states.
        loss_notices: The reports of a loss, for one that an answer shows.
        refusals: Counts the coordinator's refusals.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        requests: SwapQueue,
        gate: SwapGate,
        *,
        shards: Shards,
        continuity: CoordinatorContinuity,
        loss_notices: LossNotices,
        refusals: CoordinatorRefusals,
    ) -> None:
        self._coordinator = coordinator
        self._requests = requests
        self._gate = gate
        self._shards = shards
        self._continuity = continuity
        self._loss_notices = loss_notices
        self._refusals = refusals

    async def run(self) -> None:
        """Make one request after the other until cancelled; several such loops may run at once."""
        while True:
            await self._requests.wait_swap()
            await self._gate.wait()
            swaps = self._requests.take(SWAPS_AT_ONCE)
            for swap in filter(self._is_void, swaps):
                # R31: the loss of the coordinator's state was detected while the swap waited.
                self._shards.swapped(swap, Swapped(is_done=False, current=swap.expected))
            swaps = [each for each in swaps if not self._is_void(each)]
            if swaps:  # Otherwise another request has taken the swaps, or all are void.
                for swap, answer in zip(swaps, await self._answers(swaps), strict=True):
                    self._shards.swapped(swap, answer)
                self._loss_notices.update()

    def _is_void(self, swap: Swap) -> bool:
        return self._continuity.is_void(swap.fresh.epoch)

    async def _answers(self, swaps: list[Swap]) -> list[Swapped] | list[None]:
        try:
            return await self._coordinator.swap(swaps)
        except CoordinatorUnavailable as error:
            self._refusals.note(error)
            await asyncio.sleep(RETRY_S)
            # The swaps were certainly not made, and this node has no newer configurations.
            return [Swapped(is_done=False, current=swap.expected) for swap in swaps]
        except OutcomeUnknown:
            return [None for _ in swaps]
