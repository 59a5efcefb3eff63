"""Start and end of a worker's process; these calls block and run in threads."""

import os
import select
import socket
import subprocess
import sys
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import NamedTuple

import msgspec

from rota.core.model.work import ResourceLimits
from rota.executor.attempt_settings import AttemptSettings
from rota.executor.kernel.cgroups import Cgroup
from rota.executor.kernel.environment_reader import EnvironmentReader
from rota.executor.kernel.limits import UNLIMITED, Limited, Limiter
from rota.executor.kernel.procfs import pids
from rota.executor.kernel.subreaper import end_descendants
from rota.executor.launch.spawn import Launched, LaunchPlan, NotStartedError, folder_reason, launch
from rota.executor.python.environment import Environment, variables_of_worker
from rota.executor.python.worker_protocol import PROGRAM, Settings

WORKER_VARIABLE = "ROTA_WORKER_ID"

_ROUNDS_MAX, _ROUND_S = 100, 0.005  # A killed process ends within milliseconds.


class StartedWorker(NamedTuple):
    """The process of a worker; its descriptors belong to the caller.

    Attributes:
        pid: Also the number of its process group and session.
        pidfd: Readable when the process has ended.
        control: The socket for calls, not blocking.
        pipe: The pipe with its output, not blocking.
        folder: Its private folder, or None.
        mark: The value of `WORKER_VARIABLE` in all processes that it starts; see `end_rest`.
        limited: The limits that are in force.
    """

    pid: int
    pidfd: int
    control: socket.socket
    pipe: int
    folder: Path | None
    mark: str
    limited: Limited


class Starter:
    """Starts workers; to be used in one thread.

    Args:
        base: The variables that all attempts have.
        folders: The folder in which private folders are made.
        limiter: Sets the limits of workers.
        settings: The node's settings for attempts.
    """

    def __init__(
        self, base: Mapping[str, str], *, folders: Path, limiter: Limiter, settings: AttemptSettings
    ) -> None:
        self._base = base
        self._folders = folders
        self._limiter = limiter
        self._settings = settings
        self._numbers = count(1)

    def start(self, environment: Environment) -> StartedWorker:
        """Start a worker.

        Raises:
            NotStartedError: The worker cannot be started, and nothing is left of it.
        """
        name = f"{os.getpid()}-{next(self._numbers)}"
        folder = None if environment.cwd else self._folders / name
        try:
            if folder is not None:
                folder.mkdir(mode=0o700)
            return self._start(environment, name, folder)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            if folder is not None and folder.is_dir():
                folder.rmdir()
            reason = _explain(error, environment, node=self._base["ROTA_NODE_ID"])
            raise NotStartedError(reason) from error

    def _start(self, environment: Environment, name: str, folder: Path | None) -> StartedWorker:
        interpreter = environment.interpreter or sys.executable
        cwd = environment.cwd or str(folder)
        for path in (cwd, interpreter):
            os.stat(path)  # A hung disk blocks only this thread; see `rota.executor.launch.spawn`.
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        settings = Settings(
            control=theirs.fileno(),
            path=environment.path,
            folder=cwd,
            is_private=folder is not None,
            reloads_code=self._settings.reloads_code,
        )
        argv = (interpreter, PROGRAM, msgspec.json.encode(settings).decode())
        plan = LaunchPlan(
            argv=argv,
            environment=variables_of_worker(environment, self._base) | {WORKER_VARIABLE: name},
            cwd=cwd,
            stdin="",
            umask=self._settings.umask,
            inherited=(theirs.fileno(),),
        )
        try:
            started, limited = self._launch(plan, name, environment.limits)
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        return StartedWorker(started.pid, started.pidfd, ours, started.pipe, folder, name, limited)

    def _launch(
        self, plan: LaunchPlan, name: str, limits: ResourceLimits
    ) -> tuple[Launched, Limited]:
        if limits == ResourceLimits():
            return launch(plan), UNLIMITED
        with self._limiter.enclosed(name, limits) as enclosure:
            started = launch(plan._replace(enter=enclosure.enter))
            return started, enclosure.verify(started.pid)

    def close(self) -> None:
        """Remove what was made for all workers, which must have ended."""
        self._limiter.close()


def _explain(error: Exception, environment: Environment, *, node: str) -> str:
    interpreter = environment.interpreter or sys.executable
    what = f"cannot start a worker with the interpreter {interpreter!r} on node {node}"
    if not isinstance(error, OSError):
        return f"{what}: {error}"
    if environment.cwd and error.filename == environment.cwd:
        return folder_reason(error, environment.cwd, node=node)
    return f"{what}: {error.strerror}"


_ENVIRONMENTS = EnvironmentReader()
"""Reads environments in the thread that ends workers."""


def _mark_of(pid: int) -> str | None:
    # A process that cannot be read is left to the guard, so it does not delay the worker's end.
    return (_ENVIRONMENTS.read(pid) or {}).get(WORKER_VARIABLE)


def end_rest(mark: str, cgroup: Cgroup | None) -> bool:
    """Kill the processes that an ended worker has left; return True if it ran out of memory.

    All orphaned descendants of a worker become its children, and are killed together with it. Those
    that remain after a worker has ended by itself are found by the mark in their environment.

    Args:
        mark: The mark of the worker; empty if no process can be left.
        cgroup: The cgroup of the worker, or None; it is removed.
    """
    if mark:
        end_descendants([pid for pid in pids() if _mark_of(pid) == mark])
    if cgroup is None:
        return False
    for _ in range(_ROUNDS_MAX):
        if cgroup.has_gone():
            break
        select.select((), (), (), _ROUND_S)
    counted = cgroup.counted()
    cgroup.remove()
    return counted.oom_kills > 0
