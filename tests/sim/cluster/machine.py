"""A machine of the simulated cluster, and one life of the node on it."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from random import Random
from typing import Protocol

from rota.core.errors import Refused
from rota.core.model.attempt import AttemptKey
from rota.core.model.fallback_ids import is_of_fallback
from rota.core.model.ids import NodeId, Session, ShardId, job_of
from rota.core.model.job import Consistency, Job
from rota.core.timing.instants import MILLISECOND, SECOND, Duration
from rota.core.vocabulary.changes import Table
from rota.core.vocabulary.shard_configuration import NO_SESSION
from rota.executor.executor import Ended, Reported
from rota.executor.warden.proxies import RightOf
from rota.node.attempts.local_attempts import AttemptExecutors
from rota.node.cluster.known_members import Placement
from rota.node.coordination.coordinator import Member
from rota.node.coordination.testing.simulated_coordinator import (
    Fate,
    SimulatedCoordinator,
    SimulatedServer,
)
from rota.node.peers.death_proof import Left
from rota.node.peers.messages import Dispatch, Sent
from rota.node.runtime.environment import NodeEnvironment
from rota.node.runtime.lifecycle import NodeLifecycle
from rota.node.runtime.wiring import NodeWiring, wire
from rota.node.shards.interfaces import Durable
from rota.node.system.config import NodeConfig
from rota.node.system.disk_guard import FoundSpace, judge
from rota.storage.memory import MemoryStore
from rota.storage.store import StoreDamaged, StoreError
from sim.cluster.chance import SeededEntropy, SkewedClock
from sim.cluster.disk import SimulatedCommit, damage
from sim.cluster.links import Links
from sim.cluster.observer import Observer, WatchedExecutor
from sim.cluster.plan import COPIES, POOLS, Plan
from sim.cluster.webhooks import Receiver
from sim.loop import Gate, VirtualLoop, first_error

MS = MILLISECOND
AWAY_MS = (100, 2_000, 15_000)
"""Times until a node that ended by itself is started again; in the longest its attempts may be lost
and started elsewhere."""

Request = Callable[[NodeWiring], Awaitable[object]]
"""A client's request to a node; it returns the answer, or raises a refusal."""
OnAnswer = Callable[[object], None]


class Surrounding(Protocol):
    """The interface of the world for its machines."""

    loop: VirtualLoop
    chance: Random
    plan: Plan
    links: Links
    server: SimulatedServer
    observer: Observer
    receiver: Receiver
    placement: Placement
    machines: "dict[NodeId, Machine]"
    sent: "deque[tuple[NodeId, NodeId, ShardId | None, Sent]]"
    group: asyncio.TaskGroup

    def note(self, *what: object) -> None:
        """Add an event to the trace."""
        ...

    def after(self, delay: int, action: Callable[[], None]) -> None:
        """Call *action* after *delay* microseconds."""
        ...


