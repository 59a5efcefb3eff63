"""Effects of fallback shards, carried out on this node alone."""

from msgspec.structs import replace

from rota.core.model.attempt import AttemptKey, Ending, Outcome
from rota.core.model.execution import FINAL_EXECUTION_STATES, TaskStatus
from rota.core.model.fallback_ids import outward
from rota.core.model.ids import NodeId
from rota.core.timing.instants import Duration
from rota.core.vocabulary.commands import Command, FinishAttempt, StartTask
from rota.core.vocabulary.decision import FreeSlots
from rota.core.vocabulary.effects import (
    ClearTimer,
    Deliver,
    Effect,
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
from rota.node.attempts.local_attempts import LocalAttempts
from rota.node.attempts.slots import SlotTable
from rota.node.fallback.stand_ins import StandIns
from rota.node.shards.fallback_shards import FallbackShards
from rota.node.shards.shard import Shard
from rota.node.shards.timers import Timers
from rota.node.system.clock import Clock


class FallbackEffects:
    """The effect handler of fallback shards (`rota.node.shards.interfaces.EffectHandler`).

    Args:
        node_id: This node.
        fallback_shards: The fallback shards of this node.
        stand_ins: The stand-ins of this node.
        attempts: The attempts of this node.
        slot_table: The slots of this node.
        timers: The timers of this node.
        clock: The clock of this node.
    """

    def __init__(
        self,
        node_id: NodeId,
        fallback_shards: FallbackShards,
        stand_ins: StandIns,
        *,
        attempts: LocalAttempts,
        slot_table: SlotTable,
        timers: Timers,
        clock: Clock,
    ) -> None:
        self._node_id = node_id
        self._fallback_shards = fallback_shards
        self._stand_ins = stand_ins
        self._attempts = attempts
        self._slot_table = slot_table
        self._timers = timers
        self._clock = clock

    def opened(self, fallback: Shard) -> None:
        """Begin to act for a fallback shard; record attempts that do not run here as lost."""
        self._timers.forget(fallback.id)
        for execution_id, tasks in fallback.state.tasks.items():
            for task in tasks.values():
                key = AttemptKey(execution_id, task.name, len(task.attempts))
                is_here = outward(key) in self._attempts.orders
                if task.status is TaskStatus.RUNNING and not is_here:
                    self._lose(fallback, key)
        self._stand_ins.fallback_opened(fallback)

    def _lose(self, fallback: Shard, key: AttemptKey) -> None:
        attempt = fallback.state.tasks[key.execution_id][key.task].attempts[-1]
        ending = Ending(
            outcome=Outcome.LOST,
            started_at=attempt.placed_at,
            finished_at=fallback.time(self._clock),
            reason=f"node {self._node_id} ended during the attempt",
        )
        command = FinishAttempt(attempt=key, token=attempt.token, ending=ending)
        self._fallback_shards.submit(fallback, command)

    def unreadable(self, fallback: Shard) -> None:
        """Do nothing, since the reason is already logged."""

    def closed(self, fallback: Shard) -> None:
        """Stop acting for a fallback shard."""
        self._timers.forget(fallback.id)
        self._stand_ins.forget_waiting(fallback)

    def unstarted(self, count: int) -> None:
        """Free the slots of attempts that are never launched."""
        self._slot_table.freed(count)

    def slots_for(self, command: Command) -> FreeSlots:
        """Return the slots in which *command* may start attempts, which are those of this node."""
        del command
        return self._slot_table.own_slots()

    def decided(self, command: Command, started: int) -> None:
        """Take the slots of the attempts that *command* starts."""
        del command
        self._slot_table.take(started)

    def committed(self, took: Duration) -> None:
        """Do nothing, since commit times are measured without fallback shards."""

    def perform(self, fallback: Shard, effect: Effect) -> None:
        """Carry out an effect."""
        match effect:
            case Launch(order=order):
                self._attempts.launch(replace(order, key=outward(order.key)))
            case Stop(attempt=attempt):
                self._attempts.stop(outward(attempt))
            case SetTimer():
                self._timers.set(fallback.id, effect, fallback.time(self._clock))
            case ClearTimer():
                self._timers.clear(fallback.id, effect)
            case WaitForSlot(execution_id=execution_id, task=task):
                command = StartTask(execution_id=execution_id, task=task)
                self._stand_ins.wait_for_slot(fallback, command)
            case Publish(status=status) if status in FINAL_EXECUTION_STATES:
                self._stand_ins.execution_ended(fallback)
            case Publish() | PublishJob() | PublishFires() | Deliver():
                pass  # The shard publishes these after reconciliation.
            case SendWebhook() | PublishHook():
                pass  # Jobs have no hooks here (`rota.core.decide.fallback.follow_job`).
