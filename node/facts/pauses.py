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


def pause_fields(definition: Definition) -> dict[str, str] | None:
    """Return the fields of the pause; None if the namespace is not paused.

    Fields that this version does not understand are left out, so that a namespace that another
    version paused is paused.
    """
    found = definition.get(PAUSE)
    if not found:
        return None
    fields = cast("dict[str, Any]", found if isinstance(found, dict) else {})  # Any: JSON.
    return {name: str(fields.get(name, "")) for name in ("at", "by", "reason")}


def pause_in(definition: Definition, *, changed_at: Instant) -> Pause | None:
    """Return the pause; None if the namespace is not paused.

    Args:
        definition: The definition of the namespace.
        changed_at: The time of the newest change, for a pause without a time.
    """
    fields = pause_fields(definition)
    if fields is None:
        return None
    try:
        at = parse_instant(fields["at"])
    except ValueError:
        at = changed_at
    return Pause(at=at, by=fields["by"], reason=fields["reason"])


def with_pause(definition: Definition, pause: Pause | None) -> Definition:
    """Return *definition* with *pause*; with None, without a pause."""
    rest = {name: each for name, each in definition.items() if name != PAUSE}
    if pause is None:
        return rest
    fields = {"at": format_instant(pause.at), "by": pause.by, "reason": pause.reason}
    return {**rest, PAUSE: {name: each for name, each in fields.items() if each}}