class Machine:
    """One machine: a disk, two clocks, and at most one process of a node.

    Args:
        node_id: Id of its node.
        world: The simulated cluster.

    Attributes:
        life: The life of its node; None while it is off.
        life_count: Lives so far.
        power_count: Number of power losses.
        slow_sync: Range of the duration of a sync, in microseconds, if the disk is slow.
        frozen_until: Earliest end of a sync that begins now, in the world's time.
        is_to_fail: Whether its node may end by itself, because of a fault of its disk.
        is_nearly_full: Whether its disk has so little room that the node refuses requests.
        is_full: Whether its disk has no room.
        is_damaged: Whether its disk differs from what was synced; no node may work with it.
        is_leaving: Whether its node is drained for good.
        has_left: Whether its node starts no more.
        pauses: Begin and end of each pause of its node that has ended, in true microseconds.
        began_at: Begin of its newest life, likewise.
    """

    def __init__(self, node_id: NodeId, world: Surrounding) -> None:
        plan, chance = world.plan, world.chance
        self.id = node_id
        self.store = MemoryStore()
        self.store_id = f"{node_id}-1"
        self.clock = SkewedClock(
            lambda: world.loop.now,
            ahead=Duration(chance.randrange(1, 100_000) * SECOND),
            drift_ppm=_drawn_drift(plan, chance),
        )
        self.labels = {"pool": POOLS[len(world.machines) % len(POOLS)]} if plan.has_pools else {}
        self.life: Life | None = None
        self.life_count = 0
        self.power_count = 0
        self.slow_sync: tuple[int, int] | None = None
        self.frozen_until = 0
        self.is_to_fail = False
        self.is_nearly_full = False
        self.is_full = False
        self.is_damaged = False
        self.is_leaving = False
        self.has_left = False
        self.pauses: list[tuple[int, int]] = []
        self.began_at = 0
        self._paused_at = 0
        self._world = world

    @property
    def wiring(self) -> NodeWiring | None:
        """The wiring of its node, while it runs."""
        return self.life.wiring if self.life else None

    @property
    def is_frozen(self) -> bool:
        """Whether no sync of its disk returns."""
        return self._world.loop.now < self.frozen_until

    @property
    def is_paused(self) -> bool:
        """Whether its node is paused; it does not notice."""
        return self.life is not None and not self.life.gate.is_open

    # -- power and process ----------------------------------------------------------------------

    def start(self) -> None:
        """Start its node, unless it runs."""
        if self.life is None and not self.has_left:
            self.life_count += 1
            self.began_at = self._world.loop.now
            self.store.is_full = self.is_to_fail = self.is_full
            self._world.note("start", self.id)
            # A node first ends attempts of its last life (`rota.executor.kernel.orphans`).
            self._world.observer.killed_all(self.id)
            self.life = Life(self._world, self)
            self.life.begin()

    def switch_off(self) -> None:
        """End its node at the end of the world."""
        if self.life is not None:
            self.crash()

    def crash(self) -> None:
        """Cut its power: all or some of the writes that were not synced are lost.

        Its boot clock begins again at 0.
        """
        life, self.life = self.life, None
        assert life is not None
        self._world.note("crash", self.id)
        kept = self._world.chance.randrange(self.store.unsynced_count + 1)
        self.store = self.store.crash(keep=kept)
        life.abort()
        self._world.observer.killed_all(self.id)
        self.power_count += 1
        self.clock.reboot()

    def kill(self) -> None:
        """End its node at once; the machine runs on, and so do the attempts on it."""
        life, self.life = self.life, None
        assert life is not None
        self._world.note("kill", self.id)
        self.store = self.store.crash(keep=self.store.unsynced_count)
        life.abort()

    def pause(self) -> None:
        """Pause its node; it does not notice."""
        assert self.life is not None
        self._world.note("pause", self.id)
        self._paused_at = self._world.loop.now
        self.life.gate.close()

    def resume(self) -> None:
        """Resume its paused node."""
        assert self.life is not None
        self._world.note("resume", self.id)
        self.pauses.append((self._paused_at, self._world.loop.now))
        self.life.gate.open()

    def stop(self) -> None:
        """Ask its node to stop."""
        assert self.life is not None
        self._world.note("stop", self.id)
        self._world.loop.call_soon(self.life.stop, context=self.life.gate.context)

    def leave(self) -> None:
        """Ask its node to stop, and never start it again."""
        self.has_left = True
        self.stop()

    # -- disk, while no node runs on it -----------------------------------------------------------

    def replace_disk(self) -> None:
        """Put an empty disk in the place of its own."""
        self.is_damaged = False
        self.store = MemoryStore()
        self.store_id = f"{self.id}-{self.life_count + 1}"

    def damage_disk(self) -> bool:
        """Damage what was synced; return False if there is nothing yet."""
        chance = self._world.chance
        shard = ShardId(chance.randrange(self._world.plan.shard_count))
        self.is_damaged = damage(self.store, shard, chance)
        return self.is_damaged

    # -- disk, at any time ------------------------------------------------------------------------

    def fill_disk(self) -> None:
        """Leave no room on its disk."""
        self.is_full = self.store.is_full = self.is_to_fail = True

    def make_room(self) -> None:
        """Give its disk room again."""
        self.is_nearly_full = self.is_full = self.store.is_full = False

    def look_for_space(self) -> FoundSpace:
        """Return how much space its disk has left (`rota.node.system.disk_guard`)."""
        return judge(0 if self.is_nearly_full else 1, reserve_bytes=1)

    # -- end of the node by itself ----------------------------------------------------------------

    def ended(self, life: "Life", error: BaseException | None) -> None:
        """Handle the end of a life.

        Raises:
            BaseException: *error*, if no fault of the machine explains it.
        """
        if self.life is not life:
            return  # It crashed; errors of its parts do not matter.
        self.life = None
        self._world.note("ended", self.id, type(error).__name__)
        kept = self._world.chance.randrange(self.store.unsynced_count + 1)
        self.store = self.store.crash(keep=kept)
        if self.is_damaged and isinstance(error, StoreDamaged):
            self.replace_disk()
        elif error is not None and not (self.is_to_fail and isinstance(error, StoreError)):
            raise error
        self._world.after(self._world.chance.choice(AWAY_MS) * MS, self.start)

    # -- messages and requests to the node ------------------------------------------------------

    def receive(self, shard: ShardId | None, sender: NodeId, message: Sent) -> None:
        """Take a message from another node."""
        life = self.life
        if life is not None:
            args = (shard, sender, message)
            self._world.loop.call_soon(life.receive, *args, context=life.gate.context)

    def receive_forged(self, shard: ShardId | None, sender: NodeId, message: Sent) -> None:
        """Take a forged or replayed message."""
        life = self.life
        if life is not None:
            args = (shard, sender, message)
            self._world.loop.call_soon(life.take, *args, context=life.gate.context)

    def receive_death(self, node_id: NodeId, session: Session, left: Left) -> None:
        """Take the proof of death of another node's process."""
        life = self.life
        if life is not None:
            args = (node_id, session, left)
            self._world.loop.call_soon(life.receive_death, *args, context=life.gate.context)

    def ask(self, request: Request, on_answer: OnAnswer) -> None:
        """Take a request of a client; if the node is off it gets no answer."""
        life = self.life
        if life is not None:
            args = (request, on_answer)
            self._world.loop.call_soon(life.serve, *args, context=life.gate.context)

    def sync_time(self) -> int:
        """Draw how long a sync takes, in microseconds."""
        if self.is_frozen:
            return self.frozen_until - self._world.loop.now
        return self._world.chance.randrange(*(self.slow_sync or (200, 3 * MS)))


