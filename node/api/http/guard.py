"""Refusal of requests that a web page makes through the browser of a person who can reach the node.

A browser sends some requests for any page that it shows, wherever they go: forms, and scripts'
requests without headers of their own. It says so in ``Sec-Fetch-Site`` and ``Origin``, which no
page can change (the rules are those of Go's ``http.CrossOriginProtection``). And a page whose own
name is made to point here ("DNS rebinding") counts as this node's, but its name is in ``Host``.

Pure, and in front of every request: 0.3 us (`bench.parts.request_guard`).
"""

from collections.abc import Collection, Mapping
from ipaddress import ip_address

from multidict import istr

from rota.core.errors import Kind, Refused
from rota.node.api.requests.operations import ACCEPTED, JSON

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing here."""
FORM_TYPES = frozenset({"application/x-www-form-urlencoded", "multipart/form-data", "text/plain"})
"""Media types that a form can send, to any origin and without asking first."""
JSON_ALONE = (JSON,)
ACCEPTED_BY = {method: media_types for method, (_, media_types) in ACCEPTED.items()}
"""Media types by method; of all others `JSON_ALONE`."""
SHOWN_MAX = 100
"""Characters of a header that a refusal repeats."""
KNOWN_MAX = 1_000
"""Values of ``Host`` that are remembered as allowed, so that they are not parsed again."""

# In the form in which a header is found without its name being put in lower case first.
_HOST, _ORIGIN, _SITE = istr("Host"), istr("Origin"), istr("Sec-Fetch-Site")
_TYPE, _ENCODING = istr("Content-Type"), istr("Content-Encoding")
_LENGTH, _TRANSFER = istr("Content-Length"), istr("Transfer-Encoding")


class Guard:
    """What a request must be like to be answered.

    Args:
        names: Names under which the node is reached, beside addresses and ``localhost``; ``*.x``
            stands for all names that end with ``.x``.
        origins: Origins whose pages may change something.
    """

    def __init__(self, names: Collection[str], origins: Collection[str] = ()) -> None:
        self._names = frozenset({"localhost", *names} - {""})
        self._endings = (".localhost", *(name[1:] for name in names if name.startswith("*.")))
        self._origins = frozenset(origins)
        # Without Host is only HTTP/1.0, which no browser sends; health checks do.
        self._known: set[str | None] = {None}

    def refusal(
        self,
        method: str,
        headers: Mapping[str, str],
        *,
        has_body: bool,
        authority: str | None = None,
    ) -> Refused | None:
        """Return why a request is refused, or None.

        Args:
            method: Of the request.
            headers: Likewise, their names in any case.
            has_body: Whether it has one, however long.
            authority: What stands before the path in the request's target, if anything does.
        """
        host = headers.get(_HOST)
        if host not in self._known and not self._allows(host or ""):
            return HostNotAllowed(host or "")
        if authority is not None and not self._allows(authority):
            return HostNotAllowed(authority)
        encoding = headers.get(_ENCODING)
        if encoding and encoding.lower() != "identity":
            return UnsupportedEncoding(encoding)
        if method in SAFE_METHODS:
            return UnexpectedBody(method) if _announces_body(headers) else None
        if (_SITE in headers or _ORIGIN in headers) and (refusal := self._cross_origin(headers)):
            return refusal
        given = headers.get(_TYPE)
        if given in ACCEPTED_BY.get(method, JSON_ALONE):
            return None
        return _wrong_type(method, given, has_body=has_body)

    def _allows(self, host: str) -> bool:
        name = host_name(host)
        if not (name in self._names or name.endswith(self._endings) or _is_address(name)):
            return False
        if len(self._known) >= KNOWN_MAX:
            self._known = {None}
        self._known.add(host)
        return True

    def _cross_origin(self, headers: Mapping[str, str]) -> Refused | None:
        """Return why a request with one of these headers is refused; all browsers send one."""
        site, origin = headers.get(_SITE), headers.get(_ORIGIN)
        if site in ("same-origin", "none") or origin in self._origins:
            return None
        if site is None and origin is not None:
            own = headers.get(_HOST, "").lower()
            if own and origin.lower() in (f"http://{own}", f"https://{own}"):
                return None
        return CrossOrigin(origin)


def host_name(authority: str) -> str:
    """Return the name or address in ``HOST[:PORT]``, in lower case; empty if it is malformed."""
    if authority.startswith("["):
        host, bracket, rest = authority[1:].partition("]")
        is_port = not rest or (rest.startswith(":") and _is_port(rest[1:]))
        return host if bracket and ":" in host and is_port else ""
    host, _, port = authority.partition(":")
    return host.lower().removesuffix(".") if _is_port(port) else ""


def _is_port(text: str) -> bool:
    return not text or (text.isascii() and text.isdecimal())


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _announces_body(headers: Mapping[str, str]) -> bool:
    """Return True if a body follows these headers; an ``Upgrade`` announces none."""
    if _LENGTH in headers and headers[_LENGTH].strip("0"):
        return True
    return _TRANSFER in headers


def _wrong_type(method: str, given: str | None, *, has_body: bool) -> Refused | None:
    """Return why a body that is not given exactly as one of the media types is refused."""
    accepted = ACCEPTED_BY.get(method, JSON_ALONE)
    if given is None and not has_body:
        return None
    kind = (given or "").partition(";")[0].strip().lower()
    if kind in accepted or (not has_body and kind not in FORM_TYPES):
        return None
    return UnsupportedMediaType(method, given)


class HostNotAllowed(Refused):
    """The request names a host that may be anybody's."""

    def __init__(self, host: str) -> None:
        super().__init__(
            Kind.FORBIDDEN,
            "host_not_allowed",
            f"this node does not answer to the name {_shown(host)}: while there is no "
            "authentication the Host header has to be an IP address, localhost, a name that ends "
            "with .localhost, or one that the node's settings allow (allowed_hosts = "
            f"[{_shown(host_name(host) or 'jobs.example')}], or ROTA_ALLOWED_HOSTS)",
        )


