"""Ending the processes that a previous life of the node left behind.

A node that is killed cannot stop its attempts. Their processes are known by their environment,
which every child inherits: ``ROTA_STORE_ID`` names the node's store. What escapes is a process
that emptied its environment *and* left its process group.

`end_orphans` is called before the node launches anything. It blocks, as nothing else may run yet.
"""

import os
import select
import signal
from contextlib import suppress
from typing import NamedTuple

from rota.core.attempt import AttemptKey
from rota.core.ids import ExecutionId
from rota.executor.spawn import (
    ATTEMPT_VARIABLE,
    EXECUTION_VARIABLE,
    STORE_VARIABLE,
    TASK_VARIABLE,
)

ROUNDS_MAX = 20  # A process that forks as fast as it can is outrun in a few; see `_end`.
_CLEAN_SCANS = 2  # A process born during a scan may be missed by it, not by the next.
_DEATH_WAIT_MS = 500  # A killed process is gone in milliseconds unless it hangs in the kernel.
_EXEC_WAITS, _EXEC_WAIT_S = 200, 0.001  # An exec takes microseconds, or as long as a slow disk.
_KERNEL_THREAD = 0x0020_0000  # PF_KTHREAD in linux/sched.h.


class Orphans(NamedTuple):
    """What was found.

    Attributes:
        keys: The attempts whose processes were ended, in order.
        pids_left: Processes still there after the last round: they hang in the kernel, or fork
            faster than they are killed. A node should not start beside them.
    """

    keys: tuple[AttemptKey, ...]
    pids_left: tuple[int, ...]


def end_orphans(store_id: str, *, rounds_max: int = ROUNDS_MAX) -> Orphans:
    """Kill every process of ours that carries *store_id*, with its process group.

    Scans ``/proc`` until two scans in a row find none, at most *rounds_max* times; a scan takes
    about 30 us for each process of the machine. Processes of other users are not looked at, and
    this process and its group are spared.
    """
    keys: set[AttemptKey] = set()
    found = _marked(store_id)
    clean_count = 0
    for _ in range(rounds_max):
        clean_count = 0 if found else clean_count + 1
        if clean_count == _CLEAN_SCANS:
            break
        keys.update(key for key in found.values() if key is not None)
        _end(found, store_id)
        found = _marked(store_id)
    return Orphans(tuple(sorted(keys)), tuple(sorted(found)))


def _marked(store_id: str) -> dict[int, AttemptKey | None]:
    """Return the processes that carry *store_id*, and the attempt that each belongs to."""
    found: dict[int, AttemptKey | None] = {}
    for name in os.listdir("/proc"):
        if not name.isdecimal() or int(name) == os.getpid():
            continue
        environment = _environment(int(name))
        if environment.get(STORE_VARIABLE) == store_id:
            found[int(name)] = _key_of(environment)
    return found


def _environment(pid: int) -> dict[str, str]:
    """Return the environment that *pid* began with; empty if it is gone or not ours to see."""
    try:
        if os.stat(f"/proc/{pid}").st_uid != os.geteuid():
            return {}
        entries = _read_environment(pid).decode("utf-8", "replace").split("\0")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return {}
    return dict(entry.split("=", 1) for entry in entries if "=" in entry)


def _read_environment(pid: int) -> bytes:
    for _ in range(_EXEC_WAITS):
        with open(f"/proc/{pid}/environ", "rb") as file:
            content = file.read()
        if content or _has_none(pid):
            return content
        select.select((), (), (), _EXEC_WAIT_S)
    return b""


def _has_none(pid: int) -> bool:
    """Tell whether an empty environment is the truth.

    It is for a kernel thread, a zombie and after ``env -i``. It is not for a process in the
    middle of an exec, which shows none until the new one is in place (seen in 1 of 300 sweeps).
    """
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
        fields = file.read().rpartition(")")[2].split()  # From field 3 on; see proc(5).
    state, flags, begin, end = fields[0], int(fields[6]), fields[47], fields[48]
    return state in "ZX" or bool(flags & _KERNEL_THREAD) or begin == end != "0"


def _key_of(environment: dict[str, str]) -> AttemptKey | None:
    number = environment.get(ATTEMPT_VARIABLE, "")
    if not number.isdecimal():
        return None
    execution_id = ExecutionId(environment.get(EXECUTION_VARIABLE, ""))
    return AttemptKey(execution_id, environment.get(TASK_VARIABLE, ""), int(number))


def _end(pids: dict[int, AttemptKey | None], store_id: str) -> None:
    """Stop all of *pids*, then kill them and their groups, and wait a moment for their end.

    Stopped first, they cannot fork while the others are killed.
    """
    pidfds: dict[int, int] = {}
    try:
        for pid in pids:
            pidfd = _hold(pid, store_id)
            if pidfd is not None:
                pidfds[pid] = pidfd
                _send(pidfd, signal.SIGSTOP)
        for pid, pidfd in pidfds.items():
            _kill_group(pid, pidfd)
            _send(pidfd, signal.SIGKILL)
        _wait_death(list(pidfds.values()))
    finally:
        for pidfd in pidfds.values():
            os.close(pidfd)


def _hold(pid: int, store_id: str) -> int | None:
    """Return a pidfd for *pid* if it is still the process that was found.

    The number may have been given to another process since the scan. A pidfd stays with one
    process, so the environment read after opening it is that process's, or the process is dead
    and signals to it go nowhere.
    """
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return None
    if _environment(pid).get(STORE_VARIABLE) == store_id:
        return pidfd
    os.close(pidfd)
    return None


def _kill_group(pid: int, pidfd: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        group = os.getpgid(pid)
        # The process is alive after its group was read, so the group is its own and not that of
        # a newcomer with the same number. Between here and the kill it could only vanish.
        signal.pidfd_send_signal(pidfd, 0)
        if group != os.getpgrp():
            os.killpg(group, signal.SIGKILL)


def _send(pidfd: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        signal.pidfd_send_signal(pidfd, number)


def _wait_death(pidfds: list[int]) -> None:
    poll = select.poll()
    waiting = set(pidfds)
    for pidfd in pidfds:
        poll.register(pidfd, select.POLLIN)
    while waiting:
        dead = poll.poll(_DEATH_WAIT_MS)
        if not dead:
            return  # The next round tries again.
        for pidfd, _ in dead:
            poll.unregister(pidfd)
            waiting.discard(pidfd)
