"""Choice of the stand-in among copies that reach each other, and its time."""

from rota.core.model.ids import NodeId, ShardId
from rota.core.replication.authority.fallback_eligibility import FallbackEligibility
from rota.core.timing.instants import MILLISECOND, SECOND, Duration, Instant

SHARD = ShardId(3)
AFTER = Duration(10 * SECOND)
STEP = Duration(500 * MILLISECOND)


class Side:
    """Copies of a shard that tick together and reach each other, except those cut off."""

    def __init__(self, *names: str) -> None:
        self.now = Instant(3_600 * SECOND)
        self.copies = {
            NodeId(name): FallbackEligibility(SHARD, NodeId(name), after=AFTER, now=self.now)
            for name in names
        }
        self.cut_off: set[NodeId] = set()
        self.serves: set[NodeId] = set()

    def pass_time(self, duration_s: float, *, step: Duration = STEP) -> None:
        """Tick all copies, and deliver their announcements to each other."""
        for _ in range(int(duration_s * SECOND) // step):
            self.now = Instant(self.now + step)
            for node_id, copy in self.copies.items():
                copy.tick(self.now, is_served=node_id in self.serves, is_able=True)
            for sender, copy in self.copies.items():
                for node_id, other in self.copies.items():
                    if copy.is_ready and node_id != sender and not self.cut_off & {sender, node_id}:
                        other.record_announcement(
                            sender, is_standing=copy.is_standing, now=self.now
                        )
                        if node_id in self.serves:
                            copy.record_served(self.now)

    @property
    def standing(self) -> list[NodeId]:
        """The nodes that stand in."""
        return [node_id for node_id, copy in self.copies.items() if copy.is_standing]


def test_a_copy_alone_stands_in_after_the_time_and_not_before() -> None:
    side = Side("a")

    side.pass_time(9.5)
    assert side.standing == []

    side.pass_time(0.5)
    assert side.standing == ["a"]


def test_a_stand_in_that_reaches_a_primary_again_stops() -> None:
    side = Side("a")
    side.pass_time(20)

    side.serves.add(NodeId("a"))
    side.pass_time(0.5)

    assert side.standing == []


def test_the_time_counts_from_the_last_contact_with_the_primary() -> None:
    side = Side("a")
    side.pass_time(9)
    side.serves.add(NodeId("a"))
    side.pass_time(0.5)

    side.serves.clear()
    side.pass_time(9)

    assert side.standing == []


def test_time_in_which_the_node_itself_stood_still_does_not_count() -> None:
    side = Side("a")
    side.pass_time(1)

    side.pass_time(60, step=Duration(60 * SECOND))

    assert side.standing == []


def test_one_of_the_copies_that_reach_each_other_stands_in() -> None:
    side = Side("a", "b", "c")

    side.pass_time(20)

    assert len(side.standing) == 1


def test_no_copy_stands_in_while_one_of_them_reaches_a_primary() -> None:
    side = Side("a", "b", "c")
    side.serves.add(NodeId("b"))

    side.pass_time(20)

    assert side.standing == []


def test_a_stand_in_is_not_displaced_by_a_later_copy() -> None:
    for late in ("a", "b"):
        side = Side("a", "b")
        side.serves.add(NodeId(late))
        side.cut_off.add(NodeId(late))
        side.pass_time(15)
        before = side.standing

        side.serves.clear()
        side.cut_off.clear()
        side.pass_time(20)

        assert side.standing == before != [late]


def test_one_of_two_stand_ins_that_meet_continues() -> None:
    side = Side("a", "b")
    side.cut_off.add(NodeId("a"))
    side.pass_time(15)
    assert side.standing == ["a", "b"]

    side.cut_off.clear()
    side.pass_time(1)

    assert len(side.standing) == 1


def test_a_copy_that_becomes_able_to_stand_in_waits_the_whole_time() -> None:
    copy = FallbackEligibility(SHARD, NodeId("a"), after=AFTER, now=Instant(0))
    for tick in range(40):
        copy.tick(Instant(tick * STEP), is_served=False, is_able=False)

    copy.tick(Instant(40 * STEP), is_served=False, is_able=True)

    assert (copy.is_ready, copy.is_standing) == (False, False)


def test_a_primary_that_announces_itself_as_a_stand_in_counts_as_unable_to_commit() -> None:
    copy = FallbackEligibility(SHARD, NodeId("a"), after=AFTER, now=Instant(0))
    copy.record_announcement(NodeId("p"), is_standing=False, now=Instant(SECOND))

    assert not copy.is_silent(NodeId("p"), Instant(2 * SECOND))
    assert copy.is_silent(NodeId("p"), Instant(3 * SECOND))
    assert copy.is_silent(NodeId("q"), Instant(2 * SECOND))
