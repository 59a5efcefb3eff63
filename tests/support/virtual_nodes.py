"""Several nodes without API in one process, on virtual time: on disks and a network of the test's.

A test says which node is to be the primary of which shard, what is lost on the way, who is cut off
from whom, and when a process ends.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from functools import partial

from msgspec.structs import replace

from rota.core.model.attempt import AttemptKey, Ending, Order
from rota.core.model.execution import Execution, Task
from rota.core.model.fallback_ids import is_of_fallback
from rota.core.model.ids import ExecutionId, JobId, NodeId, Session, ShardId
from rota.core.replication.primary import Copies
from rota.core.replication.timeouts import Timing
from rota.core.timing.instants import MILLISECOND, SECOND, Duration, Instant
from rota.core.vocabulary.disk_space import DiskSpace
from rota.core.vocabulary.shard_configuration import NO_SESSION, Swap
from rota.executor.executor import Ended, Reported
from rota.executor.secret_values import NO_SECRETS, SecretValues
from rota.executor.testing.scripted_executor import ScriptedExecutor
from rota.executor.warden.proxies import RightOf
from rota.node.attempts.local_attempts import AttemptExecutors
from rota.node.coordination.agreed_state import CoordinationState
from rota.node.coordination.coordinator import Member
from rota.node.coordination.testing.simulated_coordinator import (
    Fate,
    SimulatedCoordinator,
    SimulatedServer,
)
from rota.node.peers.messages import Sent
from rota.node.recovery.inventory import Inventory
from rota.node.recovery.plan import Finding, plan_of
from rota.node.runtime.environment import NodeEnvironment
from rota.node.runtime.lifecycle import NodeLifecycle
from rota.node.runtime.wiring import NodeWiring, wire
from rota.node.shards.copy_comparison import COMPARE_EVERY
from rota.node.shards.interfaces import Durable
from rota.node.shards.local_shards import Shards
from rota.node.shards.shard import Shard
from rota.node.system.config import NodeConfig
from rota.node.system.disk_guard import judge
from rota.storage.memory import MemoryStore
from rota.storage.store import StoreFull
from sim.cluster.chance import SeededEntropy, SkewedClock
from sim.cluster.disk import SimulatedCommit
from sim.loop import Gate, VirtualLoop
from support.inventories import hashes_of, held

A, B, C = NodeId("a"), NodeId("b"), NodeId("c")
SHARDS = 2
TIMING = Timing(
    session=Duration(2 * SECOND),
    peer_lease=Duration(SECOND),
    beat=Duration(200 * MILLISECOND),
    silence=Duration(SECOND),
    attempt_lease=Duration(6 * SECOND),
    kill_grace=Duration(SECOND),
)
FENCED_BY_S = 10.0
"""Upper bound of the expiry of a session and an attempt's lease, and of the kill."""
LOST_BY_S = 20.0
"""Upper bound of the time until the primary records the attempt as lost."""
SYNC_US = 500
ARRIVES_S = 0.001
REFUSED = frozenset({"swap", "register", "change", "begin_session"})
"""The calls that etcd refuses at its quota; renewals and reads still succeed."""

Loses = Callable[[NodeId, NodeId, Sent], bool]
"""Predicate: True if a message from one node to another is lost."""


class PlayingExecutor(ScriptedExecutor):
    """Plays attempts, and keeps *playing* and *began* up to date: those of all nodes."""

    def __init__(
        self,
        playing: list[AttemptKey],
        began: Counter[AttemptKey],
        *,
        ended: Ended,
        now: Callable[[], Instant],
    ) -> None:
        self._all = playing
        self._began = began
        self.mine: list[AttemptKey] = []

        def over(key: AttemptKey, ending: Ending) -> None:
            self._forget(key)
            ended(key, ending)

        super().__init__(ended=over, now=now)

    def launch(self, order: Order, secrets: SecretValues = NO_SECRETS) -> None:
        """Play it; nowhere may there be another attempt of the same task, but on a side."""
        if not is_of_fallback(order.key):
            others = [each for each in self._all if not is_of_fallback(each)]
            assert not any(other[:2] == order.key[:2] for other in others), (order.key, others)
        self._all.append(order.key)
        self._began[order.key] += 1
        self.mine.append(order.key)
        super().launch(order, secrets)

    def forget_all(self) -> None:
        """Act as if nothing were being played any more."""
        for key in list(self.mine):
            self._forget(key)

    def _forget(self, key: AttemptKey) -> None:
        if key in self.mine:
            self._all.remove(key)
            self.mine.remove(key)


