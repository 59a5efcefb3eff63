"""Logs: lines on standard error, each of which is a JSON object for one event.

The field ``event`` is a constant phrase. The facts of the event are further fields, which are named
by words of the glossary and passed as ``extra``.
"""

import logging
import sys

from rota.executor.kernel.log_writer import LogWriter


def begin_logging(level: str) -> None:
    """Send every logger's records of *level* and above to standard error."""
    handlers = [LogWriter(sys.stderr.fileno())]
    logging.basicConfig(level=level.upper(), handlers=handlers, force=True)
    # The access log has its own setting, and has only lines of the level INFO.
    logging.getLogger("rota.access").setLevel(logging.INFO)
    # Refused access is logged at every level; its lines are limited.
    logging.getLogger("rota.audit").setLevel(logging.INFO)
    logging.getLogger("asyncio").setLevel(logging.WARNING)


def dropped_lines() -> int:
    """Return the number of lines that were dropped, because nothing took them in time."""
    handlers = logging.getLogger().handlers
    return sum(each.dropped for each in handlers if isinstance(each, LogWriter))
