"""The right to act of a node that is alone: taken from it, and given back, by its session."""

import asyncio

import pytest

from rota.core.timing.instants import LATEST_INSTANT, Instant
from rota.node.coordination.embedded import EmbeddedCoordinator
from rota.node.runtime.wiring import NodeWiring


def lose_authority(wiring: NodeWiring, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the node's session expire by the node's own clock, without renewal."""

    async def never(*_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(EmbeddedCoordinator, "renew", never)
    wiring.foundation.liveness.session_end = Instant(0)


def regain_authority(wiring: NodeWiring) -> None:
    """Make the node's session valid again."""
    wiring.foundation.liveness.session_end = LATEST_INSTANT