RESERVE_BYTES = 2
FREE_BYTES = {DiskSpace.AMPLE: 2, DiskSpace.LOW: 1, DiskSpace.SCARCE: 0}


class Node:
    """A node: one process after the other on one disk."""

    def __init__(self, node_id: NodeId, nodes: "Nodes") -> None:
        self.id = node_id
        self.wiring: NodeWiring | None = None
        self.is_cut_off = False
        self.refusal = ""
        """Why the coordinator refuses this node's writes, as etcd does at its quota; empty: writes
        succeed."""
        self.loses_watch_steps = False
        """Whether all steps of the coordinator's watch are lost."""
        self.on_call: Callable[[str], None] = lambda call: None
        """Called with the name of each call to the coordinator, just before it."""
        self.sync_us = SYNC_US
        self.space = DiskSpace.AMPLE
        self.clock = SkewedClock(
            lambda: nodes.loop.now, ahead=Duration(3_600 * SECOND), drift_ppm=0
        )
        self._nodes = nodes
        self._store = MemoryStore()
        self._life = 0
        self._store_id: str = node_id
        self._store_made_at = Instant(0)
        self._is_dead = False
        self._executor: PlayingExecutor | None = None
        self._is_stopping = asyncio.Event()
        self._gate: Gate
        self._task: asyncio.Task[None]

    @property
    def running(self) -> NodeWiring:
        """Its wiring; only while its process runs."""
        assert self.wiring is not None
        return self.wiring

    @property
    def shards(self) -> Shards:
        """Its shards."""
        return self.running.context.shards

    @property
    def store(self) -> MemoryStore:
        """The content of its disk."""
        return self._store

    @property
    def playing(self) -> list[AttemptKey]:
        """The attempts that run on it, also after the end of its process."""
        return self._executor.mine if self._executor else []

    def forget_playing(self) -> None:
        """End its attempts without a report."""
        if self._executor is not None:
            self._executor.forget_all()

    async def start(self) -> None:
        """Start a process, after the end of all attempts of the previous one."""
        self.forget_playing()
        self._life += 1
        self._is_dead = False
        self._is_stopping.clear()
        self._gate = Gate(f"{self.id}.{self._life}")
        self._task = self._nodes.group.create_task(self._live(), context=self._gate.context)
        await until(lambda: self.wiring is not None)

    async def end(self) -> None:
        """End the process at once; its attempts run on until the next process starts."""
        self._is_dead = True
        self.wiring, self._store = None, self._store.crash()
        self._task.cancel()
        await asyncio.wait([self._task])
        self._gate.remove()

    def lose_disk(self) -> None:
        """Let the next process start with an empty disk."""
        self._store = MemoryStore()

    def fill_disk(self) -> None:
        """Let the next write fail for want of space, which ends the process."""
        self._store.is_full = True

    def wipe(self) -> None:
        """Give the node an empty disk, a new store id and an incarnation below all earlier ones."""
        self.forget_playing()
        self._store = MemoryStore()
        self._store_id += "'"

    def replace_directory(self) -> Callable[[], None]:
        """Give the next process an empty disk; return a function that ends the old attempts."""
        assert self._executor is not None
        end_attempts, self._executor = self._executor.forget_all, None
        self._store = MemoryStore()
        self._store_id += "'"
        self._store_made_at = self.clock.now()
        return end_attempts

    @property
    def _incarnation(self) -> int:
        return self._life if self._store_id == self.id else 0

    def stop(self) -> None:
        """Let the process stop in an orderly way."""
        self._is_stopping.set()

    async def ended_by_itself(self) -> None:
        """Return when the process has ended that was asked to."""
        await asyncio.wait([self._task])
        self.wiring, self._store = None, self._store.crash()
        self._gate.remove()

    async def pause(self, duration_s: float) -> None:
        """Pause the process for some time, which it does not notice."""
        self._gate.close()
        await asyncio.sleep(duration_s)
        self._gate.open()

    async def _live(self) -> None:
        lifecycle = NodeLifecycle(self._make())
        with suppress(asyncio.CancelledError, StoreFull):
            async with lifecycle.running():
                self.wiring = lifecycle.wiring
                await lifecycle.run_until(self._is_stopping)

    def _make(self) -> NodeWiring:
        nodes, store, clock = self._nodes, self._store, self.clock
        entropy = SeededEntropy(ord(self.id) << 16 | self._life)

        def commit(shards: Durable, on_sync: Callable[[float], None]) -> SimulatedCommit:
            del on_sync
            return SimulatedCommit(store, shards, lambda: self.sync_us)

        def executors(ended: Ended, reported: Reported, right_of: RightOf) -> AttemptExecutors:
            del reported, right_of
            self._executor = PlayingExecutor(nodes.playing, nodes.began, ended=ended, now=clock.now)
            return AttemptExecutors(own={"scripted": self._executor})

        return wire(
            NodeConfig(
                node_id=self.id,
                shards=SHARDS,
                slots=nodes.slots,
                decide_ahead=nodes.decide_ahead,
                labels=nodes.labels.get(self.id, {}),
                drain=Duration(0),
            ),
            clock,
            entropy,
            NodeEnvironment(
                lock=f"lock of {self.id}",
                store_made_at=self._store_made_at,
                incarnation=self._incarnation,
                member=Member(
                    node_id=self.id,
                    store_id=self._store_id,
                    address=self.id,
                    labels=nodes.labels.get(self.id, {}),
                ),
                store=store,
                shard_count=SHARDS,
                commit=commit,
                coordinator=SimulatedCoordinator(nodes.server, self.id, link=self, entropy=entropy),
                network=self,
                cluster_id=nodes.cluster_id,
                placement=lambda members, shard: tuple(
                    each for each in nodes.wanted[shard] if each in members
                ),
                copies=nodes.copies,
                timing=TIMING,
                executors=executors,
                look_for_space=lambda: judge(FREE_BYTES[self.space], RESERVE_BYTES),
                compare_every=nodes.compare_every,
            ),
        )

    @property
    def peers(self) -> tuple[NodeId, ...]:
        """The nodes that messages reach (`rota.node.peers.network.Network`)."""
        return self._nodes.linked_to(self.id)

    def send(self, receiver: NodeId, shard: ShardId | None, message: Sent) -> None:
        """Send a message (`rota.node.peers.network.Network`)."""
        if not self._is_dead:
            self._nodes.carry(self.id, receiver, shard, message)

    def receive(self, shard: ShardId | None, sender: NodeId, message: Sent) -> None:
        """Receive a message, in the context of this node's process."""
        if self.wiring is not None:
            call = self.wiring.router.receive
            self._nodes.loop.call_soon(call, shard, sender, message, context=self._gate.context)

    def fate(self, node_id: NodeId, call: str) -> Fate:
        """Let calls to the coordinator through, unless the node is dead or cut off."""
        del node_id
        self.on_call(call)
        is_refused = self.is_cut_off or self._is_dead
        return Fate(
            is_refused=is_refused,
            refusal=self.refusal if call in REFUSED else "",
            arrives_s=None if call == "watch" and self.loses_watch_steps else ARRIVES_S,
            returns_s=self._nodes.coordinator_returns_s,
        )


