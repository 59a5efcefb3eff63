"""The order in which a recovery reads the state of etcd and of the nodes."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from rota.core.errors import Refused
from rota.core.model.ids import NodeId
from rota.node.api.handlers.recovery import recover_coordination
from rota.node.coordination.coordinator import View
from rota.node.coordination.coordinator_errors import CoordinatorUnavailable
from rota.node.peers.peer_apis import PeerApis
from rota.storage.memory import MemoryStore
from support.forwarding_nodes import proofs_of
from support.in_process import running_works
from support.request_contexts import request_to


class CountingReach:
    """Reaches no other node, and counts how often it is asked for those that it reaches."""

    def __init__(self) -> None:
        self.count = 0

    @property
    def peers(self) -> tuple[NodeId, ...]:
        """None."""
        self.count += 1
        return ()

    def watched(self, node_id: NodeId, on_lost: Callable[[], None]) -> AbstractContextManager[None]:
        """Watch nothing."""
        return nullcontext()


async def test_a_recovery_reads_etcd_before_it_asks_nodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A configuration that changes between the two is then noticed when it is replaced.
    reach = CountingReach()
    async with (
        running_works(MemoryStore(), tmp_path) as wiring,
        PeerApis.open(reach, proofs_of("n")) as others,
    ):
        context = replace(wiring.context, others=others)
        counts: list[int] = []

        async def be_away() -> View:
            counts.append(reach.count)
            raise CoordinatorUnavailable("away")

        monkeypatch.setattr(context.coordinator, "view", be_away)
        with pytest.raises(Refused, match="etcd does not respond"):
            await recover_coordination(request_to(context))

    assert counts == [0]
