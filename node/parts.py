"""What a running node consists of, for those who look into it: the API and the housekeeping."""

from collections.abc import Callable
from dataclasses import dataclass

from rota.node.attempts import Attempts
from rota.node.clock import Clock
from rota.node.config import NodeConfig
from rota.node.events import Events
from rota.node.metrics import Metrics
from rota.node.shards import Shards
from rota.node.watch import Watch
from rota.storage.history import History


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of a node.

    Attributes:
        unready: Why the node is not ready to serve, or None if it is.
    """

    config: NodeConfig
    clock: Clock
    shards: Shards
    attempts: Attempts
    history: History
    watch: Watch
    events: Events
    metrics: Metrics
    unready: Callable[[], str | None]
