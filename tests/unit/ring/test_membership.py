"""Nodes that may hold shards, and problems of a membership."""

from rota.core.model.ids import NodeId
from rota.ring.membership import Member, MemberState, holders_of, problems_of_members


def member(name: str, weight: float = 1.0, zone: str = "") -> Member:
    return Member(id=NodeId(name), weight=weight, zone=zone)


def test_only_active_members_of_some_weight_hold_shards() -> None:
    members = [
        member("d"),
        Member(id=NodeId("c"), state=MemberState.DRAINING),
        Member(id=NodeId("b"), state=MemberState.REMOVED),
        member("e", weight=0),
        member("a", weight=0.5),
    ]

    holders = holders_of(members)

    assert [each.id for each in holders] == ["a", "d"]


def test_a_sound_membership_has_no_problems() -> None:
    members = [member("a", 0), member("b", 100, "eu-1"), member("c.example.org", 0.25, "eu-1")]

    assert problems_of_members(members) == []


def test_every_problem_is_reported_with_its_place() -> None:
    members = [
        member("a"),
        member("a"),
        member("b", -1),
        member("c", 101),
        member("d", float("nan")),
        member("-", zone="a b"),
    ]

    problems = problems_of_members(members)

    assert [each.pointer for each in problems] == [
        "/1/id",
        "/2/weight",
        "/3/weight",
        "/4/weight",
        "/5/id",
        "/5/zone",
    ]
