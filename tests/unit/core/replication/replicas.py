"""Three replicas whose messages, syncs and coordinator requests are controlled by the test.

cluster = Cluster()                 a is the primary under epoch 1; b and c count too
cluster.replica("a").propose(...)   or cluster.propose("a"), with an entry of any content
cluster.deliver(Append, to="b")     delivers the messages in flight, once
cluster.settle()                    delivers and syncs until no message is left
cluster.pass_time(...)              advances the clocks and ticks the nodes
"""

from collections.abc import Mapping
from dataclasses import dataclass

from rota.core.model.ids import AllocationId, Epoch, Index, NodeId, Session, ShardId
from rota.core.replication.authority.liveness import Liveness
from rota.core.replication.coordinator_continuity import CoordinatorContinuity
from rota.core.replication.messages import Message, QuietBeat, QuietMessage, QuietResponse
from rota.core.replication.primary import Copies, Primary
from rota.core.replication.primary_claims import Claim, claimed_epoch
from rota.core.replication.quiet_beats import QuietBeats
from rota.core.replication.replica import Replica
from rota.core.replication.timeouts import Timing
from rota.core.replication.transfer_limits import TransferLimits
from rota.core.timing.instants import MILLISECOND, SECOND, Duration, Instant, later
from rota.core.vocabulary.codec import decode_body, encode_body
from rota.core.vocabulary.journal import decode_entry
from rota.core.vocabulary.shard_configuration import NO_SESSION, Configuration, Copy, Swap, Swapped
from sim.cluster.chance import SeededEntropy
from sim.protocol.coordinator import Coordination
from sim.protocol.disk import Apply, Disk

SHARD = ShardId(0)
TIMING = Timing()
TICK = Duration(100 * MILLISECOND)
A, B, C, D = NodeId("a"), NodeId("b"), NodeId("c"), NodeId("d")


@dataclass(frozen=True, slots=True)
class Envelope:
    """A message in flight."""

    sender: NodeId
    receiver: NodeId
    message: Message | QuietMessage


class Member:
    """One node.

    Attributes:
        swaps: Requests to the coordinator without an answer.
        transfers: The limits of its process, which the shards of a node share.
    """

    def __init__(self, node_id: NodeId, transfers: TransferLimits) -> None:
        self.id = node_id
        self.transfers = transfers
        self.disk = Disk()
        self.lost: int | None = None
        self.swaps: list[Swap] = []
        self.liveness: Liveness
        self.continuity: CoordinatorContinuity
        self.quiet_beats: QuietBeats
        self.replica: Replica


