r"""Output of the ``rota`` program, without control characters for the terminal.

Names, reasons, errors and output come from servers and tasks. A terminal interprets some characters
in these texts, which can hide or fake lines, change its title or fill the clipboard. Such
characters are shown as ``\x1b`` or ``\u202e`` instead, on a terminal and elsewhere.
"""

import codecs
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass

import click

_STEERING = (
    # C0, but \t, \n and the \r of \r\n; DEL; C1.
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]|\r(?!\n)"
    # Marks and overrides that change the displayed order of text.
    r"|[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"
    # Line ends of some programs, and code points without an encoding.
    r"|[\u2028\u2029\ud800-\udfff]"
)
_has_steering = re.compile(_STEERING).search
_replace_steering = re.compile(_STEERING).sub
_replace_undecoded = re.compile(r"[\udc80-\udcff]").sub
"""Replaces bytes that are not UTF-8, which ``surrogateescape`` represents as these characters."""
_replace_white = re.compile(r"\r\n|[\t\n\r]").sub


@dataclass(frozen=True, slots=True)
class Styled:
    """Text that is printed in a colour, bold or dim, if standard output supports colours."""

    text: str
    colour: str | None = None
    is_bold: bool = False
    is_dim: bool = False


Piece = str | Styled


def out(*pieces: Piece, end: str = "\n") -> None:
    """Print text on standard output, with control characters as escapes."""
    click.echo("".join(map(_safe, pieces)) + end, nl=False)


def say(text: str, end: str = "\n") -> None:
    """Print a message on standard error, with control characters as escapes."""
    click.echo(visible(text) + end, nl=False, err=True)


def say_done(verb: str, what: str, *, is_dry: bool) -> None:
    """Print what was done: *verb*, a past participle, and *what* it was done to."""
    say(f"dry run: nothing is changed; {what} would be {verb}" if is_dry else f"{verb} {what}")


def rewrite(text: str) -> None:
    """Print a message on standard error in place of the previous one."""
    click.echo("\r" + visible(text), nl=False, err=True)


def visible(text: str) -> str:
    """Return *text* with control characters, except tabs and line ends, as escapes."""
    return _replace_steering(_as_escape, text)


def one_line(text: str) -> str:
    """Return *text* in one line: tabs and line ends as spaces, control characters as escapes."""
    return visible(_replace_white(" ", text))


def visible_json(text: str) -> str:
    """Return JSON that has the same meaning as *text*, but no control characters."""
    return _replace_steering(lambda found: f"\\u{ord(found[0]):04x}", text)


def visible_yaml(dump: Callable[[bool], str]) -> str:
    """Return YAML without control characters.

    Args:
        dump: Returns the YAML; its argument is whether it may contain characters outside ASCII.
    """
    text = dump(True)
    return dump(False) if _has_steering(text) else text


class OutputCopy:
    """Output of tasks that is copied to standard output as it arrives.

    Files and pipes get the unchanged bytes; a terminal gets text with escapes.

    Args:
        is_raw: Whether a terminal also gets the unchanged bytes.

    Attributes:
        has_escapes: Whether anything was shown as an escape.
    """

    def __init__(self, *, is_raw: bool) -> None:
        self.has_escapes = False
        self._decode: Callable[..., str] | None = None
        if sys.stdout.isatty() and not is_raw:
            self._decode = codecs.getincrementaldecoder("utf-8")("surrogateescape").decode

    def write(self, piece: bytes, *, is_last: bool = False) -> None:
        """Print the next bytes.

        Args:
            piece: The bytes.
            is_last: Whether the output of an attempt ends with them; an incomplete character at
                the end is then printed, too.
        """
        if self._decode is None:
            sys.stdout.buffer.write(piece)
        else:
            text = self._decode(piece, is_last)
            self.has_escapes |= bool(_has_steering(text))
            out(_replace_undecoded(_as_byte, text), end="")
        sys.stdout.flush()


def _safe(piece: Piece) -> str:
    if isinstance(piece, str):
        return visible(piece)
    return click.style(
        visible(piece.text), fg=piece.colour, bold=piece.is_bold or None, dim=piece.is_dim or None
    )


def _as_byte(found: re.Match[str]) -> str:
    return f"\\x{ord(found[0]) - 0xDC00:02x}"


def _as_escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
