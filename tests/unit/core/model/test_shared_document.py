"""Shared documents: what a change names, and to which namespace a document counts."""

from rota.core.model.shared_document import (
    FIELDS_MAX,
    SECRETS,
    DocumentKey,
    changed_fields,
    owner_of,
)


def test_changed_fields_are_named_with_their_object_and_without_values() -> None:
    before = {"a": 1, "b": {"c": "old", "d": 2, "gone": 1}, "e": [1]}
    after = {"a": 1, "b": {"c": "new", "d": 2, "more": 1}, "e": [2], "f": {"x": 1}}

    assert changed_fields("types", before, after) == ("b.c", "b.gone", "b.more", "e", "f")


def test_a_creation_and_a_deletion_change_no_single_field() -> None:
    assert changed_fields("types", None, {"a": 1}) == changed_fields("types", {"a": 1}, None) == ()


def test_the_number_of_changed_fields_is_limited() -> None:
    after = {f"f{number:02}": 1 for number in range(FIELDS_MAX + 5)}

    found = changed_fields("types", {}, after)

    assert (len(found), found[-1]) == (FIELDS_MAX + 1, "…")


def test_a_secret_has_a_new_value_or_a_new_key() -> None:
    before = {"version": 1, "kek": "k1", "wrapped": "w1", "box": "b1"}

    assert changed_fields(SECRETS, before, before | {"version": 2, "box": "b2"}) == ("value",)
    assert changed_fields(SECRETS, before, before | {"kek": "k2", "wrapped": "w2"}) == ("key",)


def test_a_document_counts_to_the_namespace_whose_administrators_can_make_it() -> None:
    def owner(kind: str, name: str, *namespaces: str) -> str:
        return owner_of(DocumentKey(kind, name), {"namespaces": list(namespaces)})

    assert owner("secrets", "team-a/db") == "team-a"
    assert owner("namespaces", "team-a") == "team-a"  # A pause makes one.
    assert owner("bindings", "b", "team-b", "team-a") == "team-a"
    assert owner("bindings", "b", "team-a", "*") == ""
    assert owner("keys", "ci") == ""
