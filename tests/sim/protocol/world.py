"""Some nodes with one replica each, the network between them and the coordinator, on virtual time.

Runs the real `Replica`; disks, network, coordinator, clocks and the loop around the replica are
simulated. Everything random comes from the seed.
"""

import heapq
from collections import Counter, deque
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from random import Random
from typing import TypeVar

from rota.core.model.ids import Epoch, Index, NodeId, Session
from rota.core.replication.messages import Message, QuietBeat, QuietMessage, QuietResponse
from rota.core.replication.primary import Copies
from rota.core.timing.instants import SECOND, Duration, Instant
from rota.core.vocabulary.shard_configuration import NO_SESSION, Configuration, Swap, Swapped
from sim.protocol.checks import Checks
from sim.protocol.coordinator import Coordination
from sim.protocol.node import Node, View
from sim.protocol.plan import MS, TIMING, Plan

T = TypeVar("T")

WORK_PAUSES = [1 * MS, 20 * MS, 100 * MS]
ANSWER_TIMEOUT = Duration(1_500 * MS)
SENT_KEPT = 1_000
"""Number of messages kept for replays, of the last seconds or minutes."""
FORGED_FOR = Duration(5 * SECOND)
"""The longest time that a message is on its way or waits at its receiver (R41)."""


@dataclass(slots=True)
class _Flight:
    """A swap under way, and whether its node has the answer."""

    swap: Swap
    is_answered: bool = False


