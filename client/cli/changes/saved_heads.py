"""Heads of the chains of changes in a file, and their comparison with later ones.

A chain that was cut or rewritten does not have the saved change, even if all of its hashes fit each
other and its newest change is signed, as in a copy from an earlier day.
"""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from rota.core.decoding import UNDECODABLE
from rota.wire.documents import ChainView

FORMAT = 1


class HeadsInvalid(ValueError):
    """A file is not a file of heads."""


class SavedHead(msgspec.Struct, frozen=True):
    """The newest change of a shard when the file was written."""

    number: int
    hash: str
    at: str


class _Saved(msgspec.Struct, frozen=True):
    format: int
    heads: dict[int, SavedHead]


def read_heads(file: Path) -> Mapping[int, SavedHead]:
    """Return the saved heads by shard; none if there is no file yet.

    Raises:
        HeadsInvalid: The file cannot be read, or is of another kind.
    """
    try:
        content = file.read_bytes()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise HeadsInvalid(f"{file} cannot be read: {error.strerror}") from error
    try:
        saved = msgspec.json.decode(content, type=_Saved)
    except UNDECODABLE as error:
        raise HeadsInvalid(f"{file} is not a file of heads: {error}") from error
    if saved.format != FORMAT:
        raise HeadsInvalid(f"{file} has format {saved.format}; this version reads {FORMAT}")
    return saved.heads


def write_heads(file: Path, chains: Sequence[ChainView]) -> None:
    """Replace the file by the heads of *chains*, as a whole."""
    heads = {
        each.shard: SavedHead(each.last, each.hash, each.changed_at)
        for each in chains
        if each.changed_at is not None
    }
    content = msgspec.to_builtins(_Saved(FORMAT, heads), str_keys=True)
    fresh = file.with_name(f"{file.name}.new")
    with fresh.open("w") as opened:
        json.dump(content, opened, indent=1, sort_keys=True)
        opened.write("\n")
        opened.flush()
        os.fsync(opened.fileno())
    fresh.replace(file)


def compared(
    chain: ChainView, saved: SavedHead | None, hash_of: Callable[[int, SavedHead], str]
) -> ChainView:
    """Return *chain* with a fault if it has none and does not have the saved change.

    Args:
        chain: The check of a shard.
        saved: The saved head of the shard; None if it had no changes.
        hash_of: Returns the present hash of a saved change of a shard, empty if it is missing.
    """
    if saved is None or chain.fault or chain.first > saved.number:
        return chain
    if chain.last < saved.number:
        fault = f"the record was cut: its newest change is {chain.last}, that in the file is"
        return replace(chain, fault=f"{fault} {saved.number}")
    found = chain.hash if chain.last == saved.number else hash_of(chain.shard, saved)
    if found != saved.hash:
        fault = f"change {saved.number} is not the one in the file: the record was rewritten"
        return replace(chain, fault=fault)
    return chain