class CrossOrigin(Refused):
    """The request comes from a page of another origin."""

    def __init__(self, origin: str | None) -> None:
        where = "another site" if origin is None else f"a page of {_shown(origin)}"
        super().__init__(
            Kind.FORBIDDEN,
            "cross_origin",
            f"a browser sent this request for {where}; pages of other origins may change nothing, "
            "unless the node's setting allowed_origins (ROTA_ALLOWED_ORIGINS) names them",
        )


class UnsupportedMediaType(Refused):
    """The request is not JSON by its own word."""

    def __init__(self, method: str, given: str | None) -> None:
        accepted = ACCEPTED_BY.get(method, JSON_ALONE)[-1]
        found = "has no Content-Type" if given is None else f"is {_shown(given)}"
        super().__init__(
            Kind.INVALID,
            "unsupported_media_type",
            f"the request {found}; add the header 'Content-Type: {accepted}'",
        )


class UnsupportedEncoding(Refused):
    """The body is compressed."""

    def __init__(self, encoding: str) -> None:
        super().__init__(
            Kind.INVALID,
            "unsupported_encoding",
            f"the body has the encoding {_shown(encoding)}; send it as it is, without the header "
            "Content-Encoding",
        )


class UnexpectedBody(Refused):
    """The request has a body where none is ever read."""

    def __init__(self, method: str) -> None:
        super().__init__(
            Kind.INVALID,
            "unexpected_body",
            f"a {method} request has no body here; send it without Content-Length and "
            "Transfer-Encoding, and what is asked for in the query",
        )


def _shown(text: str) -> str:
    """Return *text* as a message repeats it: short, and whatever bytes it has as escapes."""
    return ascii(text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}...")
