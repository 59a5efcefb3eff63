"""Wiring of the timers of a node: the alarm submits the command of a due timer."""

from rota.core.model.fallback_ids import is_fallback_shard
from rota.core.model.ids import ShardId
from rota.core.vocabulary.commands import TimerCommand
from rota.core.vocabulary.effects import SetTimer
from rota.node.fallback.stand_ins import StandIns
from rota.node.runtime.foundation import NodeFoundation
from rota.node.shards.local_shards import Shards
from rota.node.shards.timers import Alarm, Timers


def wire_timers(base: NodeFoundation, shards: Shards, stand_ins: StandIns) -> Timers:
    """Return the timers of the shards and of the fallback shards."""
    return Timers(
        base.environment.store,
        base.clock,
        alarm_of(shards, stand_ins),
        may_fire=base.self_check.check_clock,
        on_failed=shards.fail,
    )


def alarm_of(shards: Shards, stand_ins: StandIns) -> Alarm:
    """Return the function that submits the commands of due timers."""

    def alarm(number: ShardId, command: TimerCommand) -> SetTimer | None:
        if is_fallback_shard(number):
            stand_ins.due(number, command)
            return None
        shard = shards[number]
        postponed = stand_ins.before_fire(shard, command)
        if postponed is None:
            shards.submit(shard, command)
        return postponed

    return alarm
