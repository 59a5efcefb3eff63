"""Ticks of shards: those at rest have none until something concerns them (PROTOCOL R44)."""

import asyncio
from collections.abc import Callable

import pytest

from rota.core.model.ids import AllocationId, Epoch, Index, NodeId, Session, ShardId
from rota.core.replication.authority.liveness import Liveness
from rota.core.replication.coordinator_continuity import CoordinatorContinuity
from rota.core.replication.messages import Fenced, QuietBeat, QuietCopy, QuietResponse
from rota.core.replication.peer_copy import PeerCopy
from rota.core.replication.primary import Copies
from rota.core.replication.timeouts import Timing
from rota.core.timing.instants import HOUR, SECOND, Duration, Instant
from rota.core.vocabulary.decision import Limits
from rota.core.vocabulary.facts import NO_FACTS
from rota.core.vocabulary.shard_configuration import Configuration, Copy
from rota.node.shards.local_shards import Shards
from rota.node.shards.quota_use import QuotaUse
from rota.storage.memory import MemoryStore
from sim.cluster.chance import SeededEntropy, SkewedClock

A, B = NodeId("a"), NodeId("b")
THEIRS = Session("theirs")
COUNT = 4


class Ticked:
    """The shards of a node that has no copies, whose primaries are on another node.

    Attributes:
        numbers: The shards that the last tick reached.
        placement: The number of the placement.
    """

    def __init__(self) -> None:
        self.numbers: list[ShardId] = []
        self.placement = 0
        clock = SkewedClock(lambda: SECOND, ahead=Duration(SECOND), drift_ppm=0)
        self.liveness = Liveness(A, born_at=clock.elapsed(), session=Session("mine"))
        self.liveness.session_end = Instant(HOUR)
        self.liveness.record_sessions({B: THEIRS})
        self.continuity = CoordinatorContinuity()
        self.shards = Shards(
            MemoryStore(),
            COUNT,
            liveness=self.liveness,
            continuity=self.continuity,
            timing=Timing(),
            copies=Copies(),
            clock=clock,
            entropy=SeededEntropy(1),
            limits=Limits(),
            ahead=Duration(0),
            facts=lambda: NO_FACTS,
            quota_use=QuotaUse(self.liveness),
            check_clock=lambda: None,
            failure=asyncio.get_running_loop().create_future(),
        )
        for number in self.shards.numbers:
            self.shards.learn(ShardId(number), theirs(Epoch(1)))

    def tick(self) -> list[ShardId]:
        """Tick once; return the shards that were ticked."""
        self.numbers.clear()
        self.shards.tick(self._targets, self.placement)
        return self.numbers

    def _targets(self, shard: ShardId) -> tuple[NodeId, ...]:
        self.numbers.append(shard)
        return (B,)


def theirs(epoch: Epoch) -> Configuration:
    """Return a configuration with the only copy on another node."""
    copy = Copy(B, AllocationId("b1"))
    return Configuration(epoch=epoch, primary=B, primary_session=THEIRS, sync=(copy,))


@pytest.fixture
async def ticked() -> Ticked:
    """Return the shards of a node, which are at rest."""
    made = Ticked()
    while made.tick():
        for shard in made.shards:
            shard.replica.take_ready()
            shard.replica.made_durable(shard.replica.copy.taken_number)
    return made


async def test_a_shard_at_rest_is_not_ticked(ticked: Ticked) -> None:
    assert ticked.tick() == []


@pytest.mark.parametrize("change", ["sessions", "health", "own session", "placement", "loss"])
async def test_each_change_of_the_circumstances_wakes_all_shards(
    ticked: Ticked, change: str
) -> None:
    match change:
        case "sessions":
            ticked.liveness.record_sessions({})
        case "health":
            ticked.liveness.record_peer(B, is_fit=False, is_prompt=True, is_leaving=False)
        case "own session":
            ticked.liveness.end_session()
        case "placement":
            ticked.placement += 1
        case _:
            ticked.continuity.lose(0, "the test says so")

    assert ticked.tick() == list(range(COUNT))


