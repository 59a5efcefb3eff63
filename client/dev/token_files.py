"""Files with the token and the key ring of a temporary node, beside its data.

Its token is also in a file for the clients of the user.
"""

import fcntl
import os
import secrets
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile

from rota.client.transport.local_tokens import OTHERS, path_of
from rota.core.errors import RotaError
from rota.wire.key_rings import KEY_BYTES, content_of, ring_of
from rota.wire.tokens import ID_BYTES, SECRET_BYTES, TOKEN_LENGTH, Token, mint, parse


class TokenNotStored(RotaError):
    """The file of a token cannot be read or written, or has no token."""

    code = "token_not_stored"


def kept_token(path: Path) -> Token:
    """Return the token in the file *path*, which is created with a new token if it is missing.

    Raises:
        TokenNotStored: The file cannot be read or written, has no token, or is open to other users.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            _write_new(path, mint(secrets.token_bytes(ID_BYTES + SECRET_BYTES)))
        with path.open() as file:
            mode = os.fstat(file.fileno()).st_mode
            token = parse(file.read(TOKEN_LENGTH + 2).strip())
    except (OSError, UnicodeDecodeError) as error:
        raise _not_stored(path, error) from error
    if token is None:
        raise TokenNotStored(f"{path} has no token; delete this file and the data of the node")
    if mode & OTHERS:
        raise TokenNotStored(f"{path} is open to other users; run chmod 600 {path}")
    return token


def make_key_ring(path: Path) -> None:
    """Create a file with a new key ring if it is missing, so that the node can have secrets.

    Raises:
        TokenNotStored: The file cannot be written.
    """
    if path.exists():
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.") as file:  # Mode 0600.
            file.write(content_of(ring_of(os.urandom(KEY_BYTES))))
            file.flush()
            with suppress(FileExistsError):  # Another process was faster; its keys may be in use.
                os.link(file.name, path)
    except OSError as error:
        raise _not_stored(path, error) from error


class OfferedToken:
    """A token that clients of the same user find by the port of the node, until `withdraw`.

    Args:
        port: The port of the node on 127.0.0.1.
        token: The token.

    Raises:
        TokenNotStored: The file cannot be written.
    """

    def __init__(self, port: int, token: Token) -> None:
        self._path = path_of(port)
        beside = self._path.with_name(f".{port}.{os.getpid()}")
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            beside.unlink(missing_ok=True)
            self._held = _write_new(beside, token, is_held=True)
            beside.replace(self._path)
        except OSError as error:
            raise _not_stored(self._path, error) from error

    def withdraw(self) -> None:
        """Remove the file, unless a later node on the port has replaced it."""
        try:
            with suppress(OSError):
                if os.path.samestat(os.fstat(self._held), self._path.stat()):
                    self._path.unlink()
        finally:
            os.close(self._held)


def _write_new(path: Path, token: Token, *, is_held: bool = False) -> int:
    """Write a file that only its owner can read; return its descriptor if it stays locked.

    Raises:
        FileExistsError: The file exists.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        if is_held:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.write(descriptor, f"{token.text}\n".encode())
    except BaseException:
        path.unlink(missing_ok=True)
        os.close(descriptor)
        raise
    if not is_held:
        os.close(descriptor)
    return descriptor


def _not_stored(path: Path, error: Exception) -> TokenNotStored:
    reason = error.strerror if isinstance(error, OSError) else str(error)
    return TokenNotStored(
        f"{path}: {reason}; the token of the node cannot be stored there. Choose another folder "
        "with --data-dir and $XDG_STATE_HOME, or start without keys: --open"
    )
