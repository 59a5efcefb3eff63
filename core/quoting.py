"""Quotations of input in messages: short, and safe to print.

A message repeats at most `QUOTED_MAX` characters of the input, and no control characters.
"""

QUOTED_MAX = 100


def shortened(text: str) -> str:
    """Return *text* with unprintable characters escaped, cut to `QUOTED_MAX` characters."""
    if len(text) <= QUOTED_MAX and text.isprintable():
        return text
    shown = "".join(_printable(char) for char in text[:QUOTED_MAX])
    is_cut = len(shown) > QUOTED_MAX or len(text) > QUOTED_MAX
    return f"{shown[: QUOTED_MAX - 3]}..." if is_cut else shown


def quoted(text: str, mark: str = '"') -> str:
    """Return *text*, shortened by `shortened`, with *mark* before and after it."""
    return f"{mark}{shortened(text)}{mark}"


def in_quotes(text: str) -> str:
    """Return *text*, shortened by `shortened`, between single quotes."""
    return quoted(text, "'")


def _printable(char: str) -> str:
    return char if char.isprintable() else char.encode("unicode_escape").decode("ascii")
