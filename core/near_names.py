"""Suggestions of existing names that are similar to one that does not exist."""

from collections.abc import Iterable
from itertools import islice

from rota.core.quoting import in_quotes

SUGGESTIONS_MAX = 3
COMPARED_MAX = 128
"""The most names that are compared one by one; a comparison takes up to 50 us."""
MISTAKES_MAX = 2
"""The most mistakes in a similar name: a character that is wrong, missing or too many, or two
neighbouring characters in the wrong order."""
CHARACTERS_PER_MISTAKE = 3
"""A name has at most one mistake for so many characters, so that not all short names are similar to
each other."""


def did_you_mean(name: str, existing: Iterable[str], *, prefix: str = "") -> str:
    """Return a hint with the names of *existing* that are similar to *name*; empty without one.

    Args:
        name: The name that does not exist.
        existing: The names that exist. Only those with about the same length and the same first or
            last character are compared, and at most `COMPARED_MAX` of them.
        prefix: The text in front of each suggested name, such as its namespace.
    """
    near = [in_quotes(f"{prefix}{each}") for each in near_names(name, existing)]
    return f"did you mean {' or '.join(near)}?" if near else ""


def near_names(name: str, existing: Iterable[str]) -> list[str]:
    """Return the names of *existing* that are similar to *name*, the most similar first."""
    most = min(MISTAKES_MAX, len(name) // CHARACTERS_PER_MISTAKE)
    alike = (
        each
        for each in existing
        if abs(len(each) - len(name)) <= most
        and each != name
        and (each[:1] == name[:1] or each[-1:] == name[-1:])
    )
    counted = ((_mistakes(name, each, most), each) for each in islice(alike, COMPARED_MAX))
    return [each for count, each in sorted(counted) if count <= most][:SUGGESTIONS_MAX]


def _mistakes(given: str, meant: str, most: int) -> int:
    """Return the number of mistakes in *given*; a number greater than *most* if there are more."""
    if given == meant:
        return 0
    if not most:
        return 1
    pairs = enumerate(zip(given, meant, strict=False))
    same = next((at for at, (one, other) in pairs if one != other), min(len(given), len(meant)))
    given, meant = given[same:], meant[same:]
    rests = [(given[1:], meant[1:]), (given[1:], meant), (given, meant[1:])]
    if given[:2] == meant[1::-1]:
        rests.append((given[2:], meant[2:]))
    return 1 + min(_mistakes(one, other, most - 1) for one, other in rests)
