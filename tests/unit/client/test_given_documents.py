"""Documents of files in the order in which they are written."""

from typing import Any

import msgspec

from rota.client.cli.documents.given_documents import (
    APPLIED,
    AppliedDocument,
    Given,
    circles_of,
    in_order,
)
from rota.client.cli.documents.kinds import document_named
from rota.wire.documents import DocumentView


def given(kind: str, name: str, **definition: Any) -> Given:
    """Return a document of a file."""
    return Given(kind, name, definition, "file")


def names_of(*documents: Given) -> list[str]:
    """Return the names of documents in their order."""
    return [each.name for each in in_order(documents)]


def test_a_document_follows_those_that_it_names() -> None:
    shop = given("calendars", "shop", includes=["week"], excludes=["days"])
    week, days = given("calendars", "week"), given("calendars", "days", includes=["more"])
    binding, role = given("bindings", "b", role="r"), given("roles", "r")

    assert names_of(binding, shop, role, week, days, given("calendars", "more")) == [
        "r",
        "b",
        "more",
        "days",
        "week",
        "shop",
    ]


def test_the_name_of_an_applied_document_has_its_kind_as_other_commands_take_it() -> None:
    applied = AppliedDocument(**msgspec.structs.asdict(view("days")), change="created")

    name = APPLIED.name(applied)

    assert (name, document_named(name)) == ("calendar:days", "calendars:days")


def test_other_documents_keep_their_order() -> None:
    assert names_of(*(given("types", name) for name in "cab")) == ["c", "a", "b"]


def test_a_circle_and_a_wrong_definition_are_left_to_the_node() -> None:
    a, b = given("calendars", "a", includes=["b"]), given("calendars", "b", includes=["a", 7])

    assert sorted(names_of(a, b, given("calendars", "c", includes="a"))) == ["a", "b", "c"]


def test_calendars_of_files_that_name_each_other_in_a_circle_are_found() -> None:
    a, b = given("calendars", "a", includes=["b"]), given("calendars", "b", excludes=["a"])

    found = circles_of([a, b, given("calendars", "c", includes=["a"])])

    assert found["a"] == "the calendar is part of itself: a > b > a; remove one of the names"
    assert found.keys() >= {"a", "b"}


def test_calendars_that_a_node_has_are_part_of_a_circle_unless_files_replace_them() -> None:
    there = [view("b", includes=["c"]), view("c", includes=["a"])]
    a = given("calendars", "a", includes=["b"])

    assert "a > b > c > a" in circles_of([a], there)["a"]
    assert not circles_of([a, given("calendars", "c", dates=["01-01"])], there)


def test_a_circle_that_files_do_not_make_is_not_theirs() -> None:
    there = [view("a", includes=["b"]), view("b", includes=["a"])]

    assert not circles_of([given("calendars", "x")], there)


def view(name: str, **definition: Any) -> DocumentView:
    """Return a calendar of a node."""
    return DocumentView(
        kind="calendars",
        name=name,
        version=1,
        definition=definition,
        changed_at="2027-01-01T00:00:00Z",
        changed_by="ann",
    )
