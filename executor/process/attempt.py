"""One attempt as processes of this machine, from its start to its end.

The steps of its end:

1. Its leader, the process that was started, exits. It is not reaped yet: while it is a zombie, its
   number, and that of its group, cannot be given to another process.
2. All remaining processes are killed, and their end is awaited. After a stop, they first have time
   until the end of the grace, or until none of them holds the output pipe. Without a stop, their
   names are noted for the record before, except in a sandbox, whose processes the kernel ends with
   the leader.
3. The leader is reaped, which gives its exit code or signal and its resource usage.
4. The pipe is read to its end, or for `DRAIN_S` if a process that could not be found holds it.
5. The reports in its private folder are read, and its end is reported.

All methods but `ProcessAttempt.start` are called on the loop.
"""

import asyncio
import os
import resource
import signal
from typing import Protocol

from msgspec.structs import replace

from rota.core.model.attempt import Ending, Order, Outcome, Usage
from rota.core.model.permitted_binds import BY_POLICY
from rota.core.timing.instants import SECOND, Duration, Instant
from rota.executor.executor import READ_BYTES
from rota.executor.kernel.cgroups import Counted
from rota.executor.kernel.fd_watch import FdWatch
from rota.executor.kernel.process_trees import Group, Tree
from rota.executor.kernel.remains import killed_remains
from rota.executor.kernel.subreaper import Subreaper, waited_for
from rota.executor.launch.sandbox import unenforced
from rota.executor.launch.spawn import NotStartedError, StartedProcess
from rota.executor.launch.task_channel import Collected
from rota.executor.masking import forms_of
from rota.executor.output import OutputFiles
from rota.executor.secret_values import SecretValues
from rota.executor.stop_ladder import StopLadder, may_have_result

DRAIN_S = 0.25  # A killed process ends within milliseconds.

NOT_FOUND = 127
"""The exit code of a shell that has not found the last command of its line."""

_LOOK_S, _LOOK_S_MAX = 0.001, 0.05  # The time between checks of killed processes.
_SAID_BY_BUBBLEWRAP = b"bwrap: "


class Keeper(Protocol):
    """The part of the executor that an attempt uses."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop of all calls except `start`."""
        ...

    @property
    def watch(self) -> FdWatch:
        """The watched descriptors."""
        ...

    @property
    def descent(self) -> Subreaper | None:
        """The search for orphans, if this process is their subreaper."""
        ...

    @property
    def files(self) -> OutputFiles:
        """The files of outputs."""
        ...

    def now(self) -> Instant:
        """Return the current instant."""
        ...

    def start(self, order: Order, secrets: SecretValues) -> StartedProcess:
        """Start the process of *order* with *secrets*; blocks, and is called in a thread."""
        ...

    def collect(self, running: "ProcessAttempt") -> None:
        """Read the reports in the program's folder, then call `ProcessAttempt.collected`."""
        ...

    def done(self, running: "ProcessAttempt", ending: Ending) -> None:
        """Forget the attempt and report its end."""
        ...