class Nodes:
    """Three nodes, the network between them, and the coordinator.

    Attributes:
        wanted: The nodes that are to have copies of each shard, its primary first.
        loses: Which messages are lost.
        delays_s: How long each copy of a message takes that arrives.
        cuts: From whom to whom nothing gets.
        coordinator_returns_s: How long an answer of the coordinator takes; None: it is lost.
        playing: The attempts that run anywhere.
        began: How often each attempt began.
        slots: Of each node.
        decide_ahead: How long before it is due each decides a fire.
        labels: Of each node that has some.
        copies: Of each shard, as each node sees it.
        cluster_id: That nodes find at the coordinator; None if they are not to look at it.
        compare_every: How long a node takes to compare the copies of all of its shards.
    """

    def __init__(self, loop: VirtualLoop, group: asyncio.TaskGroup) -> None:
        self.loop = loop
        self.group = group
        self.server = SimulatedServer(SkewedClock(lambda: loop.now, ahead=Duration(0), drift_ppm=0))
        self.wanted: dict[ShardId, tuple[NodeId, ...]] = {
            ShardId(number): (A, B, C) for number in range(SHARDS)
        }
        self.loses: Loses = lambda sender, receiver, message: False
        self.delays_s: Callable[[Sent], tuple[float, ...]] = lambda message: (ARRIVES_S,)
        self.cuts: set[tuple[NodeId, NodeId]] = set()
        self.coordinator_returns_s: float | None = ARRIVES_S
        self.playing: list[AttemptKey] = []
        self.began: Counter[AttemptKey] = Counter()
        self.slots = 8
        self.decide_ahead = Duration(0)
        self.labels: dict[NodeId, dict[str, str]] = {}
        self.copies = Copies()
        self.cluster_id: str | None = None
        self.compare_every = COMPARE_EVERY
        self._moves = 0
        self._nodes = {node_id: Node(node_id, self) for node_id in (A, B, C)}

    def __getitem__(self, node_id: NodeId) -> Node:
        return self._nodes[node_id]

    async def start(self) -> None:
        """Start all, and wait until each shard is where it is wanted."""
        for node in self._nodes.values():
            await node.start()
        await self.settle()

    def recover(self) -> None:
        """Make the writes of a recovery that has the inventories of all running nodes."""
        running = [node for node in self._nodes.values() if node.wiring is not None]
        inventories = {
            node.id: Inventory(
                lost=node.running.context.continuity.lost,
                shards={shard.id: held(shard.replica) for shard in node.shards},
            )
            for node in running
        }
        without = self._nodes.keys() - inventories.keys()
        hashes = hashes_of(lambda node_id, shard: self[node_id].shards[shard].replica)
        plan = plan_of(
            self.server.state.view(),
            inventories,
            hashes,
            without=without,
            least=self.copies.least,
            count=SHARDS,
        )
        assert not hashes.wanted
        if self.server.state.cluster is not None:
            self.server.state.cluster = replace(
                self.server.state.cluster, generation=plan.generation
            )
        fresh = [each.shard for each in plan.shards if each.finding is Finding.NEW]
        running[0].running.context.membership.found(fresh)
        for shard in plan.shards:
            if shard.finding is Finding.NEW:
                continue
            assert shard.fresh is not None, shard
            swap = Swap(
                shard=shard.shard,
                expected=shard.expected,
                fresh=shard.fresh,
                by=running[0].id,
                session=self.session_of(running[0].id) or NO_SESSION,
                is_repair=True,
            )
            [swapped] = self.server.change(partial(CoordinationState.swap, swaps=[swap]))
            assert swapped.is_done

    def stop(self) -> None:
        """Let all nodes stop."""
        for node in self._nodes.values():
            node.stop()

    async def settle(self) -> None:
        """Wait until each shard has all of its copies and is open where it is wanted."""
        await until(lambda: all(self._is_settled(shard) for shard in self.wanted))

    async def move(self, shard: ShardId, *wanted: NodeId) -> None:
        """Move a shard's primary and its other copies to *wanted*, and wait for the end."""
        self.wanted[shard] = wanted
        # Any change of a record but that of a key has the nodes look where copies belong.
        self._moves += 1
        member = Member(node_id=A, store_id=A, address=A, version=str(self._moves))
        self.server.change(lambda state: state.register(member))
        await self.settle()

    def _is_settled(self, number: ShardId) -> bool:
        first, *_ = wanted = self.wanted[number]
        wiring = self[first].wiring
        if wiring is None or not wiring.context.shards[number].is_open:
            return False
        newest = wiring.context.shards[number].replica.newest
        return newest is not None and set(newest.members) == set(wanted)

    def primary(self, number: ShardId) -> Shard | None:
        """Return the shard on the node where it is open, with the newest epoch; None if nowhere."""
        found = [
            node.wiring.context.shards[number]
            for node in self._nodes.values()
            if node.wiring is not None and node.wiring.context.shards[number].is_open
        ]
        return max(found, key=lambda shard: shard.epoch, default=None)

    # -- the network ----------------------------------------------------------------------------

    def carry(self, sender: NodeId, receiver: NodeId, shard: ShardId | None, message: Sent) -> None:
        """Carry a message."""
        if self.loses(sender, receiver, message) or (sender, receiver) in self.cuts:
            return
        receive = self[receiver].receive
        for delay_s in self.delays_s(message):
            args = (shard, sender, message)
            self.loop.call_later(delay_s, receive, *args, context=self.loop.context)

    def linked_to(self, node_id: NodeId) -> tuple[NodeId, ...]:
        """Return the other nodes that run and are not cut from *node_id*."""
        return tuple(
            other
            for other, node in self._nodes.items()
            if other != node_id
            and node.wiring is not None
            and not self.cuts & {(node_id, other), (other, node_id)}
        )

    def cut(self, node_id: NodeId, *others: NodeId) -> None:
        """Lose all messages between a node and *others*."""
        self.cuts |= {pair for other in others for pair in ((node_id, other), (other, node_id))}

    def mend(self) -> None:
        """End all partitions."""
        self.cuts.clear()
        for node in self._nodes.values():
            node.is_cut_off = False

    def link(self, one: NodeId, other: NodeId) -> None:
        """End the partition between two nodes, and signal the new link to both."""
        self.cuts -= {(one, other), (other, one)}
        self[one].running.router.linked(other)
        self[other].running.router.linked(one)

    # -- sessions and executions ----------------------------------------------------------------

    def session_of(self, node_id: NodeId) -> Session | None:
        """Return a node's session, as recorded by the coordinator."""
        life = self.server.state.view().lives.get(node_id)
        return life.session if life else None

    def shard_of(self, any_id: JobId | ExecutionId) -> ShardId:
        """Return an id's shard."""
        return next(n for n in self._nodes.values() if n.wiring).shards.of_id(any_id).id

    def task(self, execution_id: ExecutionId) -> Task | None:
        """Return the only task of an unfinished execution, from its primary."""
        shard = self.primary(self.shard_of(execution_id))
        tasks = shard.state.tasks.get(execution_id) if shard else None
        return tasks["main"] if tasks else None

    def past(self, execution_id: ExecutionId) -> tuple[Execution, Task] | None:
        """Return a finished execution and its only task."""
        shard = self.primary(self.shard_of(execution_id))
        for node in self._nodes.values():
            if shard and node.wiring and node.shards[shard.id] is shard:
                history = node.wiring.context.history
                execution = history.execution(shard.id, execution_id)
                if execution is not None:
                    [task] = history.tasks(shard.id, execution_id).values()
                    return execution, task
        return None

    async def ended(self, execution_id: ExecutionId) -> tuple[Execution, Task]:
        """Return an execution and its only task when it has ended."""
        await until(lambda: self.past(execution_id) is not None)
        past = self.past(execution_id)
        assert past is not None
        return past


