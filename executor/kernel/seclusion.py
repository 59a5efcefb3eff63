"""Seclusion of rota's own processes from the tasks, which may run as the same user."""

import os

from rota.executor.kernel.prctl import refuse_inspection

_PRIVATE = 0o077


def seclude() -> int:
    """Restrict new files to this process's user; close its memory and environment to others.

    Returns:
        The umask that the process was started with, to be restored for its tasks.
    """
    refuse_inspection()
    return os.umask(_PRIVATE)