class Cluster:
    """Nodes a, b and c, whose copies count, and d, which has none.

    Attributes:
        in_flight: Messages that were sent and not delivered, oldest first.
        is_syncing: Whether writes are durable at once.
        targets: The nodes that are to have copies; an argument of every tick.
        has_news: Whether a node learns a configuration before it gets messages under it.
    """

    def __init__(
        self,
        copies: Copies | None = None,
        sync: str = "abc",
        transfers: Mapping[str, TransferLimits] | None = None,
        seed: int = 1,
    ) -> None:
        self.now = Instant(100 * SECOND)
        self.copies = copies or Copies()
        self.coordination = Coordination(ttl=Duration(3600 * SECOND))
        self.in_flight: list[Envelope] = []
        self.is_syncing = self.has_news = True
        self.targets = tuple(NodeId(name) for name in sync)
        shared = transfers or {name: TransferLimits() for name in "abcd"}
        self.members = {name: Member(NodeId(name), shared[name]) for name in "abcd"}
        self._entropy = SeededEntropy(seed)
        self._forced: list[Configuration] = []
        for name in sync:
            self.members[name].disk.now.allocation = AllocationId(f"{name}1")
            self.members[name].disk.durable.allocation = AllocationId(f"{name}1")
        for name in "abcd":
            self.start(name)
        self.force(
            Configuration(
                epoch=Epoch(1),
                primary=A,
                primary_session=self.member("a").liveness.session,
                sync=tuple(Copy(NodeId(name), AllocationId(f"{name}1")) for name in sync),
            )
        )
        self.see()
        self.settle()

    # -- nodes ----------------------------------------------------------------------------------

    def member(self, name: str) -> Member:
        """Return a node."""
        return self.members[name]

    def replica(self, name: str) -> Replica:
        """Return a node's replica."""
        return self.members[name].replica

    def primary(self, name: str) -> Primary:
        """Return a node's replica in the role of the primary."""
        primary = self.members[name].replica.primary
        assert primary is not None
        return primary

    def start(self, name: str) -> None:
        """Start a node's process, in a new session."""
        member = self.member(name)
        member.swaps.clear()
        member.liveness = Liveness(member.id, born_at=self.now)
        member.continuity = CoordinatorContinuity(lost=member.lost)
        member.quiet_beats = QuietBeats(member.liveness, TIMING)
        member.replica = Replica(
            SHARD,
            member.disk.now.stored(),
            member.disk,
            liveness=member.liveness,
            continuity=member.continuity,
            timing=TIMING,
            transfers=member.transfers,
            quiet_beats=member.quiet_beats,
            copies=self.copies,
        )
        self.begin_session(name)

    def restart(self, name: str) -> None:
        """Restart a node's process; writes that are not durable are lost."""
        self.member(name).disk.crash(lambda _: 0)
        self.member(name).lost = self.member(name).continuity.lost
        self.member(name).transfers = TransferLimits()
        self.start(name)

    def begin_session(self, name: str) -> None:
        """Begin a session of a node that lasts longer than the test."""
        liveness = self.member(name).liveness
        begun = self.coordination.begin_session(liveness.node_id, self.now)
        assert begun is not None
        liveness.session = begun
        liveness.session_end = later(self.now, Duration(3600 * SECOND))

    def end_session(self, name: str) -> Session:
        """End a node's session at the coordinator alone, and return it."""
        session = self.member(name).liveness.session
        self.coordination.end_session(NodeId(name), session)
        return session

    def see(self, *names: str) -> None:
        """Have some nodes, or all, read the coordinator's state."""
        live = self.coordination.last_sessions()
        for name in names or "abcd":
            member = self.member(name)
            member.liveness.sessions = live
            member.replica.compare(self.coordination.current, member.continuity.known())
            if self.coordination.current is not None:
                member.replica.learn(self.coordination.current, self.now)
            self.turn(name)

    # -- events -----------------------------------------------------------------------------------

    def turn(self, name: str) -> None:
        """Carry out a replica's writes, sends and requests, and apply committed entries."""
        member = self.member(name)
        quiet = member.quiet_beats.take_outbox()
        self.in_flight += [Envelope(member.id, to, message) for to, message in quiet]
        ready = member.replica.take_ready()
        if ready.writes:
            member.disk.write(ready.writes)
        self.in_flight += [Envelope(member.id, to, message) for to, message in ready.sends]
        if ready.swap is not None:
            member.swaps.append(ready.swap)
        if self.is_syncing and member.disk.written:
            self.sync(name)
        copy = member.replica.copy
        while copy.allocation is not None and member.disk.now.applied < copy.committed:
            index = Index(member.disk.now.applied + 1)
            changes = decode_body(decode_entry(copy.entry(index)).body)[1]
            rows = tuple((key.encode(), row) for _, key, row in changes)
            member.disk.write((Apply(index, rows, Index(0)),))
            member.disk.sync(member.disk.written if self.is_syncing else 0)
        if member.replica.is_handing_over:
            member.replica.released(self.now)
            if not member.replica.is_handing_over:
                self.turn(name)

    def sync(self, name: str) -> None:
        """Make what a node has written durable."""
        member = self.member(name)
        member.disk.sync(member.disk.written)
        member.replica.made_durable(member.replica.copy.taken_number)
        self.turn(name)

    def propose(self, name: str, key: str = "key", value: bytes = b"value") -> Index:
        """Have the primary append an entry that puts a row."""
        replica = self.replica(name)
        body = encode_body((), ((0, key, value),))
        index = replica.propose(body, replica.copy.shard_time(self.now), self.now)
        self.turn(name)
        return index

    def deliver(
        self, *kinds: type[Message | QuietMessage], to: str = "abcd", of: str = "abcd"
    ) -> list[Message | QuietMessage]:
        """Deliver and return the matching messages in flight, but none that they cause."""
        chosen = [
            envelope
            for envelope in self.in_flight
            if envelope.receiver in to
            and envelope.sender in of
            and (not kinds or isinstance(envelope.message, kinds))
        ]
        self.in_flight = [envelope for envelope in self.in_flight if envelope not in chosen]
        for envelope in chosen:
            self.hand(envelope)
        return [envelope.message for envelope in chosen]

    def hand(self, envelope: Envelope) -> None:
        """Deliver a message, which may have been delivered before."""
        member = self.member(envelope.receiver)
        if self.has_news and isinstance(envelope.message, Claim):
            self._learn_epoch(member, claimed_epoch(envelope.message))
        match envelope.message:
            case QuietBeat() as beat:
                member.quiet_beats.receive(beat, envelope.sender, self.now)
            case QuietResponse() as response:
                member.quiet_beats.receive_response(response, envelope.sender, self.now)
            case message:
                member.replica.receive(message, envelope.sender, self.now)
        self.turn(envelope.receiver)

    def take_in(self, name: str) -> None:
        """Give a node the messages of replicas in flight, without a turn, and leave them there."""
        for envelope in self.in_flight:
            if not isinstance(envelope.message, QuietMessage):
                self.replica(name).receive(envelope.message, envelope.sender, self.now)

    def _learn_epoch(self, member: Member, epoch: Epoch) -> None:
        """Have a node learn the configuration of an epoch, if there ever was one."""
        for configuration in (*self._forced, *self.coordination.history):
            if configuration.epoch == epoch:
                member.replica.learn(configuration, self.now)

    def settle(self, among: str = "abcd") -> None:
        """Deliver messages between some nodes until none is left; lose the others."""
        while self.deliver(to=among, of=among):
            pass
        self.in_flight.clear()

    def tick(self, *names: str) -> None:
        """Have some nodes, or all, tick once."""
        for name in names or "abcd":
            self.member(name).quiet_beats.tick(self.now)
            self.replica(name).tick(self.now, self._entropy.draw(), self.targets)
            self.turn(name)

    def pass_time(self, duration: int, *, among: str = "abcd") -> None:
        """Let time pass for some nodes, which reach one another and the coordinator."""
        end = self.now + duration
        while self.now < end:
            self.now = Instant(min(end, self.now + TICK))
            self.tick(*among)
            self.answer(*among)
            self.settle(among)

    def sleep(self, duration: int) -> None:
        """Let time pass while nothing happens."""
        self.now = Instant(self.now + duration)

    # -- the coordinator ------------------------------------------------------------------------

    def answer(self, *names: str) -> list[Swapped]:
        """Carry out the requests of some nodes, answer them, and return the answers."""
        outcomes: list[Swapped] = []
        for name in names or "abcd":
            member = self.member(name)
            swaps, member.swaps = member.swaps, []
            for swap in swaps:
                outcomes.append(self.coordination.swap(swap, self.now))
                member.replica.answered(swap, outcomes[-1], self.now)
                self.turn(name)
        return outcomes

    def lose_answer(self, name: str, *, is_done: bool) -> None:
        """Carry out a node's only swap or not, and lose the answer."""
        member = self.member(name)
        (swap,) = member.swaps
        member.swaps.clear()
        if is_done:
            assert self.coordination.swap(swap, self.now).is_done
        member.replica.answered(swap, None, self.now)
        self.turn(name)

    def force(self, configuration: Configuration) -> None:
        """Put a configuration in force that no node requested."""
        self.coordination.current = configuration
        self._forced.append(configuration)

    @property
    def configuration(self) -> Configuration:
        """The configuration in force."""
        assert self.coordination.current is not None
        return self.coordination.current

    def has_authority(self, name: str) -> bool:
        """Return True if a node may act now."""
        return self.replica(name).has_authority(self.now)

    def committed(self, name: str) -> Index:
        """Return the index of the last entry that is committed at a node."""
        return self.replica(name).copy.committed

    def lose_session(self, name: str) -> None:
        """End a node's session at the coordinator and at the node."""
        self.end_session(name)
        self.member(name).liveness.session = NO_SESSION
