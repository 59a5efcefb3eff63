"""The warden's process, and the guard that is its parent.

    rota-guard    holds the lock, adopts every process that lost its parent, waits for the warden
      rota-warden   the server (`rota.executor.warden.server`)
        attempts

The guard is a subreaper (prctl(2)): whatever attempts leave behind becomes its child, and so does
all that the warden leaves when it is killed. It then kills its descendants until there are none,
however they left their process groups and emptied their environments, and only then ends, which
sets the lock free. If the guard is killed the warden is killed with it; what they leave is found by
the mark in its environment, when the next guard starts and before anything else does.

Files, in the data directory: `warden.lock`, locked while there is a guard, says its process id, to
which a guard that leaves no process adds an empty line;
`warden.sock`, the socket; `warden.journal`; `warden.log`.
"""

import argparse
import asyncio
import fcntl
import json
import logging
import os
import signal
import socket
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from rota.core.model.ids import NodeId
from rota.core.timing.instants import Instant
from rota.executor.attempt_settings import settings_from
from rota.executor.executor import CLOSE_GRACE
from rota.executor.kernel.orphan_sweep import Swept, sweep_orphans
from rota.executor.kernel.prctl import end_with_parent, name_process, set_subreaper
from rota.executor.kernel.procfs import pids, status_of
from rota.executor.kernel.seclusion import seclude
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
"""Longer than a guard that has lost its warden takes to end what that has left."""
LOCK_PAUSE_S = 0.005
_LOCK_BYTES = 64
KILL_ROUNDS = 200
KILL_PAUSE_S = 0.005
"""A killed process is gone in milliseconds; one that hangs in the kernel is left after a second."""

SWEEP_S = 2.0
"""Of one search for processes with the mark. With the kill of all descendants before it, and the
watchdog, it fits into the seconds between a deadline and a new start elsewhere
(`rota.core.replication.timeouts.Timing.kill_grace`), so containers are still ended in time."""
SWEEP_AT_START_S = 15.0
"""At a start only the node waits, and longer (`rota.executor.warden.node_link.START_S`)."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a guard with a warden as its child; return when the warden has ended."""
    seclude()
    parser = argparse.ArgumentParser(prog="rota-warden")
    parser.add_argument("--directory", type=Path, required=True, help="the node's data directory")
    parser.add_argument("--node-id", required=True)
    parser.add_argument("--store-id", required=True)
    parser.add_argument("--made-of", required=True, help="digest of what it is made of")
    parser.add_argument("--terms", required=True, help="what the node's settings say of attempts")
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
    end_with_parent()
    if os.getppid() != guard:  # It was killed before that took effect.
        os._exit(EX_LEFT)
    try:
        environment = HostEnvironment(
            directory=directory,
            node_id=NodeId(chosen.node_id),
            store_id=chosen.store_id,
            now=_now,
            environ=os.environ,
            terms=settings_from(chosen.terms),
        )
        asyncio.run(_serve(environment, chosen.made_of))
    except BaseException:
        log.exception("warden crashed")
        os._exit(70)
    # Not by way of threads that may hang with a disk.
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
    os.fchmod(listener.fileno(), 0o600)  # What bind gives to the file: at no time is it wider.
    with suppress(FileNotFoundError):
        (directory / SOCKET).unlink()
    with short_path(directory, SOCKET) as path:
        listener.bind(path)
    listener.listen()
    listener.setblocking(False)
    return listener


def _have_all_ended() -> None:
    """Make the guard kill all attempts; this process may be unable to do so, or even to end."""
    os.kill(os.getppid(), signal.SIGUSR1)


def _now() -> Instant:
    return Instant(time.clock_gettime_ns(time.CLOCK_REALTIME) // 1_000)


def _elapsed() -> Instant:
    return Instant(time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000)


# -- the guard -------------------------------------------------------------------------------------


class _Lock(NamedTuple):
    """The lock that is held.

    Attributes:
        fd: Of its file.
        is_clean: Whether nothing of an earlier warden can be left: there was none, or its guard
            has seen the end of all its processes, and has added an empty line to its number.
    """

    fd: int
    is_clean: bool

    def clear(self) -> None:
        """Leave a clean lock to the next guard, if the disk takes it."""
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
            # Not truncated first: a guard killed in between would seem to have left nothing.
            line = b"%-10d\n" % os.getpid()  # No shorter than any before it.
            os.pwrite(lock, line, 0)
            os.ftruncate(lock, len(line))
            return _Lock(lock, is_clean)
        time.sleep(LOCK_PAUSE_S)
    os.close(lock)
    return None


def _guard(warden: int, directory: Path, store_id: str, lock: _Lock) -> int:
    """Wait for the end of the warden, then kill all processes that remain of it."""
    # TERM to the process group, or to a whole service, is for the warden, which ends orderly.
    signal.signal(signal.SIGTERM, lambda number, _: os.kill(warden, number))

    def end_late(*_: object) -> None:
        # Not waited for: a process that hangs with a disk ends only when the disk is back.
        left = _end_all(store_id)
        end_left(directory, store_id)
        # Last, because the log may be on that disk.
        _log_left(left)
        log.error("attempts ended by the guard", extra={"reason": "the warden was blocked"})

    signal.signal(signal.SIGUSR1, end_late)
    pid, status = 0, signal.SIGKILL.value
    with suppress(ChildProcessError):  # It was killed, and waited for, by `end_late`.
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
    """Kill what earlier wardens left; return True if nothing of them can be left.

    Beside it, its attempts would run twice. What cannot be examined can be theirs, unless the last
    guard has seen the end of all (*is_clean*).
    """
    swept = sweep_orphans(store_id, within_s=SWEEP_AT_START_S)
    _log_unexamined(swept, SWEEP_AT_START_S)
    if swept.pids_left:
        pids_left = list(swept.pids_left)
        log.error("processes of an earlier warden cannot be ended", extra={"pids": pids_left})
        return False
    if is_clean or (swept.is_complete and not swept.pids_unread):
        return True
    log.error("an earlier guard was killed, and processes that it left may run")
    return False


class _Left(NamedTuple):
    """What `_end_all` could not end."""

    descendants: list[int]
    swept: Swept

    @property
    def is_nothing(self) -> bool:
        """Whether all is known to have ended; what cannot be examined is no descendant."""
        return not self.descendants and not self.swept.pids_left and self.swept.is_complete


def _end_all(store_id: str) -> _Left:
    """Kill all descendants of this process, then everything else with the mark of *store_id*.

    In this order: nothing that the first step reads can hang. Does not log: that can.
    """
    left = _kill_descendants()
    return _Left(left, sweep_orphans(store_id, within_s=SWEEP_S))


def _kill_descendants() -> list[int]:
    """Kill all descendants of this process, and return those that cannot be ended."""
    left = _descendants()
    for _ in range(KILL_ROUNDS):
        for number in (signal.SIGSTOP, signal.SIGKILL):  # Stopped first, they start no others.
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
    """Return the living descendants of this process.

    Their numbers are not anybody else's: a number is not given away before the process was waited
    for, and it is this process, a subreaper, that waits for those whose parents have ended.
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


class _Lines(logging.Formatter):
    """One JSON object a line, like the node's; see docs/reference/data-directory.md."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="microseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
        }
        line |= {key: value for key, value in vars(record).items() if key not in _PLAIN}
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


_PLAIN = frozenset(vars(logging.makeLogRecord({})))


def _begin_logging() -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Lines())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
