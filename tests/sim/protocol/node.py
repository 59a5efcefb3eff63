"""The loop around one replica, in place of `rota.node` in a real node."""

from collections.abc import Callable, Collection, Hashable
from random import Random
from typing import NamedTuple, Protocol, TypeVar

from rota.core.model.ids import AllocationId, Index, NodeId, Session, ShardId
from rota.core.replication.authority.liveness import Liveness
from rota.core.replication.coordinator_continuity import CoordinatorContinuity
from rota.core.replication.messages import Message, QuietBeat, QuietMessage, QuietResponse
from rota.core.replication.primary import Copies
from rota.core.replication.quiet_beats import QuietBeats
from rota.core.replication.replica import Replica
from rota.core.replication.transfer_limits import TransferLimits
from rota.core.timing.instants import Duration, Instant
from rota.core.vocabulary.codec import decode_body, encode_body
from rota.core.vocabulary.journal import ORIGIN, decode_entry
from rota.core.vocabulary.shard_configuration import NO_SESSION, Configuration, Swap
from sim.protocol.disk import Apply, Disk
from sim.protocol.plan import MS, TIMING, Plan

T = TypeVar("T")


class View(NamedTuple):
    """The coordinator's state as a node reads it.

    Attributes:
        configuration: The configuration of the shard.
        sessions: The live sessions.
        generation: The generation of the cluster; None if its record is missing.
    """

    configuration: Configuration | None
    sessions: dict[NodeId, Session]
    generation: int | None


SHARD = ShardId(0)
TICK = Duration(100 * MS)
KEEPALIVE = Duration(600 * MS)
LOOK = Duration(900 * MS)
REPORT_LOSS = Duration(1_000 * MS)
KEYS = 17


class Surroundings(Protocol):
    """The interface of the world for its nodes."""

    plan: Plan
    chance: Random
    copies: Copies
    targets: tuple[NodeId, ...]
    now: int

    def after(self, delay: int, action: Callable[[], None]) -> None:
        """Call *action* after *delay* microseconds."""
        ...

    def send(self, sender: "Node", receiver_id: NodeId, message: Message | QuietMessage) -> None:
        """Send a message, which may arrive."""
        ...

    def ask(self, node: "Node", request: Callable[[], T], on_answer: Callable[[T], None]) -> None:
        """Ask the coordinator, which may answer."""
        ...

    def ask_swap(self, node: "Node", swap: Swap) -> None:
        """Request a swap; the replica gets the answer, or None after a timeout."""
        ...

    def renew(self, node_id: NodeId, session: Session, asked_at: int) -> Session | None:
        """Renew a session at the coordinator; None if it is over; `NO_SESSION` begins one."""
        ...

    def saw_quiet_answer(self, node: "Node", beat: QuietBeat, answer: QuietResponse) -> None:
        """Record that a node answers a heartbeat for many shards."""
        ...

    def saw_view(self, node: "Node", configuration: Configuration | None) -> None:
        """Record that a node received a view."""
        ...

    def view(self) -> View:
        """Read the coordinator's state."""
        ...

    def are_linked(self, node_id: NodeId, others: Collection[NodeId]) -> bool:
        """Return True if there is a link to each of *others*."""
        ...

    def report_loss(self, node: "Node", generation: int) -> None:
        """Report a lost generation of the coordinator to the other nodes; reports may get lost."""
        ...

    def sync_time(self, node: "Node") -> int:
        """Draw how long a sync takes."""
        ...

    def count(self, what: str) -> int:
        """Count something; return how often it happened."""
        ...

    def saw_commit(self, node: "Node", index: Index, value: bytes) -> None:
        """Record that a node has an entry as committed."""
        ...

    def acknowledge(self, node: "Node", index: Index, value: bytes) -> None:
        """Record that an entry was acknowledged to a client."""
        ...


