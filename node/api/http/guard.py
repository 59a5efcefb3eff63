"""Guard against requests that a web page sends through a browser with access to the node.

A browser lets any page send some requests to any server: forms, and requests of scripts without
custom headers. The browser marks them with ``Sec-Fetch-Site`` and ``Origin``, which a page cannot
change. The rules here are those of Go's ``http.CrossOriginProtection``. A page whose domain
resolves to the node's address (DNS rebinding) has the node's origin, but its domain is in ``Host``.

The check does no I/O. It runs for every request and takes 0.3 us (`bench.parts.request_guard`).
"""

from collections.abc import Collection, Mapping
from ipaddress import ip_address

from multidict import istr

from rota.core.errors import Kind, Refused
from rota.node.api.requests.operations import ACCEPTED, JSON

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing."""
FORM_TYPES = frozenset({"application/x-www-form-urlencoded", "multipart/form-data", "text/plain"})
"""Media types that a form can send to any origin without a preflight request."""
JSON_ALONE = (JSON,)
ACCEPTED_BY = {method: media_types for method, (_, media_types) in ACCEPTED.items()}
"""The accepted media types of each method; for other methods `JSON_ALONE` applies."""
SHOWN_MAX = 100
"""The most characters of a header that a refusal quotes."""
KNOWN_MAX = 1_000
"""The highest number of allowed ``Host`` values that are cached."""

# An istr is looked up without a conversion to lower case.
_HOST, _ORIGIN, _SITE = istr("Host"), istr("Origin"), istr("Sec-Fetch-Site")
_TYPE, _ENCODING = istr("Content-Type"), istr("Content-Encoding")
_LENGTH, _TRANSFER = istr("Content-Length"), istr("Transfer-Encoding")


class Guard:
    """The check of a request's headers.

    Args:
        names: Allowed host names besides addresses and ``localhost``; ``*.x`` stands for all names
            that end with ``.x``.
        origins: Origins whose pages may send requests that change something.
    """

    def __init__(self, names: Collection[str], origins: Collection[str] = ()) -> None:
        self._names = frozenset({"localhost", *names} - {""})
        self._endings = (".localhost", *(name[1:] for name in names if name.startswith("*.")))
        self._origins = frozenset(origins)
        # Only HTTP/1.0 has no Host header: health checks use it, browsers do not.
        self._known: set[str | None] = {None}

    def refusal(
        self,
        method: str,
        headers: Mapping[str, str],
        *,
        has_body: bool,
        authority: str | None = None,
    ) -> Refused | None:
        """Return the refusal of a request, or None if it is allowed.

        Args:
            method: The request's method.
            headers: The request's headers; names are case-insensitive.
            has_body: Whether the request has a body.
            authority: The host and port in the request's target; None if the target has none.
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
        """Return the refusal of a request with ``Sec-Fetch-Site`` or ``Origin``, or None."""
        site, origin = headers.get(_SITE), headers.get(_ORIGIN)
        if site in ("same-origin", "none") or origin in self._origins:
            return None
        if site is None and origin is not None:
            own = headers.get(_HOST, "").lower()
            if own and origin.lower() in (f"http://{own}", f"https://{own}"):
                return None
        return CrossOrigin(origin)


def host_name(authority: str) -> str:
    """Return the name or address in ``HOST[:PORT]`` in lower case; empty if it is malformed."""
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
    """Return True if the headers announce a body; ``Upgrade`` alone does not announce one."""
    if _LENGTH in headers and headers[_LENGTH].strip("0"):
        return True
    return _TRANSFER in headers


def _wrong_type(method: str, given: str | None, *, has_body: bool) -> Refused | None:
    """Return the refusal of a body whose media type is not accepted, or None."""
    accepted = ACCEPTED_BY.get(method, JSON_ALONE)
    if given is None and not has_body:
        return None
    kind = (given or "").partition(";")[0].strip().lower()
    if kind in accepted or (not has_body and kind not in FORM_TYPES):
        return None
    return UnsupportedMediaType(given)


class HostNotAllowed(Refused):
    """The ``Host`` of the request is not one of the node's names."""

    def __init__(self, host: str) -> None:
        super().__init__(
            Kind.FORBIDDEN,
            "host_not_allowed",
            f"{_shown(host)} is not an allowed host name of this node; use an IP address, "
            "localhost or a name that ends with .localhost, or allow the name in the node's "
            f"settings: allowed_hosts = [{_shown(host_name(host) or 'jobs.example')}], or "
            "ROTA_ALLOWED_HOSTS",
        )


class CrossOrigin(Refused):
    """The request was sent by a page of another origin."""

    def __init__(self, origin: str | None) -> None:
        where = "another site" if origin is None else f"the origin {_shown(origin)}"
        super().__init__(
            Kind.FORBIDDEN,
            "cross_origin",
            f"a browser sent this request for a page of {where}, which may not change anything; "
            "to permit this, add the page's origin to the node's setting allowed_origins "
            "(ROTA_ALLOWED_ORIGINS)",
        )


class UnsupportedMediaType(Refused):
    """The ``Content-Type`` of the request is not accepted."""

    def __init__(self, given: str | None) -> None:
        found = "has no Content-Type" if given is None else f"has the Content-Type {_shown(given)}"
        super().__init__(
            Kind.INVALID,
            "unsupported_media_type",
            f"the request {found}; send it with the header 'Content-Type: {JSON}'",
        )


class UnsupportedEncoding(Refused):
    """The body is compressed."""

    def __init__(self, encoding: str) -> None:
        super().__init__(
            Kind.INVALID,
            "unsupported_encoding",
            f"the request body has the Content-Encoding {_shown(encoding)}, which is not "
            "supported; send it without encoding",
        )


class UnexpectedBody(Refused):
    """A request that reads something has a body."""

    def __init__(self, method: str) -> None:
        super().__init__(
            Kind.INVALID,
            "unexpected_body",
            f"a {method} request must not have a body; remove the headers Content-Length and "
            "Transfer-Encoding, and send parameters in the query",
        )


def _shown(text: str) -> str:
    """Return *text* in quotes for a message: shortened, with escapes for all but ASCII."""
    return ascii(text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}...")
