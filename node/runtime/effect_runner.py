"""Effects of the shards of a node, carried out after their commit.

It implements `rota.node.shards.interfaces.EffectHandler` for shards;
`rota.node.fallback.fallback_effects` does so for fallback shards.
"""

import asyncio

from prometheus_client import Counter

from rota.core.model.execution import FINAL_EXECUTION_STATES, ExecutionStatus, TaskStatus
from rota.core.model.hook import HookOutcome
from rota.core.model.ids import NodeId, instant_of
from rota.core.model.ledger import FireOutcome
from rota.core.timing.instants import SECOND, Duration
from rota.core.vocabulary.commands import Command, FireAtStartup
from rota.core.vocabulary.decision import FreeSlots
from rota.core.vocabulary.effects import (
    ClearTimer,
    Deliver,
    Effect,
    JobEvent,
    Launch,
    Publish,
    PublishFires,
    PublishHook,
    PublishJob,
    SendWebhook,
    SetTimer,
    Stop,
    WaitForSlot,
)
from rota.node.attempts.slots import SlotTable
from rota.node.cluster.shard_metrics import BACKUP, PRIMARY
from rota.node.fallback.stand_ins import StandIns
from rota.node.runtime.api_wiring import FeedParts
from rota.node.runtime.attempt_wiring import AttemptParts
from rota.node.shards.local_shards import Shards
from rota.node.shards.shard import Shard
from rota.node.shards.timers import Timers
from rota.node.system.clock import Clock
from rota.node.system.metrics import Metrics
from rota.node.webhooks.webhook_sender import WebhookSender


class EffectRunner:
    """The effect handler of the shards of one node.

    Args:
        node_id: This node.
        shards: The shards of this node.
        slot_table: The slots of this node.
        attempts: The parts for attempts, here and on other nodes, and for outbox items.
        stand_ins: Notified of shards that open.
        timers: The timers of the shards.
        webhooks: Sends the webhooks of the shards.
        feeds: Get the ends of executions, and all events that clients may follow.
        metrics: The metrics of this node.
        clock: The clock of this node.
        is_alone: Whether there are no other nodes.

    Attributes:
        all_open: Set once all shards are open on this node at the same time, or unreadable.
    """

    def __init__(
        self,
        node_id: NodeId,
        shards: Shards,
        *,
        slot_table: SlotTable,
        attempts: AttemptParts,
        stand_ins: StandIns,
        timers: Timers,
        webhooks: WebhookSender,
        feeds: FeedParts,
        metrics: Metrics,
        clock: Clock,
        is_alone: bool,
    ) -> None:
        self._node_id = node_id
        self._shards = shards
        self._slot_table = slot_table
        self._attempts = attempts.local
        self._lending = attempts.lending
        self._outbound = attempts.outbound
        self._inbound = attempts.inbound
        self._stand_ins = stand_ins
        self._timers = timers
        self._outbox_relay = attempts.outbox_relay
        self._webhooks = webhooks
        self._waiters = feeds.waiters
        self._events = feeds.events
        self._metrics = metrics
        self._clock = clock
        self._is_alone = is_alone
        # Looked up once: each lookup of a counter by its label takes microseconds.
        self._ended: dict[ExecutionStatus | TaskStatus, Counter] = {
            status: metrics.executions.labels(status.value) for status in FINAL_EXECUTION_STATES
        }
        self._fires = {each: metrics.fires.labels(each.value) for each in FireOutcome}
        self._hooks = {each: metrics.hooks.labels(each.value) for each in HookOutcome}
        self._open_count = self._unreadable_count = 0
        self.all_open = asyncio.Event()

    def opened(self, shard: Shard) -> None:
        """Begin to carry out the effects of a shard."""
        # These timers are of an earlier time as primary; outstanding ones are soon set again.
        self._timers.forget(shard.id)
        self._metrics.role_changes.labels(PRIMARY).inc()
        self._inbound.opened(shard)
        self._outbound.opened(shard)
        self._stand_ins.shard_opened(shard)
        if self._is_alone:
            self._shards.submit(shard, FireAtStartup(epoch=shard.epoch))
        self._open_count += 1
        self._check_all_open()

    def unreadable(self, shard: Shard) -> None:
        """Count a shard that stays closed, so that a single node serves its other shards."""
        del shard
        self._unreadable_count += 1
        self._check_all_open()

    def _check_all_open(self) -> None:
        if self._open_count + self._unreadable_count >= len(self._shards):
            self.all_open.set()

    def closed(self, shard: Shard) -> None:
        """Stop the timers and deliveries of a closed shard, and start no more of its tasks.

        Attempts that run here continue and keep their slots.
        """
        self._metrics.role_changes.labels(BACKUP).inc()
        self._open_count -= 1
        self._timers.forget(shard.id)
        self._outbox_relay.closed(shard)
        self._webhooks.closed(shard)
        self._outbound.closed(shard)
        of_id = self._shards.of_id
        self._waiters.leave(lambda each: of_id(each) is shard, shard.elsewhere())
        self._attempts.closed(shard)

    def unstarted(self, count: int) -> None:
        """Free the slots of attempts that are never launched, for waiting tasks."""
        self._slot_table.freed(count)
        self._lending.fill()

    def slots_for(self, command: Command) -> FreeSlots:
        """Return the slots in which *command* may start attempts."""
        return self._slot_table.slots_for(command)

    def decided(self, command: Command, started: int) -> None:
        """Take the slots of the *started* attempts."""
        unneeded = self._slot_table.decided(command, started)
        if unneeded is not None:
            self._lending.unneeded(unneeded)

    def committed(self, took: Duration) -> None:
        """Record the duration of the commit of an entry."""
        self._metrics.commit.observe(took / SECOND)

    def perform(self, shard: Shard, effect: Effect) -> None:
        """Carry out an effect."""
        match effect:
            case Publish():  # First, because most effects are.
                self._published(effect)
            case Launch(order=order, node_id=node_id) if node_id == self._node_id:
                self._attempts.launch(order)
            case Launch(order=order, node_id=node_id):
                self._outbound.launch(shard, order, node_id)
            case PublishFires(outcome=outcome, count=count):
                self._fires[outcome].inc(count)
                if outcome is not FireOutcome.FIRED:
                    self._events.publish(effect)
            case PublishJob():
                self._events.publish(effect)
                if effect.event is JobEvent.POSSIBLE_DUPLICATE:
                    self._metrics.possible_duplicates.inc()
            case SetTimer():
                self._timers.set(shard.id, effect, shard.time(self._clock))
            case ClearTimer():
                self._timers.clear(shard.id, effect)
            case WaitForSlot():
                self._attempts.wait_for_slot(shard, effect)
            case Stop(attempt=attempt) if attempt in self._attempts.orders:
                self._attempts.stop(attempt)
            case Stop(attempt=attempt):
                self._outbound.stop(shard, attempt)
            case Deliver(item=item):
                self._outbox_relay.send(shard, item)
            case SendWebhook(notification=notification):
                self._webhooks.send(shard, notification)
            case PublishHook(outcome=outcome):
                self._hooks[outcome].inc()
                self._events.publish(effect)

    def _published(self, event: Publish) -> None:
        self._events.publish(event)
        if event.task:
            if event.status is TaskStatus.CANCELLED:
                self._attempts.forget_wait(event.execution_id, event.task)
        elif event.status is ExecutionStatus.RUNNING:
            late_us = self._clock.now() - instant_of(event.execution_id)
            self._metrics.lateness.observe(max(0, late_us) / SECOND)
        elif (counter := self._ended.get(event.status)) is not None:
            counter.inc()
            self._waiters.publish(event)
