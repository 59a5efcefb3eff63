"""Attempts as calls of Python functions in warm worker processes.

Parts:

- A *worker* is a process of the environment's own interpreter that runs `worker.py`: it calls one
  function at a time, for one attempt after the other.
- `pool` chooses the worker of an attempt and the number of workers; `worker_process` represents a
  worker in this process; `worker_protocol` has the messages between the two.
- The *spawner* thread starts processes, the *killer* thread kills them with all their descendants
  (`worker_start`), the *sweeper* thread removes private folders; all other work is on the loop, in
  callbacks, without asyncio tasks.

The steps of an attempt:

1. It waits in its pool for a worker and starts when it gets one; then its timeout begins.
2. The call is sent to the worker. The function's output arrives through the worker's pipe, its
   reports through the worker's socket.
3. The worker flushes its streams and reports the end of the call. So the content of the pipe at
   that moment is the rest of the output, which is read first.
4. The worker returns to its pool, or is ended if it cannot be used again; `Ended` is called.

A stop sends TERM to the worker's process group, and KILL after the grace. A worker that was sent
TERM is never used again.
"""

import asyncio
import os
import shutil
import signal
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from pathlib import Path

from rota.core.model.attempt import AttemptKey, Ending, Order, Outcome, Raised, Report, Usage
from rota.core.model.ids import NodeId
from rota.core.timing.instants import SECOND, Duration, Instant
from rota.executor.attempt_settings import USUAL, AttemptSettings
from rota.executor.executor import CLOSE_GRACE, Ended, Output, Reported, merged
from rota.executor.kernel.limits import Limiter
from rota.executor.kernel.one_thread import one_thread
from rota.executor.launch.secret_files import SecretFiles
from rota.executor.launch.spawn import (
    NotStartedError,
    base_environment,
    variables_of_secrets,
)
from rota.executor.masking import forms_of
from rota.executor.output import Capture, OutputFiles
from rota.executor.python import worker_protocol
from rota.executor.python.environment import Environment, environment, variables_of_call
from rota.executor.python.pool import Bounds, Pools
from rota.executor.python.worker_process import WorkerEnd, WorkerProcess
from rota.executor.python.worker_start import Starter
from rota.executor.secret_values import NO_SECRETS, SecretUnavailable, SecretValues
from rota.executor.stop_ladder import StopLadder, may_have_result

OUTPUT_BYTES_MAX = 10 << 20
OUTPUT_BYTES_TOTAL_MAX = 1 << 30
"""The limits are the same as for processes."""

REPORT_S = 0.1
"""The time between two reports of one attempt: each may become an entry of a shard's journal."""

_EXPIRED_PER_CALL = 1_000
_KILLED_WITHIN_S = 30.0  # A killed process may hang in the kernel, as on a lost network disk.


