"""The pause of a namespace in its document.

A pause is set and ended by operations of its own, and a replacement of the document keeps it: a
document from a file that is applied again does not end it.
"""

from typing import Any, cast

from rota.core.model.job import Pause
from rota.core.model.shared_document import Definition
from rota.core.timing.instants import Instant, format_instant, parse_instant

PAUSE = "pause"
"""The field of a definition."""


def pause_in(definition: Definition, *, changed_at: Instant) -> Pause | None:
    """Return the pause; None if the namespace is not paused.

    Fields that this version does not understand are left out, so that a namespace that another
    version paused is paused.

    Args:
        definition: The definition of the namespace.
        changed_at: The time of the newest change, for a pause without a time.
    """
    found = definition.get(PAUSE)
    if not found:
        return None
    fields = cast("dict[str, Any]", found if isinstance(found, dict) else {})  # Any: JSON.
    try:
        at = parse_instant(str(fields.get("at", "")))
    except ValueError:
        at = changed_at
    return Pause(at=at, by=str(fields.get("by", "")), reason=str(fields.get("reason", "")))


def definition_of(pause: Pause) -> dict[str, str]:
    """Return the pause as it is in the definition of a namespace."""
    return {"at": format_instant(pause.at), "by": pause.by, "reason": pause.reason}
