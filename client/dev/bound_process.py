"""Start of programs that end with the process that starts them, however that process ends.

A program is started through this file, which is executed alone and imports no other part of rota.
It asks the kernel for a TERM at the end of its parent (``PR_SET_PDEATHSIG``, prctl(2)), and becomes
the program, which keeps this request. The parent is the *thread* that started the program; so a
program is bound only if the main thread starts it.
"""

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Sequence

_SET_PDEATHSIG = 1


def bound(argv: Sequence[str]) -> list[str]:
    """Return the command that runs *argv* until it ends, or until this process ends.

    Outside the main thread, the command is *argv* itself.
    """
    if threading.current_thread() is not threading.main_thread():
        return [*argv]
    # -I and -S: neither the variables nor the packages of a user take part.
    return [sys.executable, "-I", "-S", __file__, str(os.getpid()), *argv]


def _become(parent: int, argv: list[str]) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0):
        error = ctypes.get_errno()
        raise OSError(error, f"prctl: {os.strerror(error)}")
    if os.getppid() == parent:  # Otherwise the parent ended before the request.
        os.execvp(argv[0], argv)


if __name__ == "__main__":
    _become(int(sys.argv[1]), sys.argv[2:])
