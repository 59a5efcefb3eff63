"""The table of access: it follows the documents, and grants nothing that they do not grant."""

import pytest

from rota.core.model.shared_document import BINDINGS, DocumentKey
from rota.node.access.access_table import KEYS, ROLES_KIND, AccessTable
from rota.node.access.verbs import EVERY, Verb
from support.access_tables import bind, define_role, put, put_key, stored, token

CI = ("principal:ci",)


@pytest.fixture
def table() -> AccessTable:
    return AccessTable()


def may(table: AccessTable, verb: Verb, namespace: str) -> bool:
    """Return True if the principal ``ci`` has a verb."""
    return table.principal("ci", "", CI).may(verb, namespace)


def test_a_binding_grants_the_verbs_of_its_role_in_its_namespaces(table: AccessTable) -> None:
    bind(table, "principal:ci", "editor", "team-*")

    assert may(table, Verb.WRITE, "team-a")
    assert not may(table, Verb.WRITE, "ops")
    assert not may(table, Verb.GRANT, "team-a")


def test_the_bindings_of_other_subjects_grant_nothing(table: AccessTable) -> None:
    bind(table, "cert:ci", "editor", EVERY)

    assert not may(table, Verb.READ, "default")
    assert table.principal("ci", "", (*CI, "cert:ci")).may(Verb.READ, "default")


def test_a_deleted_binding_grants_nothing_any_more(table: AccessTable) -> None:
    bind(table, "principal:ci", "editor", EVERY)
    assert may(table, Verb.READ, "default")

    put(table, BINDINGS, "binding", None, version=2)

    assert not may(table, Verb.READ, "default")


def test_a_replaced_binding_counts_for_its_new_subject_alone(table: AccessTable) -> None:
    bind(table, "principal:ci", "editor", EVERY)

    bind(table, "principal:ann", "editor", EVERY)

    assert not may(table, Verb.READ, "default")


def test_a_role_may_be_defined_after_its_binding_and_has_no_verbs_before(
    table: AccessTable,
) -> None:
    bind(table, "principal:ci", "starter", "default")
    assert not may(table, Verb.RUN, "default")

    define_role(table, "starter", "run")
    assert may(table, Verb.RUN, "default")

    put(table, ROLES_KIND, "starter", None, version=2)
    assert not may(table, Verb.RUN, "default")


def test_a_document_cannot_redefine_a_built_in_role(table: AccessTable) -> None:
    define_role(table, "viewer", "write")
    bind(table, "principal:ci", "viewer", "default")

    assert not may(table, Verb.WRITE, "default")
    assert may(table, Verb.READ, "default")


def test_the_tokens_of_a_replaced_or_deleted_key_are_gone(table: AccessTable) -> None:
    one, two = token(1), token(2)
    put_key(table, "ci", stored(one))

    put_key(table, "ci", stored(two))
    assert table.credentials(one.id) == ()
    assert [each.hash for each in table.credentials(two.id)] == [two.hash]

    put(table, KEYS, "ci", None, version=2)
    assert table.credentials(two.id) == ()


def test_keys_with_the_same_token_id_do_not_replace_each_other(table: AccessTable) -> None:
    one, other = token(1), {"id": token(1).id, "hash": "0" * 64}
    put_key(table, "ci", stored(one))
    put_key(table, "ann", other)

    put(table, KEYS, "ann", None, version=2)

    assert [each.principal for each in table.credentials(one.id)] == ["ci"]


@pytest.mark.parametrize(
    "definition",
    [
        {"principal": "ci", "tokens": [{"id": "a", "hash": "é"}]},
        {"principal": "ci", "tokens": [], "from": ["nowhere"]},
        {"principal": "ci", "tokens": [{"id": "a", "expiresAt": "tomorrow"}]},
        {"principal": "ci", "tokens": [], "unheardOf": True},
        {"tokens": []},
    ],
)
def test_a_key_that_is_not_understood_has_no_tokens(
    table: AccessTable, definition: dict[str, object]
) -> None:
    put_key(table, "ci", stored(token(1)))

    put(table, KEYS, "ci", definition, version=2)

    assert table.credentials(token(1).id) == ()


def test_a_role_with_an_unknown_verb_has_no_verbs(table: AccessTable) -> None:
    bind(table, "principal:ci", "starter", "default")

    define_role(table, "starter", "run", "fly")

    assert not may(table, Verb.RUN, "default")


def test_the_cluster_counts_as_initialized_also_after_its_last_key_was_deleted(
    table: AccessTable,
) -> None:
    assert not table.is_initialized

    put(table, KEYS, "ci", None, version=2)

    assert table.is_initialized


def test_the_revision_is_the_number_of_changes_whatever_their_order(table: AccessTable) -> None:
    other = AccessTable()

    put_key(table, "ci")
    bind(table, "principal:ci", "viewer", "a")
    put(table, KEYS, "ci", None, version=2)
    bind(other, "principal:ci", "viewer", "a")
    put(other, KEYS, "ci", None, version=2)

    assert table.revision == other.revision == 3

    table.changed(DocumentKey(KEYS, "ci"), None)
    assert table.revision == 1


def test_documents_of_other_kinds_change_nothing(table: AccessTable) -> None:
    put(table, "types", "report", {})

    assert table.revision == 0
