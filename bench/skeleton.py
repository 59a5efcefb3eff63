"""A bare replicated journal: the least possible work to store a record on three disks.

A primary receives records of 512 bytes over a connection, appends them to its journal, and sends
them to two backups, which append them to their journals. Each process syncs in a separate thread;
records written during a sync are covered by the next one (group commit). Each reports the number of
its durable records. Records that are durable on all three are committed, which is reported to the
client. There are no recovery, no checks, no shards and no decisions: the skeleton is a lower bound
for rota, and the divisor of `bench.smoke`.

A connection has a stream of records in one direction, and in the other a stream of counts: the
number of records, from the first, that are durable, in eight bytes.
"""

import argparse
import asyncio
import os
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self, cast

import uvloop

from bench.processes import cpu_s

RECORD_BYTES = 512
COUNT = struct.Struct("!Q")
STOP_S = 10.0
ROOT = Path(__file__).parents[1]
OnCount = Callable[[int], None]
"""A function that is called with the number of durable, or committed, records."""


class Journal:
    """A file, and a thread that syncs it whenever records were written."""

    def __init__(self, path: Path, durable: OnCount) -> None:
        self._file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        self._loop = asyncio.get_running_loop()
        self._durable = durable
        self._written = 0
        self._is_dirty = threading.Event()
        threading.Thread(target=self._sync_for_ever, daemon=True).start()

    def append(self, records: bytes) -> None:
        """Write whole records, which are synced soon."""
        os.write(self._file, records)
        self._written += len(records) // RECORD_BYTES
        self._is_dirty.set()

    def _sync_for_ever(self) -> None:
        while self._is_dirty.wait():
            self._is_dirty.clear()  # First: records written from here on need another sync.
            written = self._written
            os.fdatasync(self._file)
            self._loop.call_soon_threadsafe(self._durable, written)


class Records(asyncio.Protocol):
    """A connection that receives records and sends counts."""

    def __init__(self, received: Callable[[bytes], None]) -> None:
        self._received = received
        self._rest = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport, to which counts are sent (called by asyncio)."""
        # uvloop's transports have the interface of asyncio's, but not its class.
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Pass on whole records (called by asyncio)."""
        data = self._rest + data
        whole = len(data) - len(data) % RECORD_BYTES
        self._rest = data[whole:]
        if whole:
            self._received(data[:whole])

    def tell(self, count: int) -> None:
        """Send a count."""
        assert self._transport is not None, "records came over it"
        self._transport.write(COUNT.pack(count))


class Counts(asyncio.Protocol):
    """The other end of a connection, which receives counts; only the last count matters."""

    def __init__(self, on_count: OnCount) -> None:
        self._on_count = on_count
        self._rest = b""

    def data_received(self, data: bytes) -> None:
        """Report the last complete count (called by asyncio)."""
        data = self._rest + data
        whole = len(data) - len(data) % COUNT.size
        self._rest = data[whole:]
        if whole:
            self._on_count(COUNT.unpack_from(data, whole - COUNT.size)[0])


async def be_backup(path: Path) -> None:
    """Run a backup: append and sync received records, and report their count."""
    connection: Records | None = None

    def durable(count: int) -> None:
        assert connection is not None, "records came over it"
        connection.tell(count)

    journal = Journal(path, durable)
    connection = Records(journal.append)
    await _serve(connection)


async def be_primary(path: Path, backups: list[int]) -> None:
    """Run a primary: append, sync and forward received records, and report the committed count."""
    places = [0] * (1 + len(backups))
    committed = 0
    peers: list[asyncio.Transport] = []

    def durable(place: int, count: int) -> None:
        nonlocal committed
        places[place] = count
        if min(places) > committed:
            committed = min(places)
            connection.tell(committed)

    def received(records: bytes) -> None:
        journal.append(records)
        for peer in peers:
            peer.write(records)

    loop = asyncio.get_running_loop()
    journal = Journal(path, lambda count: durable(0, count))
    connection = Records(received)
    for place, port in enumerate(backups, 1):

        def counts(place: int = place) -> Counts:
            return Counts(lambda count: durable(place, count))

        transport, _ = await loop.create_connection(counts, "127.0.0.1", port)
        peers.append(transport)
    await _serve(connection)


async def _serve(connection: Records) -> None:
    """Print the port, for the parent process, and accept one connection."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: connection, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


class Skeleton:
    """A primary and backups, which run as processes during the body of its ``with`` statement.

    Args:
        folder: The folder of their journals.
        copies: The number of copies of each record.
    """

    def __init__(self, folder: Path, copies: int = 3) -> None:
        self._folder = folder
        self._copies = copies
        self._processes: list[subprocess.Popen[str]] = []
        self._undo = ExitStack()
        self._port = 0

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True)
        backups = [self._start(f"backup-{number}") for number in range(1, self._copies)]
        self._port = self._start("primary", *map(str, backups))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._undo.close()

    def _start(self, name: str, *backups: str) -> int:
        process = subprocess.Popen(
            [sys.executable, "-m", "bench.skeleton", str(self._folder / name), *backups],
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        self._undo.callback(process.wait, STOP_S)
        self._undo.callback(process.kill)
        self._processes.append(process)
        assert process.stdout is not None
        self._undo.enter_context(process.stdout)
        return int(process.stdout.readline())

    @property
    def pids(self) -> list[int]:
        """The numbers of the backups' processes, and then of the primary's."""
        return [process.pid for process in self._processes]

    def cpu_s(self) -> float:
        """Return the processor time that all processes have used, in seconds."""
        return sum(map(cpu_s, self.pids))

    async def client(self) -> "Client":
        """Return a client with a connection to the primary; there may be only one."""
        loop = asyncio.get_running_loop()
        client = Client()
        transport, _ = await loop.create_connection(lambda: client.counts, "127.0.0.1", self._port)
        client.transport = transport
        return client


class Client:
    """Sends records, and waits until they are committed."""

    def __init__(self) -> None:
        self.counts = Counts(self._counted)
        self.transport: asyncio.Transport | None = None
        self._sent = 0
        self._committed = 0
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []

    async def commit(self, count: int) -> None:
        """Send *count* records together, and wait until all are committed."""
        assert self.transport is not None, "it is connected"
        self._sent += count
        self.transport.write(bytes(RECORD_BYTES * count))
        future = asyncio.get_running_loop().create_future()
        self._waiters.append((self._sent, future))
        await future

    def _counted(self, count: int) -> None:
        self._committed = count
        while self._waiters and self._waiters[0][0] <= count:
            self._waiters.pop(0)[1].set_result(None)


def main() -> None:
    """Run a backup; or the primary, if the journal is named so, with the ports of the backups."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("journal", type=Path)
    parser.add_argument("backups", type=int, nargs="*")
    chosen = parser.parse_args()
    is_primary = chosen.journal.name == "primary"
    uvloop.run(
        be_primary(chosen.journal, chosen.backups) if is_primary else be_backup(chosen.journal)
    )


if __name__ == "__main__":
    main()
