"""What turns inside a node, put together, started and stopped: shards, timers, attempts.

It knows nothing of how a node is reached: real nodes give it RocksDB, etcd and sockets, a
simulation gives it its own of each.
"""

import asyncio
import math
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial

from rota.core.decide.outbox import OUTBOX_ITEMS_MAX
from rota.core.model.fallback_ids import is_fallback_shard
from rota.core.model.ids import ShardId
from rota.core.replication.authority.clock_skew import ClockSkew
from rota.core.replication.authority.lease_deadlines import NEVER, outlasting
from rota.core.replication.authority.liveness import Liveness
from rota.core.timing.instants import SECOND, Duration, Instant, later
from rota.core.vocabulary.commands import TimerCommand
from rota.core.vocabulary.decision import Limits
from rota.executor.executor import Executor
from rota.node.attempts.attempt_leases import AttemptLeases
from rota.node.attempts.delivery import Delivery
from rota.node.attempts.inbound_attempts import InboundAttempts
from rota.node.attempts.local_attempts import LocalAttempts
from rota.node.attempts.outbound_attempts import OutboundAttempts
from rota.node.attempts.outbox_relay import OutboxRelay
from rota.node.attempts.slot_lending import SlotLending
from rota.node.attempts.slots import SlotTable
from rota.node.cluster.away_detector import AwayDetector
from rota.node.cluster.drain import Drain
from rota.node.cluster.etcd_guard import EtcdGuard
from rota.node.cluster.health_gossip import HealthGossip
from rota.node.cluster.membership import Membership
from rota.node.cluster.self_check import SelfCheck
from rota.node.cluster.shard_metrics import measure_shards
from rota.node.context import NodeContext, Unready
from rota.node.fallback.reconciliation import Reconciliation
from rota.node.fallback.stand_ins import StandIns
from rota.node.feeds.completion_waiters import CompletionWaiters
from rota.node.feeds.events import Events
from rota.node.runtime.effect_runner import EffectRunner
from rota.node.runtime.environment import NodeEnvironment
from rota.node.runtime.housekeeping import Housekeeping
from rota.node.runtime.message_router import MessageRouter
from rota.node.shards.copy_comparison import CopyComparison
from rota.node.shards.fallback_shards import FallbackShards
from rota.node.shards.local_shards import Shards
from rota.node.shards.seams import Commit
from rota.node.shards.shard import Shard
from rota.node.shards.timers import Timers
from rota.node.system.background import beside
from rota.node.system.clock import Clock
from rota.node.system.config import NodeConfig
from rota.node.system.disk_guard import FoundSpace
from rota.node.system.entropy import Entropy
from rota.storage.continuity import stored_continuity
from rota.storage.group_commit import CLOSE_TIMEOUT_S
from rota.storage.history import History

PACE_S = 0.5
UNANSWERED_S = 0.2
"""For what is to be committed when a node stops that had no answers while it left."""
"""How often what nobody has answered is brought again, and leases of attempts are asked for."""
LOOKS_PER_LEASE = 10
"""At least: several answers may be lost before a lease is."""


