"""Termination of processes left by a killed node.

A killed node cannot stop its attempts. Their processes are identified by environment variables,
which children receive by default: ``ROTA_STORE_ID`` names the node's store, three others name the
attempt. Only a process that emptied its environment *and* left its process group is not found.

All functions here block.
"""

import os
import select
import signal
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import NamedTuple, TypeAlias

from rota.core.model.attempt import AttemptKey
from rota.executor.kernel.env_marker import STORE_VARIABLE, key_in
from rota.executor.kernel.pidfd_signals import hold, send, wait_ends
from rota.executor.kernel.procfs import environment_of, pids, status_of

ROUNDS_MAX = 20  # A few suffice even if a process forks as fast as it can; see `_end`.
_GROUP_WAITS, _GROUP_WAIT_S = 100, 0.005  # A killed process is gone in milliseconds.
_CLEAN_SCANS = 2  # A scan may miss a process that starts during the scan; the next one finds it.

_IsOurs: TypeAlias = Callable[[dict[str, str]], bool]


class Orphans(NamedTuple):
    """The result of a search for orphans.

    Attributes:
        keys: The attempts whose processes were killed, in order.
        pids_left: Processes that still exist after the last round: they hang in the kernel, or fork
            faster than they are killed. A node should not start while they exist.
    """

    keys: tuple[AttemptKey, ...]
    pids_left: tuple[int, ...]


def end_orphans(
    store_id: str,
    *,
    rounds_max: int = ROUNDS_MAX,
    skipped: Collection[int] = (),
    on_read: Callable[[int], None] = lambda pid: None,
) -> Orphans:
    """Kill every process that is marked with *store_id*, with its process group.

    To be called before the node launches anything. ``/proc`` is scanned until two scans in a row
    find no such process, for at most *rounds_max* rounds; a scan takes about 30 us for each process
    of the machine. This process and its group are left alone, and, unless this process belongs to
    root, processes of other users.

    The call hangs while a process hangs in the kernel with its memory locked; see
    `rota.executor.kernel.orphan_sweep`.

    Args:
        store_id: The store whose processes are killed.
        rounds_max: The largest number of rounds; each ends with a scan.
        skipped: Processes that are neither read nor signalled, unless their group is killed.
        on_read: Called before the environment of a process is read, with its number, and with 0
            before waiting for killed processes.
    """

    def is_ours(environment: dict[str, str]) -> bool:
        return environment.get(STORE_VARIABLE) == store_id

    return _end_all(is_ours, rounds_max, skipped, on_read)


def end_attempts(
    store_id: str, keys: Collection[AttemptKey], *, rounds_max: int = ROUNDS_MAX
) -> Orphans:
    """Kill only processes marked with *store_id* and one of *keys*; otherwise as `end_orphans`."""
    return _end_all(
        lambda environment: (
            environment.get(STORE_VARIABLE) == store_id and key_in(environment) in keys
        ),
        rounds_max,
    )


def _end_all(
    is_ours: _IsOurs,
    rounds_max: int,
    skipped: Collection[int] = (),
    on_read: Callable[[int], None] = lambda pid: None,
) -> Orphans:
    keys: set[AttemptKey] = set()
    found = _marked(is_ours, skipped, on_read)
    clean_count = 0
    for _ in range(rounds_max):
        clean_count = 0 if found else clean_count + 1
        if clean_count == _CLEAN_SCANS:
            break
        keys.update(key for key in found.values() if key is not None)
        _end(list(found), is_ours, on_read)
        found = _marked(is_ours, skipped, on_read)
    return Orphans(tuple(sorted(keys)), tuple(sorted(found)))


def _marked(
    is_ours: _IsOurs, skipped: Collection[int], on_read: Callable[[int], None]
) -> dict[int, AttemptKey | None]:
    """Return the processes with an environment that *is_ours* accepts, each with its attempt."""
    found: dict[int, AttemptKey | None] = {}
    for pid in pids():
        if pid in skipped:
            continue
        on_read(pid)
        environment = environment_of(pid)
        if is_ours(environment) and pid != os.getpid():
            found[pid] = key_in(environment)
    return found


def _end(found: list[int], is_ours: _IsOurs, on_read: Callable[[int], None]) -> None:
    """Stop all *found* processes, kill them and their groups, and wait briefly for their end.

    They are stopped first so that they cannot fork while others are killed.
    """
    pidfds: dict[int, int] = {}
    groups: set[int] = set()
    try:
        for pid in found:
            on_read(pid)
            pidfd = _hold_if(is_ours, pid)
            if pidfd is not None:
                pidfds[pid] = pidfd
                send(pidfd, signal.SIGSTOP)
        on_read(0)
        for pid, pidfd in pidfds.items():
            groups.add(_kill_group(pid, pidfd))
            send(pidfd, signal.SIGKILL)
        wait_ends(pidfds.values())
        _wait_groups(groups - {0})  # 0 means no group; the kernel's own threads are in group 0.
    finally:
        for pidfd in pidfds.values():
            os.close(pidfd)


def _hold_if(is_ours: _IsOurs, pid: int) -> int | None:
    """Return a pidfd for *pid* if it is still the process that was found.

    The number may have been given to another process since the scan. A pidfd stays with one
    process, so the environment read after opening it is that process's, or the process has ended
    and signals to it have no effect.
    """
    pidfd = hold(pid)
    if pidfd is None or is_ours(environment_of(pid)):
        return pidfd
    os.close(pidfd)
    return None


def _kill_group(pid: int, pidfd: int) -> int:
    """Kill the group of *pid*, unless it is our own; return its number, or 0 if none was killed."""
    with suppress(ProcessLookupError, PermissionError):
        group = os.getpgid(pid)
        # The process exists after its group was read, so the group is its own, and not that of a
        # new process with the same number. Between here and the kill, the group can only end.
        signal.pidfd_send_signal(pidfd, 0)
        if group != os.getpgrp():
            os.killpg(group, signal.SIGKILL)
            return group
    return 0


def _wait_groups(groups: set[int]) -> None:
    """Wait briefly for the end of unmarked members of *groups*."""
    for _ in range(_GROUP_WAITS):
        if not any(_is_member(pid, groups) for pid in pids()):
            return
        select.select((), (), (), _GROUP_WAIT_S)


def _is_member(pid: int, groups: set[int]) -> bool:
    status = status_of(pid)
    return status is not None and status.group in groups and not status.has_ended
