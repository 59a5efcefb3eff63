"""Bounds of answers, so that they fit into the context of a model."""

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import cast

import msgspec

ANSWER_BYTES_MAX = 64 << 10
"""The most bytes of an answer in JSON, about 20,000 tokens."""
STEPS = ((50, 2_000), (20, 500), (5, 100))
"""The most items of a list or an object, and characters of a text, in the order of the attempts."""
NOTES_MAX = 20


def bounded(content: Mapping[str, object]) -> Mapping[str, object]:
    """Return *content*, or if it is longer than `ANSWER_BYTES_MAX`, a part of it.

    A part has a member ``clipped``, a list of the places that are not whole, each a JSON pointer
    and what is left out.
    """
    if _size(content) <= ANSWER_BYTES_MAX:
        return content
    for items_max, text_max in STEPS:
        notes: list[str] = []
        clipped = cast("dict[str, object]", _clipped(content, "", items_max, text_max, notes))
        found = {**clipped, "clipped": notes[:NOTES_MAX]}
        if _size(found) <= ANSWER_BYTES_MAX:
            return found
    return {"clipped": ["the answer is too large as a whole; ask for less"]}


def _size(value: object) -> int:
    return len(msgspec.json.encode(value))


def _clipped(value: object, at: str, items_max: int, text_max: int, notes: list[str]) -> object:
    if isinstance(value, str):
        if len(value) > text_max:
            notes.append(f"{at}: {len(value) - text_max} characters are left out")
        return value[:text_max]
    if isinstance(value, Mapping):
        members = cast("Mapping[str, object]", value)
        _note(len(members), at, items_max, notes)
        return {
            name: _clipped(each, f"{at}/{name[:100]}", items_max, text_max, notes)
            for name, each in islice(members.items(), items_max)
        }
    if isinstance(value, Sequence):
        items = cast("Sequence[object]", value)
        _note(len(items), at, items_max, notes)
        return [
            _clipped(each, f"{at}/{number}", items_max, text_max, notes)
            for number, each in enumerate(items[:items_max])
        ]
    return value


def _note(count: int, at: str, items_max: int, notes: list[str]) -> None:
    if count > items_max:
        notes.append(f"{at}: {count - items_max} of {count} are left out")
