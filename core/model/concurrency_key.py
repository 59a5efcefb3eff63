"""Concurrency keys: the value that an execution shares with those that it must not overlap."""

from typing import Any

import msgspec

from rota.core.model.expressions import ExpressionError, evaluate, text_of

KEY_LENGTH_MAX = 200
"""The most characters of the value of a key."""


def key_of(expression: str, parameters: str) -> str:
    """Return the value of a concurrency key for *parameters*, which are JSON; never empty.

    Raises:
        ExpressionError: It has no value, which also null and an empty text count as, or too long a
            one.
    """
    params: Any = msgspec.json.decode(parameters) if parameters else {}  # Any: JSON.
    value = evaluate(expression, {"params": params})
    text = "" if value is None else text_of(value)
    if not text:
        raise ExpressionError(f"{expression} has no value; give it in the parameters")
    if len(text) > KEY_LENGTH_MAX:
        raise ExpressionError(
            f"{expression} has a value of {len(text):,} characters; at most {KEY_LENGTH_MAX} are "
            "allowed"
        )
    return text
