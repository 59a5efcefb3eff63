"""A worker as seen by the executor: a process, a socket for calls, a pipe with its output.

The process leads its own session and group, so the group can be killed as a whole. It is not reaped
before its group has been killed: while it is a zombie, its number still identifies the group.
"""

import asyncio
import fcntl
import os
import signal
import sys
import termios
from collections import deque
from concurrent.futures import Executor, Future
from contextlib import suppress
from typing import NamedTuple, Protocol

from rota.executor.executor import READ_BYTES
from rota.executor.kernel.subreaper import end_descendants
from rota.executor.python.environment import Environment
from rota.executor.python.worker_protocol import (
    Call,
    Ended,
    Frames,
    Garbled,
    Message,
    Ready,
    TaskReport,
    framed,
)
from rota.executor.python.worker_start import StartedWorker, end_rest

FAREWELL_S = 5.0
"""The time that a retired worker has to end and to run its ``atexit`` functions."""

SAID_BYTES_MAX = 4096


class WorkerEnd(NamedTuple):
    """The end of a worker.

    Attributes:
        exit_code: The exit code; -1 if a signal ended the worker.
        signal: The signal that ended it, or 0.
        is_call_unread: True if the worker did not read its call.
        is_out_of_memory: True if processes were killed at its memory limit.
    """

    exit_code: int
    signal: int
    is_call_unread: bool
    is_out_of_memory: bool


class Served(Protocol):
    """The attempt whose call is under way."""

    def received(self, message: TaskReport | Ended) -> None:
        """Process a message of the worker."""
        ...

    def wrote(self, chunk: bytes) -> None:
        """Process a part of the output."""
        ...

    def lost(self, death: WorkerEnd) -> None:
        """Process the end of the worker, whose pipe can still be read."""
        ...


class Keeper(Protocol):
    """The owner of a worker: its pool."""

    def ready(self, worker: "WorkerProcess") -> None:
        """Process the worker's message that it is ready for its first call."""
        ...

    def gone(self, worker: "WorkerProcess", death: WorkerEnd) -> None:
        """Process the end of the worker."""
        ...


