"""Tokens: the credentials that clients send, and their form.

A token is ``rota_k_<id><secret><checksum>`` in base62: an id of 8 characters, a secret of 43
characters (256 random bits), and the CRC-32 of everything before it in 6 characters. The checksum
identifies a mistyped or shortened token without a look-up; it is no protection. A node stores only
the SHA-256 of a token: no slow hash is needed for 256 random bits.
"""

from dataclasses import dataclass, field
from hashlib import sha256
from zlib import crc32

PREFIX = "rota_k_"
ID_LENGTH = 8
SECRET_LENGTH = 43
CHECKSUM_LENGTH = 6
TOKEN_LENGTH = len(PREFIX) + ID_LENGTH + SECRET_LENGTH + CHECKSUM_LENGTH
ID_BYTES = 8
"""The random bytes of which an id is made."""
SECRET_BYTES = 32
"""The random bytes of which a secret is made."""

_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_DIGIT_SET = frozenset(_DIGITS)


@dataclass(frozen=True, slots=True)
class Token:
    """A token of the right form.

    Attributes:
        id: The public part, with which a node finds the key.
        text: The whole token; never logged or stored by a node.
    """

    id: str
    text: str = field(repr=False)

    @property
    def hash(self) -> str:
        """The SHA-256 of the token, in hexadecimal digits."""
        return sha256(self.text.encode()).hexdigest()


def mint(random_bytes: bytes) -> Token:
    """Return a new token.

    Args:
        random_bytes: `ID_BYTES` + `SECRET_BYTES` bytes of a cryptographic source.

    Raises:
        ValueError: The number of bytes is wrong.
    """
    if len(random_bytes) != ID_BYTES + SECRET_BYTES:
        raise ValueError(f"a token needs {ID_BYTES + SECRET_BYTES} bytes, not {len(random_bytes)}")
    number = int.from_bytes(random_bytes[:ID_BYTES], "big") % len(_DIGITS) ** ID_LENGTH
    secret = int.from_bytes(random_bytes[ID_BYTES:], "big")
    token_id = _base62(number, ID_LENGTH)
    body = f"{PREFIX}{token_id}{_base62(secret, SECRET_LENGTH)}"
    return Token(token_id, body + _checksum(body))


def parse(text: str) -> Token | None:
    """Return the token *text*; None if it does not have the form of a token."""
    if len(text) != TOKEN_LENGTH or not text.startswith(PREFIX):
        return None
    body, checksum = text[:-CHECKSUM_LENGTH], text[-CHECKSUM_LENGTH:]
    if not _DIGIT_SET.issuperset(text[len(PREFIX) :]) or _checksum(body) != checksum:
        return None
    return Token(text[len(PREFIX) : len(PREFIX) + ID_LENGTH], text)


def _checksum(body: str) -> str:
    return _base62(crc32(body.encode()), CHECKSUM_LENGTH)


def _base62(number: int, length: int) -> str:
    """Return *number* in base 62 with *length* digits."""
    digits: list[str] = []
    for _ in range(length):
        number, digit = divmod(number, len(_DIGITS))
        digits.append(_DIGITS[digit])
    assert number == 0, f"{length} digits are too few"
    return "".join(reversed(digits))