class ProcessAttempt:
    """The processes of one attempt, and its state.

    Attributes:
        order: The order of the attempt.
        capture: The output of the attempt.
        started: The started process; None before the start, and if the start failed.
    """

    __slots__ = (
        "_counted",
        "_drain_timer",
        "_exit_code",
        "_finished_at",
        "_is_drain_over",
        "_is_finishing",
        "_is_leader_gone",
        "_keeper",
        "_ladder",
        "_left_running",
        "_pidfd",
        "_pipe",
        "_secrets",
        "_signal",
        "_started_at",
        "_trees",
        "_usage",
        "capture",
        "order",
        "started",
    )

    def __init__(self, keeper: Keeper, order: Order, secrets: SecretValues) -> None:
        self.order = order
        self._secrets = secrets
        self.capture = keeper.files.capture(
            order.key, writable=self._writable, masks=forms_of(secrets.all)
        )
        self.started: StartedProcess | None = None
        self._keeper = keeper
        self._trees: tuple[Tree, ...] = ()
        self._pidfd = -1
        self._pipe = -1
        self._ladder = StopLadder(
            keeper.loop,
            order.work,
            has_ended=self._has_exited,
            terminate=self._terminate,
            kill=self._kill,
        )
        self._is_leader_gone = False
        self._is_finishing = False
        self._is_drain_over = False
        self._drain_timer: asyncio.TimerHandle | None = None
        self._started_at = self._finished_at = Instant(0)
        self._exit_code = -1
        self._signal = 0
        self._left_running = ""
        self._usage: Usage | None = None
        self._counted: Counted | None = None

    # In a thread.

    def start(self) -> StartedProcess | NotStartedError:
        """Start the process; return it, or the error because of which there is none."""
        if self._ladder.outcome is not None:
            return NotStartedError("stopped before it started")
        try:
            started = self._keeper.start(self.order, self._secrets)
        except NotStartedError as error:
            return error
        self._started_at = self._keeper.now()
        return started

    # On the loop.

    def begin(self, started: StartedProcess | NotStartedError) -> None:
        """Continue with the result of `start`."""
        if isinstance(started, NotStartedError):
            self._not_started(started)
        else:
            self._begin(started)

    def stop(self, grace: Duration) -> None:
        """Stop the attempt; a grace already running can only become shorter."""
        self._ladder.stop(grace)

    def collected(self, collected: Collected) -> None:
        """Report the end of the attempt, with *collected* from its folder."""
        self._keeper.done(self, self._ending(self._reason(), collected))

    def _not_started(self, error: NotStartedError) -> None:
        self._started_at = self._finished_at = self._keeper.now()
        self.capture.finish()
        ending = replace(
            self._ending(str(error), Collected()),
            outcome=self._ladder.outcome or error.outcome,
            is_permanent=str(error).startswith(BY_POLICY),
        )
        self._keeper.done(self, ending)

    def _begin(self, started: StartedProcess) -> None:
        self.started = started
        _, self._pidfd, self._pipe = started.leader
        self._trees = self._trees_of(started)
        self._keeper.watch.add(self._pipe, self._read)
        self._keeper.watch.add(self._pidfd, self._leader_exited)
        self._ladder.start()

    def _trees_of(self, started: StartedProcess) -> tuple[Tree, ...]:
        """Return the trees that contain all its processes; they depend on how it was started."""
        descent, cgroup = self._keeper.descent, started.limited.cgroup
        if started.namespace is not None:
            if descent is not None:
                descent.spare(started.namespace.first)
            found: tuple[Tree, ...] = (started.namespace, Group(started.leader.pid))
        elif descent is not None:
            found = (descent.tree(started.leader.pid, self.order.key),)
        else:
            found = (Group(started.leader.pid),)
        return found if cgroup is None else (cgroup, *found)

    def _has_exited(self) -> bool:
        """Return True if the leader has ended, even if that is not handled on the loop yet."""
        flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PIDFD, self._pidfd, flags) is not None

    def _terminate(self) -> None:
        assert self.started is not None, f"{self.order.key} is to end before it began"
        namespace = self.started.namespace
        (namespace or Group(self.started.leader.pid)).terminate()

    def _kill(self) -> bool:
        if self._is_leader_gone:
            self._finish()
            return False
        self._kill_trees()
        return True

    def _kill_trees(self) -> None:
        for tree in self._trees:
            tree.kill()

    def _leader_exited(self) -> None:
        self._keeper.watch.remove(self._pidfd)
        self._is_leader_gone = True
        if not self._ladder.is_in_grace or self._pipe < 0:
            self._finish()
        # Otherwise TERM may have ended a shell whose child is still handling the same signal.

    def _finish(self) -> None:
        if self._is_finishing:
            return
        self._is_finishing = True
        self._ladder.end()
        self._finished_at = self._keeper.now()
        if self._ladder.outcome is None and self.order.work.sandbox.profile == "none":
            self._left_running = killed_remains(self._trees)
        self._kill_trees()
        self._finish_when_gone(_LOOK_S)

    def _finish_when_gone(self, look_s: float) -> None:
        # No end is reported while a process of the attempt runs, however long it takes to end.
        if all(tree.has_gone() for tree in self._trees):
            self._take_leader()
        else:
            again_s = min(2 * look_s, _LOOK_S_MAX)
            self._keeper.loop.call_later(look_s, self._finish_when_gone, again_s)

    def _take_leader(self) -> None:
        started = self.started
        assert started is not None, f"{self.order.key} ended before it began"
        pid, status, used = os.wait4(started.leader.pid, 0)
        assert pid == started.leader.pid, f"{self.order.key} has ended but cannot be waited for"
        os.close(self._pidfd)
        self._pidfd = -1
        if os.WIFEXITED(status):
            self._exit_code = os.WEXITSTATUS(status)
        else:
            self._signal = os.WTERMSIG(status)
        self._usage = self._used(started, used)
        if self._pipe < 0:
            self._collect()
        else:
            self._drain_timer = self._keeper.loop.call_later(DRAIN_S, self._drain_over)

    def _used(self, started: StartedProcess, used: resource.struct_rusage) -> Usage:
        cpu = _cpu(used)
        if started.namespace is not None:
            cpu = Duration(cpu + self._used_in(started))
        if started.limited.cgroup is not None:
            self._counted = started.limited.cgroup.counted()
            cpu = max(cpu, self._counted.cpu)
            if self._counted.memory_peak:
                return Usage(cpu=cpu, memory_peak=self._counted.memory_peak)
        # A program begins in its parent's memory (vfork), whose peak is counted for the program.
        ours = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        is_known = used.ru_maxrss > ours
        return Usage(cpu=cpu, memory_peak=used.ru_maxrss * 1024 if is_known else 0)

    def _used_in(self, started: StartedProcess) -> Duration:
        """Return the processor time used in a sandbox; 0 if its first process is not our child."""
        namespace = started.namespace
        assert namespace is not None, f"{self.order.key} has no sandbox"
        namespace.close()
        cpu = waited_for(namespace.first)
        if self._keeper.descent is not None:
            self._keeper.descent.unspare(namespace.first)
        return cpu or Duration(0)

    def _read(self) -> None:
        # One chunk per turn of the loop, however much there is, so that others get their turns.
        try:
            chunk = os.read(self._pipe, READ_BYTES)
        except BlockingIOError:
            return
        if chunk:
            self.capture.take(chunk)
            if self.capture.is_busy:
                self._keeper.watch.remove(self._pipe)
            return
        self._close_pipe()
        if self._pidfd < 0:
            self._collect()
        elif self._is_leader_gone:
            self._finish()

    def _writable(self) -> None:
        """Continue to read the output, as the capture has room again."""
        if self._pipe < 0:
            self._collect()
        elif self._is_drain_over:
            self._read_last()
        else:
            self._keeper.watch.add(self._pipe, self._read)

    def _drain_over(self) -> None:
        self._is_drain_over = True
        if not self.capture.is_busy:
            self._read_last()

    def _read_last(self) -> None:
        """Read the present content of the pipe once: a process may write to it without end."""
        try:
            chunk = os.read(self._pipe, READ_BYTES)
        except BlockingIOError:
            chunk = b""
        self._close_pipe()
        if chunk:
            self.capture.take(chunk)
        if not self.capture.is_busy:
            self._collect()

    def _close_pipe(self) -> None:
        self._keeper.watch.remove(self._pipe)
        os.close(self._pipe)
        self._pipe = -1

    def _collect(self) -> None:
        if self._drain_timer is not None:
            self._drain_timer.cancel()
        self.capture.flush()
        if self.capture.is_busy:
            return  # `_writable` continues.
        self.capture.finish()
        self._keeper.collect(self)

    # What is collected.

    def _ending(self, reason: str, collected: Collected) -> Ending:
        outcome = self._ladder.outcome or self._outcome_of_its_own()
        result = collected.result if may_have_result(outcome, self._exit_code) else b""
        if outcome is Outcome.SUCCEEDED and collected.bad_result:
            outcome, reason = Outcome.FAILED, collected.bad_result
        cut = f"its output is kept only in part: {self.capture.cut}" if self.capture.cut else ""
        limited = self.started.limited.unenforced if self.started is not None else ()
        return Ending(
            outcome=outcome,
            started_at=self._started_at,
            finished_at=self._finished_at,
            exit_code=-1 if self._bubblewrap_failed() else self._exit_code,
            signal=self._signal,
            reason="; ".join(part for part in (reason, cut, collected.complaint) if part),
            output=self.capture.tail,
            output_bytes=self.capture.byte_count,
            result=result,
            usage=self._usage,
            is_out_of_memory=self._is_out_of_memory(),
            unenforced=(*unenforced(self.order.work.sandbox), *limited),
            left_running=self._left_running,
        )

    def _outcome_of_its_own(self) -> Outcome:
        return Outcome.SUCCEEDED if self._exit_code == 0 else Outcome.FAILED

    def _is_out_of_memory(self) -> bool:
        by_itself = self._ladder.outcome is None and self._exit_code != 0
        return by_itself and self._counted is not None and self._counted.oom_kills > 0

    def _bubblewrap_failed(self) -> bool:
        # bubblewrap prints one line and exits with 1; a program that does so is taken for it.
        return (
            self.order.work.sandbox.profile != "none"
            and self._exit_code == 1
            and self.capture.tail.startswith(_SAID_BY_BUBBLEWRAP)
            and self.capture.tail.count(b"\n") == 1
        )

    def _reason(self) -> str:
        return self._ladder.reason or self._reason_of_its_own()

    def _reason_of_its_own(self) -> str:
        if self._bubblewrap_failed():
            said = self.capture.tail.removeprefix(_SAID_BY_BUBBLEWRAP).decode(errors="replace")
            return f"cannot start in its sandbox: {said.strip()}"
        how = f"exited with code {self._exit_code}" if self._exit_code else ""
        work = self.order.work
        if self._exit_code == NOT_FOUND and work.shell:
            how += ": a command was not found" + ("" if work.cwd else ", and the task has no cwd")
        if self._signal:
            how = f"ended by signal {self._signal} ({_signal_name(self._signal)})"
        if self._is_out_of_memory():
            limit = self.order.work.limits.memory
            return f"out of memory: it reached its limit of {limit} bytes; {how}"
        return how


def _cpu(used: resource.struct_rusage) -> Duration:
    return Duration(round((used.ru_utime + used.ru_stime) * SECOND))


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "a real-time signal"
