"""Timers: near and far, under changes of the wall clock, and once each."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rota.core.model.ids import ExecutionId, JobId, ShardId
from rota.core.timing.instants import HOUR, MILLISECOND, SECOND, Duration, Instant, later
from rota.core.timing.timer_wheel import HORIZON
from rota.core.vocabulary.commands import Fire, TimerCommand, Wake
from rota.core.vocabulary.effects import ClearTimer, SetTimer, Timescale
from rota.node.shards.timers import Timers
from rota.storage.memory import MemoryStore
from rota.storage.store import Family, StoreFailed
from support.in_process import until

NOON = Instant(1_800_000_000 * SECOND)
SHARDS = range(2)
SHARD = ShardId(1)
FAR = Duration(HORIZON + 70 * SECOND)


class SettableClock:
    """A wall clock and an elapsed time that the test sets."""

    def __init__(self) -> None:
        self.wall, self.passed = NOON, Instant(5 * HOUR)

    def now(self) -> Instant:
        """Return the time of the wall clock."""
        return self.wall

    def elapsed(self) -> Instant:
        """Return the elapsed time."""
        return self.passed

    def turn(self, duration: Duration) -> None:
        """Advance both times."""
        self.wall, self.passed = later(self.wall, duration), later(self.passed, duration)


class Desk:
    """Timers with their clock and their disk, and a record of the timers that went off."""

    def __init__(self, store: MemoryStore | None = None) -> None:
        self.clock = SettableClock()
        self.store = store or MemoryStore()
        self.gone_off: list[tuple[ShardId, TimerCommand]] = []
        self.at: list[Instant] = []
        self.failures: list[Exception] = []
        self.is_wall_clock_wrong = False
        self.postponed: dict[TimerCommand, SetTimer] = {}
        self.timers = Timers(
            self.store,
            self.clock,
            self._alarm,
            may_fire=lambda: not self.is_wall_clock_wrong,
            on_failed=self.failures.append,
        )

    def _alarm(self, shard: ShardId, command: TimerCommand) -> SetTimer | None:
        self.gone_off.append((shard, command))
        self.at.append(self.clock.wall)
        return self.postponed.pop(command, None)

    def set(self, job: str, due: Instant) -> None:
        """Set a timer by the wall clock."""
        self.timers.set(SHARD, SetTimer(due, fire(job), Timescale.WALL), self.clock.now())

    def clear(self, job: str, due: Instant) -> None:
        """Clear a timer."""
        self.timers.clear(SHARD, ClearTimer(due, fire(job), Timescale.WALL))

    def delay(self, task: str, delay: Duration) -> None:
        """Set a timer by the elapsed time."""
        due = later(self.clock.now(), delay)
        self.timers.set(SHARD, SetTimer(due, wake(task), Timescale.ELAPSED), self.clock.now())

    @property
    def rows(self) -> int:
        """Number of timers on disk."""
        return len(list(self.store.scan(Family.TIMER, b"", b"\xff")))

    async def look(self) -> None:
        """Have the timers read the clock, and wait for it."""
        self.delay("look", Duration(0))
        seen = self.gone_off.count((SHARD, wake("look")))
        await until(lambda: self.gone_off.count((SHARD, wake("look"))) > seen)

    async def live(self, duration: Duration, step: Duration = SECOND) -> None:
        """Advance the clock, with one round of housekeeping at every step."""
        end = later(self.clock.passed, duration)
        while self.clock.passed < end:
            self.clock.turn(min(step, Duration(end - self.clock.passed)))
            self.timers.page_in(SHARDS)
            await self.look()

    def jobs(self) -> list[str]:
        """Return the jobs whose timers went off, in order."""
        return [each.job_id for _, each in self.gone_off if isinstance(each, Fire)]


def fire(job: str) -> Fire:
    return Fire(job_id=JobId(job))


def wake(task: str) -> Wake:
    return Wake(execution_id=ExecutionId("e"), task=task, number=2)


@asynccontextmanager
async def open_desk(store: MemoryStore | None = None) -> AsyncGenerator[Desk]:
    desk = Desk(store)
    try:
        yield desk
    finally:
        desk.timers.close()


@pytest.fixture(autouse=True)
def _quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rota.node.shards.timers.LOOK_S", 0.001)


async def test_a_near_timer_goes_off_once_and_never_early() -> None:
    async with open_desk() as desk:
        due = later(NOON, Duration(10 * SECOND))
        desk.set("job", due)

        await desk.live(Duration(10 * SECOND - 1))
        early = desk.jobs()
        await desk.live(Duration(20 * SECOND))

        assert early == []
        assert desk.jobs() == ["job"]
        assert len(desk.timers) == 0


async def test_timers_go_off_in_the_order_of_their_times() -> None:
    async with open_desk() as desk:
        for seconds in (7, 3, 5, 1):
            desk.set(f"{seconds}", later(NOON, Duration(seconds * SECOND)))

        await desk.live(Duration(8 * SECOND), step=Duration(8 * SECOND))

        assert desk.jobs() == ["1", "3", "5", "7"]


async def test_with_a_wrong_wall_clock_fire_times_wait_and_delays_do_not() -> None:
    async with open_desk() as desk:
        desk.set("job", later(NOON, Duration(5 * SECOND)))
        desk.is_wall_clock_wrong = True

        await desk.live(Duration(10 * SECOND))
        while_wrong = desk.jobs()
        desk.is_wall_clock_wrong = False
        await desk.look()
        await desk.look()

        assert not while_wrong  # `look` itself is a delay.
        assert desk.jobs() == ["job"]


async def test_a_far_timer_waits_on_disk_and_goes_off_on_time() -> None:
    async with open_desk() as desk:
        due = later(NOON, FAR)
        desk.set("job", due)
        kept = desk.rows, len(desk.timers)

        await desk.live(Duration(FAR - 1))
        early = desk.jobs()
        await desk.live(Duration(1))

        assert kept == (1, 0)
        assert early == []
        assert desk.jobs() == ["job"]
        assert desk.rows == 0


@pytest.mark.parametrize("ahead", [Duration(SECOND), FAR])
async def test_the_same_timer_set_twice_goes_off_once(ahead: Duration) -> None:
    async with open_desk() as desk:
        desk.set("job", later(NOON, ahead))
        await desk.live(Duration(ahead - SECOND // 2))
        desk.set("job", later(NOON, ahead))

        await desk.live(Duration(60 * SECOND))

        assert desk.jobs() == ["job"]
        assert desk.rows == 0


@pytest.mark.parametrize("ahead", [Duration(SECOND), FAR])
@pytest.mark.parametrize("is_paged_in", [False, True])
async def test_a_timer_that_is_cleared_does_not_go_off(ahead: Duration, is_paged_in: bool) -> None:
    async with open_desk() as desk:
        desk.set("job", later(NOON, ahead))
        desk.set("other", later(NOON, ahead))
        if is_paged_in:
            await desk.live(Duration(ahead - SECOND // 2))

        desk.clear("job", later(NOON, ahead))
        await desk.live(Duration(ahead + SECOND))

        assert desk.jobs() == ["other"]
        assert desk.rows == 0


async def test_a_wall_clock_set_back_makes_near_timers_far_again() -> None:
    async with open_desk() as desk:
        desk.set("job", later(NOON, Duration(5 * SECOND)))

        desk.clock.wall = later(NOON, Duration(-HOUR))
        await desk.live(Duration(10 * SECOND))
        early, rows = desk.jobs(), desk.rows
        await desk.live(Duration(HOUR), step=Duration(20 * SECOND))

        assert early == []
        assert rows == 1
        assert desk.jobs() == ["job"]
        assert desk.at[desk.gone_off.index((SHARD, fire("job")))] >= NOON


async def test_after_the_wall_clock_was_set_forward_no_timer_waits_for_the_next_page() -> None:
    async with open_desk() as desk:
        desk.set("job", later(NOON, Duration(FAR + 2 * SECOND)))

        # The housekeeping comes before the wheel has seen the new time.
        desk.clock.turn(FAR)
        desk.timers.page_in(SHARDS)
        await desk.look()
        await desk.live(Duration(3 * SECOND))

        assert desk.jobs() == ["job"]


async def test_a_timer_set_while_the_wheel_lags_is_not_late_by_a_page() -> None:
    async with open_desk() as desk:
        desk.clock.turn(FAR)
        desk.timers.page_in(SHARDS)

        desk.set("job", later(desk.clock.now(), Duration(2 * SECOND)))
        await desk.live(Duration(3 * SECOND))

        assert desk.jobs() == ["job"]


async def test_a_delay_does_not_depend_on_the_wall_clock() -> None:
    async with open_desk() as desk:
        desk.delay("task", Duration(10 * SECOND))

        desk.clock.wall = later(NOON, Duration(-HOUR))
        await desk.live(Duration(9 * SECOND))
        early = (SHARD, wake("task")) in desk.gone_off
        desk.clock.wall = later(NOON, HOUR)
        await desk.live(Duration(2 * SECOND))

        assert not early
        assert desk.gone_off.count((SHARD, wake("task"))) == 1


async def test_a_delay_that_is_postponed_counts_from_the_call() -> None:
    async with open_desk() as desk:
        again = SetTimer(Instant(10 * SECOND), wake("task"), Timescale.ELAPSED)
        desk.postponed[wake("task")] = again
        desk.delay("task", Duration(SECOND))

        await desk.live(Duration(10 * SECOND))
        before = desk.gone_off.count((SHARD, wake("task")))
        await desk.live(Duration(2 * SECOND))

        assert before == 1
        assert desk.gone_off.count((SHARD, wake("task"))) == 2


async def test_cleared_delays_do_not_go_off_and_do_not_pile_up() -> None:
    async with open_desk() as desk:
        desk.delay("kept", Duration(10 * SECOND))
        for number in range(5_000):
            due = later(desk.clock.now(), Duration(9 * SECOND))
            gone = Wake(execution_id=ExecutionId(f"e{number}"), task="gone", number=2)
            desk.timers.set(SHARD, SetTimer(due, gone, Timescale.ELAPSED), desk.clock.now())
            desk.timers.clear(SHARD, ClearTimer(due, gone, Timescale.ELAPSED))
        held = len(desk.timers)

        await desk.live(Duration(11 * SECOND))

        assert held < 1_100
        assert [each.task for _, each in desk.gone_off if isinstance(each, Wake)].count("kept") == 1
        assert all(each.task != "gone" for _, each in desk.gone_off if isinstance(each, Wake))


async def test_rows_of_an_earlier_life_are_forgotten_shard_by_shard() -> None:
    store = MemoryStore()
    async with open_desk(store) as desk:
        desk.set("job", later(NOON, FAR))
        desk.timers.set(ShardId(0), SetTimer(later(NOON, FAR), fire("other"), Timescale.WALL), NOON)

    async with open_desk(store) as desk:
        desk.timers.forget(SHARD)
        await desk.live(FAR, step=Duration(20 * SECOND))

        assert desk.jobs() == ["other"]


async def test_many_due_at_once_all_go_off() -> None:
    async with open_desk() as desk:
        for number in range(2_500):
            desk.set(f"job-{number}", later(NOON, SECOND))

        desk.clock.turn(SECOND)
        await until(lambda: len(desk.jobs()) >= 2_500)

        assert sorted(desk.jobs()) == sorted({f"job-{number}" for number in range(2_500)})


async def test_a_failure_of_the_timers_is_reported() -> None:
    async with open_desk() as desk:
        desk.set("job", later(NOON, Duration(5 * SECOND)))

        desk.store.fail_next_write(StoreFailed("the disk is gone"))
        desk.clock.wall = later(NOON, Duration(-HOUR))
        await until(lambda: bool(desk.failures))

        assert "the disk is gone" in str(desk.failures[0])


async def test_closed_timers_do_not_go_off() -> None:
    async with open_desk() as desk:
        desk.set("job", later(NOON, Duration(5 * MILLISECOND)))
        desk.timers.close()
        desk.set("another", NOON)
        desk.clock.turn(SECOND)

        async with open_desk() as other:
            await other.look()

        assert desk.jobs() == []


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    dues=st.lists(st.integers(-5, 400), max_size=15, unique=True),
    moves=st.lists(st.tuples(st.integers(0, 150), st.integers(-300, 300)), max_size=8),
)
async def test_each_timer_goes_off_once_and_not_early_under_any_change_of_the_wall_clock(
    dues: list[int], moves: list[tuple[int, int]]
) -> None:
    async with open_desk() as desk:
        for due in dues:
            desk.set(f"{due}", later(NOON, Duration(due * SECOND)))

        for passed_s, moved_s in moves:
            desk.clock.wall = later(desk.clock.wall, Duration(moved_s * SECOND))
            await desk.live(Duration(passed_s * SECOND), step=Duration(30 * SECOND))
        desk.clock.wall = max(desk.clock.wall, NOON)
        await desk.live(Duration(402 * SECOND), step=Duration(15 * SECOND))

        assert sorted(desk.jobs()) == sorted(f"{due}" for due in dues)
        for at, (_, command) in zip(desk.at, desk.gone_off, strict=True):
            if isinstance(command, Fire):
                assert at >= later(NOON, Duration(int(command.job_id) * SECOND))
