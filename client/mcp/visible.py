"""Text in which no character is hidden.

Output of tasks reaches a model as part of a text. Characters that no person sees, such as the tags
of Unicode, could have instructions for the model; control characters could change a terminal.
"""

import re
from collections.abc import Mapping
from typing import cast

_HIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb"
    "\U000e0000-\U000e0fff]"
)


def visible(json: str) -> str:
    r"""Return JSON *json*, the same value, with hidden characters as escapes of JSON.

    >>> visible('"a\u200bb"')
    '"a\\u200bb"'
    """
    return _HIDDEN.sub(_escaped, json)


def visible_value(value: object) -> object:
    r"""Return a JSON value whose keys and strings have hidden characters as text like ``\u200b``.

    Who decodes JSON would turn escapes back into the characters. Ends of lines and tabs stay.

    >>> visible_value({"a\u200b": ["b\n\u2800"]})
    {'a\\u200b': ['b\n\\u2800']}
    """
    if isinstance(value, str):
        return _HIDDEN.sub(lambda found: found[0] if found[0] in "\n\t" else _escaped(found), value)
    if isinstance(value, Mapping):
        members = cast("Mapping[str, object]", value)
        return {_visible_key(name): visible_value(each) for name, each in members.items()}
    if isinstance(value, list | tuple):
        return [visible_value(each) for each in cast("list[object]", value)]
    return value


def _visible_key(name: str) -> str:
    return cast("str", visible_value(name))


def _escaped(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
