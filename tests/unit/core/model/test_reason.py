"""Reasons of outcomes without what attempts determine."""

import pytest

from rota.core.model.reason import without_message


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("", ""),
        ("exited with code 3", "exited with code 3"),
        ("ValueError: no: never\nat all", "ValueError"),
        ("task a-b.c failed: shop.OutOfStock: nails", "task a-b.c failed: shop.OutOfStock"),
        ("task a failed: ValueError", "task a failed: ValueError"),
        ("task a b failed: text: more", "task a b failed"),
        (": text", ""),
    ],
)
def test_a_reason_ends_before_the_message_of_an_exception(reason: str, expected: str) -> None:
    assert without_message(reason) == expected
