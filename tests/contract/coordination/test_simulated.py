"""Faults of the simulated coordinator, on virtual time."""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from contextlib import aclosing
from typing import Any

import pytest

from rota.core.model.ids import Epoch, NodeId, Session, ShardId
from rota.core.timing.instants import SECOND, Instant
from rota.core.vocabulary.shard_configuration import Configuration, Swap, Swapped
from rota.node.coordination.coordinator import Claim, News
from rota.node.coordination.coordinator_errors import (
    CoordinatorUnavailable,
    OutcomeUnknown,
    WatchLost,
)
from rota.node.coordination.testing.simulated_coordinator import (
    Fate,
    SimulatedCoordinator,
    SimulatedServer,
)

A, B = NodeId("node-a"), NodeId("node-b")


class _Leap(selectors.DefaultSelector):
    """Waits for nothing: time leaps to when the loop wants to wake."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:  # Any: nothing is registered.
        assert timeout is not None, "everything waits for ever"
        self.now += timeout
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop whose time passes as fast as it can."""

    def __init__(self) -> None:
        self._leap = _Leap()
        super().__init__(self._leap)

    def time(self) -> float:
        """Return the time that has been leapt to."""
        return self._leap.now


class LoopClock:
    """The loop's time."""

    def now(self) -> Instant:
        """Return the same as `elapsed`."""
        return self.elapsed()

    def elapsed(self) -> Instant:
        """Return the time since the loop began."""
        return Instant(round(asyncio.get_running_loop().time() * SECOND))


def claim(node_id: NodeId) -> Claim:
    return Claim(node_id=node_id, store_id=f"store of {node_id}", lock="lock")


class Counter:
    """An entropy without surprises."""

    drawn = 0

    def draw(self) -> int:
        """Return one more than the last time."""
        self.drawn += 1
        return self.drawn


class Links:
    """Fates by the name of the call; everything else arrives at once."""

    def __init__(self) -> None:
        self.fates: dict[str, Fate] = {}

    def fate(self, node_id: NodeId, call: str) -> Fate:
        """Return what was laid down for *call*."""
        del node_id
        return self.fates.get(call, Fate())


class World:
    """A server and a node's side of it."""

    def __init__(self) -> None:
        self.server = SimulatedServer(LoopClock())
        self.links = Links()
        self.entropy = Counter()
        self.node = SimulatedCoordinator(self.server, A, link=self.links, entropy=self.entropy)

    async def begin(self, ttl_s: float = 60) -> Session:
        """Begin the node's session."""
        return (await self.node.begin_session(claim(A), ttl_s)).session

    async def swap(self, session: Session, expected: Configuration | None = None) -> Swapped:
        """Ask for the configuration after *expected*."""
        fresh = Configuration(
            epoch=Epoch(expected.epoch + 1 if expected else 1),
            primary=A,
            primary_session=session,
        )
        wanted = Swap(shard=ShardId(1), expected=expected, fresh=fresh, by=A, session=session)
        [swapped] = await self.node.swap([wanted])
        return swapped

    def configuration(self) -> Configuration | None:
        """Return what the server has, without asking over the link."""
        return self.server.state.view().configurations.get(ShardId(1))


Scene = Callable[[World], Coroutine[None, None, None]]


def play(scene: Scene) -> None:
    """Run a test on virtual time."""

    async def whole() -> None:
        await scene(World())

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(whole())


def test_a_lost_request_does_nothing_and_is_unknown() -> None:
    async def scene(world: World) -> None:
        session = await world.begin()
        world.links.fates["swap"] = Fate(arrives_s=None)

        with pytest.raises(OutcomeUnknown, match="no answer within 3 s"):
            await world.swap(session)

        await asyncio.sleep(1_000)
        assert world.configuration() is None

    play(scene)


def test_a_lost_answer_is_unknown_and_it_was_done() -> None:
    async def scene(world: World) -> None:
        session = await world.begin()
        world.links.fates["swap"] = Fate(returns_s=None)

        with pytest.raises(OutcomeUnknown):
            await world.swap(session)

        assert world.configuration() is not None

    play(scene)


def test_a_request_may_be_carried_out_after_its_caller_gave_up() -> None:
    async def scene(world: World) -> None:
        session = await world.begin()
        world.links.fates["swap"] = Fate(arrives_s=30)
        with pytest.raises(OutcomeUnknown):
            await world.swap(session)
        assert world.configuration() is None

        await asyncio.sleep(28)

        assert world.configuration() is not None

    play(scene)


def test_a_refused_call_is_not_done() -> None:
    async def scene(world: World) -> None:
        session = await world.begin()
        world.links.fates["swap"] = Fate(is_refused=True)

        with pytest.raises(CoordinatorUnavailable):
            await world.swap(session)

        await asyncio.sleep(1_000)
        assert world.configuration() is None

    play(scene)


def test_a_question_without_an_answer_is_not_unknown() -> None:
    async def scene(world: World) -> None:
        world.links.fates["view"] = Fate(returns_s=None)

        with pytest.raises(CoordinatorUnavailable):
            await world.node.view()

    play(scene)


