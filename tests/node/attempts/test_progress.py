"""Reports of running attempts on their way to their shards."""

from pathlib import Path
from typing import Any

from rota.core.model.attempt import Attempt, AttemptKey, Ending, Outcome, Report
from rota.core.model.ids import ExecutionId
from rota.core.timing.instants import SECOND, Duration, Instant, later
from rota.node.runtime.wiring import NodeWiring
from rota.node.shards.local_shards import Shards
from rota.node.system.clock import SystemClock
from rota.wire.documents import RetryBody
from support.in_process import HeldStore, running_works, save, trigger, turns, until

LONG = {"sleepMs": 10**9}


class ShiftedClock(SystemClock):
    """The system's clocks, ahead by a duration that the test sets."""

    def __init__(self) -> None:
        self.ahead = Duration(0)

    def elapsed(self) -> Instant:
        """Return CLOCK_BOOTTIME plus the set duration."""
        return later(super().elapsed(), self.ahead)


def attempt_of(shards: Shards, execution_id: ExecutionId) -> Attempt:
    return shards.of_id(execution_id).state.tasks[execution_id]["main"].attempts[-1]


async def running(wiring: NodeWiring, **fields: Any) -> AttemptKey:
    """Return the running attempt of a new job without an end."""
    shards = wiring.context.shards
    execution_id = await trigger(shards, await save(shards, "job", parameters=LONG, **fields))
    await until(lambda: wiring.context.attempts.running == 1)
    return AttemptKey(execution_id, "main", 1)


async def test_only_the_last_of_the_reports_before_the_first_commit_is_sent(
    tmp_path: Path,
) -> None:
    store, clock = HeldStore(), ShiftedClock()
    async with running_works(store, tmp_path, clock=clock) as wiring:
        shards, attempts = wiring.context.shards, wiring.context.attempts
        key = await running(wiring)
        before = shards.decision_count
        store.hold()

        for percent in range(50):
            attempts.reported(key, Report(percent=percent))
        clock.ahead = Duration(2 * SECOND)
        attempts.tick()
        await turns()
        while_held = shards.decision_count - before
        store.let_go()
        await until(lambda: attempt_of(shards, key.execution_id).percent == 49)

        assert while_held == 1
        assert shards.decision_count - before == 2


async def test_a_shard_gets_one_report_a_second_at_most(tmp_path: Path) -> None:
    clock = ShiftedClock()
    async with running_works(HeldStore(), tmp_path, clock=clock) as wiring:
        shards, attempts = wiring.context.shards, wiring.context.attempts
        key = await running(wiring)

        attempts.reported(key, Report(percent=1))
        await until(lambda: attempt_of(shards, key.execution_id).percent == 1)
        await shards.settled(*shards)
        attempts.reported(key, Report(percent=2))
        attempts.reported(key, Report(percent=3))
        await turns()
        too_soon = attempt_of(shards, key.execution_id).percent
        clock.ahead = Duration(SECOND)
        attempts.tick()
        await until(lambda: attempt_of(shards, key.execution_id).percent == 3)

        assert too_soon == 1


async def test_an_unsent_report_precedes_the_outcome_and_reaches_the_next_attempt(
    tmp_path: Path,
) -> None:
    async with running_works(HeldStore(), tmp_path) as wiring:
        attempts = wiring.context.attempts
        key = await running(wiring, retries=RetryBody(limit=1, backoff="fixed", delay=0))
        attempts.reported(key, Report(percent=1))
        await turns()

        attempts.reported(key, Report(checkpoint=b"at 7"))
        ended = Ending(outcome=Outcome.FAILED, started_at=Instant(1), finished_at=Instant(1))
        attempts.ended(key, ended)
        next_key = AttemptKey(key.execution_id, "main", 2)
        await until(lambda: next_key in attempts.orders)

        assert attempts.orders[next_key].checkpoint == b"at 7"


async def test_a_report_of_an_unknown_or_ended_attempt_is_dropped(tmp_path: Path) -> None:
    store = HeldStore()
    async with running_works(store, tmp_path) as wiring:
        shards, attempts = wiring.context.shards, wiring.context.attempts
        key = await running(wiring)
        store.hold()
        ended = Ending(outcome=Outcome.FAILED, started_at=Instant(1), finished_at=Instant(1))
        attempts.ended(key, ended)
        await turns()
        before = shards.decision_count

        attempts.reported(key, Report(percent=1))
        attempts.reported(AttemptKey(key.execution_id, "other", 1), Report(percent=1))
        await turns()

        assert shards.decision_count == before
        store.let_go()
