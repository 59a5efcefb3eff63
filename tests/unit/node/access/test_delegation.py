"""Delegation: a principal writes only bindings within its own rights."""

import pytest

from rota.node.access.access_table import AccessTable
from rota.node.access.delegation import why_not_delegable
from rota.node.access.grants import is_within
from support.access_tables import bind, define_role


@pytest.fixture
def table() -> AccessTable:
    return AccessTable()


def may_write(table: AccessTable, role: str, *namespaces: str) -> bool:
    """Return True if ``ann`` may write a binding."""
    ann = table.principal("ann", "", ("principal:ann",))
    return why_not_delegable(ann, table, role, namespaces) is None


@pytest.mark.parametrize(
    ("own", "role", "namespaces", "is_allowed"),
    [
        ("team-a", "admin", ["team-a"], True),
        ("team-a", "viewer", ["team-a"], True),
        ("team-a", "viewer", ["team-b"], False),
        ("team-a", "viewer", ["team-a", "team-b"], False),
        ("team-a", "viewer", ["team-*"], False),
        ("team-a", "viewer", ["team-a*"], False),
        ("team-a", "viewer", ["*"], False),
        ("team-*", "viewer", ["team-a"], True),
        ("team-*", "viewer", ["team-*"], True),
        ("team-*", "viewer", ["team-b-*"], True),
        ("team-*", "viewer", ["te*"], False),
        ("team-*", "viewer", ["*"], False),
        ("*", "viewer", ["*"], True),
        ("*", "admin", ["team-*"], True),
        ("*", "cluster-admin", ["*"], False),
        ("*", "cluster-admin", ["team-a"], False),
        ("*", "metrics", ["*"], False),
        ("team-a", "viewer", [], False),
    ],
)
def test_a_namespace_admin_writes_bindings_within_its_own_namespaces_and_verbs(
    table: AccessTable, own: str, role: str, namespaces: list[str], *, is_allowed: bool
) -> None:
    bind(table, "principal:ann", "admin", own)

    assert may_write(table, role, *namespaces) is is_allowed


def test_the_verb_grant_alone_does_not_suffice(table: AccessTable) -> None:
    define_role(table, "granter", "grant", "read")
    define_role(table, "reader", "read")
    bind(table, "principal:ann", "granter", "team-a")

    assert may_write(table, "reader", "team-a")
    assert may_write(table, "granter", "team-a")
    assert not may_write(table, "viewer", "team-a")


def test_all_verbs_without_grant_do_not_suffice(table: AccessTable) -> None:
    bind(table, "principal:ann", "editor", "team-a")

    assert not may_write(table, "viewer", "team-a")


def test_a_role_that_does_not_exist_yet_cannot_be_given(table: AccessTable) -> None:
    bind(table, "principal:ann", "admin", "team-a")

    assert not may_write(table, "later", "team-a")


def test_the_verbs_of_separate_bindings_count_in_their_own_namespaces(table: AccessTable) -> None:
    define_role(table, "granter", "grant")
    bind(table, "principal:ann", "granter", "team-*", name="one")
    bind(table, "principal:ann", "viewer", "team-a", name="two")

    assert may_write(table, "viewer", "team-a")
    assert not may_write(table, "viewer", "team-b")


def test_an_administrator_of_the_cluster_may_write_any_binding(table: AccessTable) -> None:
    bind(table, "principal:ann", "cluster-admin", "*")

    assert may_write(table, "cluster-admin", "*")
    assert may_write(table, "later", "team-a")


def test_an_administrator_bound_in_one_namespace_is_none_of_the_cluster(
    table: AccessTable,
) -> None:
    bind(table, "principal:ann", "cluster-admin", "team-a")

    assert not may_write(table, "cluster-admin", "*")
    assert not may_write(table, "cluster-admin", "team-a")
    assert may_write(table, "admin", "team-a")


@pytest.mark.parametrize(
    ("narrow", "wide", "is_so"),
    [
        ("a", "a", True),
        ("a", "a*", True),
        ("a*", "a", False),
        ("a*", "a*", True),
        ("ab*", "a*", True),
        ("a*", "ab*", False),
        ("a", "*", True),
        ("*", "*", True),
        ("*", "a*", False),
        ("*", "", False),
    ],
)
def test_a_pattern_is_within_the_same_and_within_wider_ones(
    narrow: str, wide: str, *, is_so: bool
) -> None:
    assert is_within(narrow, wide) is is_so
