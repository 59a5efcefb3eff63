"""Three replicas driven by hand: what is delivered, made durable or asked, and when, is chosen.

cluster = Cluster()                 a is the primary under epoch 1; b and c count too
cluster.replica("a").propose(...)   or cluster.propose("a"), with an entry of no interest
cluster.deliver(Append, to="b")     hands over what is in the mail, once
cluster.settle()                    hands over all there is, and makes it durable, to the end
cluster.pass_time(...)              lets clocks go on, and nodes tick
"""

from collections.abc import Mapping
from dataclasses import dataclass

from rota.core.model.ids import AllocationId, Epoch, Index, NodeId, Session, ShardId
from rota.core.replication.authority.liveness import Liveness
from rota.core.replication.coordinator_continuity import CoordinatorContinuity
from rota.core.replication.messages import Message
from rota.core.replication.primary import Copies, Primary
from rota.core.replication.primary_claims import Claim, claimed_epoch
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
class Letter:
    """A message on its way."""

    sender: NodeId
    receiver: NodeId
    message: Message


class Member:
    """One node.

    Attributes:
        swaps: What it asked of the coordinator and has no answer to.
        transfers: Those of its process; several clusters may share them, as the shards of a node.
    """

    def __init__(self, node_id: NodeId, transfers: TransferLimits) -> None:
        self.id = node_id
        self.transfers = transfers
        self.disk = Disk()
        self.lost: int | None = None
        self.swaps: list[Swap] = []
        self.liveness: Liveness
        self.continuity: CoordinatorContinuity
        self.replica: Replica


class Cluster:
    """Nodes a, b and c, whose copies count, and d, which has none.

    Attributes:
        mail: What was sent and not delivered, oldest first.
        is_syncing: Whether what is written is durable at once.
        targets: Given to every tick.
        has_news: Whether the news of a configuration is there before messages under it.
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
        self.mail: list[Letter] = []
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
        """Return a node's duty as the primary."""
        primary = self.members[name].replica.primary
        assert primary is not None
        return primary

    def start(self, name: str) -> None:
        """Begin a life of a node, in a new session."""
        member = self.member(name)
        member.swaps.clear()
        member.liveness = Liveness(member.id, born_at=self.now)
        member.continuity = CoordinatorContinuity(lost=member.lost)
        member.replica = Replica(
            SHARD,
            member.disk.now.stored(),
            member.disk,
            liveness=member.liveness,
            continuity=member.continuity,
            timing=TIMING,
            transfers=member.transfers,
            copies=self.copies,
        )
        self.begin_session(name)

    def restart(self, name: str) -> None:
        """End a node's life, lose what is not durable, and begin the next."""
        self.member(name).disk.crash(lambda _: 0)
        self.member(name).lost = self.member(name).continuity.lost
        self.member(name).transfers = TransferLimits()
        self.start(name)

    def begin_session(self, name: str) -> None:
        """Begin a session of a node, as long as the test lasts."""
        liveness = self.member(name).liveness
        liveness.session = self.coordination.begin_session(liveness.node_id, self.now)
        liveness.session_end = later(self.now, Duration(3600 * SECOND))

    def end_session(self, name: str) -> Session:
        """End a node's session, whether it knows that or not, and return it."""
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

    # -- what happens ---------------------------------------------------------------------------

    def turn(self, name: str) -> None:
        """Do what a replica wants done: write, send, ask; and apply what is committed."""
        member = self.member(name)
        ready = member.replica.take_ready()
        if ready.writes:
            member.disk.write(ready.writes)
        self.mail += [Letter(member.id, to, message) for to, message in ready.sends]
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

    def deliver(self, *kinds: type[Message], to: str = "abcd", of: str = "abcd") -> list[Message]:
        """Deliver what is in the mail now and fits, not what is sent upon it; and return it."""
        chosen = [
            letter
            for letter in self.mail
            if letter.receiver in to
            and letter.sender in of
            and (not kinds or isinstance(letter.message, kinds))
        ]
        self.mail = [letter for letter in self.mail if letter not in chosen]
        for letter in chosen:
            self.hand(letter)
        return [letter.message for letter in chosen]

    def hand(self, letter: Letter) -> None:
        """Deliver a message, perhaps once more."""
        member = self.member(letter.receiver)
        if self.has_news and isinstance(letter.message, Claim):
            self._bring_news(member, claimed_epoch(letter.message))
        member.replica.receive(letter.message, letter.sender, self.now)
        self.turn(letter.receiver)

    def _bring_news(self, member: Member, epoch: Epoch) -> None:
        """Have a node learn the configuration of an epoch, if there ever was one."""
        for configuration in (*self._forced, *self.coordination.history):
            if configuration.epoch == epoch:
                member.replica.learn(configuration, self.now)

    def settle(self, among: str = "abcd") -> None:
        """Deliver everything between some nodes until nothing is left; the rest is lost."""
        while self.deliver(to=among, of=among):
            pass
        self.mail.clear()

    def tick(self, *names: str) -> None:
        """Have some nodes, or all, tick once."""
        for name in names or "abcd":
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
        """Carry out what some nodes asked for, tell them the outcome, and return the outcomes."""
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
        """Have a node's only swap be done or not, and nobody know."""
        member = self.member(name)
        (swap,) = member.swaps
        member.swaps.clear()
        if is_done:
            assert self.coordination.swap(swap, self.now).is_done
        member.replica.answered(swap, None, self.now)
        self.turn(name)

    def force(self, configuration: Configuration) -> None:
        """Have a configuration be in force that nobody asked for."""
        self.coordination.current = configuration
        self._forced.append(configuration)

    @property
    def configuration(self) -> Configuration:
        """The configuration in force."""
        assert self.coordination.current is not None
        return self.coordination.current

    def has_authority(self, name: str) -> bool:
        """Tell whether a node may act now."""
        return self.replica(name).has_authority(self.now)

    def committed(self, name: str) -> Index:
        """Return up to where a node knows entries to be committed."""
        return self.replica(name).copy.committed

    def lose_session(self, name: str) -> None:
        """Have a node's session be over, and the node know it."""
        self.end_session(name)
        self.member(name).liveness.session = NO_SESSION
