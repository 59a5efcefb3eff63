"""Attempts as processes of this machine.

Who does what:

- The *spawner* thread starts processes (`rota.executor.spawn`); all else is on the loop.
- A pidfd tells the loop that the leader of a process group has ended; a pipe brings the output of
  the whole group. Nothing here is a coroutine and no asyncio task is held.
- The *sweeper* thread removes private folders; the *output* threads write what does not fit in
  memory (`rota.executor.output`).

How an attempt ends:

1. The leader exits. It is not waited for yet: while it is a zombie its number cannot be given to
   another process, so the group of that number is this attempt's.
2. The group is killed, unless it was asked to stop and its grace runs: then what is left of it
   has until the end of the grace, or until nobody holds the pipe.
3. The leader is waited for, which gives its exit code or signal.
4. The pipe is drained to its end, or for `DRAIN_S` if somebody who left the group holds it.
5. `Ended` is called.
"""

import asyncio
import os
import shutil
import signal
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from rota.core.attempt import AttemptKey, Ending, Order, Outcome
from rota.core.ids import NodeId
from rota.core.instants import SECOND, Duration, Instant, format_duration
from rota.executor.executor import CLOSE_GRACE, READ_BYTES, Ended, Output
from rota.executor.output import Capture, OutputFiles
from rota.executor.spawn import NotStartedError, Started, Surroundings, base_environment, start

OUTPUT_BYTES_MAX = 10 << 20  # More is for files, not for a screen.
OUTPUT_BYTES_TOTAL_MAX = 1 << 30  # A hundred full outputs; see `expire`.
DRAIN_S = 0.25  # A killed process is gone within milliseconds; only one that left the group waits.

_EXPIRED_PER_CALL = 1_000  # About 20 ms of one thread.
_KILLED_WITHIN_S = 30.0  # A killed process may hang in the kernel, on a dead network disk.


