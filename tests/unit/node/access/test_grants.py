"""Grants: the verbs of a principal by namespace."""

from itertools import pairwise

import pytest

from rota.node.access.grants import KNOWN_MAX, Grant, Grants
from rota.node.access.verbs import CLUSTER_VERBS, EVERY, ROLES, Verb


def grants(role: str, *namespaces: str) -> Grants:
    """Return the grants of one binding."""
    return Grants([Grant(ROLES[role], namespaces)])


def test_a_verb_is_granted_in_the_namespaces_of_the_grant_alone() -> None:
    granted = grants("viewer", "team-a")

    assert granted.may(Verb.READ, "team-a")
    assert not granted.may(Verb.READ, "team-b")
    assert not granted.may(Verb.RUN, "team-a")


@pytest.mark.parametrize(
    ("pattern", "namespace", "is_granted"),
    [
        ("team-*", "team-a", True),
        ("team-*", "team-", True),
        ("team-*", "teams", False),
        ("*", "any", True),
        ("te*m", "team", False),
        ("team", "team-a", False),
    ],
)
def test_only_a_final_asterisk_matches_any_ending(
    pattern: str, namespace: str, *, is_granted: bool
) -> None:
    assert grants("viewer", pattern).may(Verb.READ, namespace) is is_granted


def test_the_whole_cluster_is_matched_by_the_asterisk_alone() -> None:
    assert grants("viewer", EVERY).may(Verb.READ, EVERY)
    assert not grants("viewer", "te*", "default").may(Verb.READ, EVERY)


def test_verbs_of_the_cluster_are_granted_in_the_whole_cluster_alone() -> None:
    everywhere, in_one = grants("cluster-admin", EVERY), grants("cluster-admin", "team-a")

    for verb in CLUSTER_VERBS:
        assert everywhere.may(verb, EVERY)
        assert not everywhere.may(verb, "team-a")
        assert not in_one.may(verb, EVERY)
        assert not in_one.may(verb, "team-a")


def test_the_verbs_of_several_grants_add_up() -> None:
    granted = Grants([Grant(ROLES["viewer"], ("*",)), Grant(ROLES["editor"], ("team-a",))])

    assert granted.may(Verb.WRITE, "team-a")
    assert granted.may(Verb.READ, "team-b")
    assert not granted.may(Verb.WRITE, "team-b")


def test_answers_stay_right_beyond_the_limit_of_cached_namespaces() -> None:
    granted = grants("viewer", "n1")

    found = [n for n in range(KNOWN_MAX + 10) if granted.may(Verb.READ, f"n{n}")]

    assert found == [1]
    assert granted.may(Verb.READ, "n1")


def test_each_role_of_a_namespace_has_the_verbs_of_the_role_before_it() -> None:
    names = ["viewer", "operator", "editor", "admin"]

    for lower, higher in pairwise(names):
        assert ROLES[lower] < ROLES[higher]
