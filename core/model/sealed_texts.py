"""Sealed texts: encrypted parts of variables and parameters.

A sealed text is ``rota:sealed:v1:`` and a box in base64url. It may be a whole value or a part of
one, such as the password in a URL. The node that runs an attempt replaces it by its plain text;
journals, orders and answers have the box.
"""

import re
from collections.abc import Callable

PREFIX = "rota:sealed:v1:"
SEALED = re.compile(rf"{PREFIX}(?P<box>[A-Za-z0-9_-]*)")


def replaced(text: str, opened: Callable[[str], str]) -> str:
    """Return *text* with each sealed text replaced by the result of *opened*.

    Args:
        text: The text.
        opened: Returns the replacement of a box.
    """
    return SEALED.sub(lambda found: opened(found["box"]), text)


def boxes_in(text: str) -> list[str]:
    """Return the boxes of the sealed texts in *text*."""
    return [found["box"] for found in SEALED.finditer(text)]
