"""Wiring of the timers of a node: the alarm submits the command of a due timer.

A job that waits for the end of its namespace's pause, or for its quota, is tried again without a
decision, since each decision with an effect is an entry of the journal.
"""

from rota.core.decide.dependencies import KEPT_AGAIN
from rota.core.model.fallback_ids import is_fallback_shard
from rota.core.model.ids import ShardId
from rota.core.timing.instants import Instant
from rota.core.vocabulary.commands import RunIfMet, TimerCommand
from rota.core.vocabulary.effects import SetTimer, Timescale
from rota.node.facts.shared_facts import SharedFacts
from rota.node.fallback.stand_ins import StandIns
from rota.node.runtime.foundation import NodeFoundation
from rota.node.shards.local_shards import Shards
from rota.node.shards.timers import Alarm, Timers


def wire_timers(base: NodeFoundation, shards: Shards, stand_ins: StandIns) -> Timers:
    """Return the timers of the shards and of the fallback shards."""
    return Timers(
        base.environment.store,
        base.clock,
        alarm_of(shards, stand_ins, base.facts),
        may_fire=base.self_check.check_clock,
        on_failed=shards.fail,
    )


def alarm_of(shards: Shards, stand_ins: StandIns, facts: SharedFacts) -> Alarm:
    """Return the function that submits the commands of due timers."""

    def is_kept_back(namespace: str) -> bool:
        present = facts.present()
        if namespace in present.pauses:
            return True
        quota = present.quotas.get(namespace)
        return quota is not None and bool(quota.full(shards.use_of(namespace)))

    def alarm(number: ShardId, command: TimerCommand) -> SetTimer | None:
        if is_fallback_shard(number):
            stand_ins.due(number, command)
            return None
        shard = shards[number]
        if isinstance(command, RunIfMet) and shard.is_open:
            job = shard.state.jobs.get(command.job_id)
            if job is not None and is_kept_back(job.spec.namespace):
                return SetTimer(Instant(KEPT_AGAIN), command, Timescale.ELAPSED)
        postponed = stand_ins.before_fire(shard, command)
        if postponed is None:
            shards.submit(shard, command)
        return postponed

    return alarm
