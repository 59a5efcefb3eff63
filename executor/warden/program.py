"""The warden's process, and the guard that is its parent.

    rota-guard    holds the lock, adopts every process that lost its parent, waits for the warden
      rota-warden   the server (`rota.executor.warden.server`)
        attempts

The guard is a subreaper (prctl(2)): processes that attempts leave behind become its children, and
so do all processes that the warden leaves when it is killed. The guard then kills its descendants
until there are none, even if they left their process groups and emptied their environments. Only
then does it end, which releases the lock. If the guard is killed, the kernel kills the warden, too;
processes that they leave are found by the mark in their environment, at the beginning of the next
guard.

Files in the data directory: `warden.lock`, which is locked while there is a guard, contains the
guard's process number, to which a guard that leaves no process adds an empty line; `warden.sock` is
the socket; the others are `warden.journal` and `warden.log`.
"""

import argparse
import asyncio
import fcntl
import logging
import os
import signal
import socket
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from rota.core.model.ids import NodeId
from rota.core.timing.instants import Instant
from rota.executor.attempt_settings import settings_from
from rota.executor.executor import CLOSE_GRACE
from rota.executor.kernel.log_writer import LogWriter
from rota.executor.kernel.orphan_sweep import Swept, sweep_orphans
from rota.executor.kernel.prctl import end_with_parent, name_process, set_subreaper
from rota.executor.kernel.procfs import pids, status_of
from rota.executor.kernel.seclusion import seclude
from rota.executor.launch.secret_files import remove_all
from rota.executor.warden.connections import FromNode
from rota.executor.warden.hosted_executors import HostEnvironment, end_left
from rota.executor.warden.journal import Journal
from rota.executor.warden.paths import JOURNAL, LOCK, SOCKET, short_path
from rota.executor.warden.server import Server
from rota.executor.warden.watchdog import Watchdog

log = logging.getLogger(__name__)

EX_BUSY = 75
EX_LEFT = 74
LOCK_WAIT_S = 5.0
"""The longest wait for the lock: longer than a guard takes to end the processes of its warden."""
LOCK_PAUSE_S = 0.005
_LOCK_BYTES = 64
KILL_ROUNDS = 200
KILL_PAUSE_S = 0.005
"""The time between two rounds. A killed process ends within milliseconds; a process that hangs in
the kernel is abandoned after a second."""

SWEEP_S = 2.0
"""The time limit of one search for processes with the mark. Together with the watchdog and the kill
of all descendants, it fits into the seconds between a deadline and a new start elsewhere
(`rota.core.replication.timeouts.Timing.kill_grace`), so containers are still ended in time."""
SWEEP_AT_START_S = 15.0
"""The same limit at a start, for which only the node waits, and longer
(`rota.executor.warden.node_link.START_S`)."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a guard with a warden as its child; return when the warden has ended."""
    seclude()
    parser = argparse.ArgumentParser(prog="rota-warden")
    parser.add_argument("--directory", type=Path, required=True, help="the node's data directory")
    parser.add_argument("--node-id", required=True)
    parser.add_argument("--store-id", required=True)
    parser.add_argument("--made-of", required=True, help="digest of program and settings")
    parser.add_argument(
        "--settings", required=True, help="the node's settings for attempts, as JSON"
    )
    chosen = parser.parse_args(argv)
    directory: Path = chosen.directory
    _begin_logging()
    name_process("rota-guard")
    lock = _lock(directory / LOCK)
    if lock is None:
        log.error("another warden serves this data directory")
        return EX_BUSY
    set_subreaper(on=True)
    if not _end_earlier(chosen.store_id, is_clean=lock.is_clean):
        return EX_LEFT
    guard, warden = os.getpid(), os.fork()
    if warden:
        return _guard(warden, directory, chosen.store_id, lock)
    name_process("rota-warden")
    _begin_logging()  # The thread of the guard's is not in this process.
    end_with_parent()
    if os.getppid() != guard:  # The guard was killed before `end_with_parent`.
        os._exit(EX_LEFT)
    try:
        environment = HostEnvironment(
            directory=directory,
            node_id=NodeId(chosen.node_id),
            store_id=chosen.store_id,
            now=_now,
            environ=os.environ,
            settings=settings_from(chosen.settings),
        )
        asyncio.run(_serve(environment, chosen.made_of))
    except BaseException:
        log.exception("warden crashed")
        logging.shutdown()
        os._exit(70)
    logging.shutdown()
    # Without waiting for threads, which may hang with a disk.
    os._exit(0)


