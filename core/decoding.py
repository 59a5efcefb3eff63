"""Rules of decoding that msgspec lacks: its exceptions, and keys that occur twice in an object."""

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import cast

import msgspec

from rota.core.quoting import in_quotes

UNDECODABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""The errors of msgspec, and those of Python for invalid UTF-8 and for nesting that is too deep."""

NESTING_MAX = 100
"""The most levels of JSON from clients and tasks.

Python and msgspec end at about 1,000 levels, less those of their callers: what one function can
decode, another one cannot.
"""
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_LEVELS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}


def is_too_deep(content: bytes) -> bool:
    """Return True if JSON *content* has more than `NESTING_MAX` levels.

    >>> is_too_deep(b"[" * 101 + b"]" * 101)
    True
    """
    if content.count(b"[") + content.count(b"{") <= NESTING_MAX:
        return False
    # Without strings, whose quotes may be escaped: all in C, about 5 ms for a megabyte.
    plain = content.replace(b"\\\\", b"").replace(b'\\"', b"")
    brackets = b"".join(plain.split(b'"')[::2]).translate(None, _NO_BRACKETS)
    return max(accumulate(map(_LEVELS.__getitem__, brackets)), default=0) > NESTING_MAX


def repeated_key(content: bytes) -> Sequence[str] | None:
    """Return the path of the first key that an object in *content* has twice; None if none has.

    Args:
        content: Valid JSON. msgspec, as most decoders, takes the last one of equal keys.

    Raises:
        RecursionError: The values are nested too deeply.

    >>> repeated_key(b'{"tasks": [{"name": "a", "name": "b"}]}')
    ('tasks', '0', 'name')
    """
    strings = content.split(b'"')[1::2]
    if len(set(strings)) == len(strings) and b"\\" not in content:
        return None  # 0.5 us for a short job, instead of 3 us: all strings differ, so do the keys.
    text = content.decode()
    try:
        _distinct(text)
    except _RepeatedKey:
        return next(_repeated_in(_pairs(text), ()))
    return None


def second_key(path: Sequence[str]) -> str:
    """Return the error about the repeated key at *path*, in words.

    >>> second_key(("tasks", "0", "name"))
    "there is a second 'name' in tasks.0; remove one of them"
    """
    place = ".".join(path[:-1]) or "the object"
    return f"there is a second {in_quotes(path[-1])} in {place}; remove one of them"


class _RepeatedKey(Exception):
    """An object has a key twice."""


def _checked(pairs: list[tuple[str, object]]) -> None:
    if len(dict(pairs)) < len(pairs):
        raise _RepeatedKey


def _repeated_in(value: object, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield the paths of repeated keys; an object is a tuple of pairs here."""
    members: Iterable[tuple[object, object]] = ()
    if isinstance(value, tuple):
        members = cast("tuple[tuple[str, object], ...]", value)
    elif isinstance(value, list):
        members = enumerate(cast("list[object]", value))
    seen: set[object] = set()
    for key, member in members:
        here = (*path, str(key))
        if key in seen:
            yield here
        seen.add(key)
        yield from _repeated_in(member, here)


_distinct = json.JSONDecoder(
    object_pairs_hook=_checked, parse_int=str, parse_float=str, strict=False
).decode
_pairs = json.JSONDecoder(
    object_pairs_hook=tuple, parse_int=str, parse_float=str, strict=False
).decode
"""Numbers stay text, since Python refuses integers of 4,300 digits."""
