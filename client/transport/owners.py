"""Endpoints of the primaries of jobs, taken from answers, so that nodes need not forward requests.

Each answer names its node, and the primary if that is another node. A client can thus map its
endpoints to nodes without the addresses that nodes use among themselves, also through mapped ports.
The map is only a hint, since any node forwards requests to the primary.
"""

from collections.abc import Mapping, Sequence
from itertools import chain

from rota.core.model.ids import Slot
from rota.wire.headers import NODE, PRIMARY


class Owners:
    """The owners of hash slots; each of the 65,536 hash slots takes about 100 bytes.

    Args:
        urls: The endpoints.
    """

    def __init__(self, urls: Sequence[str]) -> None:
        self._urls = tuple(urls)
        self._nodes: dict[str, str] = {}
        """The node at each endpoint that has answered."""
        self._owners: dict[Slot, str] = {}

    def record(self, url: str, slot: Slot | None, headers: Mapping[str, str]) -> None:
        """Record the headers of a successful answer about *slot*.

        Args:
            url: The endpoint that answered.
            slot: The hash slot of the request; None for several hash slots, or none.
            headers: The headers of the answer.
        """
        node = headers.get(NODE)
        if node is None:
            return  # An older version, or not a node.
        self._nodes[url] = node
        if slot is not None:
            self._owners[slot] = headers.get(PRIMARY, node)

    def endpoint_of(self, slot: Slot | None) -> str | None:
        """Return the endpoint to try for *slot*, or None for any endpoint.

        While the endpoint of the owner is unknown, an endpoint whose node is unknown is returned.
        """
        owner = None if slot is None else self._owners.get(slot)
        if owner is None:
            return None
        known = (url for url, node in self._nodes.items() if node == owner)
        strange = (url for url in self._urls if url not in self._nodes)
        return next(chain(known, strange), None)
