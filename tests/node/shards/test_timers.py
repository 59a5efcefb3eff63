"""Timers: near and far, by a calendar that is set back and forth, and once each."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rota.core.model.ids import ExecutionId, JobId, ShardId
from rota.core.timing.instants import HOUR, MILLISECOND, SECOND, Duration, Instant, later
from rota.core.timing.timer_wheel import HORIZON
from rota.core.vocabulary.commands import Fire, Wake
from rota.core.vocabulary.effects import ClearTimer, SetTimer, Timescale
from rota.node.shards.timers import Timers
from rota.storage.memory import MemoryStore
from rota.storage.store import Family, StoreFailed
from support.in_process import until

NOON = Instant(1_800_000_000 * SECOND)
SHARDS = range(2)
SHARD = ShardId(1)
FAR = Duration(HORIZON + 70 * SECOND)


class Hands:
    """A calendar and an elapsed time that go when the test turns them."""

    def __init__(self) -> None:
        self.calendar, self.passed = NOON, Instant(5 * HOUR)

    def now(self) -> Instant:
        """Return the calendar's time."""
        return self.calendar

    def elapsed(self) -> Instant:
        """Return the time that only passes."""
        return self.passed

    def turn(self, duration: Duration) -> None:
        """Let time pass."""
        self.calendar, self.passed = later(self.calendar, duration), later(self.passed, duration)


class Desk:
    """Timers with their clock, their disk, and what went off when."""

    def __init__(self, store: MemoryStore | None = None) -> None:
        self.hands = Hands()
        self.store = store or MemoryStore()
        self.gone_off: list[tuple[ShardId, Fire | Wake]] = []
        self.at: list[Instant] = []
        self.failures: list[Exception] = []
        self.is_calendar_wrong = False
        self.timers = Timers(
            self.store,
            self.hands,
            self._alarm,
            may_fire=lambda: not self.is_calendar_wrong,
            on_failed=self.failures.append,
        )

    def _alarm(self, shard: ShardId, command: Fire | Wake) -> None:
        self.gone_off.append((shard, command))
        self.at.append(self.hands.calendar)

    def set(self, job: str, due: Instant) -> None:
        """Set a timer by the calendar."""
        self.timers.set(SHARD, SetTimer(due, fire(job), Timescale.WALL), self.hands.now())

    def clear(self, job: str, due: Instant) -> None:
        """Forget it."""
        self.timers.clear(SHARD, ClearTimer(due, fire(job), Timescale.WALL))

    def delay(self, task: str, delay: Duration) -> None:
        """Set a timer by the time that passes."""
        due = later(self.hands.now(), delay)
        self.timers.set(SHARD, SetTimer(due, wake(task), Timescale.ELAPSED), self.hands.now())

    @property
    def rows(self) -> int:
        """Timers on disk."""
        return len(list(self.store.scan(Family.TIMER, b"", b"\xff")))

    async def look(self) -> None:
        """Have the timers look at the clock, and return when they have."""
        self.delay("look", Duration(0))
        seen = self.gone_off.count((SHARD, wake("look")))
        await until(lambda: self.gone_off.count((SHARD, wake("look"))) > seen)

    async def live(self, duration: Duration, step: Duration = SECOND) -> None:
        """Let time pass, with the housekeeping's look at every step."""
        end = later(self.hands.passed, duration)
        while self.hands.passed < end:
            self.hands.turn(min(step, Duration(end - self.hands.passed)))
            self.timers.page_in(SHARDS)
            await self.look()

    def jobs(self) -> list[str]:
        """Return whose timers went off, in order."""
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


async def test_while_the_calendar_is_wrong_fire_times_wait_and_delays_do_not() -> None:
    async with open_desk() as desk:
        desk.set("job", later(NOON, Duration(5 * SECOND)))
        desk.is_calendar_wrong = True

        await desk.live(Duration(10 * SECOND))
        while_wrong = desk.jobs()
        desk.is_calendar_wrong = False
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


