"""A follower of changes prints each change once, also one that is committed late."""

from rota.client.cli.changes.change_views import DROP_AT, SeenChanges
from rota.core.timing.instants import SECOND, Instant, format_instant, parse_instant
from rota.wire.documents import ChangeView

NOON = parse_instant("2027-01-04T12:00:00Z")


def test_a_change_is_new_once() -> None:
    seen = SeenChanges(text(0))

    assert [seen.add(change(0, 1, 1)), seen.add(change(0, 1, 1)), seen.add(change(1, 1, 1))] == [
        True,
        False,
        True,
    ]


def test_the_next_look_begins_a_minute_before_the_newest_change_but_not_before_the_first() -> None:
    seen = SeenChanges(text(0))

    seen.add(change(0, 1, 30))
    early = seen.look_from
    seen.add(change(0, 2, 100))
    seen.add(change(1, 1, 70))  # It was committed late.

    assert (early, seen.look_from) == (text(0), text(40))


def test_changes_that_are_looked_for_again_are_remembered_and_older_ones_dropped() -> None:
    seen = SeenChanges(text(0))
    for number in range(5 * DROP_AT):
        assert seen.add(change(0, number, number))

    last = 5 * DROP_AT - 1
    assert not any(seen.add(change(0, number, number)) for number in range(last - 60, last + 1))
    assert seen.count <= DROP_AT


def change(shard: int, number: int, second: int) -> ChangeView:
    return ChangeView(shard=shard, number=number, at=text(second), action="job.created")


def text(second: int) -> str:
    return format_instant(Instant(NOON + second * SECOND))