class PythonExecutor:
    """Calls functions; see `rota.executor.executor.Executor` for the seam.

    Constructed on the loop that it serves. A worker holds three file descriptors.

    Args:
        directory: The folder whose subfolder ``python`` is for output and private folders; made if
            missing. No other executor may use the subfolder. Private folders left there are
            removed.
        node_id: Passed to the functions.
        store_id: Marks the workers as this store's; see `rota.executor.kernel.orphans`.
        ended: Called with every ending.
        reported: Called with reports of attempts.
        now: The clock for the times in endings.
        environ: The node's environment.
        settings: The node's settings for attempts.
        bounds: The numbers and lifetimes of workers; by default based on the number of cores.
        output_bytes_max: The number of bytes of one output that are kept in its file.
        output_bytes_total_max: The number of bytes of all outputs above which `expire` removes
            some.
    """

    def __init__(
        self,
        directory: Path,
        *,
        node_id: NodeId,
        store_id: str,
        ended: Ended,
        reported: Reported,
        now: Callable[[], Instant],
        environ: Mapping[str, str] = os.environ,
        settings: AttemptSettings = USUAL,
        bounds: Bounds | None = None,
        output_bytes_max: int = OUTPUT_BYTES_MAX,
        output_bytes_total_max: int = OUTPUT_BYTES_TOTAL_MAX,
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.ended = ended
        self.reported = reported
        self.now = now
        self.files = OutputFiles(
            directory / "python" / "output",
            limit=output_bytes_max,
            limit_total=output_bytes_total_max,
            now=now,
        )
        self._folders = directory / "python" / "work"
        self._folders.mkdir(mode=0o700, parents=True, exist_ok=True)
        for left in list(self._folders.iterdir()):
            shutil.rmtree(left, ignore_errors=True)
        self._starter = Starter(
            base_environment(environ, settings, node_id=node_id, store_id=store_id),
            folders=self._folders,
            limiter=Limiter(f"{store_id} python"),
            settings=settings,
        )
        self._spawner = one_thread("python-spawner")
        self._sweeper = one_thread("python-sweeper")
        self._killer = one_thread("python-killer")
        self.secret_files = SecretFiles(store_id, "python")
        self.pools = Pools(
            start=self._start_worker,
            remove=self._remove_folder,
            killer=self._killer,
            bounds=bounds or Bounds(ready_max=len(os.sched_getaffinity(0))),
        )
        self._attempts: dict[AttemptKey, _Attempt] = {}
        self._is_closed = False
        self._idle = asyncio.Event()

    def launch(self, order: Order, secrets: SecretValues = NO_SECRETS) -> None:
        """Give the attempt to a worker, or queue it for one."""
        assert order.key not in self._attempts, f"{order.key} is launched twice"
        assert not self._is_closed, f"{order.key} is launched after close"
        attempt = self._attempts[order.key] = _Attempt(self, order, secrets)
        attempt.start()

    def resume(self, order: Order) -> None:
        """Report the attempt as lost: a worker does not outlive its executor."""
        assert order.key not in self._attempts, f"{order.key} is launched twice"
        attempt = self._attempts[order.key] = _Attempt(self, order, NO_SECRETS)
        attempt.end_soon(Outcome.LOST, "its worker has ended with the executor that had started it")

    def stop(self, key: AttemptKey, *, grace: Duration | None = None) -> None:
        """Send TERM to the worker's process group, and KILL after the grace."""
        attempt = self._attempts.get(key)
        if attempt is not None:
            attempt.stop(attempt.order.work.stop_grace if grace is None else grace)

    async def output(self, key: AttemptKey) -> Output | None:
        """Return the output of a running attempt, or the file of an ended one."""
        attempt = self._attempts.get(key)
        return attempt.capture if attempt is not None else await self.files.find(key)

    async def expire(self, before: Instant) -> int:
        """Remove kept outputs written before *before*, and the oldest above the size limit.

        One call removes at most 1,000. The outputs of running attempts stay.

        Returns:
            The number of removed outputs.
        """
        return await self.files.expire(before, count_max=_EXPIRED_PER_CALL)

    async def close(self, grace: Duration = CLOSE_GRACE) -> None:
        """Stop every attempt, wait for their ends, then end the workers and the threads.

        A process that hangs in the kernel is abandoned 30 s after the grace.
        """
        was_closed, self._is_closed = self._is_closed, True
        for attempt in list(self._attempts.values()):
            attempt.stop(min(grace, attempt.order.work.stop_grace))
        try:
            async with asyncio.timeout(grace / SECOND + _KILLED_WITHIN_S):
                if self._attempts:
                    await self._idle.wait()
                await self.pools.close()
        except TimeoutError:
            pass
        if was_closed:
            return
        self._spawner.submit(self._starter.close)
        for threads in (self._spawner, self._killer, self._sweeper):
            threads.shutdown(wait=False)
        self.files.close()
        self.secret_files.close()

    def forget(self, key: AttemptKey) -> None:
        """Drop an attempt that is about to be reported."""
        del self._attempts[key]
        if self._is_closed and not self._attempts:
            self._idle.set()

    def _start_worker(self, environment: Environment) -> None:
        def work() -> None:  # In the spawner thread.
            try:
                started = self._starter.start(environment)
            except NotStartedError as error:
                self.loop.call_soon_threadsafe(self.pools.not_started, environment, str(error))
            else:
                self.loop.call_soon_threadsafe(self.pools.started, environment, started)

        self._spawner.submit(work).add_done_callback(self._raise_on_loop)

    def _raise_on_loop(self, future: Future[None]) -> None:
        if future.exception() is not None:  # A bug in the thread must become visible.
            self.loop.call_soon_threadsafe(future.result)

    def _remove_folder(self, worker: WorkerProcess) -> None:
        if worker.folder is not None:
            self._sweeper.submit(shutil.rmtree, worker.folder, ignore_errors=True)


class _Attempt:
    """One attempt: one call of a function."""

    __slots__ = (
        "_call_variables",
        "_death",
        "_environment",
        "_executor",
        "_finished_at",
        "_is_over",
        "_ladder",
        "_message",
        "_outcome",
        "_output_left",
        "_reason",
        "_report",
        "_report_timer",
        "_secrets",
        "_started_at",
        "_unenforced",
        "_worker",
        "capture",
        "order",
    )

    def __init__(self, executor: PythonExecutor, order: Order, secrets: SecretValues) -> None:
        self.order = order
        self._secrets = secrets
        self.capture: Capture = executor.files.capture(
            order.key, writable=self._resume, masks=forms_of(secrets.all)
        )
        self._executor = executor
        self._environment: Environment | None = None  # While it waits for a worker.
        self._worker: WorkerProcess | None = None
        self._unenforced: tuple[str, ...] = ()
        self._ladder = StopLadder(
            executor.loop,
            order.work,
            has_ended=self._has_answered,
            terminate=self._terminate,
            kill=self._kill,
        )
        self._call_variables: dict[str, str] = {}
        self._outcome: Outcome | None = None  # The outcome of an attempt without a call.
        self._reason = ""
        self._is_over = False  # Whether it is too late to stop the attempt.
        # One of the two is set at the end: the end of the call, or that of the worker.
        self._message: worker_protocol.Ended | None = None
        self._death: WorkerEnd | None = None
        self._output_left = 0  # The bytes in the pipe at the end that are still to be read.
        self._report: Report | None = None
        self._report_timer: asyncio.TimerHandle | None = None
        self._started_at = self._finished_at = Instant(0)

    # -- its way to a worker -----------------------------------------------------------------------

    def start(self) -> None:
        """Begin the attempt on a worker, or queue it for one; end it if its work is invalid."""
        work = self.order.work
        if work.call is None:
            self.end_soon(Outcome.FAILED, "a Python task needs a function to call")
        elif work.sandbox.profile != "none":
            reason = f"a Python function cannot have the sandbox {work.sandbox.profile!r}"
            self.end_soon(Outcome.FAILED, reason)
        else:
            try:
                self._call_variables = self._variables()
            except SecretUnavailable as error:
                self.end_soon(Outcome.LOST, str(error))
                return
            self._environment = environment(self.order, work.call)
            self._executor.pools.run(self._environment, self)

    def _variables(self) -> dict[str, str]:
        """Return the variables of the call, after making the files of its secrets.

        Raises:
            SecretUnavailable: The files cannot be made.
        """
        folder, secrets = "", self._secrets
        if secrets.in_files:
            folder = str(self._executor.secret_files.make(self.order.key, secrets.in_files))
        return {**variables_of_call(self.order), **variables_of_secrets(secrets, folder)}

    def end_soon(self, outcome: Outcome, reason: str) -> None:
        """End the attempt in the next turn of the loop, without a call."""
        self._is_over = True
        self._outcome, self._reason = outcome, reason
        self._executor.loop.call_soon(self._finish)

    def begin(self, worker: WorkerProcess) -> None:
        """Send the call to *worker*."""
        call = self.order.work.call
        assert call is not None, self.order.key
        self._worker = worker
        self._unenforced = worker.unenforced
        self._started_at = self._executor.now()
        self._ladder.start()
        worker.call(
            self,
            worker_protocol.Call(
                function=call.function,
                arguments=call.arguments,
                variables=self._call_variables,
                checkpoint=self.order.checkpoint.decode("utf-8", "replace"),
                results=self.order.results.decode("utf-8", "replace"),
            ),
        )

    def fail(self, reason: str, output: bytes) -> None:
        """End the attempt, as no worker could be started; *output* is the end of its output."""
        self._is_over = True
        self._outcome, self._reason = Outcome.FAILED, reason
        self.capture.take(output)
        self._finish()

    # -- stopping it -------------------------------------------------------------------------------

    def stop(self, grace: Duration) -> None:
        """Stop the attempt; a grace already running can only become shorter."""
        if self._is_over:
            return
        if self._worker is None:
            assert self._environment is not None, self.order.key
            self._executor.pools.withdraw(self._environment, self)
            self.end_soon(Outcome.CANCELLED, "stopped before it started")
        else:
            self._ladder.stop(grace)

    def _has_answered(self) -> bool:
        return self._is_over or self._worker is None or self._worker.has_answered()

    def _terminate(self) -> None:
        assert self._worker is not None, self.order.key
        self._worker.terminate()

    def _kill(self) -> bool:
        assert self._worker is not None, self.order.key
        self._worker.kill()
        return True

    # -- events of the worker: `rota.executor.python.worker_process.Served` ------------------------

    def received(self, message: worker_protocol.TaskReport | worker_protocol.Ended) -> None:
        """Process a report of the function, or the end of the call."""
        if isinstance(message, worker_protocol.TaskReport):
            self._add_report(message)
        elif not self._is_over:
            self._message = message
            self._drain()

    def wrote(self, chunk: bytes) -> None:
        """Add a chunk of output."""
        self.capture.take(chunk)
        if self.capture.is_busy and self._worker is not None:
            self._worker.pause_output()

    def lost(self, death: WorkerEnd) -> None:
        """End with the worker, or wait for another worker if the call was not read."""
        if self._is_over:
            return  # Its last output is still being written to the disk.
        if death.is_call_unread and self._ladder.outcome is None:
            self._cancel_timers()
            worker, self._worker = self._worker, None
            assert worker is not None, self.order.key
            assert self._environment is not None, self.order.key
            worker.release()
            self._executor.pools.run(self._environment, self, is_first=True)
            return
        self._death = death
        self._drain()

    def _add_report(self, new: worker_protocol.TaskReport) -> None:
        saved = None if new.checkpoint is None else new.checkpoint.encode()
        self._report = merged(self._report, Report(percent=new.percent, checkpoint=saved))
        if self._report_timer is None:
            self._pass_report()

    def _pass_report(self) -> None:
        """Pass on the newest report, at most once every `REPORT_S`."""
        self._report_timer = None
        if self._report is not None:
            report, self._report = self._report, None
            self._report_timer = self._executor.loop.call_later(REPORT_S, self._pass_report)
            self._executor.reported(self.order.key, report)

    # -- its end -----------------------------------------------------------------------------------

    def _drain(self) -> None:
        """Read only the present content of the pipe: a process may write to it without end."""
        assert self._worker is not None, self.order.key
        self._is_over = True
        self._output_left = self._worker.unread_output()
        self._take_rest(self._worker)

    def _take_rest(self, worker: WorkerProcess) -> None:
        while self._output_left and not self.capture.is_busy:
            chunk = worker.read_output(self._output_left)
            self._output_left = self._output_left - len(chunk) if chunk else 0
            self.capture.take(chunk)
        if self.capture.is_busy:
            worker.pause_output()
        else:
            self._finish()

    def _resume(self) -> None:
        if self._worker is None:
            self._finish()
        elif self._is_over:
            self._take_rest(self._worker)
        else:
            self._worker.resume_output()

    def _finish(self) -> None:
        self.capture.flush()
        if self.capture.is_busy:
            if self._worker is not None:
                self._worker.pause_output()
            return  # `_resume` continues.
        if self._secrets.in_files:
            self._executor.secret_files.remove(self.order.key)
        self._finished_at = self._executor.now()
        self._started_at = self._started_at or self._finished_at
        self._cancel_timers()
        if self._worker is not None:
            self._give_back(self._worker)
        self.capture.finish()
        self._executor.forget(self.order.key)
        if self._report is not None:
            self._executor.reported(self.order.key, self._report)
        self._executor.ended(self.order.key, self._ending())

    def _give_back(self, worker: WorkerProcess) -> None:
        worker.resume_output()
        message = self._message
        self._executor.pools.release(
            worker,
            resident=message.resident if message else 0,
            is_spent=message is None or message.is_spent,
        )

    def _cancel_timers(self) -> None:
        self._ladder.end()
        if self._report_timer is not None:
            self._report_timer.cancel()

    def _ending(self) -> Ending:
        outcome, exit_code, number, reason = self._how_it_ended()
        if self.capture.cut:
            cut = f"its output is kept only in part: {self.capture.cut}"
            reason = f"{reason}; {cut}" if reason else cut
        message, death = self._message or worker_protocol.Ended(), self._death
        is_over_limit = self.order.work.limits.memory > 0 and _is_memory_error(message.raised)
        return Ending(
            outcome=outcome,
            started_at=self._started_at,
            finished_at=self._finished_at,
            exit_code=exit_code,
            signal=number,
            reason=reason,
            output=self.capture.tail,
            output_bytes=self.capture.byte_count,
            result=message.result.encode() if may_have_result(outcome, exit_code) else b"",
            raised=message.raised,
            usage=Usage(cpu=Duration(message.cpu), memory_peak=message.memory_peak)
            if self._message
            else None,
            is_out_of_memory=is_over_limit or (death is not None and death.is_out_of_memory),
            unenforced=self._unenforced,
        )

    def _how_it_ended(self) -> tuple[Outcome, int, int, str]:
        """Return outcome, exit code, signal and reason."""
        exit_code, number, reason = self._end_of_its_own()
        reason = self._ladder.reason or reason
        has_returned = self._message is not None and exit_code == 0
        by_itself = Outcome.SUCCEEDED if has_returned else Outcome.FAILED
        outcome = self._outcome or self._ladder.outcome or by_itself
        return outcome, exit_code, number, reason

    def _end_of_its_own(self) -> tuple[int, int, str]:
        """Return exit code, signal and reason, disregarding a stop."""
        message, death = self._message, self._death
        if message is not None:
            if message.is_interrupted:
                reason = "its worker got SIGTERM from another process"
                return -1, int(signal.SIGTERM), reason
            return message.exit_code, 0, message.reason
        if death is None:
            return -1, 0, self._reason
        if death.is_out_of_memory:
            return -1, death.signal, "its worker was killed at its limit of memory"
        if death.signal:
            return -1, death.signal, f"its worker was ended by signal {death.signal}"
        reason = f"its worker exited with code {death.exit_code} before the function had returned"
        return death.exit_code, 0, reason


def _is_memory_error(raised: Raised | None) -> bool:
    return raised is not None and "MemoryError" in (raised.type, *raised.bases)
