"""Attempts as processes of this machine.

Threads:

- The *spawner* starts processes (`rota.executor.launch.spawn`); those with a sandbox or limits take
  longer, and the *confiner* starts them (`rota.executor.launch.confinement`).
- On the loop, a pidfd shows the end of an attempt's leader and a pipe has the output of all its
  processes (`rota.executor.process.attempt`, `rota.executor.kernel.fd_watch`). There are callbacks
  only: no coroutines and no asyncio tasks.
- The *reader* reads the reports of programs (`rota.executor.launch.task_channel`) and reuses
  private folders (`rota.executor.launch.private_folders`), the *sweeper* removes used ones.
- The *output* threads write files (`rota.executor.output`), and the *killer* kills processes that
  left their group (`rota.executor.kernel.subreaper`).

The loop never accesses a disk: a disk that hangs must not prevent the end of an attempt. All work
for a thread from one turn of the loop is passed on together
(`rota.executor.process.batching_thread`).
"""

import asyncio
import os
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeAlias

from rota.core.model.attempt import AttemptKey, Ending, Order, Outcome, Report
from rota.core.model.ids import NodeId
from rota.core.timing.instants import SECOND, Duration, Instant
from rota.executor.attempt_settings import USUAL, AttemptSettings
from rota.executor.executor import CLOSE_GRACE, Ended, Output, Reported
from rota.executor.kernel.fd_watch import FdWatch
from rota.executor.kernel.limits import Limiter
from rota.executor.kernel.one_thread import one_thread
from rota.executor.kernel.orphans import Orphans, end_attempts
from rota.executor.kernel.subreaper import Subreaper
from rota.executor.launch.binds import kept_from_binds
from rota.executor.launch.confinement import Confiner, is_confined
from rota.executor.launch.private_folders import Folders, remove
from rota.executor.launch.sandbox import Bubblewrap, rooms
from rota.executor.launch.secret_files import SecretFiles
from rota.executor.launch.spawn import LaunchEnvironment, StartedProcess, base_environment, start
from rota.executor.launch.task_channel import Collected, TaskChannel
from rota.executor.launch.task_users import TaskUsers
from rota.executor.output import OutputFiles
from rota.executor.process.attempt import ProcessAttempt
from rota.executor.process.batching_thread import BatchingThread
from rota.executor.secret_values import NO_SECRETS, SecretValues

OUTPUT_BYTES_MAX = 10 << 20  # Programs should write more than this to files of their own.
OUTPUT_BYTES_TOTAL_MAX = 1 << 30  # A hundred full outputs; see `expire`.
LOOK_S = 1.0  # The interval of reads of reports; a read costs 4 us of a thread per attempt.

_EXPIRED_PER_CALL = 1_000  # About 20 ms of one thread.
_KILLED_WITHIN_S = 30.0  # A killed process may hang in the kernel, as on a lost network disk.

_LOST = "its executor has ended; its remaining processes have been killed"

_News: TypeAlias = list[tuple[AttemptKey, Report]]


