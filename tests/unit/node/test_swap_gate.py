"""The gate of swap requests: the views that open it, and the sessions that close it."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field

import pytest

from rota.core.model.ids import NodeId, Session, ShardId
from rota.core.replication.authority.liveness import Liveness
from rota.core.replication.timeouts import Timing
from rota.core.timing.instants import later
from rota.node.cluster.swap_gate import SwapGate
from rota.node.cluster.swap_queue import SwapQueue
from rota.node.peers.messages import Sent
from rota.node.system.clock import SystemClock

A, B, C = NodeId("a"), NodeId("b"), NodeId("c")
OWN, NEXT = Session("own"), Session("next")
OTHERS = {B: Session("b1"), C: Session("c1")}


class Links:
    """Links to all other nodes; the gate sends nothing."""

    peers: tuple[NodeId, ...] = (B, C)

    def send(self, receiver: NodeId, shard: ShardId | None, message: Sent) -> None:
        """Refuse to send."""
        raise AssertionError((receiver, shard, message))


@dataclass
class Gated:
    """A gate of node A, which has the session `OWN`."""

    clock: SystemClock = field(default_factory=SystemClock)
    requests: SwapQueue = field(default_factory=SwapQueue)

    def __post_init__(self) -> None:
        self.liveness = Liveness(A, born_at=self.clock.elapsed(), sessions={A: OWN, **OTHERS})
        self.gate = SwapGate(
            self.liveness,
            Links(),
            self.requests,
            timing=Timing(),
            clock=self.clock,
            is_alone=False,
        )
        self.begin(OWN)

    def begin(self, session: Session) -> None:
        """Begin a session of this node."""
        now = self.clock.elapsed()
        self.liveness.begin_session(session, later(now, Timing().session))
        self.gate.begin_session(now)

    async def is_open(self) -> bool:
        """Return True if requests do not wait."""
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(self.gate.wait())
            await asyncio.sleep(0)
            is_open = waiting.done()
            waiting.cancel()
        return is_open


def run(story: Callable[[Gated], Coroutine[None, None, None]]) -> None:
    async def main() -> None:
        await story(Gated())

    asyncio.run(main())


def test_a_view_that_was_requested_while_all_live_nodes_were_linked_opens_the_gate() -> None:
    async def story(gated: Gated) -> None:
        was_open = await gated.is_open()

        gated.gate.see_view({A: OWN, **OTHERS}, (B, C))

        assert not was_open
        assert await gated.is_open()

    run(story)


@pytest.mark.parametrize(
    ("sessions", "linked"),
    [
        ({A: OWN, **OTHERS}, (B,)),
        ({A: Session("before"), **OTHERS}, (B, C)),
        (OTHERS, (B, C)),
    ],
    ids=["a live node is not linked", "of the session before", "without the own session"],
)
def test_other_views_open_no_gate(
    sessions: dict[NodeId, Session], linked: tuple[NodeId, ...]
) -> None:
    async def story(gated: Gated) -> None:
        gated.gate.see_view(sessions, linked)

        assert not await gated.is_open()

    run(story)


def test_a_new_session_closes_the_gate_and_requests_a_view() -> None:
    async def story(gated: Gated) -> None:
        gated.gate.see_view({A: OWN, **OTHERS}, (B, C))
        gated.liveness.record_sessions({A: NEXT, **OTHERS})
        gated.requests.view_wanted.clear()

        gated.begin(NEXT)

        assert not await gated.is_open()
        assert gated.requests.view_wanted.is_set()

    run(story)
