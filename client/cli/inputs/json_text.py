"""JSON given on the command line, in a file, or on standard input."""

import sys
from pathlib import Path

import click
import msgspec

from rota.core.decoding import repeated_key, second_key
from rota.core.quoting import in_quotes
from rota.wire.documents import Json


def as_json_text(ctx: click.Context, param: click.Parameter, text: str | None) -> Json:
    """Read an option: JSON, ``@FILE``, or ``-`` for standard input; None if it is omitted.

    Raises:
        click.BadParameter: The file cannot be read, or the text is not JSON.
    """
    if text is None:
        return None
    try:
        return json_of(_text_of(text))
    except OSError as error:
        detail = f"{error.filename}: {error.strerror}"
        raise click.BadParameter(detail, ctx, param) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise click.BadParameter(f"{text!r} is not JSON: {error}", ctx, param) from error


def json_of(text: str) -> Json:
    """Return the value of a JSON text.

    Raises:
        msgspec.DecodeError: The text is not JSON.
        click.UsageError: An object has a key twice.
    """
    found: Json = msgspec.json.decode(text)
    if path := repeated_key(text.encode()):
        raise click.UsageError(f"{in_quotes(text)}: {second_key(path)}")
    return found


def _text_of(text: str) -> str:
    if text == "-":
        return sys.stdin.read()
    return Path(text[1:]).read_text(encoding="utf-8") if text.startswith("@") else text
