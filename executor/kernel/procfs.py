"""Information about processes from ``/proc``; see proc(5).

A process may end at any instant; for a process that has ended, results are None, empty or absent.
"""

import os
import select
from typing import NamedTuple

from rota.executor.kernel.capabilities import lacks_effective

_EXEC_WAITS, _EXEC_WAIT_S = 200, 0.001  # An exec takes microseconds, or as long as a slow disk.
_KERNEL_THREAD = 0x0020_0000  # PF_KTHREAD in linux/sched.h.
_GONE = (FileNotFoundError, ProcessLookupError)


class Status(NamedTuple):
    """The status of a process, from ``/proc/PID/stat``.

    Attributes:
        state: One letter: ``Z`` is a zombie, which has ended and is not reaped yet.
        parent: The number of its parent.
        group: Its process group.
        session: Its session.
        is_without_environment: Whether the process really has no environment, as a kernel thread,
            a zombie or a program started with ``env -i``. In the middle of an exec, a process only
            seems to have none until the new one is in place (seen in 1 of 300 sweeps).
    """

    state: str
    parent: int
    group: int
    session: int
    is_without_environment: bool

    @property
    def has_ended(self) -> bool:
        """Whether the process has ended, reaped or not."""
        return self.state in "ZX"


def pids() -> list[int]:
    """Return the numbers of all processes that are visible to this one."""
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]


def status_of(pid: int) -> Status | None:
    """Return the status of *pid*; None if there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()  # From field 3 on.
    except _GONE:
        return None
    state, flags, begin, end = fields[0], int(fields[6]), fields[47], fields[48]
    is_without = state in "ZX" or bool(flags & _KERNEL_THREAD) or begin == end != "0"
    return Status(state, int(fields[1]), int(fields[2]), int(fields[3]), is_without)


def running_name_of(pid: int) -> str | None:
    """Return the present name of *pid*; None if the process has ended.

    The name can have any characters, and at most 15 bytes before the kernel escapes line ends and
    backslashes. For a script, it is the name of the interpreter, unless the script was executed
    itself.
    """
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            before, _, after = file.read().rpartition(") ")
    except _GONE:
        return None
    return None if after[:1] in "ZX" else before.partition("(")[2]


def children_of(pid: int) -> list[int]:
    """Return the children of all threads of *pid*.

    A child that starts or ends during the call may be missed, unless *pid* is stopped.
    """
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                found.extend(map(int, file.read().split()))
    except _GONE:
        pass
    return found


def environment_of(pid: int) -> dict[str, str]:
    """Return the environment with which *pid* was started; empty if this user may not read it.

    A process that runs programs as other users also reads the environments of other users. The
    call hangs while *pid* hangs in the kernel with its memory locked.
    """
    try:
        if os.stat(f"/proc/{pid}").st_uid != os.geteuid() and lacks_effective():
            return {}
        entries = _read_environment(pid).decode("utf-8", "replace").split("\0")
    except (*_GONE, PermissionError):
        return {}
    return dict(entry.split("=", 1) for entry in entries if "=" in entry)


def _read_environment(pid: int) -> bytes:
    for _ in range(_EXEC_WAITS):
        with open(f"/proc/{pid}/environ", "rb") as file:
            content = file.read()
        if content:
            return content
        status = status_of(pid)
        if status is None or status.is_without_environment:
            return b""
        select.select((), (), (), _EXEC_WAIT_S)
    return b""
