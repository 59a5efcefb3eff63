"""Observation of attempts from outside of the nodes, on true time."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from rota.core.model.attempt import AttemptKey, Ending, Order, Outcome, Token
from rota.core.model.fallback_ids import is_of_fallback
from rota.core.model.ids import ExecutionId, NodeId
from rota.core.timing.instants import Duration, Instant
from rota.executor.executor import CLOSE_GRACE, Ended, Output
from rota.executor.secret_values import NO_SECRETS, SecretValues
from rota.executor.testing.scripted_executor import ScriptedExecutor


@dataclass(slots=True)
class Sighting:
    """One attempt that ran.

    Attributes:
        began: Microseconds since the world began.
        over: Likewise; None while it runs.
        outcome: None if it was killed with its machine.
        was_allowed: Whether its node had authority for its shard at the start, or the attempt had
            been sent to it.
    """

    key: AttemptKey
    token: Token
    node_id: NodeId
    life: int
    began: int
    was_allowed: bool
    over: int | None = None
    outcome: Outcome | None = None


class Observer:
    """Records the begin and the end of every attempt.

    Args:
        true_time: Microseconds since the world began.
        on_begin: Called for each attempt that begins.

    Attributes:
        most: Greatest number of attempts at once on each node.
        beside: Attempts that stand-ins began; they are not among `sightings`.
    """

    def __init__(self, true_time: Callable[[], int], on_begin: Callable[[Sighting], None]) -> None:
        self._true_time = true_time
        self._on_begin = on_begin
        self.sightings: list[Sighting] = []
        self.beside: list[Sighting] = []
        self.running: dict[tuple[NodeId, AttemptKey], Sighting] = {}
        self.most: Counter[NodeId] = Counter()
        self._of_task: dict[tuple[ExecutionId, str], list[Sighting]] = {}

    def began(self, node_id: NodeId, life: int, order: Order, *, was_allowed: bool) -> None:
        """Record the begin of an attempt."""
        sighting = Sighting(order.key, order.token, node_id, life, self._true_time(), was_allowed)
        if is_of_fallback(order.key):
            self.beside.append(sighting)
        else:
            self.sightings.append(sighting)
            self._of_task.setdefault(order.key[:2], []).append(sighting)
        self.running[node_id, order.key] = sighting
        self.most[node_id] = max(self.most[node_id], sum(on == node_id for on, _ in self.running))
        self._on_begin(sighting)

    def ended(self, node_id: NodeId, key: AttemptKey, outcome: Outcome | None) -> None:
        """Record the end of an attempt."""
        sighting = self.running.pop((node_id, key))
        sighting.over, sighting.outcome = self._true_time(), outcome

    def killed_all(self, node_id: NodeId) -> None:
        """Record that all attempts of a machine were killed."""
        for node, key in [each for each in self.running if each[0] == node_id]:
            self.ended(node, key, None)

    def left_on(self, node_id: NodeId) -> frozenset[AttemptKey]:
        """Return the attempts that run on a machine, for its warden's proof of death."""
        return frozenset(key for node, key in self.running if node == node_id)

    def of_task(self, execution_id: ExecutionId, task: str) -> list[Sighting]:
        """Return the observed attempts of a task, in the order in which they began."""
        return self._of_task.get((execution_id, task), [])

    @property
    def tasks(self) -> Iterable[list[Sighting]]:
        """The observed attempts of each task."""
        return self._of_task.values()


class WatchedExecutor:
    """The scripted executor of one life of a node, which reports to the observer.

    Args:
        observer: Records begins and ends.
        node_id: Id of the node.
        life: Number of the node's life.
        ended: Called for every ending, after the observer.
        now: The clock of the stamps.
        may_begin: Returns True if the node has authority for the shard of an attempt, or got the
            attempt from a node with authority.
    """

    def __init__(
        self,
        observer: Observer,
        node_id: NodeId,
        life: int,
        *,
        ended: Ended,
        now: Callable[[], Instant],
        may_begin: Callable[[AttemptKey], bool],
    ) -> None:
        self._observer = observer
        self._node_id = node_id
        self._life = life
        self._ended = ended
        self._may_begin = may_begin
        self._scripted = ScriptedExecutor(ended=self._saw_end, now=now)
        self._is_dead = False

    def abort(self) -> None:
        """End with the node: its attempts report nothing any more."""
        self._is_dead = True

    def launch(self, order: Order, secrets: SecretValues = NO_SECRETS) -> None:
        """See the seam."""
        if not self._is_dead:
            was_allowed = self._may_begin(order.key)
            self._observer.began(self._node_id, self._life, order, was_allowed=was_allowed)
            self._scripted.launch(order, secrets)

    def resume(self, order: Order) -> None:
        """See the seam."""
        self._scripted.resume(order)

    def stop(self, key: AttemptKey, *, grace: Duration | None = None) -> None:
        """See the seam."""
        self._scripted.stop(key, grace=grace)

    async def output(self, key: AttemptKey) -> Output | None:
        """See the seam."""
        return await self._scripted.output(key)

    async def expire(self, before: Instant) -> int:
        """See the seam."""
        return await self._scripted.expire(before)

    async def close(self, grace: Duration = CLOSE_GRACE) -> None:
        """See the seam."""
        await self._scripted.close(grace)

    def _saw_end(self, key: AttemptKey, ending: Ending) -> None:
        if not self._is_dead:
            self._observer.ended(self._node_id, key, ending.outcome)
            self._ended(key, ending)
