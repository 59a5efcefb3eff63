"""The timer wheel: nothing early, nothing lost, nothing twice, and the earliest first."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from rota.core.timing.instants import HOUR, SECOND, Instant
from rota.core.timing.timer_wheel import HORIZON, SLOTS, TICK, TimerWheel

START = Instant(1_000 * HOUR + 12_345)


def wheel() -> TimerWheel[str]:
    return TimerWheel(START)


def after(microseconds: int) -> Instant:
    return Instant(START + microseconds)


def test_a_timer_goes_off_at_its_instant_and_not_a_microsecond_before() -> None:
    timers = wheel()
    timers.add(after(100), "a")

    early, on_time = timers.take_due(after(99), 10), timers.take_due(after(100), 10)

    assert early == []
    assert on_time == [(after(100), "a")]


def test_timers_of_one_bucket_come_in_the_order_of_their_instants() -> None:
    timers = wheel()
    for offset in (30, 10, 20):
        timers.add(after(offset), f"at {offset}")

    taken = timers.take_due(after(SECOND), 10)

    assert [key for _, key in taken] == ["at 10", "at 20", "at 30"]


def test_the_rest_of_a_bucket_stays_for_the_next_time() -> None:
    timers = wheel()
    for offset in range(5):
        timers.add(after(offset), str(offset))

    first, second = timers.take_due(after(SECOND), 3), timers.take_due(after(SECOND), 3)

    assert [key for _, key in first + second] == ["0", "1", "2", "3", "4"]
    assert len(timers) == 0


def test_due_timers_of_several_buckets_come_before_one_that_is_not_due() -> None:
    timers = wheel()
    for ticks in (1, 3, 5, 9):
        timers.add(after(ticks * TICK), f"after {ticks}")

    taken = timers.take_due(after(6 * TICK), 10)

    assert [key for _, key in taken] == ["after 1", "after 3", "after 5"]
    assert timers.next_due() == after(9 * TICK)


def test_the_same_timer_twice_is_one() -> None:
    timers = wheel()
    timers.add(after(10), "a")
    timers.add(after(10), "a")

    assert len(timers) == 1
    assert timers.take_due(after(SECOND), 10) == [(after(10), "a")]


def test_an_overdue_timer_comes_next() -> None:
    timers = wheel()
    timers.add(after(50), "soon")
    timers.add(after(-HOUR), "overdue")

    assert timers.next_due() == after(-HOUR)
    assert [key for _, key in timers.take_due(after(50), 10)] == ["overdue", "soon"]


def test_a_timer_beyond_the_horizon_is_not_taken() -> None:
    timers = wheel()

    assert timers.horizon - START > HORIZON
    assert timers.add(Instant(timers.horizon - 1), "last")
    assert not timers.add(timers.horizon, "too far")
    assert len(timers) == 1


def test_the_horizon_moves_on_with_time() -> None:
    timers = wheel()
    before = timers.horizon

    timers.take_due(after(HOUR), 10)

    assert timers.add(before, "now near")
    assert timers.horizon == before + HOUR // TICK * TICK


def test_a_timer_a_full_turn_ahead_does_not_go_off_with_those_of_its_bucket() -> None:
    timers = wheel()
    first = Instant(START // TICK * TICK + TICK)
    timers.add(first, "now")
    timers.take_due(first, 10)

    timers.add(Instant(first + (SLOTS - 1) * TICK), "next turn")

    assert timers.take_due(Instant(first + 2 * TICK), 10) == []
    assert len(timers) == 1


def test_a_removed_timer_does_not_go_off() -> None:
    timers = wheel()
    timers.add(after(10), "a")
    timers.add(after(10), "b")

    assert timers.remove(after(10), "a")
    assert not timers.remove(after(10), "a")
    assert timers.take_due(after(SECOND), 10) == [(after(10), "b")]


def test_a_clock_set_back_makes_timers_wait() -> None:
    timers = wheel()
    timers.take_due(after(HOUR), 10)
    timers.add(after(2 * SECOND), "a")

    early, on_time = timers.take_due(after(SECOND), 10), timers.take_due(after(2 * SECOND), 10)

    assert early == []
    assert on_time == [(after(2 * SECOND), "a")]


def test_an_empty_wheel_has_nothing_due() -> None:
    timers = wheel()

    assert timers.next_due() is None
    assert timers.take_due(after(HOUR), 10) == []


@pytest.mark.parametrize("limit", [0, 1, 100])
def test_all_timers_can_be_taken_out_at_once(limit: int) -> None:
    timers = wheel()
    for offset in (0, 5, SECOND, 60 * SECOND):
        timers.add(after(offset), str(offset))
    taken = timers.take_due(after(1), limit)

    rest = timers.take_all()

    assert len(taken) + len(rest) == 4
    assert len(timers) == 0
    assert timers.next_due() is None


class _WheelAndList(RuleBasedStateMachine):
    """The wheel beside a sorted list, which needs no cleverness."""

    def __init__(self) -> None:
        super().__init__()
        self.wheel: TimerWheel[int] = TimerWheel(START)
        self.list: set[tuple[Instant, int]] = set()
        self.now = START

    @rule(
        offset=st.one_of(
            st.integers(-TICK, 3 * TICK),
            st.integers(-HOUR, HORIZON + 2 * TICK),
            st.integers(-3, SLOTS + 1).map(lambda ticks: ticks * TICK),
        ),
        key=st.integers(0, 3),
    )
    def add(self, offset: int, key: int) -> None:
        due = Instant(self.now + offset)

        taken = self.wheel.add(due, key)

        assert taken is (due < self.wheel.horizon)
        if taken:
            self.list.add((due, key))

    @precondition(lambda self: self.list)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        due, key = data.draw(st.sampled_from(sorted(self.list)))

        found = self.wheel.remove(due, key)

        # The overdue may not be found, but whatever is said to be gone is gone.
        assert found or due < self.wheel.horizon - SLOTS * TICK
        if found:
            self.list.discard((due, key))

    @rule(due=st.integers(-TICK, 3 * TICK))
    def remove_what_is_not_there(self, due: int) -> None:
        assert not self.wheel.remove(Instant(self.now + due), 99)

    @rule(
        step=st.one_of(
            st.integers(0, TICK),
            st.integers(0, 2 * HORIZON),
            st.integers(-HOUR, HOUR),
        ),
        limit=st.integers(0, 5),
    )
    def take_due(self, step: int, limit: int) -> None:
        self.now = Instant(self.now + step)
        expected = sorted(timer for timer in self.list if timer[0] <= self.now)[:limit]

        taken = self.wheel.take_due(self.now, limit)

        assert [due for due, _ in taken] == [due for due, _ in expected]
        assert self.list.issuperset(taken)
        assert len(set(taken)) == len(taken)
        self.list.difference_update(taken)
        if len(taken) < limit:
            # Nothing due is left, so the horizon has moved on with the clock.
            assert self.wheel.horizon > self.now + HORIZON

    @invariant()
    def they_agree(self) -> None:
        assert len(self.wheel) == len(self.list)
        assert self.wheel.next_due() == min((due for due, _ in self.list), default=None)


TestWheelAgreesWithAList = _WheelAndList.TestCase
TestWheelAgreesWithAList.settings = settings(max_examples=30, stateful_step_count=30, deadline=None)
