"""Detection of a wrong wall clock from the beacons that nodes exchange (R20)."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.core.model.ids import NodeId
from rota.core.replication.authority.clock_skew import READING_MAX_AGE, ClockSkew
from rota.core.replication.messages import Beacon
from rota.core.timing.instants import HOUR, MILLISECOND, SECOND, Duration, Instant, parse_instant

NOON = parse_instant("2027-03-01T12:00:00Z")
SKEW_MAX = Duration(500 * MILLISECOND)
MS = MILLISECOND


@dataclass
class Machine:
    """A node's two clocks, and its readings of the wall clocks of others.

    Attributes:
        ahead: Microseconds by which its wall clock is ahead of true time.
        up: Microseconds between its boot and the begin of the test.
        rate_percent: Rate of its monotonic clock.
    """

    name: NodeId
    ahead: int = 0
    up: int = HOUR
    rate_percent: int = 100

    def __post_init__(self) -> None:
        self.skew = ClockSkew(SKEW_MAX)

    def wall(self, true: int) -> Instant:
        """Return the time of its wall clock."""
        return Instant(NOON + true + self.ahead)

    def elapsed(self, true: int) -> Instant:
        """Return the time of its monotonic clock."""
        return Instant(self.up + true * self.rate_percent // 100)

    def is_wrong(self, true: int) -> bool | None:
        """Return its verdict on its own wall clock: None if it has too few readings."""
        return self.skew.is_wrong(self.wall(true), self.elapsed(true))

    def send_beacon(self, other: "Machine", at: int, *, takes: int) -> None:
        """Send a beacon to another machine."""
        echo = self.skew.echo(other.name, self.elapsed(at))
        beacon = Beacon(wall=self.wall(at), at=self.elapsed(at), echo=echo, is_fit=True)
        other.skew.record(self.name, beacon, other.elapsed(at + takes))


def machines(*aheads: int) -> list[Machine]:
    return [
        Machine(NodeId(f"n{number}"), ahead, up=(number + 1) * HOUR)
        for number, ahead in enumerate(aheads)
    ]


def exchange_beacons(
    among: list[Machine], *, at: int = 0, takes: int = MS, back: int | None = None
) -> None:
    """Send all beacons twice: the second ones echo the first, which gives the round trips."""
    for round_at in (at, at + 400 * MS):
        for number, one in enumerate(among):
            for other in among[number + 1 :]:
                one.send_beacon(other, round_at, takes=takes)
                other.send_beacon(one, round_at + takes, takes=takes if back is None else back)


NOW = SECOND


@pytest.mark.parametrize(
    ("aheads", "wrong"),
    [
        ([0, 0, 0], [False, False, False]),
        ([0, 499, -499], [False, False, False]),
        ([0, 0, 600], [False, False, True]),
        ([0, 0, -600], [False, False, True]),
        ([0, 0, 3_600_000], [False, False, True]),
        ([0, 0, 0, 5_000, 5_000], [False, False, False, True, True]),
        # Two agree on one time and two on another, so none can be wrong for certain.
        ([0, 0, 5_000, 5_000], [None, None, None, None]),
        ([0, 5_000], [None, None]),
        ([0], [None]),
        # Each differs from the median of all but the middle one.
        ([-5_000, 0, 5_000], [True, None, True]),
    ],
)
def test_a_clock_that_differs_from_most_is_wrong(
    aheads: list[int], wrong: list[bool | None]
) -> None:
    among = machines(*(ahead * MS for ahead in aheads))

    exchange_beacons(among)

    assert [machine.is_wrong(NOW) for machine in among] == wrong


def test_a_clock_is_right_if_the_only_other_one_agrees() -> None:
    among = machines(0, 100 * MS)

    exchange_beacons(among)

    assert [machine.is_wrong(NOW) for machine in among] == [False, False]


def test_a_clock_that_is_set_is_wrong_before_another_beacon_arrives() -> None:
    among = machines(0, 0, 0)
    exchange_beacons(among)

    among[0].ahead = HOUR

    assert among[0].is_wrong(NOW) is True


def test_the_delay_of_messages_is_not_taken_for_a_difference() -> None:
    among = machines(0, 0, 0)

    exchange_beacons(among, takes=900 * MS)

    assert [machine.is_wrong(4 * SECOND) for machine in among] == [None, None, None]


@given(
    aheads=st.lists(st.integers(-450, 450), min_size=3, max_size=3),
    takes=st.integers(0, 2_000),
    back=st.integers(0, 2_000),
    rates=st.lists(st.sampled_from([99, 100, 101]), min_size=3, max_size=3),
    late=st.integers(0, 8_000),
)
def test_no_right_clock_is_found_wrong_however_long_messages_take(
    aheads: list[int], takes: int, back: int, rates: list[int], late: int
) -> None:
    among = machines(*(ahead // 2 * MS for ahead in aheads))
    for machine, rate in zip(among, rates, strict=True):
        machine.rate_percent = rate

    exchange_beacons(among, takes=takes * MS, back=back * MS)

    assert not any(machine.is_wrong(5 * SECOND + late * MS) for machine in among)


def test_an_exact_reading_is_not_replaced_by_a_vague_one() -> None:
    among = machines(0, 0, 700 * MS)
    exchange_beacons(among)

    exchange_beacons(among, at=2 * SECOND, takes=400 * MS)

    assert among[2].is_wrong(4 * SECOND) is True


def test_the_clock_of_a_silent_machine_counts_no_more() -> None:
    among = machines(0, 0, 5_000 * MS)
    exchange_beacons(among)

    later = NOW + READING_MAX_AGE
    among[1].send_beacon(among[2], later - 2 * MS, takes=MS)
    among[2].send_beacon(among[1], later - MS, takes=MS)
    among[1].send_beacon(among[2], later, takes=MS)

    assert among[2].is_wrong(later + MS) is None  # One other machine is left.


def test_an_old_beacon_is_not_echoed() -> None:
    one, other = machines(0, 0)

    one.send_beacon(other, 0, takes=MS)

    assert other.skew.echo(one.name, other.elapsed(SECOND)) is not None
    assert other.skew.echo(one.name, other.elapsed(5 * SECOND)) is None


def test_an_answer_to_beacons_before_the_last_boot_is_ignored() -> None:
    among = machines(0, 0, 0)
    exchange_beacons(among)
    rebooted = Machine(among[0].name, ahead=5_000 * MS, up=0)

    among[1].send_beacon(rebooted, NOW, takes=MS)
    among[2].send_beacon(rebooted, NOW, takes=MS)

    assert rebooted.is_wrong(NOW + MS) is None
