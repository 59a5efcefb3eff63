"""Links between machines, which are slow, lossy, and cut."""

from collections.abc import Callable
from random import Random

from rota.core.model.ids import NodeId
from rota.core.timing.instants import MILLISECOND, SECOND, Duration
from rota.node.coordination.testing.simulated_coordinator import Fate
from sim.cluster.plan import Plan
from sim.loop import VirtualLoop

MS = MILLISECOND
SLOW = {
    "swap": Duration(5 * SECOND),
    "end_session": Duration(5 * SECOND),
    "renew": Duration(SECOND),
}
"""Greatest delays of the coordinator. Swaps take longer than their callers wait, and still take
effect afterwards. Of a renewal the answer is delayed, by about the permitted time."""
GROWING = frozenset({"found", "register", "change", "begin_session", "swap"})
"""The calls that etcd refuses when its quota is used up: those that write more than they delete."""
READING = frozenset({"view", "documents", "watch_documents"})
"""The calls by which a node reads the shared documents."""
STORM = 4
"""Number of copies of each message in a storm."""


class Links:
    """All links of a world.

    Args:
        loop: Carries messages, in the world's context: a sent message arrives even if its sender
            ends.
        chance: Random numbers of the seed.
        plan: Quality of the links.

    Attributes:
        cuts: Pairs of sender and receiver without a connection.
        cut_off: Nodes without a connection to the coordinator.
        unwatched: Nodes whose watch delivers nothing, without an error.
        alone_until: End of each machine's isolation from all others, which `mend` does not end.
        refuses_until: End of the time in which the coordinator refuses calls that take space.
        storm_until: End of the time in which messages arrive many times, in any order.
        are_perfect: Whether no message is lost or late any more.
        message_count: Messages between nodes.
        unread_at: When each node last failed to read the shared documents, in microseconds.
    """

    def __init__(self, loop: VirtualLoop, chance: Random, plan: Plan) -> None:
        self._loop = loop
        self._chance = chance
        self._plan = plan
        self.cuts: set[tuple[NodeId, NodeId]] = set()
        self.cut_off: set[NodeId] = set()
        self.unwatched: set[NodeId] = set()
        self.alone_until: dict[NodeId, int] = {}
        self.refuses_until = 0
        self.storm_until = 0
        self.are_perfect = False
        self.message_count = 0
        self.unread_at: dict[NodeId, int] = {}

    def mend(self) -> None:
        """End all cuts."""
        self.cuts.clear()
        self.cut_off.clear()
        self.unwatched.clear()

    def make_perfect(self) -> None:
        """End all faults of the links."""
        self.mend()
        self.refuses_until = self.storm_until = 0
        self.alone_until.clear()
        self.are_perfect = True

    def carry(self, sender: NodeId, receiver: NodeId, arrive: Callable[[], None]) -> None:
        """Carry a message, which may be lost, late, overtaken, or duplicated."""
        self.message_count += 1

        def pass_cut() -> None:
            is_cut = (sender, receiver) in self.cuts
            if not (is_cut or self.is_alone(sender) or self.is_alone(receiver)):
                arrive()

        if self._loop.now < self.storm_until:
            for _ in range(STORM):
                self.later(self._chance.randrange(2 * SECOND), pass_cut)
        if self.is_lost():
            return
        for _ in range(self._copies()):
            self.later(self.delay(), pass_cut)

    def carry_request(self, arrive: Callable[[], None]) -> None:
        """Carry a request of a client, or its answer."""
        if not self.is_lost():
            self.later(self.delay(), arrive)

    def fate(self, node_id: NodeId, call: str) -> Fate:
        """Return the fate of a call to the coordinator."""
        fate = self._fate(node_id, call)
        if call in READING and (fate.arrives_s is None or fate.returns_s is None):
            self.unread_at[node_id] = self._loop.now
        return fate

    def _fate(self, node_id: NodeId, call: str) -> Fate:
        if node_id in self.cut_off or self.is_alone(node_id):
            # A link that is cut lets callers wait, or fails at once.
            return Fate(is_refused=self._chance.random() < 0.3, arrives_s=None)
        if call == "watch" and node_id in self.unwatched:
            return Fate(arrives_s=None)
        if call in GROWING and self._loop.now < self.refuses_until:
            return Fate(refusal="the simulated quota is used up")
        slow_s = self._slow_s(SLOW[call]) if call in SLOW else 0.0
        # A late request takes effect late; a late answer describes an earlier time.
        is_late = call != "renew"
        return Fate(
            arrives_s=None if self.is_lost() else self.delay() / SECOND + slow_s * is_late,
            returns_s=None if self.is_lost() else self.delay() / SECOND + slow_s * (not is_late),
        )

    def _slow_s(self, longest: Duration) -> float:
        if not self._plan.has_slow_answers or self.are_perfect:
            return 0.0
        return self._chance.choice([0, 0, 1]) * self._chance.random() * longest / SECOND

    def delay(self) -> int:
        """Draw the delay of a message, in microseconds."""
        if self.are_perfect:
            return 500
        if self._plan.loss_percent and self._chance.random() < 0.02:
            return self._chance.randrange(2 * SECOND)
        return self._chance.randrange(*((10 * MS, 60 * MS) if self._plan.is_far else (200, 2 * MS)))

    def is_lost(self) -> bool:
        """Draw whether a message is lost."""
        return not self.are_perfect and self._chance.random() * 100 < self._plan.loss_percent

    def is_alone(self, node_id: NodeId) -> bool:
        """Return True if a machine is isolated from all others."""
        return self._loop.now < self.alone_until.get(node_id, 0)

    def are_linked(self, one: NodeId, other: NodeId) -> bool:
        """Return True if messages of two machines arrive, in both directions; also of one."""
        if one == other:
            return True
        is_cut = (one, other) in self.cuts or (other, one) in self.cuts
        return not (is_cut or self.is_alone(one) or self.is_alone(other))

    def _copies(self) -> int:
        is_doubled = self._plan.loss_percent and self._chance.random() < 0.03
        return 2 if is_doubled and not self.are_perfect else 1

    def later(self, delay: int, arrive: Callable[[], None]) -> None:
        """Call *arrive* after *delay* microseconds."""
        self._loop.call_later(delay / SECOND, arrive, context=self._loop.context)