class World:
    """The simulated cluster of a run.

    Args:
        chance: Random numbers of the seed.
        plan: The parameters.

    Attributes:
        now: Microseconds since it began.
        targets: The nodes that ought to have copies; the primary first.
        is_healing: There are no faults any more.
        is_quiet: There are no requests of clients any more either.
        excused_until: End of the time in which two nodes may assume authority (PROTOCOL I2),
            because sessions ended early.
        cuts: Pairs of sender and receiver without a connection.
        cut_off: Nodes without a connection to the coordinator.
        refuses_until: End of the time in which the coordinator only renews sessions.
        storm_until: End of the time in which messages arrive many times.
        sent: The last messages, each with its sender and its receiver.
        forged_at: When a node last forged messages of an epoch.
        swaps_on_their_way: Swaps that have not reached the coordinator yet.
        is_lost: The coordinator lost configurations, and no recovery followed.
        is_noticeable: A node received a view that showed it the last loss.
    """

    def __init__(self, chance: Random, plan: Plan) -> None:
        self.chance = chance
        self.plan = plan
        self.now = 0
        self.counts: Counter[str] = Counter()
        self.coordination = Coordination(ttl=TIMING.session)
        self.copies = Copies(wanted=plan.replicas, least=min(2, plan.replicas))
        self.is_healing = False
        self.is_quiet = False
        self.excused_until = 0
        self.cuts: set[tuple[NodeId, NodeId]] = set()
        self.cut_off: set[NodeId] = set()
        self.is_coordinator_down = False
        self.refuses_until = 0
        self.storm_until = 0
        self.sent: deque[tuple[NodeId, NodeId, Message | QuietMessage]] = deque(maxlen=SENT_KEPT)
        self.forged_at: dict[tuple[NodeId, Epoch], int] = {}
        self.swaps_on_their_way: list[Swap] = []
        self.is_lost = False
        self.is_noticeable = False
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._event_count = 0
        self._trace = blake2b(digest_size=8)
        self.nodes = [Node(f"n{number}", self) for number in range(plan.node_count)]
        self.by_id = {node.id: node for node in self.nodes}
        self.targets = tuple(node.id for node in self.nodes[: plan.replicas])
        self.checks = Checks(self.nodes, self.copies)

    # -- time -----------------------------------------------------------------------------------

    def run_until(self, end: int) -> None:
        """Run all events until *end*."""
        while self._events and self._events[0][0] <= end:
            at, _, action = heapq.heappop(self._events)
            self.now = at
            action()
            if at > self.excused_until:
                self.checks.see_authority(is_lost=self.is_lost)
        self.now = end

    def after(self, delay: int, action: Callable[[], None]) -> None:
        """Call *action* after *delay* microseconds."""
        self._event_count += 1
        heapq.heappush(self._events, (self.now + max(0, delay), self._event_count, action))

    def note(self, *what: object) -> None:
        """Add an event to the trace."""
        self._trace.update(repr((self.now, what)).encode())

    @property
    def trace(self) -> str:
        """A digest of all events, in order."""
        return self._trace.hexdigest()

    def count(self, what: str) -> int:
        """Count something; return how often it happened."""
        self.counts[what] += 1
        return self.counts[what]

    def work(self) -> None:
        """Have a client send a request to every node; the one with authority proposes an entry."""
        for node in self.nodes:
            if node.is_up and not node.is_paused and not self.is_quiet:
                node.do(node.propose)
        pauses = [20 * MS, 1_500 * MS, 4_000 * MS] if self.plan.is_often_quiet else WORK_PAUSES
        self.after(self.chance.choice(pauses), self.work)

    def look_around(self) -> None:
        """Run the checks that are too slow for every step."""
        self.checks.see_nodes()
        if self.coordination.current is not None and not self.is_lost:
            self.checks.see_copies(self.coordination.current)
        self.after(300 * MS, self.look_around)

    # -- network --------------------------------------------------------------------------------

    def delay(self) -> int:
        """Draw how long a message takes."""
        if self.chance.random() < 0.95:
            return self.chance.choice([200, 1 * MS, 5 * MS, 20 * MS])
        return self.chance.randrange(2_500 * MS) if not self.is_healing else 50 * MS

    def is_lost_on_its_way(self) -> bool:
        """Draw whether a message is lost."""
        return not self.is_healing and self.chance.randrange(100) < self.plan.loss_percent

    def saw_quiet_answer(self, node: Node, beat: QuietBeat, answer: QuietResponse) -> None:
        """Check an answer to a heartbeat for many shards."""
        self.counts["quiet answers"] += not answer.refused
        self.checks.saw_quiet_answer(node, beat, answer)

    def send(self, sender: Node, receiver_id: NodeId, message: Message | QuietMessage) -> None:
        """Send a message with true content."""
        self.counts["messages"] += 1
        self.checks.saw_answer(sender, message)
        self.sent.append((sender.id, receiver_id, message))
        self.carry(sender.id, self.by_id[receiver_id], message)

    def carry(self, sender_id: NodeId, receiver: Node, message: Message | QuietMessage) -> None:
        """Carry a message, which may be lost, late, overtaken, or duplicated."""

        def arrive() -> None:
            if receiver.is_up and (sender_id, receiver.id) not in self.cuts:
                receiver.later(0, deliver)

        def deliver() -> None:
            self.note(sender_id, receiver.id, type(message).__name__)
            receiver.receive(message, sender_id)

        if self.now < self.storm_until:
            for _ in range(4):
                self.after(self.chance.randrange(2_500 * MS), arrive)
        if self.is_lost_on_its_way():
            return
        for _ in range(2 if self.chance.random() < 0.03 else 1):
            self.after(self.delay(), arrive)

    # -- coordinator ----------------------------------------------------------------------------

    def ask(self, node: Node, request: Callable[[], T], on_answer: Callable[[T], None]) -> None:
        """Ask the coordinator; the request, or the answer, may be lost."""
        life = node.life

        def arrive() -> None:
            if node.id in self.cut_off or self.is_coordinator_down:
                return
            answer = request()
            # The answer goes to the life that asked, and to no other.
            if not self.is_lost_on_its_way() and node.life == life:
                node.later(self.delay(), lambda: self._receive(node, lambda: on_answer(answer)))

        self.after(self.delay(), arrive)

    def _receive(self, node: Node, on_answer: Callable[[], None]) -> None:
        if node.id not in self.cut_off:
            on_answer()

    def ask_swap(self, node: Node, swap: Swap) -> None:
        """Request a swap; after a time without an answer the node gets None: outcome unknown."""
        self.count("swaps")
        flight, life = _Flight(swap), node.life
        self.swaps_on_their_way.append(swap)

        def answered(answer: Swapped | None) -> None:
            if not flight.is_answered:
                flight.is_answered = True
                node.wake()
                node.replica.answered(swap, answer, node.clock())

        def arrive() -> None:
            self.swaps_on_their_way.remove(swap)
            if node.id in self.cut_off or self.is_coordinator_down:
                return
            # A node takes a refusal for a swap that is certainly not done (`Membership`).
            answer = (
                Swapped(is_done=False, current=swap.expected)
                if self.now < self.refuses_until or self._is_forger(swap)
                else self.coordination.swap(swap, Instant(self.now))
            )
            if answer.is_done:
                self.note("swapped", swap.fresh)
                if swap.expected is not None:
                    self.count(_kind_of(swap.expected, swap.fresh))
                self.checks.saw_swap(swap, is_lost=self.is_lost)
            if not self.is_lost_on_its_way() and node.life == life:
                delay = self._slow_delay()
                node.later(delay, lambda: self._receive(node, lambda: answered(answer)))

        self.after(self._slow_delay(), arrive)
        node.later(ANSWER_TIMEOUT, lambda: answered(None))

    def _is_forger(self, swap: Swap) -> bool:
        """Return True if a node forged messages of the epoch of which it would be the primary.

        They may be on their way still, and would be those of a primary. Primaries are not forgers.
        """
        forged_at = self.forged_at.get((swap.fresh.primary, swap.fresh.epoch))
        return forged_at is not None and self.now < forged_at + FORGED_FOR

    def _slow_delay(self) -> int:
        if self.plan.has_slow_swaps and not self.is_healing and self.chance.random() < 0.5:
            return self.chance.randrange(6 * SECOND)
        return self.delay()

    def renew(self, node_id: NodeId, session: Session, asked_at: int) -> Session | None:
        """Renew a session; None if it is over; `NO_SESSION` begins one."""
        now = Instant(self.now)
        if session == NO_SESSION:
            if now < self.refuses_until:
                return None
            return self.coordination.begin_session(node_id, now, asked_at=asked_at)
        return session if self.coordination.renew(node_id, session, now) else None

    def are_linked(self, node_id: NodeId, others: Collection[NodeId]) -> bool:
        """Return True if nothing parts a node from *others*."""
        return not any(
            self.cuts & {(node_id, other), (other, node_id)}
            or not self.by_id[other].is_up
            or self.by_id[other].is_paused
            for other in others
            if other != node_id
        )

    def report_loss(self, node: Node, generation: int) -> None:
        """Have a node report the coordinator's loss to the others; reports may get lost."""
        for other in self.nodes:
            if other is not node and not self.is_lost_on_its_way():
                self.after(self.delay(), partial(self._receive_loss, node, other, generation))

    def _receive_loss(self, sender: Node, receiver: Node, generation: int) -> None:
        if receiver.is_up and (sender.id, receiver.id) not in self.cuts:
            receiver.later(0, lambda: receiver.receive_loss(sender.id, generation))

    def saw_view(self, node: Node, configuration: Configuration | None) -> None:
        """Record whether a view shows its node that the coordinator lost its state."""
        seen = node.replica.seen
        if self.is_lost and seen is not None and seen != configuration:
            self.is_noticeable |= configuration is None or configuration.epoch <= seen.epoch

    def view(self) -> View:
        """Read the coordinator's state."""
        coordination = self.coordination
        return View(
            coordination.current,
            coordination.live(Instant(self.now)),
            None if coordination.is_emptied else coordination.generation,
        )

    # -- disks, clients -------------------------------------------------------------------------

    def sync_time(self, node: Node) -> int:
        """Draw how long a sync takes."""
        if self.is_healing:
            return 1 * MS
        if self.now < node.frozen_until:
            return node.frozen_until - self.now
        if self.now < node.slow_until:
            return self.chance.randrange(2 * SECOND)
        if self.plan.has_slow_disks and self.chance.random() < 0.02:
            return self.chance.randrange(3 * SECOND)
        return self.chance.choice([300, 1 * MS, 5 * MS])

    def saw_commit(self, node: Node, index: Index, value: bytes) -> None:
        """Record that a node has an entry as committed."""
        self.checks.saw_commit(node, index, value)

    def acknowledge(self, node: Node, index: Index, value: bytes) -> None:
        """Record that an entry was acknowledged to a client."""
        self.count("entries acknowledged")
        self.note("acknowledged", node.id, index)
        self.checks.saw_acknowledgement(node, index, value)

    # -- state ----------------------------------------------------------------------------------

    def is_well(self) -> bool:
        """L1: the right nodes have copies, the right one acts, and no recovery is outstanding."""
        current = self.coordination.current
        acting = [node.id for node in self.nodes if node.replica.has_authority(node.clock())]
        return (
            current is not None
            and not self.is_lost
            and acting == [self.targets[0]]
            and set(current.members) == set(self.targets)
        )

    def describe(self) -> str:
        """Return the state of each node as text."""
        nodes = [
            f"{node.id}: epoch {node.replica.epoch}, {node.replica.copy.committed} of "
            f"{node.replica.copy.tip.index}, {node.replica.copy.allocation}, "
            f"{'primary' if node.replica.primary else 'backup'}, {node.liveness.session}"
            for node in self.nodes
        ]
        return f"{self.coordination.current}; wanted {self.targets}; " + "; ".join(nodes)


def _kind_of(before: Configuration, fresh: Configuration) -> str:
    if fresh.primary_session == NO_SESSION:
        return "resignations"
    if fresh.primary != before.primary:
        is_takeover = fresh.allocation_of(before.primary) is None
        return "takeovers" if is_takeover else "handovers or takeovers"
    if len(fresh.sync) > len(before.sync):
        return "copies added"
    if len(fresh.sync) < len(before.sync):
        return "copies removed"
    return "bumps" if fresh.sync == before.sync else "copies swapped"
