"""The token of the current command: from a flag, a variable, a profile, or a temporary node."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from rota.client.cli.inputs.settings import Value, profile_in_use, value_of, values_of_profile
from rota.client.transport.endpoints import DEFAULT_URL, urls_of

if TYPE_CHECKING:  # For speed, not to avoid a cycle: help texts load no HTTP library.
    from rota.client.transport.credentials import Credentials


class TokenInUse(NamedTuple):
    """The arguments of a client for its token.

    Attributes:
        token: The token of a profile; None for none.
        token_file: The file with the token; None for none.
    """

    token: str | None = None
    token_file: str | None = None


def token_for(urls: Sequence[str], *, is_new: bool = False) -> TokenInUse:
    """Return the token for the addresses *urls*.

    A flag or a variable applies to all addresses. A token of the profile is for the addresses of
    that profile: with the URL of another node, it would reach that node.

    Args:
        urls: The addresses of the command.
        is_new: As in `value_of`.
    """
    file = value_of("token_file", is_new=is_new)
    profile = profile_in_use()
    values = values_of_profile(profile, is_new=is_new)
    is_of_profile = file.source in ("default", f"profile {profile.text}")
    if not is_of_profile:
        return TokenInUse(token_file=file.text)
    if not {*urls} <= {*urls_of(values.get("url", DEFAULT_URL))}:
        return TokenInUse()
    return TokenInUse(values["token"]) if "token" in values else _of(file)


def credentials_in_use(urls: Sequence[str]) -> "Credentials":
    """Return the tokens that the current command sends to *urls*.

    Raises:
        InvalidToken: The token is malformed, or its file cannot be read.
    """
    from rota.client.transport.credentials import Credentials

    return Credentials(urls, *token_for(urls))


def _of(file: Value) -> TokenInUse:
    return TokenInUse(token_file=file.text or None)
