"""prctl(2): settings of the kernel for this process.

The numbers are those of linux/prctl.h. A call that fails raises an `OSError`, also if the kernel
does not have the option.
"""

import ctypes
import os
import signal

_SET_PDEATHSIG = 1
_SET_DUMPABLE = 4
_SET_NAME = 15
_SET_CHILD_SUBREAPER = 36


def refuse_inspection() -> None:
    """Close this process's memory, environment and descriptors to others of the same user.

    ``/proc/PID/environ``, ``mem`` and ``fd`` belong to root from then on, ptrace(2) and
    pidfd_getfd(2) are refused, and a crash leaves no core dump. A child keeps the setting after a
    fork and loses it at an exec, so the programs that are started are not affected.
    """
    _prctl(_SET_DUMPABLE, 0)


def set_subreaper(*, on: bool) -> None:
    """Set whether this process becomes the parent of its orphaned descendants."""
    _prctl(_SET_CHILD_SUBREAPER, int(on))


def end_with_parent() -> None:
    """Request a KILL when the thread that started this process ends."""
    _prctl(_SET_PDEATHSIG, signal.SIGKILL)


def name_process(name: str) -> None:
    """Set the name that ``ps -o comm`` and ``top`` show, at most 15 bytes."""
    _prctl(_SET_NAME, name.encode())


def _prctl(option: int, argument: int | bytes) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, argument, 0, 0, 0):
        error = ctypes.get_errno()
        raise OSError(error, f"prctl({option}): {os.strerror(error)}")
