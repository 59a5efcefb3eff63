"""Documents of files in the order in which they are written."""

from typing import Any

from rota.client.cli.documents.given_documents import Given, in_order


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


def test_other_documents_keep_their_order() -> None:
    assert names_of(*(given("types", name) for name in "cab")) == ["c", "a", "b"]


def test_a_circle_and_a_wrong_definition_are_left_to_the_node() -> None:
    a, b = given("calendars", "a", includes=["b"]), given("calendars", "b", includes=["a", 7])

    assert sorted(names_of(a, b, given("calendars", "c", includes="a"))) == ["a", "b", "c"]
