"""Text in which no character is hidden.

Output of tasks reaches a model as part of a text. Characters that no person sees, such as the tags
of Unicode, could have instructions for the model; control characters could change a terminal.
"""

import re

_HIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e0fff]"
)


def visible(json: str) -> str:
    r"""Return JSON *json*, the same value, with hidden characters as escapes of JSON.

    >>> visible('"a\u200bb"')
    '"a\\u200bb"'
    """
    return _HIDDEN.sub(_escaped, json)


def _escaped(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
