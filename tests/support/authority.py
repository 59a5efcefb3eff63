"""The right to act of a node that is alone: taken from it, and given back, by its session."""

import asyncio

import pytest

from rota.core.timing.instants import LATEST_INSTANT, Instant
from rota.node.coordination.embedded import EmbeddedCoordinator
from rota.node.runtime.wiring import NodeWiring


def lose_authority(wiring: NodeWiring, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the node's session run out by its own clock, and never be renewed."""

    async def never(*_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(EmbeddedCoordinator, "renew", never)
    wiring.foundation.liveness.session_end = Instant(0)


def regain_authority(wiring: NodeWiring) -> None:
    """Have the node's session hold again."""
    wiring.foundation.liveness.session_end = LATEST_INSTANT
