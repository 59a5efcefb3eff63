"""Malformed input for decoders: random bytes, damaged encodings, well-formed wrong documents.

``damages()``            damages of bytes: flipped bits; removed, inserted and repeated pieces
``trees()``, `grafted`   a well-formed document with a wrong value at one place
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeAlias, cast

from hypothesis import strategies as st

Tree: TypeAlias = "bool | int | float | str | bytes | list[Tree] | dict[str, Tree] | None"
Step: TypeAlias = "int | str"

PIECES = (
    # MessagePack: an unused code; strings, bytes, arrays and maps that claim to be very long.
    *(b"\xc1", b"\xdb\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff"),
    *(b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\x90", b"\x80", b"\xc0", b"\xd4\xff\0"),
    # JSON.
    *(b"null", b"-1", b"1e999", b"18446744073709551616", b'"', b"\\ud800", b"{", b"]", b","),
)


class Damage(NamedTuple):
    """One damage of bytes: a function and its arguments; the place is taken modulo the size."""

    how: Callable[[bytes, int, int, bytes], bytes]
    place: int
    length: int
    piece: bytes


def _flip(value: bytes, at: int, length: int, piece: bytes) -> bytes:
    del piece
    return (
        value[:at]
        + bytes(byte ^ (1 << length % 8) for byte in value[at : at + 1])
        + value[at + 1 :]
    )


def _cut(value: bytes, at: int, length: int, piece: bytes) -> bytes:
    del length, piece
    return value[:at]


def _drop(value: bytes, at: int, length: int, piece: bytes) -> bytes:
    del piece
    return value[:at] + value[at + length :]


def _repeat(value: bytes, at: int, length: int, piece: bytes) -> bytes:
    del piece
    return value[: at + length] + value[at:]


def _insert(value: bytes, at: int, length: int, piece: bytes) -> bytes:
    del length
    return value[:at] + piece + value[at:]


def _overwrite(value: bytes, at: int, length: int, piece: bytes) -> bytes:
    del length
    return value[:at] + piece + value[at + len(piece) :]


def damages() -> st.SearchStrategy[list[Damage]]:
    """Return one to three damages."""
    one = st.builds(
        Damage,
        st.sampled_from((_flip, _cut, _drop, _repeat, _insert, _overwrite)),
        st.integers(0, 1 << 16),
        st.integers(0, 40),
        st.sampled_from(PIECES) | st.binary(min_size=1, max_size=4),
    )
    return st.lists(one, min_size=1, max_size=3)


def damaged(value: bytes, by: Sequence[Damage]) -> bytes:
    """Return *value* with all damages of *by*."""
    for damage in by:
        value = damage.how(value, damage.place % (len(value) + 1), damage.length, damage.piece)
    return value


def trees() -> st.SearchStrategy[Tree]:
    """Return documents that may stand in the place of an expected one."""
    leaves = (
        st.none()
        | st.booleans()
        | st.integers(-(1 << 63), (1 << 64) - 1)
        | st.floats()
        | st.text(max_size=8)
        | st.binary(max_size=8)
    )
    # A cast, because what `recursive` gives is as deep as the leaves alone to a checker.
    deep = st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
        max_leaves=5,
    )
    return cast("st.SearchStrategy[Tree]", deep)


def grafted(tree: Tree, place: int, scion: Tree) -> Tree:
    """Return *tree* with *scion* in one of its places, which *place* chooses among all."""
    places = list(_places(tree))
    return _with(tree, places[place % len(places)], scion)


def _places(tree: Tree) -> Iterator[tuple[Step, ...]]:
    yield ()
    for step, inner in _children(tree):
        for rest in _places(inner):
            yield (step, *rest)


def _children(tree: Tree) -> Iterator[tuple[Step, Tree]]:
    match tree:
        case list():
            yield from enumerate(tree)
        case dict():
            yield from tree.items()
        case _:
            pass


def _with(tree: Tree, place: tuple[Step, ...], scion: Tree) -> Tree:
    if not place:
        return scion
    children = {
        step: _with(inner, place[1:], scion) if step == place[0] else inner
        for step, inner in _children(tree)
    }
    if isinstance(tree, list):
        return list(children.values())
    return {str(name): inner for name, inner in children.items()}
