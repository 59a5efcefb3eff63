"""Information about processes from ``/proc``; see proc(5).

A process may end at any instant; for a process that has ended, results are None, empty or absent.
"""

import os
import select
from contextlib import suppress
from typing import NamedTuple

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


def is_in_another_namespace(pid: int) -> bool:
    """Return True unless *pid* runs in the process namespace of this process; pid_namespaces(7).

    A process of a namespace that this one does not contain has the number 0 here. The namespaces of
    mounts say nothing: a service manager gives each start of a node one of its own.
    """
    if not pid:
        return True
    depth = _depth_of(pid)
    if depth is not None:
        return depth != _depth_of(os.getpid())
    # With hidepid, a process that cannot be inspected, as a node, is hidden also from its own user.
    # Processes of sandboxes are not hidden from the user that made their namespace.
    try:
        os.kill(pid, 0)
    except OSError:
        return True
    return False


def _depth_of(pid: int) -> int | None:
    """Return the number of nested process namespaces with *pid*; None if it is not in ``/proc``."""
    with suppress(*_GONE), open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
        for line in file:
            if line.startswith("NSpid:"):
                return len(line.split()) - 1
        return 1  # The kernel has no such namespaces.
    return None


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

    Root also reads the environments of other users. The call hangs while *pid* hangs in the kernel
    with its memory locked.
    """
    try:
        if os.geteuid() not in (0, os.stat(f"/proc/{pid}").st_uid):
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
