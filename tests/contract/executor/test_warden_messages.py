"""Messages between node and warden, and the time of groups."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contract.executor.executor_host import EXECUTION_ID, FIRE_AT, TOKEN
from rota.core.model.attempt import AttemptKey, Ending, Order, Outcome, Report
from rota.core.model.work import Work
from rota.core.timing.instants import Duration, Instant
from rota.executor.warden.lease_groups import NEVER, LeaseGroups
from rota.executor.warden.messages import (
    FRAME_BYTES,
    Allow,
    Beat,
    Data,
    Ended,
    Forget,
    Held,
    Launch,
    Met,
    Reported,
    Stop,
    ToNode,
    ToWarden,
    frames,
    node_reader,
    warden_reader,
)

KEY = AttemptKey(EXECUTION_ID, "task", 2)
ORDER = Order(key=KEY, token=TOKEN, work=Work(shell="true"), fire_at=FIRE_AT)
ENDING = Ending(outcome=Outcome.FAILED, started_at=Instant(1), finished_at=Instant(2), exit_code=3)

TO_WARDEN: list[ToWarden] = [
    Allow({"7/s": Instant(12)}),
    Launch("7/s", ORDER),
    Stop(KEY, None),
    Stop(KEY, Duration(0)),
    Forget(KEY),
    Beat(),
]
TO_NODE: list[ToNode] = [
    Held(ORDER, None, None),
    Held(ORDER, ENDING, Report(percent=50, checkpoint=b"\0")),
    Met(1, "abc"),
    Ended(KEY, ENDING),
    Reported(KEY, Report(percent=0)),
    Data(3, True, False, b"x" * 70_000),
]


@settings(deadline=None)
@given(sizes=st.lists(st.integers(1, 5_000), min_size=1))
def test_messages_come_out_as_they_went_in_however_the_bytes_are_cut(sizes: list[int]) -> None:
    to_node, to_warden = b"".join(frames(TO_NODE)), b"".join(frames(TO_WARDEN))
    node, warden = node_reader(), warden_reader()
    found: list[object] = []

    for reader, content in ((node, to_node), (warden, to_warden)):
        while content:
            for size in sizes:
                found += reader.feed(content[:size])
                content = content[size:]

    assert found == [*TO_NODE, *TO_WARDEN]


def test_a_frame_that_says_it_is_endless_is_refused_before_it_has_come() -> None:
    with pytest.raises(msgspec.DecodeError, match="a frame of 4294967295 bytes is too long"):
        list(node_reader().feed(b"\xff" * 4))


def test_what_is_said_at_once_is_one_frame_unless_it_is_long() -> None:
    long_one = Data(1, True, True, bytes(FRAME_BYTES // 2))

    short, long = list(frames(TO_NODE)), list(frames([long_one] * 5))

    assert len(short) == 1
    assert len(long) == 3
    assert max(map(len, long)) < FRAME_BYTES * 1.1


def test_nothing_to_say_is_no_frame() -> None:
    assert list(frames([])) == []


def test_time_that_a_group_was_given_is_not_taken_back() -> None:
    groups = LeaseGroups()
    groups.allow("a", Instant(10))

    groups.allow("a", Instant(5))

    assert groups.has_time("a", Instant(9))
    assert not groups.has_time("a", Instant(10))


def test_a_group_that_was_never_allowed_has_no_time() -> None:
    groups = LeaseGroups()
    groups.add("a", KEY)

    assert not groups.has_time("a", Instant(1))
    assert not groups.has_time("b", Instant(1))
    assert list(groups.due(Instant(1))) == [KEY]


@pytest.mark.parametrize(("now", "due"), [(9, []), (10, ["x"]), (20, ["x", "y"])])
def test_attempts_are_due_when_the_time_of_their_group_is_over(now: int, due: list[str]) -> None:
    groups = LeaseGroups()
    for name, until in (("x", 10), ("y", 20)):
        groups.allow(name, Instant(until))
        groups.add(name, AttemptKey(EXECUTION_ID, name, 1))

    found = sorted(key.task for key in groups.due(Instant(now)))

    assert found == due


def test_the_next_end_is_that_of_groups_with_attempts_whose_time_is_not_over() -> None:
    groups = LeaseGroups()
    groups.allow("empty", Instant(5))
    before = groups.next_end_after(NEVER)
    groups.allow("used", Instant(10))
    groups.add("used", KEY)
    between, over = groups.next_end_after(Instant(9)), groups.next_end_after(Instant(10))

    groups.remove("used", KEY)

    assert (before, between, over, groups.next_end_after(NEVER)) == (None, 10, None, None)
