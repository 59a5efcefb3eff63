"""Wiring of the timers of a node: the alarm submits the command of a due timer.

A job that waits for the end of its namespace's pause is tried again without a decision, since each
decision with an effect is an entry of the journal.
"""

from rota.core.decide.dependencies import PAUSED_AGAIN
from rota.core.model.fallback_ids import is_fallback_shard
from rota.core.model.ids import JobId, ShardId
from rota.core.timing.instants import Instant
from rota.core.vocabulary.commands import RunIfMet, TimerCommand
from rota.core.vocabulary.effects import SetTimer, Timescale
from rota.node.fallback.stand_ins import StandIns
from rota.node.namespaces.namespaces import Namespaces
from rota.node.runtime.foundation import NodeFoundation
from rota.node.shards.local_shards import Shards
from rota.node.shards.shard import Shard
from rota.node.shards.timers import Alarm, Timers


def wire_timers(base: NodeFoundation, shards: Shards, stand_ins: StandIns) -> Timers:
    """Return the timers of the shards and of the fallback shards."""
    return Timers(
        base.environment.store,
        base.clock,
        alarm_of(shards, stand_ins, base.namespaces),
        may_fire=base.self_check.check_clock,
        on_failed=shards.fail,
    )


def alarm_of(shards: Shards, stand_ins: StandIns, namespaces: Namespaces) -> Alarm:
    """Return the function that submits the commands of due timers."""

    def alarm(number: ShardId, command: TimerCommand) -> SetTimer | None:
        if is_fallback_shard(number):
            stand_ins.due(number, command)
            return None
        shard = shards[number]
        if isinstance(command, RunIfMet) and _is_paused(shard, command.job_id, namespaces):
            return SetTimer(Instant(PAUSED_AGAIN), command, Timescale.ELAPSED)
        postponed = stand_ins.before_fire(shard, command)
        if postponed is None:
            shards.submit(shard, command)
        return postponed

    return alarm


def _is_paused(shard: Shard, job_id: JobId, namespaces: Namespaces) -> bool:
    """Return True if the namespace of a job is paused."""
    job = shard.state.jobs.get(job_id) if namespaces.pauses and shard.is_open else None
    return job is not None and job.spec.namespace in namespaces.pauses
