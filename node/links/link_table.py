"""Table of the links of a node, and of the processes that had a link to it."""

from collections import defaultdict, deque
from collections.abc import Callable, Generator
from contextlib import contextmanager

from rota.core.model.ids import NodeId
from rota.node.links.link import Link

LIVES_MAX = 4
"""The most recorded processes of one node; promises to earlier processes ended long ago."""


class LinkTable:
    """The links of one node; each other node has at most one."""

    def __init__(self) -> None:
        self._links: dict[NodeId, Link] = {}
        self._lives: dict[NodeId, deque[str]] = defaultdict(lambda: deque(maxlen=LIVES_MAX))
        self._on_lost: dict[NodeId, set[Callable[[], None]]] = defaultdict(set)

    @property
    def nodes(self) -> tuple[NodeId, ...]:
        """The nodes to which there is a link."""
        return tuple(self._links)

    @property
    def waiting(self) -> int:
        """The number of bytes of messages that wait to be sent."""
        return sum(link.waiting for link in self._links.values())

    def of(self, node_id: NodeId) -> Link | None:
        """Return the link to a node; None if there is none."""
        return self._links.get(node_id)

    def has_had(self, node_id: NodeId, life: str) -> bool:
        """Return True if *life* is that of one of a node's last processes that had a link."""
        return life in self._lives.get(node_id, ())

    def add(self, node_id: NodeId, link: Link, life: str) -> None:
        """Add the link to a process of a node, replacing an earlier link."""
        self.give_up(node_id)
        self._links[node_id] = link
        if life not in self._lives[node_id]:
            self._lives[node_id].append(life)

    def remove(self, node_id: NodeId, link: Link) -> None:
        """Remove a link that has ended, unless it was replaced."""
        if self._links.get(node_id) is link:
            del self._links[node_id]
            for on_lost in list(self._on_lost.get(node_id, ())):
                on_lost()

    def give_up(self, node_id: NodeId) -> None:
        """End the link to a node soon, if there is one."""
        if node_id in self._links:
            self._links[node_id].give_up()

    def give_up_all(self) -> None:
        """End all links soon."""
        for link in self._links.values():
            link.give_up()

    @contextmanager
    def watched(self, node_id: NodeId, on_lost: Callable[[], None]) -> Generator[None]:
        """Call *on_lost* if the link to a node is lost while the body runs."""
        self._on_lost[node_id].add(on_lost)
        try:
            yield
        finally:
            self._on_lost[node_id].discard(on_lost)