class ProcessExecutor:
    """Runs attempts as processes; see `rota.executor.executor.Executor` for the seam.

    Constructed on the loop that it serves. Each running attempt holds two file descriptors, or four
    in a sandbox.

    Args:
        directory: The folder for output and private folders; made if missing. No other executor
            may use it. Private folders left there are removed, so orphans must be ended before.
            Its content is hidden in all sandboxes.
        node_id: Passed to the tasks.
        store_id: Marks the processes as this store's; see `rota.executor.kernel.orphans`.
        ended: Called with every ending.
        now: The clock for the times in endings.
        reported: Called with reports of attempts.
        environ: The node's environment.
        settings: The node's settings for attempts.
        hidden: Other folders whose content is hidden in all sandboxes; they must exist already.
        is_subreaper: Whether this process becomes the parent of its attempts' orphans, so that
            all processes of attempts without sandbox and limits are ended, too. See
            `rota.executor.kernel.subreaper` for the rules that other code in the process follows.
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
        now: Callable[[], Instant],
        reported: Reported = lambda key, report: None,
        environ: Mapping[str, str] = os.environ,
        settings: AttemptSettings = USUAL,
        hidden: tuple[Path, ...] = (),
        is_subreaper: bool = False,
        output_bytes_max: int = OUTPUT_BYTES_MAX,
        output_bytes_total_max: int = OUTPUT_BYTES_TOTAL_MAX,
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.now = now
        self.descent = Subreaper() if is_subreaper else None
        self._ended = ended
        self._reported = reported
        self._store_id = store_id
        self.files = OutputFiles(
            directory / "output",
            limit=output_bytes_max,
            limit_total=output_bytes_total_max,
            now=now,
        )
        self.watch = FdWatch()
        self._folders = Folders(directory / "work")
        self._environment = LaunchEnvironment(
            base_environment(environ, settings, node_id=node_id, store_id=store_id),
            self._folders,
            settings,
            SecretFiles(store_id, "process"),
            TaskUsers(settings.users, store_id),
        )
        self._confiner = Confiner(
            self._environment,
            Limiter(store_id),
            Bubblewrap(self._environment.environment["PATH"], rooms(directory, *hidden)),
            kept_from_binds(directory, environ, settings.private_files),
        )
        self._spawner = BatchingThread("spawner")
        self._confining = BatchingThread("confiner")
        self._reader = BatchingThread("reader")
        self._sweeper = one_thread("sweeper")
        self._attempts: dict[AttemptKey, ProcessAttempt] = {}
        self._remains: dict[AttemptKey, Order] = {}
        self._look_timer: asyncio.TimerHandle | None = None
        self._is_looking = False
        self._is_closed = False
        self._idle = asyncio.Event()
        for left in (*self._folders.left(), *self._environment.users.left()):
            self._sweeper.submit(remove, left)

    # The seam.

    def launch(self, order: Order, secrets: SecretValues = NO_SECRETS) -> None:
        """Queue the attempt for a thread that starts it."""
        self._assert_new(order.key)
        attempt = self._attempts[order.key] = ProcessAttempt(self, order, secrets)
        starter = self._confining if is_confined(order.work) else self._spawner
        starter.ask(attempt.start, attempt.begin)
        if self._look_timer is None:
            self._look_timer = self.loop.call_later(LOOK_S, self._look)

    def resume(self, order: Order) -> None:
        """Kill the remaining processes of the attempt and report it as lost.

        The output and the exit status of a process are lost with its pipe and its parent.
        """
        self._assert_new(order.key)
        if not self._remains:  # All that are resumed in one turn share one sweep.
            self.loop.call_soon(self._end_remains)
        self._remains[order.key] = order

    def stop(self, key: AttemptKey, *, grace: Duration | None = None) -> None:
        """Send TERM to the process group, and KILL to all of the attempt after the grace."""
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
        """Stop every attempt, wait for their ends, and end the threads.

        A process that hangs in the kernel is abandoned 30 s after the grace; if it still exists
        when the node starts again, it is found and killed.
        """
        self._is_closed = True
        for attempt in list(self._attempts.values()):
            attempt.stop(min(grace, attempt.order.work.stop_grace))
        if self._attempts or self._remains:
            with suppress(TimeoutError):
                async with asyncio.timeout(grace / SECOND + _KILLED_WITHIN_S):
                    await self._idle.wait()
        if self._look_timer is not None:
            self._look_timer.cancel()
        self._confiner.close()
        for thread in (self._spawner, self._confining, self._reader):
            thread.close()
        self._sweeper.shutdown(wait=False)
        self._environment.secret_files.close()
        self._environment.users.close()
        self.watch.close()
        if self.descent is not None:
            self.descent.close()
        self.files.close()

    # For `ProcessAttempt`.

    def start(self, order: Order, secrets: SecretValues) -> StartedProcess:
        """Start the process of *order*; called in the spawner or in the confiner."""
        if is_confined(order.work):
            return self._confiner.start(order, secrets)
        return start(order, self._environment, secrets)

    def collect(self, running: ProcessAttempt) -> None:
        """Read the program's reports and remove its folder and cgroup."""
        self._reader.ask(partial(self._collect, running), partial(self._collected, running))

    def done(self, running: ProcessAttempt, ending: Ending) -> None:
        """Forget the attempt and report its end."""
        del self._attempts[running.order.key]
        if running.order.work.has_secret_values:
            self._environment.secret_files.remove(running.order.key)
        self._ended(running.order.key, ending)
        self._rest_if_idle()

    # In the reader thread.

    def _collect(self, running: ProcessAttempt) -> Collected:
        assert running.started is not None, f"{running.order.key} ended before it began"
        channel, cgroup = running.started.channel, running.started.limited.cgroup
        collected = Collected()  # Most programs write nothing to their folder.
        if channel.is_in_memory:
            collected = channel.collect()
            channel.close()
        elif not self._folders.give_back(channel.folder):
            collected = channel.collect()
            self._sweeper.submit(remove, channel.folder)
        if cgroup is not None:
            cgroup.remove()
        return collected

    # On the loop.

    def _collected(self, running: ProcessAttempt, collected: Collected) -> None:
        if collected.report is not None:
            self._reported(running.order.key, collected.report)
        running.collected(collected)

    def _look(self) -> None:
        """Read the reports of all attempts, and check for orphans, once a second."""
        self._look_timer = None
        if not self._attempts:
            return
        self._look_timer = self.loop.call_later(LOOK_S, self._look)
        if self.descent is not None:
            self.descent.look()
        running = [
            (key, attempt.started.channel)
            for key, attempt in self._attempts.items()
            if attempt.started is not None
        ]
        if not self._is_looking:  # Otherwise the disk hangs.
            self._is_looking = True
            self._reader.ask(partial(_news_of, running), self._take_news)

    def _take_news(self, news: _News) -> None:
        self._is_looking = False
        for key, report in news:
            if key in self._attempts:  # Otherwise another attempt may have had the folder already.
                self._reported(key, report)

    def _end_remains(self) -> None:
        keys = frozenset(self._remains)
        sweep = self._sweeper.submit(end_attempts, self._store_id, keys)
        sweep.add_done_callback(
            lambda swept: self.loop.call_soon_threadsafe(self._remains_ended, keys, swept)
        )

    def _remains_ended(self, keys: frozenset[AttemptKey], swept: Future[Orphans]) -> None:
        if (
            swept.result().pids_left
        ):  # They hang in the kernel; nothing is reported before they end.
            self.loop.call_later(LOOK_S, self._end_remains)
            return
        for key in keys:
            del self._remains[key]
            now = self.now()
            ending = Ending(outcome=Outcome.LOST, started_at=now, finished_at=now, reason=_LOST)
            self._ended(key, ending)
        if self._remains:  # These attempts were resumed during the sweep.
            self._end_remains()
        self._rest_if_idle()

    def _rest_if_idle(self) -> None:
        if self._is_closed and not self._attempts and not self._remains:
            self._idle.set()

    def _assert_new(self, key: AttemptKey) -> None:
        assert key not in self._attempts, f"{key} is launched twice"
        assert key not in self._remains, f"{key} is launched while its remains are ended"
        assert not self._is_closed, f"{key} is launched after close"


hosted = partial(ProcessExecutor, is_subreaper=True)
"""Constructs an executor in a process that runs only attempts, and may receive their orphans."""


def _news_of(running: list[tuple[AttemptKey, TaskChannel]]) -> _News:
    return [(key, report) for key, channel in running if (report := channel.news()) is not None]
