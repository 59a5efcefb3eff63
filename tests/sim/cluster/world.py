"""The world of a run: machines, links, the coordinator, and the observer."""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from hashlib import blake2b
from random import Random
from typing import TypeVar

from rota.core.model.ids import Epoch, NodeId, ShardId
from rota.core.timing.instants import SECOND, Duration
from rota.core.vocabulary.shard_configuration import Configuration, generation_of
from rota.node.cluster.known_members import Placement
from rota.node.coordination.agreed_state import CoordinationState
from rota.node.coordination.coordinator import Member, View
from rota.node.coordination.testing.simulated_coordinator import SimulatedServer
from rota.node.peers.messages import Sent
from rota.node.shards.shard import Shard
from rota.ring.assignment import Assignment, assign
from rota.ring.membership import Member as RingMember
from rota.ring.membership import MemberState
from sim.cluster.chance import SkewedClock
from sim.cluster.links import Links
from sim.cluster.machine import Machine
from sim.cluster.observer import Observer, Sighting
from sim.cluster.plan import COPIES, Plan
from sim.cluster.webhooks import Receiver
from sim.loop import VirtualLoop

T = TypeVar("T")

BACKUPS = 8
SENT_KEPT = 2_000
"""Number of messages kept for replays, of the last seconds or minutes."""


class World:
    """A simulated cluster and its surroundings.

    Args:
        loop: Its time is the true time.
        group: Task group of all nodes.
        chance: Random numbers of the seed.
        plan: The parameters.

    Attributes:
        counts: Number of events by kind.
        is_healing: There are no faults any more.
        is_quiet: There are no requests of users any more either.
        sent: The last messages, each with its sender, receiver and shard.
        is_rolling: The nodes are being restarted one after the other.
        is_lost: The coordinator lost state, and no recovery followed.
        witnesses: Nodes that saw a higher revision before the coordinator was set back, each with
            its life and that revision.
        lost_epochs: The epochs of the shards whose configurations the coordinator lost.
        is_forked: A node that has not seen such a configuration continued from an older one while
            no node that has seen it reached it, and no recovery followed. Such a loss cannot be
            detected (PROTOCOL, When etcd loses its state), and the others end with `Diverged`.
        backups: Of the coordinator's state, the oldest first.
        excused_until: End of the time in which two nodes may assume authority (PROTOCOL I2),
            because sessions ended early.
    """

    def __init__(
        self, loop: VirtualLoop, group: asyncio.TaskGroup, chance: Random, plan: Plan
    ) -> None:
        self.loop = loop
        self.group = group
        self.chance = chance
        self.plan = plan
        self.counts: Counter[str] = Counter()
        self.sent: deque[tuple[NodeId, NodeId, ShardId | None, Sent]] = deque(maxlen=SENT_KEPT)
        self.is_healing = False
        self.is_quiet = False
        self.is_rolling = False
        self.is_lost = False
        self.witnesses: Mapping[NodeId, tuple[object, int]] = {}
        self.lost_epochs: Mapping[ShardId, Epoch] = {}
        self.is_forked = False
        self.backups: deque[CoordinationState] = deque(maxlen=BACKUPS)
        self.excused_until = 0
        self.links = Links(loop, chance, plan)
        self.server: SimulatedServer = WatchedServer(
            SkewedClock(self.now, ahead=_ZERO, drift_ppm=0), self._saw_change
        )
        self.observer = Observer(self.now, self._saw_begin)
        self.receiver = Receiver(loop, chance)
        self.placement: Placement = Ring(plan.shard_count)
        self.machines: dict[NodeId, Machine] = {}
        for _ in range(plan.node_count):
            self.add_machine()
        self._trace = blake2b(digest_size=8)

    def add_machine(self) -> Machine:
        """Return one more machine, which is off."""
        node_id = NodeId(f"n{len(self.machines)}")
        machine = self.machines[node_id] = Machine(node_id, self)
        return machine

    # -- time -----------------------------------------------------------------------------------

    def now(self) -> int:
        """Return the microseconds since the world began."""
        return self.loop.now

    def after(self, delay: int, action: Callable[[], None]) -> None:
        """Call *action* after *delay* microseconds."""
        self.loop.call_later(delay / SECOND, action, context=self.loop.context)

    def note(self, *what: object) -> None:
        """Add an event to the trace."""
        self._trace.update(repr((self.loop.now, what)).encode())

    @property
    def trace(self) -> str:
        """A digest of all events, in order."""
        return self._trace.hexdigest()

    def _saw_begin(self, sighting: Sighting) -> None:
        self.counts["attempts"] += 1
        self.note("began", sighting.key, sighting.token, sighting.node_id)

    def _saw_change(self, before: View, after: View) -> None:
        for number, configuration in after.configurations.items():
            earlier = before.configurations.get(number)
            if earlier is not None and earlier.epoch < configuration.epoch:
                self._saw_swap(number, configuration)
            if earlier is None or earlier.primary == configuration.primary:
                continue
            life = before.lives.get(earlier.primary)
            was_alive = life is not None and life.session == earlier.primary_session
            self.counts["handovers" if was_alive else "takeovers"] += 1

    def _saw_swap(self, number: ShardId, configuration: Configuration) -> None:
        lost = self.lost_epochs.get(number)
        if (
            self.is_lost
            and lost is not None
            and generation_of(configuration.epoch) == generation_of(lost)
        ):
            self.is_forked |= not self._reaches_witness(configuration.primary, number, lost)

    def _reaches_witness(self, node_id: NodeId, number: ShardId, epoch: Epoch) -> bool:
        """Return True if a node that has seen a shard's *epoch* runs and reaches *node_id*."""
        for machine in self.machines.values():
            if machine.wiring is None or machine.is_paused:
                continue
            seen = machine.wiring.context.shards[number].replica.seen
            if (
                seen is not None
                and seen.epoch >= epoch
                and self.links.are_linked(machine.id, node_id)
            ):
                return True
        return False

    # -- state ----------------------------------------------------------------------------------

    @property
    def configurations(self) -> Mapping[ShardId, Configuration]:
        """The shards' configurations in the coordinator."""
        return self.server.state.view().configurations

    @property
    def targets(self) -> list[tuple[NodeId, ...]]:
        """The nodes that ought to have copies, by shard."""
        members = self.server.state.view().members
        return [self.placement(members, ShardId(each)) for each in range(self.plan.shard_count)]

    def acting(self, number: ShardId) -> Iterator[tuple[Machine, Shard]]:
        """Yield the nodes with authority for a shard; at most one if no rule is broken."""
        for machine in self.machines.values():
            wiring = machine.wiring
            if wiring is not None:
                shard = wiring.context.shards[number]
                if shard.replica.has_authority(machine.clock.elapsed()):
                    yield machine, shard

    def primary_of(self, number: ShardId) -> tuple[Machine, Shard] | None:
        """Return the node that acts for a shard and decides for it, if there is one."""
        for machine, shard in self.acting(number):
            if shard.is_open and not machine.is_paused:
                return machine, shard
        return None