class NodeWiring:
    """What turns inside a node.

    Args:
        config: Its settings.
        clock: Its two times.
        entropy: Its randomness.
        environment: What it is put into.
        unready: Why the node does not serve for reasons of its own, or None.

    Attributes:
        context: For those who look into them.
        fallback_shards: What this node does as a stand-in, for those who look into it.
        router: What takes messages of other nodes; whoever carries them calls it.
        digests: The comparison of copies, for those who look into it.
    """

    def __init__(
        self,
        config: NodeConfig,
        clock: Clock,
        entropy: Entropy,
        environment: NodeEnvironment,
        *,
        unready: Unready | None = None,
    ) -> None:
        self._config = config
        self._clock = clock
        self._environment = environment
        self._node_unready = unready or _always_ready
        self._liveness = Liveness(config.node_id, born_at=clock.elapsed())
        self._is_alone = environment.copies.wanted == 1
        self._commits_within_s = CLOSE_TIMEOUT_S
        self._metrics = environment.metrics
        clock_skew = ClockSkew(config.clock_skew_max)
        self._self_check = SelfCheck(
            clock_skew, self._liveness, clock, self._metrics, is_alone=self._is_alone
        )
        self._slot_table = SlotTable(config.slots, self._liveness, config.labels)
        self._gossip = HealthGossip(
            clock_skew,
            self._liveness,
            clock,
            every=environment.timing.beat,
            lendable=self._slot_table.lendable,
        )
        self._continuity = stored_continuity(environment.store)
        self._shards = Shards(
            environment.store,
            environment.shard_count,
            liveness=self._liveness,
            continuity=self._continuity,
            timing=environment.timing,
            copies=environment.copies,
            clock=clock,
            entropy=entropy,
            limits=Limits(executions=config.executions_max),
            ahead=config.decide_ahead,
            look_at_calendar=self._self_check.may_believe_calendar,
        )
        self.fallback_shards = FallbackShards(
            environment.store,
            config.node_id,
            timing=environment.timing,
            clock=clock,
            entropy=entropy,
            look_at_calendar=self._self_check.may_believe_calendar,
        )
        self._shards.beside = self.fallback_shards
        self._membership = Membership(
            environment.coordinator,
            environment.network,
            environment.member,
            self._shards,
            lock=environment.lock,
            liveness=self._liveness,
            continuity=self._continuity,
            self_check=self._self_check,
            gossip=self._gossip,
            timing=environment.timing,
            placement=environment.placement,
            meet=environment.meet,
            begun=environment.begun,
            clock=clock,
            is_alone=self._is_alone,
            cluster_id=environment.cluster_id,
        )
        self._drain = Drain(
            self._shards, self._liveness, environment.copies, clock, self._membership.tell_at_once
        )
        self._away_detector = AwayDetector(
            self._membership,
            environment.coordinator,
            copies=environment.copies.wanted,
            delay=config.repair_delay,
            clock=clock,
        )
        self._timers = Timers(
            environment.store,
            clock,
            self._alarm,
            may_fire=self._self_check.may_believe_calendar,
            on_failed=self._shards.fail,
        )
        self._delivery = Delivery(
            self._shards,
            self.fallback_shards,
            environment.network,
            config.node_id,
            first_number=entropy.draw(),
        )
        self._outbox_relay = OutboxRelay(self._shards, self._delivery)
        self._lending = SlotLending(
            self._slot_table,
            self._shards,
            self._membership,
            environment.network,
            free_of=lambda node_id: self._gossip.free.get(node_id, 0),
            clock=clock,
            incarnation=environment.incarnation,
            first_number=entropy.draw(),
        )
        self._attempts = LocalAttempts(
            self._shards, self._delivery, clock, self._slot_table, self._lending
        )
        self._stand_ins = StandIns(
            self._shards,
            self.fallback_shards,
            self._attempts,
            Reconciliation(
                config.node_id,
                self.fallback_shards,
                self._delivery,
                History(environment.store, range(0)),
            ),
            self._slot_table,
            self._timers,
            environment.network,
            node_id=config.node_id,
            timing=environment.timing,
            after=config.stand_in_after,
            clock=clock,
        )
        new_until = _new_until(environment, clock)
        self._leases = AttemptLeases(
            self._attempts,
            self._shards,
            environment.network,
            liveness=self._liveness,
            timing=environment.timing,
            clock=clock,
            incarnation=environment.incarnation,
            new_until=new_until,
            allow=environment.warden.allow if environment.warden else lambda until: None,
        )
        self._outbound = OutboundAttempts(
            self._attempts,
            self._shards,
            environment.network,
            liveness=self._liveness,
            timing=environment.timing,
            clock=clock,
            store_of=self._membership.store_of,
            new_until=new_until,
        )
        self._inbound = InboundAttempts(
            self._attempts,
            self._lending,
            self._leases,
            self._shards,
            self._membership,
            timing=environment.timing,
            clock=clock,
        )
        self._waiters = CompletionWaiters()
        self._events = Events(f"{entropy.draw() >> 32:08x}", clock)
        self._effect_runner = EffectRunner(
            config.node_id,
            self._shards,
            slot_table=self._slot_table,
            attempts=self._attempts,
            lending=self._lending,
            outbound=self._outbound,
            inbound=self._inbound,
            stand_ins=self._stand_ins,
            timers=self._timers,
            outbox_relay=self._outbox_relay,
            waiters=self._waiters,
            events=self._events,
            metrics=self._metrics,
            clock=clock,
            is_alone=self._is_alone,
        )
        self.digests = CopyComparison(
            self._shards,
            environment.store,
            environment.network,
            config.node_id,
            clock=clock,
            entropy=entropy,
            every=environment.compare_every,
        )
        self.router = MessageRouter(
            self._shards,
            self._membership,
            gossip=self._gossip,
            delivery=self._delivery,
            outbound=self._outbound,
            leases=self._leases,
            inbound=self._inbound,
            lending=self._lending,
            stand_ins=self._stand_ins,
            digests=self.digests,
        )
        history = History(environment.store, self._shards.numbers)
        self._housekeeping = Housekeeping(
            self._shards,
            self.fallback_shards,
            self._timers,
            history,
            keep_for=config.history,
            look_for_space=environment.look_for_space,
            see_space=self._see_space,
            clock=clock,
        )
        self._etcd = EtcdGuard(environment.look_at_etcd) if environment.look_at_etcd else None
        self.context = NodeContext(
            config=config,
            clock=clock,
            shards=self._shards,
            attempts=self._attempts,
            history=history,
            waiters=self._waiters,
            events=self._events,
            metrics=self._metrics,
            membership=self._membership,
            continuity=self._continuity,
            coordinator=environment.coordinator,
            copies=environment.copies,
            others=environment.others,
            etcd=self._etcd,
            unready=self._unready,
        )
        self._failure: asyncio.Future[None]
        self._executors: Mapping[str, Executor] = {}
        self._to_close: list[Executor] = []
        """Those whose attempts are not to outlive this process."""

    # -- life -----------------------------------------------------------------------------------

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Start everything but the API; stop it in reverse order."""
        self._failure = asyncio.get_running_loop().create_future()
        commit = self._environment.commit(self._shards, self._metrics.sync.observe)
        self._measure(commit)
        try:
            self._begin_executors()
            self._shards.start(self._effect_runner, self._membership, commit, failure=self._failure)
            self._stand_ins.start(commit, failure=self._failure)
            async with (
                beside(self._or_fail(self._membership.run)),
                beside(self._or_fail(self._look_after_attempts)),
                beside(self._or_fail(self._keep_warden)),
                beside(self._or_fail(self._look_for_absent)),
                beside(self._or_fail(self._compare_copies)),
                beside(self._or_fail(self._look_at_etcd)),
            ):
                if self._is_alone:
                    await self._started()
                try:
                    yield
                except BaseException:
                    await self._abandon()
                    raise
                await self._wind_down()
        finally:
            commit.close()
        if self._failure.done():
            # Only now, while it stopped: whatever waited was refused, and nobody else tells.
            self._failure.result()

    def _begin_executors(self) -> None:
        attempts, warden = self._attempts, self._environment.warden
        self._executors = own = self._environment.executors(attempts.ended)
        self._to_close = list(own.values())
        if warden is None:
            attempts.use(own)
            return
        its = warden.executors(attempts.ended, attempts.reported, self._leases.right_of)
        self._executors = {**its, **own}
        if self._config.ends_attempts:
            self._to_close += its.values()
        attempts.use(self._executors, lasting=its.keys(), forget=warden.forget)
        attempts.adopt(warden.held)

    async def _keep_warden(self) -> None:
        if self._environment.warden is not None:
            await self._environment.warden.run()

    async def _look_for_absent(self) -> None:
        if not self._is_alone:
            await self._away_detector.run()

    async def _compare_copies(self) -> None:
        if not self._is_alone:
            await self.digests.run()

    async def _look_at_etcd(self) -> None:
        if self._etcd is not None:
            await self._etcd.run()

    async def _started(self) -> None:
        """Return when this node decides for all of its shards; raise what prevents it."""
        all_open = self._effect_runner.all_open
        self._failure.add_done_callback(lambda _: all_open.set())
        await all_open.wait()
        if self._failure.done():
            self._failure.result()

    async def run_until(self, stop: asyncio.Event) -> None:
        """Do the housekeeping until *stop*, and until others have what they can take of this node.

        Or until something makes the node unfit.
        """
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self._or_fail(work))
                for work in (
                    self._housekeeping.guard_disk,
                    partial(self._housekeeping.keep, self._executors.values()),
                )
            ]
            self._failure.add_done_callback(lambda _: stop.set())
            await stop.wait()
            if not self._is_alone and not await self._drain.leave(self._failure.done):
                self._commits_within_s = UNANSWERED_S
            self._waiters.close()
            self._events.close()
            for task in tasks:
                task.cancel()
        if self._failure.done():
            self._failure.result()

    async def _or_fail(self, work: Callable[[], Coroutine[None, None, None]]) -> None:
        """Do housekeeping; an error there ends the node as one of the journal does (R25)."""
        try:
            await work()
        except ExceptionGroup as group:
            self._shards.fail(group.exceptions[0])  # The others only say that they were cancelled.
        except Exception as error:
            self._shards.fail(error)

    async def _wind_down(self) -> None:
        self._timers.close()
        self._slot_table.slots = 0
        await self._await_attempts()
        self._leases.tick()  # What outlives this process has all of its time from now on.
        self._attempts.close()
        for executor in self._to_close:
            await executor.close()
        # The disk hangs, which closing the commit then tells; or other copies do not answer.
        with suppress(TimeoutError):
            async with asyncio.timeout(self._commits_within_s):
                await self._shards.stop()
                await self.fallback_shards.stop()

    async def _abandon(self) -> None:
        """Kill what runs here: once this node has failed nobody ends it when its time is over."""
        self._attempts.close()
        for executor in self._to_close:
            await executor.close(Duration(0))

    async def _await_attempts(self) -> None:
        """Let attempts end by themselves, for a while; those that do not are lost and run again.

        Those that outlive this process are not waited for.
        """
        deadline = self._clock.elapsed() + self._config.drain
        while self._ending_count() and self._clock.elapsed() < deadline:
            if self._failure.done():
                return
            await asyncio.sleep(0.02)

    def _ending_count(self) -> int:
        """Return how many attempts end with this process."""
        attempts = self._attempts
        return attempts.running if self._config.ends_attempts else attempts.passing

    def _see_space(self, found: FoundSpace) -> None:
        self._shards.see_space(found)
        self._self_check.see_space(found.space)

    # -- what goes off by itself ----------------------------------------------------------------

    def _alarm(self, shard: ShardId, command: TimerCommand) -> None:
        if is_fallback_shard(shard):
            self._stand_ins.alarm(shard, command)
        elif not self._stand_ins.puts_off(self._shards[shard], command):
            self._shards.submit(self._shards[shard], command)

    async def _look_after_attempts(self) -> None:
        """Bring what is not yet brought, and see to the time that attempts have."""
        pace_s = min(PACE_S, self._environment.timing.attempt_lease / SECOND / LOOKS_PER_LEASE)
        while True:
            await asyncio.sleep(pace_s)
            self._delivery.tick()
            self._attempts.tick()
            self._leases.tick()
            if not self._is_alone:
                self._stand_ins.tick()
                self._lending.tick()
                self._inbound.tick()
                self._outbound.tick()

    # -- what is told of it ---------------------------------------------------------------------

    def _unready(self, *, exclude_cluster: bool = False) -> str | None:
        refusal = self._shards.refusal
        warden = self._environment.warden
        return (
            (None if exclude_cluster else self._shards.why_frozen)
            or self._node_unready(exclude_cluster=exclude_cluster)
            or self._self_check.why_unfit
            or (refusal.detail if refusal else None)
            or (warden.why_away if warden else None)
            or (None if exclude_cluster else self._why_unreadable())
        )

    @property
    def question_count(self) -> int:
        """Questions for leases whose answers would be taken."""
        return self._leases.question_count

    def _why_unreadable(self) -> str | None:
        faults = [shard.fault for shard in self._shards if shard.is_unreadable]
        return f"{len(faults)} shards stay closed: {faults[0]}" if faults else None

    def _measure(self, commit: Commit) -> None:
        shards, slot_table, gauge = self._shards, self._slot_table, self._metrics.gauge
        measure_shards(self._metrics, shards, self._membership, self._config.node_id)
        gauge("rota_inbox", lambda: shards.inbox_length)
        gauge("rota_executions_unfinished", lambda: shards.execution_count)
        gauge("rota_jobs", lambda: sum(len(each.state.jobs) for each in shards.opened))
        gauge("rota_slots_used", lambda: slot_table.used)
        gauge("rota_tasks_waiting", lambda: slot_table.waiting)
        gauge("rota_waits", lambda: self._waiters.count)
        gauge("rota_deliveries", lambda: len(self._delivery))
        gauge("rota_outbox_items", lambda: sum(len(each.state.outbox) for each in shards.opened))
        gauge("rota_outboxes_full", lambda: sum(map(_full_count, shards.opened)))
        gauge("rota_shards_frozen", lambda: shards.frozen_count)
        gauge("rota_stand_ins", lambda: self._stand_ins.standing_count)
        gauge("rota_fallback_shards", lambda: len(self.fallback_shards.open_numbers))
        gauge("rota_event_readers", lambda: self._events.reader_count)
        gauge("rota_timers", lambda: len(self._timers))
        etcd = self._etcd
        gauge("rota_etcd_bytes", lambda: etcd.used_bytes if etcd else math.nan)
        gauge("rota_etcd_quota_bytes", lambda: etcd.quota_bytes if etcd else math.nan)
        gauge("rota_store_bytes", self._environment.store.size_bytes)
        gauge("rota_ready", lambda: float(self._unready() is None))
        counter = self._metrics.counter
        counter("rota_events_total", lambda: self._events.count)
        counter("rota_decisions_total", lambda: shards.decision_count)
        counter("rota_attempts_unsandboxed_total", lambda: self._attempts.unsandboxed_count)
        counter("rota_journal_entries_total", lambda: shards.entry_count)
        counter("rota_journal_syncs_total", lambda: commit.sync_count)
        self._metrics.counters("rota_peer_messages_refused_total", lambda: self.router.refused)
        gauge("rota_copies_diverged", lambda: len(self.digests.diverged))
        self._metrics.counters("rota_state_comparisons_total", lambda: self.digests.results)


def _always_ready(*, exclude_cluster: bool = False) -> str | None:
    del exclude_cluster
    return None


def _full_count(shard: Shard) -> int:
    return sum(count >= OUTBOX_ITEMS_MAX for count in shard.state.outbox_counts.values())


def _new_until(environment: NodeEnvironment, clock: Clock) -> Instant:
    """Return until when a warden of an earlier data directory of this node may run attempts.

    The age is by the calendar, which may have been set: where it makes no sense, all of the time is
    waited for once more.
    """
    lasting = outlasting(environment.timing)
    is_new = clock.now() - environment.store_made_at < lasting
    return later(clock.elapsed(), lasting) if is_new else NEVER
