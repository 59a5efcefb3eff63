"""The token of the first key: a file with one token."""

from pathlib import Path

from rota.wire.tokens import TOKEN_LENGTH, Token, parse

FILE_BYTES_MAX = 4_096


def read_bootstrap_key(file: Path) -> Token:
    """Return the token in *file*.

    Raises:
        ValueError: The file cannot be read, or has no token. The text never has the token.
    """
    try:
        with file.open("rb") as opened:
            text = opened.read(FILE_BYTES_MAX).decode("ascii").strip()
    except OSError as error:
        raise ValueError(f"{file} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{file} is not text in ASCII") from error
    token = parse(text)
    if token is None:
        raise ValueError(
            f"{file} has no token: {len(text)} characters that are not rota_k_ and "
            f"{TOKEN_LENGTH - len('rota_k_')} letters and digits with the right checksum; one is "
            "made by `rota auth token --new`"
        )
    return token
