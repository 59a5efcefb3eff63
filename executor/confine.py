"""Starting one process in a sandbox, under limits, or both."""

import errno
import os
import select
import shutil
import signal

import msgspec

from rota.core.attempt import AttemptKey, Limits, Order, Work
from rota.executor.killing import hold
from rota.executor.limits import UNLIMITED, Limited, Limiter, stopped
from rota.executor.procfs import status_of
from rota.executor.sandbox import PRIVATE, Bubblewrap, NoSandboxError, environment_in, wrapped
from rota.executor.spawn import (
    Launched,
    NotStartedError,
    Plan,
    Started,
    Surroundings,
    abandon,
    argv_of,
    environment_of,
    launch,
    starting,
)
from rota.executor.telling import Told
from rota.executor.trees import Namespace

_INFO_S = 20.0  # Bubblewrap tells within milliseconds; the machine may be busy.
_BUBBLEWRAP_PIDS = 2  # One waits outside and one is the first process inside: not the task's.


class _Info(msgspec.Struct, rename="kebab"):
    child_pid: int


class Confiner:
    """Starts attempts that ask for a sandbox or limits; for one thread, which outlives them all.

    That thread is the parent that ``--die-with-parent`` means.
    """

    def __init__(self, around: Surroundings, limiter: Limiter, bubblewrap: Bubblewrap) -> None:
        self._around = around
        self._limiter = limiter
        self._bubblewrap = bubblewrap

    def start(self, order: Order) -> Started:
        """Start the process of *order* as `rota.executor.spawn.start` does, but confined.

        Raises:
            NotStartedError: It cannot be started, or not in its sandbox; nothing of it is left.
        """
        argv = argv_of(order.work)
        with starting(order, argv, self._around) as told:
            if order.work.sandbox.profile == "none":
                return self._start_limited(order, argv, told)
            return self._start_sandboxed(order, argv, told)

    def close(self) -> None:
        """Remove what was made for all attempts; none of them is left."""
        self._limiter.close()

    def _start_limited(self, order: Order, argv: tuple[str, ...], told: Told) -> Started:
        work, folder = order.work, str(told.folder)
        environment = environment_of(order, self._around.environment, folder)
        cwd = work.cwd or folder
        _look_up(argv[0], cwd, environment)
        plan = Plan(argv, environment, cwd, work.stdin, self._around.terms.umask)
        leader, limited = self._launch(plan, order, work.limits)
        return Started(leader, told, limited=limited)

    def _start_sandboxed(self, order: Order, argv: tuple[str, ...], told: Told) -> Started:
        work = order.work
        try:
            bubblewrap = self._bubblewrap.proven_for(work.sandbox)
        except NoSandboxError as error:
            raise NotStartedError(str(error)) from error
        environment = environment_in(work.sandbox, self._around.environment)
        info, theirs = os.pipe()
        try:
            try:
                plan = Plan(
                    argv=wrapped(
                        argv,
                        work,
                        bubblewrap=bubblewrap,
                        rooms=self._bubblewrap.rooms,
                        folder=str(told.folder),
                        info_fd=theirs,
                    ),
                    environment=environment_of(order, environment, PRIVATE),
                    cwd="/",
                    stdin=work.stdin,
                    umask=self._around.terms.umask,
                    inherited=(theirs,),
                )
                leader, limited = self._launch(plan, order, _with_room(work.limits))
            finally:
                os.close(theirs)
            limited = limited._replace(unenforced=bubblewrap.unenforced + limited.unenforced)
            return Started(leader, told, _namespace_of(leader.pid, info), limited)
        finally:
            os.close(info)

    def _launch(self, plan: Plan, order: Order, limits: Limits) -> tuple[Launched, Limited]:
        if limits == Limits():
            return launch(plan), UNLIMITED
        leader = launch(plan._replace(argv=stopped(plan.argv)))
        try:
            return leader, self._limiter.limit(leader.pid, _cgroup_name(order.key), limits)
        except BaseException:
            abandon(leader)
            raise


def _cgroup_name(key: AttemptKey) -> str:
    return f"{key.execution_id}.{key.task}.{key.number}"


def is_confined(work: Work) -> bool:
    """Tell whether *work* asks for what a `Confiner` does."""
    return work.sandbox.profile != "none" or work.limits != Limits()


def _look_up(program: str, cwd: str, environment: dict[str, str]) -> None:
    """Find what cannot be executed before a shell is between us and the error.

    Raises:
        OSError: As executing it would.
    """
    if "/" in program:
        path: str | None = os.path.join(cwd, program)
        os.stat(os.path.join(cwd, program))
    else:
        path = shutil.which(program, path=environment.get("PATH"))
    if path is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), program)
    if not os.access(path, os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), program)


def _with_room(limits: Limits) -> Limits:
    if not limits.pids:
        return limits
    return msgspec.structs.replace(limits, pids=limits.pids + _BUBBLEWRAP_PIDS)


def _namespace_of(leader: int, info: int) -> Namespace | None:
    """Return the namespace that bubblewrap tells of; None if it ended without making one."""
    told = _read_info(info)
    if told is None:
        os.kill(leader, signal.SIGKILL)  # Not waited for yet, so it is still this one.
        return None
    first = msgspec.json.decode(told, type=_Info).child_pid if told else 0
    pidfd = hold(first) if first else None
    if pidfd is None:
        return None
    status = status_of(first)
    if status is None or status.parent != leader:
        os.close(pidfd)  # It has ended, and its number may be another's.
        return None
    return Namespace(first, pidfd)


def _read_info(info: int) -> bytes | None:
    """Return what comes until the end of the JSON or of the file; None if that takes too long."""
    poll = select.poll()
    poll.register(info, select.POLLIN)
    told = b""
    while not told.endswith(b"}\n"):
        if not poll.poll(_INFO_S * 1e3):
            return None
        part = os.read(info, 4096)
        if not part:
            return b""
        told += part
    return told