# -- the warden ------------------------------------------------------------------------------------


async def _serve(environment: HostEnvironment, made_of: str) -> None:
    loop = asyncio.get_running_loop()
    journal = Journal(environment.directory / JOURNAL)
    watchdog = Watchdog(elapsed=_elapsed, on_late=_have_all_ended)
    watchdog.start()
    server = Server(environment, journal, elapsed=_elapsed, watchdog=watchdog, made_of=made_of)
    loop.add_signal_handler(signal.SIGTERM, server.retire, CLOSE_GRACE)
    listener = await loop.create_unix_server(
        lambda: FromNode(server), sock=_listen(environment.directory)
    )
    log.info("warden started", extra={"kept": len(journal.kept)})
    try:
        await server.run()
    finally:
        listener.close()
        with suppress(FileNotFoundError):
            (environment.directory / SOCKET).unlink()
        journal.close()
    log.info("warden ended")


def _listen(directory: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    os.fchmod(listener.fileno(), 0o600)  # The mode that bind gives to the file from the beginning.
    with suppress(FileNotFoundError):
        (directory / SOCKET).unlink()
    with short_path(directory, SOCKET) as path:
        listener.bind(path)
    listener.listen()
    listener.setblocking(False)
    return listener


def _have_all_ended() -> None:
    """Request the guard to kill all attempts; this process may be unable to, or even to end."""
    os.kill(os.getppid(), signal.SIGUSR1)


def _now() -> Instant:
    return Instant(time.clock_gettime_ns(time.CLOCK_REALTIME) // 1_000)


def _elapsed() -> Instant:
    return Instant(time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000)


# -- the guard -------------------------------------------------------------------------------------


class _Lock(NamedTuple):
    """The lock that is held.

    Attributes:
        fd: The descriptor of the lock's file.
        is_clean: Whether no process of an earlier warden can be left: there was no warden, or its
            guard ended after all its processes, and added an empty line to its number.
    """

    fd: int
    is_clean: bool

    def clear(self) -> None:
        """Mark the lock as clean for the next guard, if the disk accepts the write."""
        with suppress(OSError):
            os.pwrite(self.fd, b"\n", os.fstat(self.fd).st_size)


def _lock(path: Path) -> _Lock | None:
    """Take the lock until this process and the warden have ended; None if it is not free.

    The guard of a warden that has just ended may need a moment to kill remaining processes.
    """
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    for _ in range(round(LOCK_WAIT_S / LOCK_PAUSE_S)):
        with suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            content = os.pread(lock, _LOCK_BYTES, 0)
            is_clean = not content or content.endswith(b"\n\n")
            # The file is not truncated first: if the guard were killed in between, it would seem to
            # have left no process.
            line = b"%-10d\n" % os.getpid()  # At least as long as all lines before it.
            os.pwrite(lock, line, 0)
            os.ftruncate(lock, len(line))
            return _Lock(lock, is_clean)
        time.sleep(LOCK_PAUSE_S)
    os.close(lock)
    return None


def _guard(warden: int, directory: Path, store_id: str, lock: _Lock) -> int:
    """Wait for the end of the warden, then kill all of its processes that remain."""
    # TERM to the process group, or to a whole service, is for the warden, which then ends in order.
    signal.signal(signal.SIGTERM, lambda number, _: os.kill(warden, number))

    def end_late(*_: object) -> None:
        # The warden is not waited for: if it hangs with a disk, it ends only when the disk is back.
        left = _end_all(store_id)
        end_left(directory, store_id)
        # Last, because the log may be on that disk.
        _log_left(left)
        log.error("attempts ended by the guard", extra={"reason": "the warden was blocked"})

    signal.signal(signal.SIGUSR1, end_late)
    pid, status = 0, signal.SIGKILL.value
    with suppress(ChildProcessError):  # `end_late` has killed and reaped the warden.
        while pid != warden:
            pid, status = os.wait()
    left = _end_all(store_id)
    if os.WIFSIGNALED(status):
        end_left(directory, store_id)
        log.error("warden killed", extra={"signal": os.WTERMSIG(status)})
    _log_left(left)
    if left.is_nothing:
        lock.clear()
    return os.waitstatus_to_exitcode(status)


def _end_earlier(store_id: str, *, is_clean: bool) -> bool:
    """Kill processes that earlier wardens left; return True if no process of them can be left.

    Otherwise, attempts could run twice. A process that cannot be examined may belong to an earlier
    warden, unless the last guard ended after all its processes (*is_clean*).
    """
    swept = sweep_orphans(store_id, within_s=SWEEP_AT_START_S)
    _log_unexamined(swept, SWEEP_AT_START_S)
    if swept.pids_left:
        pids_left = list(swept.pids_left)
        log.error("processes of an earlier warden cannot be ended", extra={"pids": pids_left})
        return False
    remove_all(store_id)
    if is_clean or (swept.is_complete and not swept.pids_unread):
        return True
    log.error("an earlier guard was killed, and processes that it left may run")
    return False


class _Left(NamedTuple):
    """The processes that `_end_all` could not end."""

    descendants: list[int]
    swept: Swept

    @property
    def is_nothing(self) -> bool:
        """Whether all processes have ended; those that cannot be examined are not descendants."""
        return not self.descendants and not self.swept.pids_left and self.swept.is_complete


def _end_all(store_id: str) -> _Left:
    """Kill all descendants of this process, then all other processes with the mark of *store_id*.

    The order matters: no read of the first step can hang. Nothing is logged here, as that can hang.
    The files of their secrets, which are in memory, are removed at the end.
    """
    left = _kill_descendants()
    found = _Left(left, sweep_orphans(store_id, within_s=SWEEP_S))
    remove_all(store_id)
    return found


def _kill_descendants() -> list[int]:
    """Kill all descendants of this process, and return those that cannot be ended."""
    left = _descendants()
    for _ in range(KILL_ROUNDS):
        for number in (signal.SIGSTOP, signal.SIGKILL):  # Stopped processes cannot start others.
            for pid in left:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, number)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        left = _descendants()
        if not left:
            break
        time.sleep(KILL_PAUSE_S)
    return left


def _log_left(left: _Left) -> None:
    if pids_left := [*left.descendants, *left.swept.pids_left]:
        log.error("processes cannot be ended", extra={"pids": pids_left})
    _log_unexamined(left.swept, SWEEP_S)


def _log_unexamined(swept: Swept, limit_s: float) -> None:
    if swept.pids_unread:
        unread = list(swept.pids_unread)
        log.warning("processes cannot be examined", extra={"pids": unread})
    if not swept.is_complete:
        log.error("processes not examined in time", extra={"limit_s": limit_s})


def _descendants() -> list[int]:
    """Return the descendants of this process that have not ended.

    Their numbers cannot belong to other processes: a number is not used again before its process is
    reaped, and this process, a subreaper, reaps those whose parents have ended.
    """
    children: dict[int, list[int]] = defaultdict(list)
    for pid in pids():
        status = status_of(pid)
        if status is not None and not status.has_ended:
            children[status.parent].append(pid)
    found: list[int] = []
    nearest = children[os.getpid()]
    while nearest:
        found += nearest
        nearest = [child for pid in nearest for child in children[pid]]
    return found


# -- its log ---------------------------------------------------------------------------------------


def _begin_logging() -> None:
    """Send the lines to standard error, which is the file of the log."""
    logging.basicConfig(level=logging.INFO, handlers=[LogWriter(sys.stderr.fileno())], force=True)