def test_a_renewal_is_over_within_a_second() -> None:
    async def scene(world: World) -> None:
        session = await world.begin()
        world.links.fates["renew"] = Fate(returns_s=1.5)
        began_at = world.server.clock.elapsed()

        with pytest.raises(OutcomeUnknown, match="within 1 s"):
            await world.node.renew(session)

        assert world.server.clock.elapsed() == began_at + 1 * SECOND

    play(scene)


def test_a_session_that_begins_late_does_not_end_a_later_one() -> None:
    async def scene(world: World) -> None:
        world.links.fates["begin_session"] = Fate(arrives_s=30)
        with pytest.raises(OutcomeUnknown):
            await world.begin()
        world.links.fates.clear()
        session = await world.begin()

        await asyncio.sleep(31)

        assert world.server.state.view().lives[A].session == session

    play(scene)


def test_a_session_that_an_unanswered_try_began_makes_room_for_the_next() -> None:
    async def scene(world: World) -> None:
        world.links.fates["begin_session"] = Fate(arrives_s=1, returns_s=None)
        with pytest.raises(OutcomeUnknown):
            await world.begin()
        world.links.fates.clear()

        session = await world.begin()

        assert await world.node.renew(session) == 60

    play(scene)


def test_a_server_that_is_down_takes_nothing_and_ends_no_session() -> None:
    async def scene(world: World) -> None:
        session = await world.begin(ttl_s=5)
        world.server.crash()

        with pytest.raises(CoordinatorUnavailable):
            await world.node.renew(session)
        await asyncio.sleep(100)
        world.server.restart()

        assert await world.node.renew(session) == 5

    play(scene)


def test_a_request_that_arrives_at_a_server_that_is_down_is_lost() -> None:
    async def scene(world: World) -> None:
        session = await world.begin()
        world.links.fates["swap"] = Fate(arrives_s=1)
        asyncio.get_running_loop().call_later(0.5, world.server.crash)

        with pytest.raises(OutcomeUnknown):
            await world.swap(session)

        assert world.configuration() is None

    play(scene)


def test_a_restart_resets_all_times_to_live() -> None:
    async def scene(world: World) -> None:
        session = await world.begin(ttl_s=5)
        await asyncio.sleep(4)

        world.server.restart()
        await asyncio.sleep(4)

        assert await world.node.renew(session) == 5

    play(scene)


def test_a_session_ends_on_time_without_a_request() -> None:
    async def scene(world: World) -> None:
        await world.begin(ttl_s=5)
        revision = world.server.state.revision

        async with aclosing(world.node.watch(revision)) as watch:
            step = await anext(watch)

        assert step.lives == {A: None}
        assert world.server.clock.elapsed() == 5 * SECOND

    play(scene)


def test_all_sessions_may_be_revoked_at_once() -> None:
    async def scene(world: World) -> None:
        session = await world.begin()
        await world.node.begin_session(claim(B), 60)

        world.server.change(lambda state: state.revoke_all())

        assert await world.node.renew(session) is None
        assert (await world.node.view()).lives == {}

    play(scene)


def test_a_watch_whose_history_is_compacted_is_lost() -> None:
    async def scene(world: World) -> None:
        revision = world.server.state.revision
        await world.begin()
        world.server.change(lambda state: state.compact())

        async with aclosing(world.node.watch(revision)) as watch:
            with pytest.raises(WatchLost, match="dropped"):
                await anext(watch)

    play(scene)


def test_a_watch_is_lost_when_an_older_state_is_restored() -> None:
    async def scene(world: World) -> None:
        session = await world.begin()
        backup = world.server.state.copy()
        swapped = await world.swap(session)
        revision = (await world.node.view()).revision

        world.server.restore(backup)

        async with aclosing(world.node.watch(revision)) as watch:
            with pytest.raises(WatchLost, match="went back"):
                await anext(watch)
        assert not (await world.swap(session, swapped.current)).is_done

    play(scene)


def test_a_watch_that_was_cut_off_misses_nothing() -> None:
    async def scene(world: World) -> None:
        revision = world.server.state.revision
        session = await world.begin()
        first = await world.swap(session)
        await world.swap(session, first.current)
        world.links.fates["watch"] = Fate(arrives_s=None)
        asyncio.get_running_loop().call_later(60, world.links.fates.clear)

        found: list[News] = []
        async with aclosing(world.node.watch(revision)) as watch:
            async for step in watch:
                found.append(step)
                if len(found) == 3:
                    break

        epochs = [each.epoch for step in found for each in step.configurations.values() if each]
        assert epochs == [1, 2]
        assert world.server.clock.elapsed() >= 60 * SECOND

    play(scene)


def test_a_watch_that_is_far_behind_is_lost() -> None:
    async def scene(world: World) -> None:
        revision = world.server.state.revision
        for _ in range(600):  # Two steps each.
            await world.begin()

        async with aclosing(world.node.watch(revision)) as watch:
            with pytest.raises(WatchLost):
                await anext(watch)

    play(scene)
