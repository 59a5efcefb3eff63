"""Which endpoint decides for which jobs, as the answers tell: asked directly, it need not forward.

A node says in each answer who it is, and whom it asked if another decides. So a client learns which
of its endpoints is which node without knowing how the nodes call each other, be it through mapped
ports. It is all no more than a hint: whoever is asked finds out who decides.
"""

from collections.abc import Mapping, Sequence
from itertools import chain

from rota.core.model.ids import Slot
from rota.wire.headers import NODE, PRIMARY


class Owners:
    """What answers have told; about 100 bytes for each slot, of which there are 65,536.

    Args:
        urls: The endpoints.
    """

    def __init__(self, urls: Sequence[str]) -> None:
        self._urls = tuple(urls)
        self._nodes: dict[str, str] = {}
        """Who is at each endpoint that has answered."""
        self._owners: dict[Slot, str] = {}

    def heard(self, url: str, slot: Slot | None, headers: Mapping[str, str]) -> None:
        """Take note of what a successful answer about *slot* says; of many slots, or none: None."""
        node = headers.get(NODE)
        if node is None:
            return  # It is older than this, or no node.
        self._nodes[url] = node
        if slot is not None:
            self._owners[slot] = headers.get(PRIMARY, node)

    def endpoint_of(self, slot: Slot | None) -> str | None:
        """Return the endpoint to ask about *slot*, or None if one is as good as another.

        While nobody knows where its owner is, that is one which has not said who it is.
        """
        owner = None if slot is None else self._owners.get(slot)
        if owner is None:
            return None
        known = (url for url, node in self._nodes.items() if node == owner)
        strange = (url for url in self._urls if url not in self._nodes)
        return next(chain(known, strange), None)
