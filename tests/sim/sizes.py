"""Sizes of replication, shrunk so that truncation and snapshots in parts happen in short runs."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from types import ModuleType

from rota.core.replication import local_copy, primary, reconfiguration
from rota.storage import shards


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """The sizes that a run uses in place of the constants of the package.

    Attributes:
        window: Entries on their way to being committed (`primary.WINDOW`).
        window_bytes: Likewise, in bytes (`primary.WINDOW_BYTES`).
        part_bytes: Bytes of rows in a part of a snapshot (`primary.PART_BYTES`).
        tail: Entries kept in memory (`local_copy.TAIL_MAX`).
        journal: Applied entries kept on disk (`rota.storage.shards.JOURNAL_KEPT`).
    """

    window: int = primary.WINDOW
    window_bytes: int = primary.WINDOW_BYTES
    part_bytes: int = primary.PART_BYTES
    tail: int = local_copy.TAIL_MAX
    journal: int = shards.JOURNAL_KEPT


ORDINARY = Sizes()


def draw_sizes(chance: Random) -> Sizes:
    """Return the ordinary sizes in half of the cases, and else some that are far smaller."""
    if chance.random() < 0.5:
        return ORDINARY
    window, journal = chance.choice(
        [(ORDINARY.window, ORDINARY.journal), (1, 10), (2, 20), (8, 50)]
    )
    return Sizes(
        window=window,
        window_bytes=chance.choice([ORDINARY.window_bytes, 1, 300, 4_000]),
        part_bytes=chance.choice([ORDINARY.part_bytes, 1, 500, 4_000]),
        tail=chance.choice([ORDINARY.tail, 0, 1, 16]),
        # A journal that is shorter than the window would lose entries before they are written.
        journal=journal,
    )


@contextmanager
def in_use(sizes: Sizes) -> Generator[None]:
    """Have the package use *sizes* until the end of the block."""
    _put(sizes)
    try:
        yield
    finally:
        _put(ORDINARY)


def _put(sizes: Sizes) -> None:
    _set(primary, WINDOW=sizes.window, WINDOW_BYTES=sizes.window_bytes)
    _set(primary, PART_BYTES=sizes.part_bytes)
    _set(reconfiguration, WINDOW=sizes.window)
    _set(local_copy, TAIL_MAX=sizes.tail)
    _set(shards, JOURNAL_KEPT=sizes.journal)


def _set(module: ModuleType, **sizes: int) -> None:
    """Set constants of a module, each of which has to be there."""
    for name, size in sizes.items():
        assert hasattr(module, name), f"{module.__name__} has no {name}"
        setattr(module, name, size)
