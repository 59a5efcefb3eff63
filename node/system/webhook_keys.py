"""Keys that sign webhooks: a file with one key on each line.

A key has the form of Standard Webhooks (https://www.standardwebhooks.com): ``whsec_`` and 24 to 64
bytes in base64. A webhook has a signature of each key, so that receivers can change keys one after
the other.
"""

import base64
import binascii
from pathlib import Path

PREFIX = "whsec_"
KEY_BYTES_MIN, KEY_BYTES_MAX = 24, 64
KEYS_MAX = 4
FILE_BYTES_MAX = 4_096


def read_webhook_keys(file: Path) -> tuple[bytes, ...]:
    """Return the keys in *file*, at least one.

    Raises:
        ValueError: The file cannot be read, or is not a list of keys. The text never has a key.
    """
    try:
        with file.open("rb") as opened:
            text = opened.read(FILE_BYTES_MAX).decode("ascii")
    except OSError as error:
        raise ValueError(f"{file} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{file} is not text in ASCII") from error
    keys = tuple(_key(line, file, number) for number, line in enumerate(text.split(), 1))
    if not 1 <= len(keys) <= KEYS_MAX:
        raise ValueError(f"{file} has {len(keys)} keys; 1 to {KEYS_MAX} are needed, one on a line")
    return keys


def _key(line: str, file: Path, number: int) -> bytes:
    try:
        return read_key(line)
    except ValueError as error:
        raise ValueError(f"key {number} of {file} {error}") from error


def read_key(text: str) -> bytes:
    """Return the key that *text* stands for.

    Raises:
        ValueError: It has another form; the text is the end of a sentence about it.
    """
    try:
        key = base64.b64decode(text.removeprefix(PREFIX), validate=True)
    except binascii.Error:
        key = b""
    if not text.startswith(PREFIX) or not KEY_BYTES_MIN <= len(key) <= KEY_BYTES_MAX:
        raise ValueError(
            f"is not {PREFIX} and {KEY_BYTES_MIN} to {KEY_BYTES_MAX} bytes in base64; one is made "
            "by: echo whsec_$(openssl rand -base64 32)"
        )
    return key