class WorkerProcess:
    """One worker, from its start to its end.

    Args:
        started: The process of the worker.
        environment: The environment of its calls.
        keeper: The pool of the worker.
        killer: A pool of one thread, for blocking calls.
        loop: The loop for everything else.

    Attributes:
        environment: The environment of its calls.
        folder: Its private folder, or None.
        control: The socket for calls.
        unenforced: One sentence for each limit that is not enforced.
        started_at: The time of its start, on the loop's clock.
        idle_since: The time since which it has had no call, on the loop's clock.
        call_count: The number of its calls.
        resident_first: The resident memory after its first call, in bytes; 0 before.
        said: The end of its output outside calls.
        is_usable: True if it may get a call.
    """

    def __init__(
        self,
        started: StartedWorker,
        environment: Environment,
        *,
        keeper: Keeper,
        killer: Executor,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.environment = environment
        self.folder = started.folder
        self.unenforced = started.limited.unenforced
        self.started_at = self.idle_since = loop.time()
        self.call_count = 0
        self.resident_first = 0
        self.said = b""
        self.is_usable = True
        self._mark = started.mark
        self._cgroup = started.limited.cgroup
        self._pid, self._pidfd = started.pid, started.pidfd
        self.control, self._pipe = started.control, started.pipe
        self._keeper = keeper
        self._killer = killer
        self._loop = loop
        self._frames = Frames()
        self._received: deque[Message] = deque()
        self._unsent = b""
        self._is_call_unread = False
        self._served: Served | None = None
        self._kill_timer: asyncio.TimerHandle | None = None
        self._was_killed = False
        self._is_paused = False
        loop.add_reader(self.control, self._listen)
        loop.add_reader(self._pipe, self._read)
        loop.add_reader(self._pidfd, self._exited)

    # -- calls -------------------------------------------------------------------------------------

    def call(self, served: Served, call: Call) -> None:
        """Send a call to the worker, which must be idle."""
        assert self._served is None, f"worker {self._pid} is given a call during another"
        self._served = served
        self.call_count += 1
        self._unsent = framed(call)
        self._send()
        if self._unsent:
            self._loop.add_writer(self.control, self._send_rest)

    def release(self) -> None:
        """Forget the attempt that was served."""
        self._served = None
        if self._pidfd < 0:
            self._close_pipe()

    def has_answered(self) -> bool:
        """Return True if the call or the process has ended, even if that is not processed yet.

        The attempt is then notified in a later turn of the loop.
        """
        if self.control.fileno() >= 0:
            self._receive()
        if self._received:
            self._loop.call_soon(self._dispatch)
        has_ended_message = any(isinstance(message, Ended) for message in self._received)
        return has_ended_message or self._has_exited()

    def _send(self) -> None:
        try:
            sent = self.control.send(self._unsent)
        except BlockingIOError:
            return
        except OSError:  # The worker has ended; `_exited` is called next.
            self._is_call_unread = True
            sent = len(self._unsent)
        self._unsent = self._unsent[sent:]

    def _send_rest(self) -> None:
        self._send()
        if not self._unsent:
            self._loop.remove_writer(self.control)

    def _listen(self) -> None:
        self._receive()
        self._dispatch()

    def _receive(self) -> bool:
        """Read available bytes; return True if more may be available."""
        try:
            part = self.control.recv(4 * READ_BYTES)
        except BlockingIOError:
            return False
        except OSError:
            # The kernel reports that the other end was closed before all data was read. So the
            # call was not read, and not started.
            self._is_call_unread = True
            part = b""
        if not part:
            self._hang_up()
            return False
        try:
            self._received.extend(self._frames.messages(part))
        except Garbled:  # A function has written to the socket.
            self.kill()
        return True

    def _dispatch(self) -> None:
        while self._received:
            match self._received.popleft():
                case Ready():
                    self._keeper.ready(self)
                case (TaskReport() | Ended()) as message:
                    if self._served is not None:
                        self._served.received(message)

    # -- output ------------------------------------------------------------------------------------

    def unread_output(self) -> int:
        """Return the number of bytes in its output pipe."""
        return int.from_bytes(fcntl.ioctl(self._pipe, termios.FIONREAD, bytes(4)), sys.byteorder)

    def read_output(self, limit: int) -> bytes:
        """Return up to *limit* bytes of output; empty if there are none."""
        try:
            return os.read(self._pipe, min(limit, READ_BYTES))
        except BlockingIOError:
            return b""

    def pause_output(self) -> None:
        """Leave output in the pipe; when the pipe is full, the worker waits."""
        self._is_paused = True
        self._loop.remove_reader(self._pipe)

    def resume_output(self) -> None:
        """Read output again, if reading was paused."""
        if self._is_paused and self._pipe >= 0:
            self._is_paused = False
            self._loop.add_reader(self._pipe, self._read)

    def _read(self) -> None:
        try:
            chunk = os.read(self._pipe, READ_BYTES)
        except BlockingIOError:
            return
        if not chunk:  # The other end is closed.
            self._loop.remove_reader(self._pipe)
        elif self._served is not None:
            self._served.wrote(chunk)
        else:
            self.said = (self.said + chunk)[-SAID_BYTES_MAX:]

    def _close_pipe(self) -> None:
        if self._pipe >= 0:
            self._loop.remove_reader(self._pipe)
            os.close(self._pipe)
            self._pipe = -1

    # -- its end -----------------------------------------------------------------------------------

    def terminate(self) -> None:
        """Send TERM to the worker's group; the worker is not used again."""
        self.is_usable = False
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the worker and all its descendants.

        When this returns, the worker and its group are stopped. Descendants that left the group can
        be found only while the worker exists, so it is killed last, in a thread.
        """
        self.is_usable = False
        if self._was_killed or self._pidfd < 0:
            return
        self._was_killed = True
        self._signal(signal.SIGSTOP)
        if self._cgroup is not None:
            self._cgroup.kill()
        self._killer.submit(end_descendants, [self._pid])

    def retire(self) -> None:
        """Close the worker's socket, so that it ends; kill it if it does not."""
        self.is_usable = False
        self._hang_up()

    def _hang_up(self) -> None:
        self.is_usable = False
        if self.control.fileno() >= 0:
            self._loop.remove_reader(self.control)
            self._loop.remove_writer(self.control)
            self.control.close()
            self._kill_timer = self._loop.call_later(FAREWELL_S, self.kill)

    def _signal(self, number: signal.Signals) -> None:
        if self._pidfd < 0:
            return  # The process is reaped, and its number may belong to another one.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._pid, number)

    def _has_exited(self) -> bool:
        if self._pidfd < 0:
            return True
        flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PIDFD, self._pidfd, flags) is not None

    def _exited(self) -> None:
        self._loop.remove_reader(self._pidfd)
        while self.control.fileno() >= 0 and self._receive():
            pass
        self._hang_up()
        if self._kill_timer is not None:
            self._kill_timer.cancel()
        self._dispatch()
        self._signal(signal.SIGKILL)
        # In the same thread, so after a pending kill, for which the number must still be valid.
        mark = self._mark if self._served is not None and not self._was_killed else ""
        ending = self._killer.submit(end_rest, mark, self._cgroup)
        ending.add_done_callback(lambda _: self._loop.call_soon_threadsafe(self._on_end, ending))

    def _on_end(self, ending: Future[bool]) -> None:
        status = os.waitid(os.P_PIDFD, self._pidfd, os.WEXITED)
        assert status is not None, f"worker {self._pid} has ended but cannot be waited for"
        os.close(self._pidfd)
        self._pidfd = -1
        by_itself = status.si_code == os.CLD_EXITED
        death = WorkerEnd(
            exit_code=status.si_status if by_itself else -1,
            signal=0 if by_itself else status.si_status,
            is_call_unread=self._is_call_unread,
            is_out_of_memory=ending.result(),
        )
        served = self._served
        if served is None:
            self.said = (self.said + self.read_output(self.unread_output()))[-SAID_BYTES_MAX:]
            self._close_pipe()
        self._keeper.gone(self, death)
        if served is not None:
            served.lost(death)