async def until(is_so: Callable[[], bool], timeout_s: float = 120) -> None:
    """Wait until *is_so*, on whatever time the loop has."""
    async with asyncio.timeout(timeout_s):
        while not is_so():  # noqa: ASYNC110 - of many things, few of which have an event
            await asyncio.sleep(0.005)


def run(
    story: Callable[[Nodes], Coroutine[None, None, None]],
    *,
    slots: int = 8,
    decide_ahead: Duration = Duration(0),
    labels: Mapping[NodeId, dict[str, str]] | None = None,
    copies: Copies = Copies(),  # noqa: B008 - it is frozen
    compare_every: Duration = COMPARE_EVERY,
) -> None:
    """Start three nodes, let *story* happen to them, and end them."""
    loop = VirtualLoop()  # type: ignore[abstract]  # nodes ask nothing else of it

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            nodes = Nodes(loop, group)
            nodes.slots = slots
            nodes.decide_ahead = decide_ahead
            nodes.labels |= labels or {}
            nodes.copies = copies
            nodes.compare_every = compare_every
            for shard, wanted in nodes.wanted.items():
                nodes.wanted[shard] = wanted[: copies.wanted]
            await nodes.start()
            await story(nodes)
            nodes.mend()
            nodes.stop()

    loop.run(main())