class WatchedServer(SimulatedServer):
    """The coordinator, with a callback for the views before and after each change."""

    def __init__(self, clock: SkewedClock, saw_change: Callable[[View, View], None]) -> None:
        super().__init__(clock)
        self._saw_change = saw_change
        self._seen = self.state.view()

    def change(self, work: Callable[[CoordinationState], T]) -> T:
        """Do *work*, and call back if it changed anything."""
        answer = super().change(work)
        if self.state.revision != self._seen.revision:
            before, self._seen = self._seen, self.state.view()
            self._saw_change(before, self._seen)
        return answer


class Ring:
    """Placement of copies by the real ring (`rota.node.cluster.membership.Placement`)."""

    def __init__(self, shard_count: int) -> None:
        self._shard_count = shard_count
        self._assigned: dict[tuple[tuple[NodeId, str], ...], Assignment] = {}

    def __call__(self, members: Mapping[NodeId, Member], shard: ShardId) -> tuple[NodeId, ...]:
        """Return the nodes that ought to have copies of *shard*, the primary first."""
        states = tuple(sorted((node_id, each.state) for node_id, each in members.items()))
        assignment = self._assigned.get(states)
        if assignment is None:
            able = [RingMember(id=node_id, state=MemberState(state)) for node_id, state in states]
            assignment = assign(able, self._shard_count, COPIES.wanted)
            self._assigned[states] = assignment
        return assignment.replica_sets[shard]


_ZERO = Duration(0)
