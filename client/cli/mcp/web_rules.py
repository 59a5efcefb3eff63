"""Which HTTP requests are accepted: the rules against web pages and neighbours on the network.

A web page in a browser on this machine can send requests to it. Its ``Origin`` gives it away; a
page whose domain resolves to this machine (DNS rebinding) has its own domain in ``Host``.
"""

import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address

from rota.client.mcp.protocol import VERSIONS

LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
TOKEN_MIN = 32
"""The fewest characters of a token, so that it cannot be guessed."""
_HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+))(?::\d{1,5})?", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True)
class Rules:
    """The rules of one server.

    Attributes:
        hosts: The names in ``Host`` that are accepted, in lower case and without a port.
        origins: The values of ``Origin`` that are accepted.
        token: The bearer token that is required; empty for none.
    """

    hosts: frozenset[str]
    origins: frozenset[str] = frozenset()
    token: str = ""


@dataclass(frozen=True)
class Refusal:
    """The answer to a request that is not accepted.

    Attributes:
        status: The HTTP status.
        detail: The reason.
    """

    status: int
    detail: str


def is_local(host: str) -> bool:
    """Return True if *host* is reached from this machine alone.

    Raises:
        ValueError: It is neither ``localhost`` nor an address.
    """
    return host == "localhost" or ip_address(host).is_loopback


def why_refused(rules: Rules, method: str, headers: Mapping[str, str]) -> Refusal | None:
    """Return why a request is not accepted; None if it is.

    Args:
        rules: The rules.
        method: The HTTP method.
        headers: The headers; their names are found in any case.
    """
    if _name_in(headers.get("Host", "")) not in rules.hosts:
        return Refusal(403, "the Host is not a name of this server; add it with --allow-host")
    origin = headers.get("Origin")
    if origin is not None and origin not in rules.origins:
        return Refusal(403, "requests of web pages are refused; add the Origin with --allow-origin")
    if rules.token and not _is_token(rules.token, headers.get("Authorization", "")):
        return Refusal(401, "send the token of --http-token-file: Authorization: Bearer TOKEN")
    if method != "POST":
        return Refusal(405, "send messages with POST; there is no stream and no session")
    media_type = headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if media_type != "application/json" or "Content-Encoding" in headers:
        return Refusal(415, "send application/json without Content-Encoding")
    version = headers.get("MCP-Protocol-Version")
    if version is not None and version not in VERSIONS:
        return Refusal(400, f"MCP-Protocol-Version is none of {', '.join(VERSIONS)}")
    return None


def _name_in(host: str) -> str:
    """Return the name in a header ``Host``, in lower case; empty if it is no ``host[:port]``."""
    found = _HOST.fullmatch(host)
    return (found[1] or found[2]).lower() if found else ""


def _is_token(token: str, given: str) -> bool:
    scheme, _, value = given.partition(" ")
    # Bytes, since text is compared in ASCII alone.
    return scheme.lower() == "bearer" and hmac.compare_digest(
        token.encode(), value.strip().encode(errors="surrogateescape")
    )