class Node:
    """A node with one replica.

    Attributes:
        rate: Rate of its clock.
        life: Number of its starts and ends.
        stash: Callbacks that wait for the end of a pause.
        targets: The nodes that ought to have copies, as it saw last.
        slow_until: End of the time in which its disk is slow, in the world's time.
        lost: The lost generation of the coordinator, as stored on its disk.
        frozen_until: Earliest end of a sync that begins now, in the world's time.
    """

    def __init__(self, name: str, world: Surroundings) -> None:
        self.id = NodeId(name)
        self.world = world
        self.disk = Disk()
        self.offset = world.chance.randrange(10**9)
        self.rate = 1 + _drawn_drift(world.plan, world.chance)
        self.life = 0
        self.is_up = False
        self.is_paused = False
        self.stash: list[Callable[[], None]] = []
        self.targets: tuple[NodeId, ...] = ()
        self.slow_until = 0
        self.lost: int | None = None
        self.frozen_until = 0
        self.liveness: Liveness
        self.continuity: CoordinatorContinuity
        self.quiet_beats: QuietBeats
        self.replica: Replica
        self._is_awake = True
        self._circumstances: Hashable = None
        self._waiting: dict[Index, bytes] = {}
        self._is_syncing = False
        self._has_turn = False

    def clock(self) -> Instant:
        """Return the node's own time."""
        return Instant(self.offset + int(self.world.now * self.rate))

    # -- life -----------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin a life with what is on the disk."""
        self.life += 1
        self.is_up, self.is_paused = True, False
        self.stash.clear()
        self._waiting.clear()
        self._is_syncing = self._has_turn = False
        self.liveness = Liveness(self.id, born_at=self.clock())
        self.continuity = CoordinatorContinuity(lost=self.lost)
        self.quiet_beats = QuietBeats(self.liveness, TIMING)
        self._is_awake, self._circumstances = True, None
        self.replica = Replica(
            SHARD,
            self.disk.now.stored(),
            self.disk,
            liveness=self.liveness,
            continuity=self.continuity,
            timing=TIMING,
            transfers=TransferLimits(),
            quiet_beats=self.quiet_beats,
            copies=self.world.copies,
        )
        self.later(self.world.chance.randrange(TICK), self.tick)
        self.later(self.world.chance.randrange(50 * MS), self.keep_alive)
        self.later(self.world.chance.randrange(50 * MS), self.look)
        self.later(REPORT_LOSS, self.repeat_loss)

    def crash(self) -> None:
        """End a life; what is not durable is lost, or not."""
        self.is_up = False
        self.life += 1
        self.disk.crash(self.world.chance.randrange)

    def later(self, delay: int, action: Callable[[], None]) -> None:
        """Do something in this life of the node; while it is paused it waits."""
        self._in_this_life(delay, lambda: self.do(action))

    def _in_this_life(self, delay: int, action: Callable[[], None]) -> None:
        life = self.life

        def act() -> None:
            if not self.is_up or self.life != life:
                return
            if self.is_paused:
                self.stash.append(act)
                return
            action()

        self.world.after(delay, act)

    def do(self, action: Callable[[], None]) -> None:
        """Do something, and, at once or with what comes next, what follows from it."""
        action()
        if not self.world.plan.is_lazy:
            self.turn()
            assert not self.replica.has_ready, f"{self.id}: output is left after a turn"
        elif not self._has_turn:
            self._has_turn = True
            self._in_this_life(self.world.chance.choice([0, 1 * MS, 10 * MS]), self.turn)

    def resume(self) -> None:
        """End a pause: all that came meanwhile is there at once."""
        self.is_paused = False
        stash, self.stash = self.stash, []
        for action in stash:
            self.world.after(0, action)

    # -- the loop -------------------------------------------------------------------------------

    def tick(self) -> None:
        """Let time pass for the replica, unless it is at rest, as `Shards.tick` does."""
        circumstances = self.liveness.circumstances(), self.continuity.lost, self.targets
        is_changed = circumstances != self._circumstances
        self._circumstances = circumstances
        self.quiet_beats.tick(self.clock())
        if self._is_awake or is_changed or self.quiet_beats.take_woken():
            self.replica.tick(self.clock(), self.world.chance.getrandbits(64), self.targets)
            self._is_awake = not self.replica.is_at_rest(self.clock())
        else:
            self.world.count("ticks at rest")
        self.later(int(TICK * self.world.chance.uniform(0.8, 1.2)), self.tick)

    def receive(self, message: Message | QuietMessage, sender: NodeId) -> None:
        """Take a message of another node."""
        now = self.clock()
        match message:
            case QuietBeat():
                self.quiet_beats.receive(message, sender, now)
                _, answer = self.quiet_beats.outbox[-1]  # Earlier ones answer other heartbeats.
                assert isinstance(answer, QuietResponse)
                self.world.saw_quiet_answer(self, message, answer)
            case QuietResponse():
                self.quiet_beats.receive_response(message, sender, now)
            case _:
                self.wake()
                self.replica.receive(message, sender, now)

    def wake(self) -> None:
        """Have the next tick reach the replica, to which something happens now."""
        self._is_awake = True

    def receive_loss(self, sender: NodeId, generation: int) -> None:
        """Take another node's report that the coordinator lost a generation."""
        self.continuity.accept_report(generation, sender)

    def repeat_loss(self) -> None:
        """Report a loss to the others, periodically while it freezes this node."""
        if self.continuity.lost is not None and self.replica.is_lost:
            self.lost = self.continuity.lost
            self.world.report_loss(self, self.continuity.lost)
        self.later(REPORT_LOSS, self.repeat_loss)

    def turn(self) -> None:
        """Carry out the replica's output: apply committed entries, answer clients."""
        self._has_turn = False
        for receiver, quiet in self.quiet_beats.take_outbox():
            self.world.send(self, receiver, quiet)
        ready = self.replica.take_ready()
        if ready.writes:
            self.disk.write(ready.writes)
            self._sync()
        for receiver, message in ready.sends:
            self.world.send(self, receiver, message)
        if ready.swap is not None:
            self.world.ask_swap(self, ready.swap)
        if ready.wants_view:
            self.later(1 * MS, self.look_once)
        self._apply()

    def propose(self) -> None:
        """Do what a client asked for, if this node may."""
        now = self.clock()
        if not self.replica.is_admitting(now):
            return
        number = self.world.count("proposed")
        value = None if number % 5 == 0 else b"%d" % number
        body = encode_body((), ((0, f"k{number * 7 % KEYS:02}", value),))
        at = self.replica.copy.shard_time(Instant(self.world.now))
        self.wake()
        index = self.replica.propose(body, at, now)
        self._waiting[index] = self.replica.copy.entry(index)

    def _sync(self) -> None:
        """Sync everything written, then whatever was written meanwhile."""
        if self._is_syncing:
            return
        self._is_syncing = True
        number, batches = self.replica.copy.taken_number, self.disk.written

        def synced() -> None:
            self._is_syncing = False
            self.disk.sync(batches)
            self.wake()
            self.replica.made_durable(number)
            if self.disk.written:
                self._sync()

        self.later(self.world.sync_time(self), synced)

    def _apply(self) -> None:
        copy = self.replica.copy
        if self.disk.now.allocation is None:
            return
        while self.disk.now.applied < copy.committed:
            index = Index(self.disk.now.applied + 1)
            value = copy.entry(index)
            self.world.saw_commit(self, index, value)
            self.disk.write((Apply(index, rows_of(value), self._trim_to(index)),))
            copy.trimmed(self.disk.now.before_first)
            if self._waiting.pop(index, None) == value and self.replica.has_authority(self.clock()):
                self.world.acknowledge(self, index, value)

    def _trim_to(self, applied: Index) -> Index:
        spare = min(applied - self.world.plan.kept, self.replica.needed_from - 1)
        return Index(max(0, spare))

    # -- the coordinator ------------------------------------------------------------------------

    def keep_alive(self) -> None:
        """Keep the node's session, or begin one."""
        asked_at, session = self.clock(), self.liveness.session
        true_asked_at = self.world.now

        def renewed(answer: Session | None) -> None:
            if answer is None:
                if self.liveness.session == session:
                    self.liveness.end_session()
            elif self.liveness.session in (answer, NO_SESSION):
                end = TIMING.session_end(asked_at)
                self.liveness.begin_session(answer, max(self.liveness.session_end, end))

        self.world.ask(self, lambda: self.world.renew(self.id, session, true_asked_at), renewed)
        self.later(int(KEEPALIVE * self.world.chance.uniform(0.8, 1.2)), self.keep_alive)

    def look(self) -> None:
        """Read the coordinator's state, again and again."""
        self.look_once()
        self.later(int(LOOK * self.world.chance.uniform(0.8, 1.2)), self.look)

    def look_once(self) -> None:
        """Read the coordinator's state."""
        known = self.continuity.known()

        def seen(view: View) -> None:
            configuration, sessions, generation = view
            self.world.saw_view(self, configuration)
            if generation is None:
                self.continuity.lose(known.generation, "it has no record of the cluster")
            else:
                self.continuity.add_generation(generation)
            self.replica.compare(configuration, known)
            self.targets = self.world.targets
            self.liveness.record_sessions(sessions)
            if configuration != self.replica.newest:
                self.wake()
            if configuration is not None:
                self.replica.learn(configuration, self.clock())
            elif (
                self.replica.copy.tip == ORIGIN
                and self.id == self.targets[0]
                and self.world.are_linked(self.id, sessions)
            ):
                self.replica.found(AllocationId(f"{self.world.chance.getrandbits(64):016x}"))

        self.world.ask(self, self.world.view, seen)


def _drawn_drift(plan: Plan, chance: Random) -> float:
    """Return by which share of true time a node's clock runs too fast, below 0 too slow."""
    drawn = chance.uniform(-1, 1)
    return plan.drift * ((1 if drawn > 0 else -1) if plan.drifts_fully else drawn)


def rows_of(value: bytes) -> tuple[tuple[bytes, bytes | None], ...]:
    """Return the rows that an entry puts, or, where there is None, deletes."""
    changes = decode_body(decode_entry(value).body)[1]
    return tuple((key.encode(), row) for _, key, row in changes)
