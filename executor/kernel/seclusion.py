"""Seclusion of rota's own processes from the tasks, which may run as the same user."""

import os

from rota.executor.kernel.prctl import refuse_inspection

_PRIVATE = 0o077


def seclude() -> int:
    """Keep this process to itself: files for its user alone, memory and environment for nobody.

    Returns:
        The umask that the process was started with; its tasks are to have that again.
    """
    refuse_inspection()
    return os.umask(_PRIVATE)
