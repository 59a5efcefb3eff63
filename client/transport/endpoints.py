"""Addresses of the nodes of a client, and the order in which they are tried.

Any node accepts any request, so a client stays with a working node, to which it has open
connections. For a request about one job it uses the job's primary instead, if an answer has named
that node. The order is random for each client, so that many clients spread over the nodes.
"""

import os
from collections.abc import Iterable, Sequence
from secrets import SystemRandom
from urllib.parse import urlsplit

from rota.client.transport.owners import Owners
from rota.core.model.ids import Slot

DEFAULT_URL = "http://127.0.0.1:7400"
URL_VARIABLE = "ROTA_URL"
DOWN_S = 30.0
"""For how many seconds an endpoint that did not answer is tried after all others."""


class Endpoints:
    """Addresses in the order in which they are tried; the caller passes the time, in seconds.

    Args:
        urls: The addresses, at least one; their order is randomised.

    Attributes:
        owners: The endpoints of the primaries of hash slots.
    """

    def __init__(self, urls: Sequence[str]) -> None:
        self._order = list(urls)
        SystemRandom().shuffle(self._order)
        self.owners = Owners(self._order)
        self._down_until: dict[str, float] = {}

    @property
    def first(self) -> str:
        """The endpoint that answered last; any endpoint if none has answered."""
        return self._order[0]

    def ordered(self, now: float, slot: Slot | None = None) -> list[str]:
        """Return all endpoints: first the owner of *slot*, then the one that answered last.

        Endpoints that are down come last, even the owner of *slot*.
        """
        owner = self.owners.endpoint_of(slot)
        return sorted(
            self._order, key=lambda url: (max(self._down_until.get(url, now), now), url != owner)
        )

    def worked(self, url: str) -> None:
        """Record that *url* has just answered, so that it is tried first."""
        self._down_until.pop(url, None)
        self._order.remove(url)
        self._order.insert(0, url)

    def failed(self, url: str, now: float) -> None:
        """Record that *url* did not answer, so that it is tried last for `DOWN_S`."""
        self._down_until[url] = now + DOWN_S


def urls_of(given: str | Iterable[str] | None) -> tuple[str, ...]:
    """Return the addresses that a caller gave, else those of ``$ROTA_URL``, else the default.

    Args:
        given: One address, several separated by commas, or a list; None or empty for none.

    Raises:
        ValueError: An address is not an http or https URL, or the list is empty.

    >>> urls_of("http://a:7400, http://b:7400/")
    ('http://a:7400', 'http://b:7400')
    """
    if given is None or given == "":
        given = os.environ.get(URL_VARIABLE) or DEFAULT_URL
    texts = given.split(",") if isinstance(given, str) else list(given)
    # Without duplicates, since a repeated address would be tried twice after every failure.
    return tuple(dict.fromkeys(_checked(text.strip()) for text in texts or [""]))


def _checked(text: str) -> str:
    if not _is_of_node(text):
        raise ValueError(f"{text!r} is not the URL of a node; write it as {DEFAULT_URL}")
    return text.rstrip("/")


def _is_of_node(text: str) -> bool:
    try:
        parts = urlsplit(text)
        has_host = bool(parts.hostname) and parts.port != 0
    except ValueError:
        # Brackets that do not match, or a port beyond 65535.
        return False
    return parts.scheme in ("http", "https") and has_host and not parts.query
