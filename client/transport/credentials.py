"""Tokens of a client: their source, their renewal, and the addresses that get them.

A token is given by the caller, or is in a file: that of the caller, or of ``$ROTA_TOKEN_FILE``. The
file is read again when a node refuses the token, so that a token can be rotated without a restart.
Without a given token, requests to temporary nodes of the same user carry the tokens of those.
"""

import os
import warnings
from collections.abc import Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from rota.client.errors import InvalidToken
from rota.client.transport.local_tokens import local_token, local_url
from rota.wire.tokens import PREFIX, parse

FILE_VARIABLE = "ROTA_TOKEN_FILE"
"""The variable with the path of the file. ``ROTA_TOKEN`` is the fencing token of an attempt."""
LENGTH_MAX = 4_096
"""The greatest length of a token, and of its file."""


class TokenInClearText(UserWarning):
    """A token is sent without TLS to another machine, so that everything on the way can read it."""


class _Source(Protocol):
    """The origin of tokens."""

    def read(self, url: str) -> str:
        """Return the token for *url* as it is now; empty for none."""
        ...

    def describe(self, token: str) -> str:
        """Return a description of *token* without its secret."""
        ...


class Credentials:
    """The tokens that a client sends.

    Args:
        urls: The endpoints of the client; only these get a token.
        token: The token; None for none.
        token_file: The file with the token; None for the one of ``$ROTA_TOKEN_FILE``, if any.

    Raises:
        InvalidToken: The token is malformed, or its file cannot be read.
        ValueError: Both a token and a file are given.
    """

    def __init__(
        self,
        urls: Sequence[str],
        token: str | None = None,
        token_file: str | os.PathLike[str] | None = None,
    ) -> None:
        if token is not None and token_file is not None:
            raise ValueError("token and token_file are both given; give one of them")
        self._source = _source_of(token, token_file)
        self._tokens: dict[str, str] = {}
        """The token of each endpoint that has been used."""
        if not isinstance(self._source, _LocalNodes):
            _refuse_passwords(urls)
            self._tokens = dict.fromkeys(urls, self._source.read(""))
            _warn_about(urls)

    def token_for(self, url: str) -> str:
        """Return the token for the endpoint *url*; empty for none."""
        if url not in self._tokens:
            self._tokens[url] = self._source.read(url)
        return self._tokens[url]

    def is_renewed(self, url: str, refused: str) -> bool:
        """Return True if there is another token for *url* than the one that was refused.

        Args:
            url: The endpoint.
            refused: The token of the refused request; calls may run at the same time, and another
                call may have read the next token already.
        """
        if self._tokens[url] == refused:
            self._tokens[url] = self._source.read(url) or refused
        return self._tokens[url] != refused

    def address_of(self, url: str) -> str:
        """Return the address to which requests to the endpoint *url* are sent."""
        is_local = isinstance(self._source, _LocalNodes) and bool(self.token_for(url))
        return local_url(url) if is_local else url

    def describe(self, url: str) -> str:
        """Return a description of the token for *url*, without its secret."""
        return self._source.describe(self.token_for(url))


class _Given:
    """A token that the caller has given."""

    def __init__(self, token: str) -> None:
        self._token = _checked(token, "the token")

    def read(self, url: str) -> str:
        del url
        return self._token

    def describe(self, token: str) -> str:
        return f"{public_part(token)} was sent"


class _File:
    """A file with a token."""

    def __init__(self, path: Path, place: str) -> None:
        self._path = path
        self._place = place
        self._token = self._read()

    def read(self, url: str) -> str:
        del url
        # A pipe, as of <(command), has its content once, and reading it again would wait.
        if self._path.is_file():
            try:
                self._token = self._read()
            except InvalidToken:
                # It is being replaced. The token before it remains, and the node decides.
                return self._token
        return self._token

    def describe(self, token: str) -> str:
        return f"{public_part(token)} of {self._place} was sent"

    def _read(self) -> str:
        try:
            with self._path.open("rb") as file:
                content = file.read(LENGTH_MAX + 1)
        except OSError as error:
            raise InvalidToken(
                f"{self._place} cannot be read: {error.strerror}; name a file with a token on "
                "its first line"
            ) from error
        return _checked(content.decode(errors="replace").strip(), self._place)


class _LocalNodes:
    """The tokens of temporary nodes."""

    def read(self, url: str) -> str:
        return local_token(url)

    def describe(self, token: str) -> str:
        return f"{public_part(token)} of `rota dev` was sent" if token else "no token was sent"


def public_part(token: str) -> str:
    """Return a name of *token* that may be printed, such as ``token aB3dE5fG``."""
    found = parse(token)
    return f"token {found.id}" if found else "a token"


def _source_of(token: str | None, token_file: str | os.PathLike[str] | None) -> _Source:
    if token is not None:
        return _Given(token)
    if token_file is not None:
        return _File(Path(token_file), str(token_file))
    if named := os.environ.get(FILE_VARIABLE):
        return _File(Path(named), f"{named} (${FILE_VARIABLE})")
    return _LocalNodes()


def _checked(token: str, place: str) -> str:
    """Return *token*.

    Raises:
        InvalidToken: It cannot be a token. The message does not have the text, which may be one.
    """
    if not token:
        raise InvalidToken(f"{place} is empty; a token begins with {PREFIX}")
    if len(token) > LENGTH_MAX:
        raise InvalidToken(f"{place} is longer than {LENGTH_MAX} characters; give one token only")
    if not (token.isascii() and token.isprintable() and " " not in token):
        raise InvalidToken(
            f"{place} has spaces, several lines or characters outside ASCII; give one token only"
        )
    if token.startswith(PREFIX) and parse(token) is None:
        raise InvalidToken(
            f"{place} is not complete or has a wrong character: its checksum is wrong; copy the "
            "whole token again"
        )
    return token


def _refuse_passwords(urls: Sequence[str]) -> None:
    """Refuse addresses with a user, because one header cannot have both a password and a token.

    Raises:
        InvalidToken: An address has a user.
    """
    for url in urls:
        parts = urlsplit(url)
        if parts.username is not None:
            raise InvalidToken(
                f"the URL of {parts.hostname} has a user, and a token is given; both are sent in "
                "the header Authorization, so remove one of them"
            )


def _warn_about(urls: Sequence[str]) -> None:
    unsafe = [url for url in urls if urlsplit(url).scheme == "http" and not _is_loopback(url)]
    if unsafe:
        warnings.warn(
            f"a token is sent to {', '.join(unsafe)} without TLS, so everything on the way can "
            "read it; use an https:// URL",
            TokenInClearText,
            stacklevel=6,
        )


def _is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