class Life:
    """One process: the real parts of a node, from its start to its end.

    Args:
        world: The simulated cluster.
        machine: The machine of the process.

    Attributes:
        gate: Pauses and resumes it.
        wiring: None before it runs, and after.
        session: The last one that it began, for its warden's proof of death.
    """

    def __init__(self, world: Surrounding, machine: Machine) -> None:
        self.gate = Gate(f"{machine.id}.{machine.life_count}")
        self.wiring: NodeWiring | None = None
        self.session = NO_SESSION
        self._world = world
        self._machine = machine
        self._number = machine.life_count
        self._is_dead = False
        self._stop = asyncio.Event()
        self._handlers: dict[asyncio.Task[None], None] = {}
        self._task: asyncio.Task[None]
        self._executor: WatchedExecutor | None = None
        self._sent_here: set[AttemptKey] = set()

    def begin(self) -> None:
        """Start the process."""
        self._task = self._world.group.create_task(self._run(), context=self.gate.context)

    def stop(self) -> None:
        """Stop gracefully."""
        self._stop.set()

    def abort(self) -> None:
        """End at once: nothing that it still does has an effect outside of it."""
        self._is_dead = True
        if self._executor is not None:
            self._executor.abort()
        self.gate.open()  # Its tasks have to unwind.
        self._task.cancel()

    def receive(self, shard: ShardId | None, sender: NodeId, message: Sent) -> None:
        """Take a message from another node."""
        if isinstance(message, Dispatch):
            self._sent_here.add(message.order.key)
        self.take(shard, sender, message)

    def take(self, shard: ShardId | None, sender: NodeId, message: Sent) -> None:
        """Give a message to the node, whether true or forged."""
        if self.wiring is not None:
            self.wiring.router.receive(shard, sender, message)

    def receive_death(self, node_id: NodeId, session: Session, left: Left) -> None:
        """Take the proof of death of another node's process."""
        if self.wiring is not None:
            self.wiring.router.saw_death(node_id, session, left)

    def serve(self, request: Request, on_answer: OnAnswer) -> None:
        """Take a request of a client."""
        if self.wiring is not None and not self._stop.is_set():
            task = self._requests.create_task(self._answer(request, on_answer))
            self._handlers[task] = None
            task.add_done_callback(self._handlers.pop)

    # -- inside ---------------------------------------------------------------------------------

    async def _run(self) -> None:
        error: BaseException | None = None
        try:
            await self._live()
        except asyncio.CancelledError:
            if not self._is_dead:
                raise
        except Exception as raised:
            error = first_error(raised)
        finally:
            self.wiring = None
            self.gate.remove()
        self._machine.ended(self, error)

    async def _live(self) -> None:
        lifecycle = NodeLifecycle(self._make())
        assert not self._machine.is_damaged, f"{self._machine.id} works with a damaged disk"
        async with lifecycle.running():
            self.wiring = lifecycle.wiring
            async with asyncio.TaskGroup() as self._requests:
                await lifecycle.run_until(self._stop)
                for task in self._handlers:
                    task.cancel()

    async def _answer(self, request: Request, on_answer: OnAnswer) -> None:
        assert self.wiring is not None
        answer: object
        try:
            answer = await request(self.wiring)
        except Refused as refusal:
            answer = refusal
        if not self._is_dead:
            self._world.links.carry_request(lambda: on_answer(answer))

    def _make(self) -> NodeWiring:
        world, machine, number = self._world, self._machine, self._number
        entropy = SeededEntropy(world.chance.getrandbits(64))

        def commit(shards: Durable, on_sync: Callable[[float], None]) -> SimulatedCommit:
            del on_sync
            return SimulatedCommit(machine.store, shards, machine.sync_time)

        def executors(ended: Ended, reported: Reported, right_of: RightOf) -> AttemptExecutors:
            del reported, right_of
            self._executor = WatchedExecutor(
                world.observer,
                machine.id,
                number,
                ended=ended,
                now=machine.clock.now,
                may_begin=self._may_begin,
            )
            return AttemptExecutors(own={"scripted": self._executor})

        return wire(
            NodeConfig(
                node_id=machine.id,
                shards=world.plan.shard_count,
                slots=world.plan.slots,
                drain=Duration(SECOND),
                stand_in_after=world.plan.stand_in_after,
                labels=machine.labels,
            ),
            machine.clock,
            entropy,
            NodeEnvironment(
                lock=f"{machine.id}/{machine.power_count}",
                incarnation=number,
                member=Member(
                    node_id=machine.id,
                    store_id=machine.store_id,
                    address=machine.id,
                    labels=machine.labels,
                ),
                store=machine.store,
                shard_count=world.plan.shard_count,
                commit=commit,
                coordinator=SimulatedCoordinator(
                    world.server, machine.id, link=self, entropy=entropy
                ),
                network=self,
                placement=world.placement,
                copies=COPIES,
                timing=world.plan.timing,
                executors=executors,
                on_session=self._begun,
                look_for_space=machine.look_for_space,
                post_webhook=world.receiver.post,
                compare_every=world.plan.compare_every,
            ),
        )

    def _begun(self, session: Session) -> None:
        self.session = session

    def _may_begin(self, key: AttemptKey) -> bool:
        """Return True if this node has authority for an attempt, or the attempt was sent to it."""
        assert self.wiring is not None
        shard = self.wiring.context.shards.of_id(key.execution_id)
        if is_of_fallback(key):
            job = shard.file.record(Table.JOB, job_of(key.execution_id))
            return not isinstance(job, Job) or job.spec.consistency is Consistency.AVAILABLE
        now = self._machine.clock.elapsed()
        return key in self._sent_here or shard.replica.has_authority(now)

    # -- ends of the links ----------------------------------------------------------------------

    @property
    def peers(self) -> tuple[NodeId, ...]:
        """The other machines whose processes run (`rota.node.peers.network.Network`)."""
        others = self._world.machines.items()
        return tuple(
            node_id
            for node_id, machine in others
            if node_id != self._machine.id
            and machine.life is not None
            and not self._world.links.cuts
            & {(self._machine.id, node_id), (node_id, self._machine.id)}
        )

    def send(self, receiver: NodeId, shard: ShardId | None, message: Sent) -> None:
        """Send a message (`rota.node.peers.network.Network`)."""
        if not self._is_dead:
            sender, target = self._machine.id, self._world.machines[receiver]
            self._world.sent.append((sender, receiver, shard, message))
            self._world.links.carry(
                sender, receiver, lambda: target.receive(shard, sender, message)
            )

    def fate(self, node_id: NodeId, call: str) -> Fate:
        """Return the fate of a call to the coordinator."""
        return Fate(is_refused=True) if self._is_dead else self._world.links.fate(node_id, call)


def _drawn_drift(plan: Plan, chance: Random) -> int:
    """Return the drift of a machine's monotonic clock, in millionths."""
    drawn = chance.randrange(-plan.drift_ppm, plan.drift_ppm + 1)
    if not plan.drifts_fully:
        return drawn
    return plan.drift_ppm if drawn > 0 else -plan.drift_ppm
