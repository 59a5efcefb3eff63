"""Logs: lines on standard error, each of which is a JSON object for one event.

The field ``event`` is a constant phrase. The facts of the event are further fields, which are named
by words of the glossary and passed as ``extra``.
"""

import json
import logging
import sys
from datetime import UTC, datetime

_PLAIN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonFormatter(logging.Formatter):
    """Formatter of log records as JSON objects."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="microseconds")
        line: dict[str, object] = {
            "at": at.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            "logger": record.name,
        }
        line |= {key: value for key, value in vars(record).items() if key not in _PLAIN}
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=False)


def begin_logging(level: str) -> None:
    """Send every logger's records of *level* and above to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # The access log has its own setting, and has only lines of the level INFO.
    logging.getLogger("rota.access").setLevel(logging.INFO)
    # Refused access is logged at every level; its lines are limited.
    logging.getLogger("rota.audit").setLevel(logging.INFO)
    logging.getLogger("asyncio").setLevel(logging.WARNING)
