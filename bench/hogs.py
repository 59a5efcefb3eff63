"""Programs that overload the machine (hogs): busy loops, disk writers and fork storms.

    python -m bench.hogs busy PARENT              computes without a pause
    python -m bench.hogs write PARENT FOLDER      writes and syncs without a pause
    python -m bench.hogs fork PARENT              starts processes without a pause

Each ends by itself when the process PARENT is no longer its parent, so a benchmark that is killed
leaves no hogs.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

ROUNDS = 100_000
CHUNK_BYTES = 1 << 20
CHUNKS = 64
"""The number of chunks after which a writer overwrites its file, so that no disk fills up."""
FORKS = 8
"""The number of processes of a storm at the same time."""


@contextmanager
def hogs(folder: Path, *, busy: int, writers: int, forks: int) -> Generator[None]:
    """Run the given numbers of hogs while the body runs; writers write into *folder*."""
    parent = str(os.getpid())
    kinds = [
        *([("busy", parent)] * busy),
        *([("write", parent, str(folder))] * writers),
        *([("fork", parent)] * forks),
    ]
    with ExitStack() as undo:
        for kind in kinds:
            process = subprocess.Popen([sys.executable, "-m", "bench.hogs", *kind])
            undo.callback(process.wait)
            undo.callback(process.kill)
        yield


def compute() -> Iterator[None]:
    """Compute; a step takes some milliseconds of processor time."""
    while True:
        for _ in range(ROUNDS):
            pass
        yield


def write(folder: Path) -> Iterator[None]:
    """Write a file repeatedly; a step is a megabyte and a sync."""
    path = folder / f"hog-{os.getpid()}"
    chunk = os.urandom(CHUNK_BYTES)
    with path.open("wb", buffering=0) as file:
        path.unlink()  # The open file keeps its blocks; they are freed however this process ends.
        while True:
            for number in range(CHUNKS):
                os.pwrite(file.fileno(), chunk, number * CHUNK_BYTES)
                os.fsync(file.fileno())
                yield


def fork() -> Iterator[None]:
    """Start processes that end at once; a step is `FORKS` of them."""
    while True:
        children = [_child() for _ in range(FORKS)]
        for child in children:
            os.waitpid(child, 0)
        yield


def _child() -> int:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    return pid


def main(kind: str, parent: str, *rest: str) -> None:
    """Run a hog of the kind until the parent has ended."""
    kinds: dict[str, Callable[[], Iterator[None]]] = {
        "busy": compute,
        "write": lambda: write(Path(*rest)),
        "fork": fork,
    }
    steps = kinds[kind]()
    while os.getppid() == int(parent):
        next(steps)


if __name__ == "__main__":
    main(*sys.argv[1:])
