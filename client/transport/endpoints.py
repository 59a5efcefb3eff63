"""The addresses of nodes that a client knows, and which of them to ask first.

Any node takes any request, so a client stays with one that works: its connections are open. It
leaves that one for the node that decides for the job in question, once it knows which that is. The
order is each client's own, by chance, so that many clients spread over the nodes.
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
"""How long one that did not answer is asked after all others; then it may be back."""


class Endpoints:
    """Addresses in the order in which to ask them; time is the caller's, in seconds.

    Args:
        urls: At least one; their order becomes that of chance.

    Attributes:
        owners: Which of them decides for what.
    """

    def __init__(self, urls: Sequence[str]) -> None:
        self._order = list(urls)
        SystemRandom().shuffle(self._order)
        self.owners = Owners(self._order)
        self._down_until: dict[str, float] = {}

    @property
    def first(self) -> str:
        """The one that worked last."""
        return self._order[0]

    def ordered(self, now: float, slot: Slot | None = None) -> list[str]:
        """Return all of them: first the owner of *slot*, then the one that worked last.

        Those that are down come at the end, whatever they own.
        """
        owner = self.owners.endpoint_of(slot)
        return sorted(
            self._order, key=lambda url: (max(self._down_until.get(url, now), now), url != owner)
        )

    def worked(self, url: str) -> None:
        """Stay with *url*, which has just answered."""
        self._down_until.pop(url, None)
        self._order.remove(url)
        self._order.insert(0, url)

    def failed(self, url: str, now: float) -> None:
        """Ask *url*, which gave no answer, after the others for a while."""
        self._down_until[url] = now + DOWN_S


def urls_of(given: str | Iterable[str] | None) -> tuple[str, ...]:
    """Return the addresses that a caller gave, or else the environment, or the default.

    Args:
        given: One, several with commas between them, or several.

    Raises:
        ValueError: One is no http or https URL, or there is none.

    >>> urls_of("http://a:7400, http://b:7400/")
    ('http://a:7400', 'http://b:7400')
    """
    if given is None or given == "":
        given = os.environ.get(URL_VARIABLE) or DEFAULT_URL
    texts = given.split(",") if isinstance(given, str) else list(given)
    # A repeated address would be asked twice for every failure.
    return tuple(dict.fromkeys(_checked(text.strip()) for text in texts or [""]))


def _checked(text: str) -> str:
    if not _is_of_node(text):
        raise ValueError(f"{text!r} is not the URL of a node; write it as {DEFAULT_URL}")
    return text.rstrip("/")


def _is_of_node(text: str) -> bool:
    try:
        parts = urlsplit(text)
        has_place = bool(parts.hostname) and parts.port != 0
    except ValueError:
        # Brackets that do not match, or a port beyond 65535.
        return False
    return parts.scheme in ("http", "https") and has_place and not parts.query