class ProcessExecutor:
    """Runs attempts as processes; see `rota.executor.executor.Executor` for the seam.

    Made on the loop that it serves. Each running attempt holds two file descriptors.

    Args:
        directory: For output and private folders; made if missing. It belongs to this executor
            alone, and private folders left there are removed: end orphans first.
        node_id: Told to the tasks.
        store_id: Marks the processes as this store's; see `rota.executor.orphans`.
        ended: Told of every ending.
        now: The clock of the stamps.
        environ: The node's environment.
        output_bytes_max: How much of one output is kept in its file.
        output_bytes_total_max: How much of all outputs `expire` leaves.
    """

    def __init__(
        self,
        directory: Path,
        *,
        node_id: NodeId,
        store_id: str,
        ended: Ended,
        now: Callable[[], Instant],
        environ: Mapping[str, str] = os.environ,
        output_bytes_max: int = OUTPUT_BYTES_MAX,
        output_bytes_total_max: int = OUTPUT_BYTES_TOTAL_MAX,
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.ended = ended
        self.now = now
        self.files = OutputFiles(
            directory / "output",
            limit=output_bytes_max,
            limit_total=output_bytes_total_max,
            now=now,
        )
        self.around = Surroundings(
            base_environment(environ, node_id=node_id, store_id=store_id), directory / "work"
        )
        self._spawner = ThreadPoolExecutor(1, thread_name_prefix="rota-spawner")
        self._sweeper = ThreadPoolExecutor(1, thread_name_prefix="rota-sweeper")
        self._attempts: dict[AttemptKey, _Attempt] = {}
        self._is_closed = False
        self._idle = asyncio.Event()
        self.around.folders.mkdir(mode=0o700, parents=True, exist_ok=True)
        for left in list(self.around.folders.iterdir()):
            self.remove(left)

    def launch(self, order: Order) -> None:
        """Queue the attempt for the spawner."""
        assert order.key not in self._attempts, f"{order.key} is launched twice"
        assert not self._is_closed, f"{order.key} is launched after close"
        attempt = self._attempts[order.key] = _Attempt(self, order)
        self._spawner.submit(attempt.start).add_done_callback(self._raise_on_loop)

    def stop(self, key: AttemptKey, *, grace: Duration | None = None) -> None:
        """Send TERM to the process group, and KILL after the grace."""
        attempt = self._attempts.get(key)
        if attempt is not None:
            attempt.stop(attempt.order.work.stop_grace if grace is None else grace)

    async def output(self, key: AttemptKey) -> Output | None:
        """Return what is captured, or the file that outlived the attempt."""
        attempt = self._attempts.get(key)
        return attempt.capture if attempt is not None else await self.files.find(key)

    async def expire(self, before: Instant) -> int:
        """Remove at most 1,000 files; those of running attempts stay."""
        return await self.files.expire(before, count_max=_EXPIRED_PER_CALL)

    async def close(self, grace: Duration = CLOSE_GRACE) -> None:
        """Stop every attempt and wait, and end the threads.

        A process that hangs in the kernel is given up 30 s after its KILL; the next life of the
        node finds it again, or it never does anything more.
        """
        self._is_closed = True
        for attempt in list(self._attempts.values()):
            attempt.stop(min(grace, attempt.order.work.stop_grace))
        if self._attempts:
            with suppress(TimeoutError):
                async with asyncio.timeout(grace / SECOND + _KILLED_WITHIN_S):
                    await self._idle.wait()
        self._spawner.shutdown(wait=False)
        self._sweeper.shutdown(wait=False)
        self.files.close()

    def _raise_on_loop(self, future: Future[None]) -> None:
        if future.exception() is not None:  # A bug in the thread must not pass in silence.
            self.loop.call_soon_threadsafe(future.result)

    def forget(self, key: AttemptKey) -> None:
        """Drop an attempt that is about to be reported."""
        del self._attempts[key]
        if self._is_closed and not self._attempts:
            self._idle.set()

    def remove(self, folder: Path) -> None:
        """Remove a private folder and what it holds, some time soon."""
        self._sweeper.submit(_remove, folder)


class _Attempt:
    """One process group and what is known of it."""

    __slots__ = (
        "_drain_timer",
        "_executor",
        "_exit_code",
        "_finished_at",
        "_folder",
        "_grace",
        "_is_drain_over",
        "_is_leader_gone",
        "_kill_timer",
        "_outcome",
        "_pid",
        "_pidfd",
        "_pipe",
        "_signal",
        "_started_at",
        "_timeout_timer",
        "_was_killed",
        "capture",
        "order",
    )

    def __init__(self, executor: ProcessExecutor, order: Order) -> None:
        self.order = order
        self.capture: Capture = executor.files.capture(order.key, writable=self._resume)
        self._executor = executor
        self._pid = 0  # Zero until it has started.
        self._pidfd = -1
        self._pipe = -1
        self._folder: Path | None = None
        self._outcome: Outcome | None = None  # Set by whoever ends it before it ends itself.
        self._grace = Duration(0)
        self._was_killed = False
        self._is_leader_gone = False
        self._is_drain_over = False
        self._timeout_timer: asyncio.TimerHandle | None = None
        self._kill_timer: asyncio.TimerHandle | None = None
        self._drain_timer: asyncio.TimerHandle | None = None
        self._started_at = self._finished_at = Instant(0)
        self._exit_code = -1
        self._signal = 0

    # In the spawner thread.

    def start(self) -> None:
        """Start the process, and go on with the attempt on the loop."""
        call_on_loop = self._executor.loop.call_soon_threadsafe
        if self._outcome is not None:
            call_on_loop(self._not_started, "stopped before it started")
            return
        try:
            started = start(self.order, self._executor.around)
        except NotStartedError as error:
            call_on_loop(self._not_started, str(error))
        else:
            call_on_loop(self._started, started)

    # On the loop.

    def stop(self, grace: Duration) -> None:
        """Ask the group to end; a grace already running can only become shorter."""
        if self._pid == 0:
            self._grace = grace if self._outcome is None else min(grace, self._grace)
            self._outcome = Outcome.CANCELLED
        elif self._pidfd >= 0 and (self._outcome is not None or not self._has_exited()):
            self._outcome = self._outcome or Outcome.CANCELLED
            self._end_group(grace)

    def _not_started(self, reason: str) -> None:
        self._started_at = self._finished_at = self._executor.now()
        self._outcome = self._outcome or Outcome.FAILED
        self._report(reason)

    def _started(self, started: Started) -> None:
        self._pid, self._pidfd, self._pipe, self._folder = started
        self._started_at = self._executor.now()
        loop = self._executor.loop
        loop.add_reader(self._pipe, self._read)
        loop.add_reader(self._pidfd, self._leader_exited)
        if self._outcome is not None:
            self._end_group(self._grace)
        elif self.order.work.timeout > 0:
            timeout_s = self.order.work.timeout / SECOND
            self._timeout_timer = loop.call_later(timeout_s, self._timed_out)

    def _timed_out(self) -> None:
        if self._outcome is None and not self._has_exited():
            self._outcome = Outcome.TIMED_OUT
            self._end_group(self.order.work.stop_grace)

    def _has_exited(self) -> bool:
        """Tell whether the leader has ended, though the loop may not have heard of it."""
        flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PIDFD, self._pidfd, flags) is not None

    def _end_group(self, grace: Duration) -> None:
        loop = self._executor.loop
        kill_at = loop.time() + grace / SECOND
        if self._kill_timer is None:
            self._send(signal.SIGTERM)
        elif self._was_killed or kill_at >= self._kill_timer.when():
            return
        else:
            self._kill_timer.cancel()
        self._grace = grace
        self._kill_timer = loop.call_at(kill_at, self._kill)
        if grace <= 0:
            self._kill()  # Not a turn later: a node that lost its lease has no time left.

    def _kill(self) -> None:
        if self._is_leader_gone:
            self._finish_group()
        elif not self._was_killed:
            self._was_killed = True
            self._send(signal.SIGKILL)

    def _send(self, number: signal.Signals) -> None:
        # The leader has not been waited for, so the number is still this group's. A group of
        # another user (a set-uid program) cannot be signalled; its end is then waited for.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._pid, number)

    def _leader_exited(self) -> None:
        self._executor.loop.remove_reader(self._pidfd)
        self._is_leader_gone = True
        is_grace_running = self._kill_timer is not None and not self._was_killed
        if not is_grace_running or self._pipe < 0:
            self._finish_group()
        # Else a shell may have died of the TERM that its child is still obeying.

    def _finish_group(self) -> None:
        for timer in (self._timeout_timer, self._kill_timer):
            if timer is not None:
                timer.cancel()
        self._send(signal.SIGKILL)
        status = os.waitid(os.P_PIDFD, self._pidfd, os.WEXITED)
        os.close(self._pidfd)
        self._pidfd = -1
        self._finished_at = self._executor.now()
        assert status is not None, f"{self.order.key} has ended but cannot be waited for"
        if status.si_code == os.CLD_EXITED:
            self._exit_code = status.si_status
        else:
            self._signal = status.si_status
        if self._pipe < 0:
            self._report()
        else:
            self._drain_timer = self._executor.loop.call_later(DRAIN_S, self._drain_over)

    def _read(self) -> None:
        # One chunk in a turn of the loop, however much there is: others get their turns.
        try:
            chunk = os.read(self._pipe, READ_BYTES)
        except BlockingIOError:
            return
        if chunk:
            self.capture.take(chunk)
            if self.capture.is_busy:
                self._executor.loop.remove_reader(self._pipe)
            return
        self._close_pipe()
        if self._pidfd < 0:
            self._report()
        elif self._is_leader_gone:
            self._finish_group()

    def _resume(self) -> None:
        if self._pipe < 0:
            self._report()
        elif self._is_drain_over:
            self._read_last()
        else:
            self._executor.loop.add_reader(self._pipe, self._read)

    def _drain_over(self) -> None:
        self._is_drain_over = True
        if not self.capture.is_busy:
            self._read_last()

    def _read_last(self) -> None:
        """Take what the pipe holds by now, once: whoever still writes does so for ever."""
        try:
            chunk = os.read(self._pipe, READ_BYTES)
        except BlockingIOError:
            chunk = b""
        self._close_pipe()
        if chunk:
            self.capture.take(chunk)
        if not self.capture.is_busy:
            self._report()

    def _close_pipe(self) -> None:
        self._executor.loop.remove_reader(self._pipe)
        os.close(self._pipe)
        self._pipe = -1

    def _report(self, reason: str = "") -> None:
        if self._drain_timer is not None:
            self._drain_timer.cancel()
        if self._folder is not None:
            self._executor.remove(self._folder)
        self.capture.finish()
        self._executor.forget(self.order.key)
        self._executor.ended(self.order.key, self._ending(reason or self._reason()))

    def _ending(self, reason: str) -> Ending:
        by_itself = Outcome.SUCCEEDED if self._exit_code == 0 else Outcome.FAILED
        if self.capture.cut:
            cut = f"its output is kept only in part: {self.capture.cut}"
            reason = f"{reason}; {cut}" if reason else cut
        return Ending(
            outcome=self._outcome or by_itself,
            started_at=self._started_at,
            finished_at=self._finished_at,
            exit_code=self._exit_code,
            signal=self._signal,
            reason=reason,
            output=self.capture.tail,
            output_bytes=self.capture.byte_count,
        )

    def _reason(self) -> str:
        killed = (
            f"; killed, as it had not ended {format_duration(self._grace)} after TERM"
            if self._was_killed
            else ""
        )
        match self._outcome:
            case Outcome.CANCELLED:
                return f"stopped on request{killed}"
            case Outcome.TIMED_OUT:
                timeout = format_duration(self.order.work.timeout)
                return f"still running after its timeout of {timeout}{killed}"
            case _:
                return self._reason_of_its_own()

    def _reason_of_its_own(self) -> str:
        if self._signal:
            return f"ended by signal {self._signal} ({_signal_name(self._signal)})"
        return f"exited with code {self._exit_code}" if self._exit_code else ""


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "a real-time signal"


def _remove(folder: Path) -> None:
    try:
        folder.rmdir()  # Most are empty, and this is one system call.
    except OSError:
        shutil.rmtree(folder, ignore_errors=True)
