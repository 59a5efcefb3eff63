"""Reasons of outcomes: the part that attempts do not determine."""

import re

_PARTS = re.compile(r"(?P<of_task>task [^ :]+ failed: )?(?P<kind>[^:]*)")
"""The reason of a task, which that of its execution repeats, begins with the type of an exception,
or with words of rota; a message, or what the program wrote, follows after a colon."""


def without_message(reason: str) -> str:
    """Return *reason* up to the message of an exception, such as ``task a failed: ValueError``."""
    found = _PARTS.match(reason)
    assert found is not None, "the pattern matches every text"
    return found[0]