async def test_a_calendar_set_back_makes_near_timers_far_again() -> None:
    async with open_desk() as desk:
        desk.set("job", later(NOON, Duration(5 * SECOND)))

        desk.hands.calendar = later(NOON, Duration(-HOUR))
        await desk.live(Duration(10 * SECOND))
        early, rows = desk.jobs(), desk.rows
        await desk.live(Duration(HOUR), step=Duration(20 * SECOND))

        assert early == []
        assert rows == 1
        assert desk.jobs() == ["job"]
        assert desk.at[desk.gone_off.index((SHARD, fire("job")))] >= NOON


async def test_after_the_calendar_was_set_forward_no_timer_waits_for_the_next_page() -> None:
    async with open_desk() as desk:
        desk.set("job", later(NOON, Duration(FAR + 2 * SECOND)))

        # The housekeeping comes before the wheel has seen the new time.
        desk.hands.turn(FAR)
        desk.timers.page_in(SHARDS)
        await desk.look()
        await desk.live(Duration(3 * SECOND))

        assert desk.jobs() == ["job"]


async def test_a_timer_set_while_the_wheel_lags_is_not_late_by_a_page() -> None:
    async with open_desk() as desk:
        desk.hands.turn(FAR)
        desk.timers.page_in(SHARDS)

        desk.set("job", later(desk.hands.now(), Duration(2 * SECOND)))
        await desk.live(Duration(3 * SECOND))

        assert desk.jobs() == ["job"]


async def test_a_delay_does_not_care_about_the_calendar() -> None:
    async with open_desk() as desk:
        desk.delay("task", Duration(10 * SECOND))

        desk.hands.calendar = later(NOON, Duration(-HOUR))
        await desk.live(Duration(9 * SECOND))
        early = (SHARD, wake("task")) in desk.gone_off
        desk.hands.calendar = later(NOON, HOUR)
        await desk.live(Duration(2 * SECOND))

        assert not early
        assert desk.gone_off.count((SHARD, wake("task"))) == 1


async def test_cleared_delays_do_not_go_off_and_do_not_pile_up() -> None:
    async with open_desk() as desk:
        desk.delay("kept", Duration(10 * SECOND))
        for number in range(5_000):
            due = later(desk.hands.now(), Duration(9 * SECOND))
            gone = Wake(execution_id=ExecutionId(f"e{number}"), task="gone", number=2)
            desk.timers.set(SHARD, SetTimer(due, gone, Timescale.ELAPSED), desk.hands.now())
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

        desk.hands.turn(SECOND)
        await until(lambda: len(desk.jobs()) >= 2_500)

        assert sorted(desk.jobs()) == sorted({f"job-{number}" for number in range(2_500)})


async def test_timers_that_cannot_go_off_any_more_are_told() -> None:
    async with open_desk() as desk:
        desk.set("job", later(NOON, Duration(5 * SECOND)))

        desk.store.fail_next_write(StoreFailed("the disk is gone"))
        desk.hands.calendar = later(NOON, Duration(-HOUR))
        await until(lambda: bool(desk.failures))

        assert "the disk is gone" in str(desk.failures[0])


async def test_closed_timers_do_not_go_off() -> None:
    async with open_desk() as desk:
        desk.set("job", later(NOON, Duration(5 * MILLISECOND)))
        desk.timers.close()
        desk.set("another", NOON)
        desk.hands.turn(SECOND)

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
async def test_whatever_the_calendar_does_each_goes_off_once_and_not_early(
    dues: list[int], moves: list[tuple[int, int]]
) -> None:
    async with open_desk() as desk:
        for due in dues:
            desk.set(f"{due}", later(NOON, Duration(due * SECOND)))

        for passed_s, moved_s in moves:
            desk.hands.calendar = later(desk.hands.calendar, Duration(moved_s * SECOND))
            await desk.live(Duration(passed_s * SECOND), step=Duration(30 * SECOND))
        desk.hands.calendar = max(desk.hands.calendar, NOON)
        await desk.live(Duration(402 * SECOND), step=Duration(15 * SECOND))

        assert sorted(desk.jobs()) == sorted(f"{due}" for due in dues)
        for at, (_, command) in zip(desk.at, desk.gone_off, strict=True):
            if isinstance(command, Fire):
                assert at >= later(NOON, Duration(int(command.job_id) * SECOND))