async def test_shards_whose_primary_has_no_session_are_ticked_again_and_again(
    ticked: Ticked,
) -> None:
    ticked.liveness.record_sessions({})
    ticked.tick()

    assert ticked.tick() == list(range(COUNT))


async def test_an_event_wakes_its_shard_alone(ticked: Ticked) -> None:
    ticked.shards.receive(ShardId(2), B, Fenced(epoch=Epoch(1)))

    assert ticked.tick() == [2]


async def test_a_loss_of_the_coordinators_state_freezes_shards_at_rest(ticked: Ticked) -> None:
    ticked.continuity.lose(0, "the test says so")
    ticked.tick()

    assert ticked.shards.frozen_count == COUNT


async def test_a_shard_whose_copy_is_refused_is_ticked(ticked: Ticked) -> None:
    beats = ticked.shards._quiet_beats  # pyright: ignore[reportPrivateUsage]
    peer = PeerCopy(AllocationId("b1"), next=Index(1), heard_at=Instant(2 * SECOND))
    copy = QuietCopy(ShardId(3), Epoch(1), peer.allocation, Index(0))
    beats.begin(B, peer, copy, Instant(2 * SECOND))
    ticked.tick()
    (_, beat) = beats.take_outbox()[0]
    refusal = QuietResponse(
        session=ticked.liveness.session, number=beat.number, refused=(ShardId(3),)
    )

    assert ticked.shards.receive_quiet(B, refusal)

    assert ticked.tick() == [3]


class Turns:
    """Counts the turns of shards, which do nothing here."""

    def __init__(self, ticked: Ticked) -> None:
        self._state = ticked.shards._state  # pyright: ignore[reportPrivateUsage]
        self._count = 0

    def want(self) -> None:
        """Have the next tick plan a turn."""
        self._state.wants_turn = True

    async def after(self, event: Callable[[], object]) -> int:
        """Return the number of turns that an event causes."""
        with self._state.stepping(self._step):
            await asyncio.sleep(0)  # Turns that were planned before.
            self._count = 0
            event()
            await asyncio.sleep(0)
        return self._count

    def _step(self) -> None:
        self._count += 1


async def test_a_heartbeat_has_a_turn_when_it_is_due_and_when_it_is_received(
    ticked: Ticked,
) -> None:
    turns, beats = Turns(ticked), ticked.shards._quiet_beats  # pyright: ignore[reportPrivateUsage]
    copy = QuietCopy(ShardId(3), Epoch(1), AllocationId("b1"), Index(0))
    peer = PeerCopy(copy.allocation, next=Index(1), heard_at=Instant(2 * SECOND))
    received = QuietBeat(session=THEIRS, number=1, copies=(copy,))

    before = await turns.after(ticked.tick)
    beats.begin(B, peer, copy, Instant(2 * SECOND))

    assert before == 0
    assert await turns.after(ticked.tick) == 1
    assert await turns.after(lambda: ticked.shards.receive_quiet(B, received)) == 1


async def test_log_lines_that_wait_have_a_turn_though_all_shards_rest(ticked: Ticked) -> None:
    turns = Turns(ticked)
    before = await turns.after(ticked.tick)

    turns.want()

    assert (before, await turns.after(ticked.tick)) == (0, 1)


async def test_a_shard_whose_primary_has_not_opened_it_is_not_at_rest(
    ticked: Ticked, monkeypatch: pytest.MonkeyPatch
) -> None:
    shard = next(iter(ticked.shards))
    now = Instant(2 * SECOND)
    before = shard.is_at_rest(now)

    monkeypatch.setattr(shard.replica, "primary", object())

    def rests(_now: Instant) -> bool:
        return True

    monkeypatch.setattr(shard.replica, "is_at_rest", rests)

    assert (before, shard.is_at_rest(now)) == (True, False)
