"""JSON given on the command line, in a file, or on standard input."""

import click
import msgspec

from rota.client.cli.inputs.files import text_of
from rota.core.decoding import repeated_key, second_key
from rota.core.quoting import in_quotes
from rota.wire.documents import Json


def as_json_text(ctx: click.Context, param: click.Parameter, text: str | None) -> Json:
    """Read an option: JSON, ``@FILE``, or ``-`` for standard input; None if it is omitted.

    Raises:
        click.BadParameter: The file cannot be read or is too long, or the text is not JSON.
    """
    if text is None:
        return None
    from rota.client.definitions import InvalidFile

    try:
        return json_of(_text_of(text))
    except InvalidFile as error:
        raise click.BadParameter(str(error), ctx, param) from error
    except msgspec.DecodeError as error:
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
    return text_of(text.removeprefix("@")) if text == "-" or text.startswith("@") else text
