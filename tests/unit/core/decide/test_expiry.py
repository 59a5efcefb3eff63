"""Start deadlines, and timeouts of whole executions."""

from msgspec.structs import replace

from rota.core.decide.dispatch import pending
from rota.core.model.attempt import AttemptKey, Outcome
from rota.core.model.execution import Execution, Task, task_key
from rota.core.model.ids import ExecutionId
from rota.core.model.job import Misfire, Overlap
from rota.core.timing.instants import MINUTE, SECOND, Duration, later
from rota.core.vocabulary.changes import Table
from rota.core.vocabulary.commands import Expire
from rota.core.vocabulary.effects import SetTimer, Stop
from unit.core.shard import ONE_RETRY, Shard, every, task

TWO_MINUTES = Duration(2 * MINUTE)


def past(shard: Shard, execution_id: ExecutionId) -> Execution:
    """Return a finished execution."""
    return shard.read(Table.PAST_EXECUTION, execution_id, Execution)


def test_an_execution_that_does_not_start_in_time_fails_and_the_ledger_says_so() -> None:
    shard = Shard(slots=0)
    shard.save(schedules=every("@every 1h"), start_deadline=MINUTE)
    shard.pass_time(Duration(60 * MINUTE))
    (execution_id,) = shard.live()
    shard.pass_time(Duration(59 * SECOND))
    assert shard.status(execution_id) == "queued"

    shard.pass_time(SECOND)

    ended = past(shard, execution_id)
    assert (ended.status.value, ended.reason) == (
        "failed",
        "did not start within its start deadline of 1m",
    )
    (entry,) = shard.ledger()
    assert (entry.outcome.value, entry.execution_id) == ("fired", execution_id)
    assert entry.reason == f"its execution {ended.reason}"
    assert entry.recorded_at == ended.queued_at


def test_an_execution_that_has_started_in_time_is_left_alone() -> None:
    shard = Shard()
    execution_id = shard.run(start_deadline=MINUTE)

    shard.pass_time(TWO_MINUTES)

    assert shard.status(execution_id) == "running"


def test_a_start_deadline_ends_with_the_start() -> None:
    shard = Shard(slots=0)
    execution_id = shard.run(start_deadline=MINUTE)
    shard.pass_time(SECOND)
    shard.slots = 1
    shard.start(execution_id)

    shard.pass_time(TWO_MINUTES)

    assert shard.status(execution_id) == "running"
    assert shard.execution(execution_id).expires_at == 0


def test_a_fire_that_is_decided_late_has_its_whole_start_deadline() -> None:
    shard = Shard(slots=0)
    job_id = shard.save(schedules=every("@every 1h"), misfire=Misfire.ALL, start_deadline=MINUTE)
    shard.clock = later(shard.clock, Duration(70 * MINUTE))
    shard.fire(job_id)
    (execution_id,) = shard.live()

    execution = shard.execution(execution_id)

    assert execution.fire_at < execution.queued_at
    assert execution.expires_at == later(execution.queued_at, MINUTE)


def test_an_execution_that_waits_for_another_one_may_pass_its_start_deadline() -> None:
    shard = Shard()
    job_id = shard.save(overlap=Overlap.QUEUE_ONE, start_deadline=MINUTE)
    first, second = shard.trigger(job_id), shard.trigger(job_id)

    shard.pass_time(TWO_MINUTES)

    assert (shard.status(first), shard.status(second)) == ("running", "failed")
    assert shard.ledger() == []


def test_an_execution_that_exceeds_its_timeout_is_stopped_and_fails() -> None:
    shard = Shard()
    execution_id = shard.run(
        task("main", retry=ONE_RETRY), task("after", "main"), execution_timeout=MINUTE
    )

    shard.pass_time(MINUTE)

    assert shard.all_effects(Stop) == [Stop(AttemptKey(execution_id, "main", 1))]
    assert shard.statuses(execution_id) == {"main": "running", "after": "cancelled"}
    shard.finish(execution_id, outcome=Outcome.CANCELLED)
    ended = past(shard, execution_id)
    assert (ended.status.value, ended.reason) == ("failed", "did not end within its timeout of 1m")
    attempt = shard.read(Table.PAST_TASK, task_key(execution_id, "main"), Task).attempts[-1]
    assert attempt.ending
    assert attempt.ending.reason.endswith(": the execution did not end within its timeout of 1m")


def test_the_timeout_counts_from_the_start_of_the_first_attempt() -> None:
    shard = Shard(slots=0)
    execution_id = shard.run(execution_timeout=MINUTE, start_deadline=TWO_MINUTES)
    shard.pass_time(Duration(110 * SECOND))
    shard.slots = 1
    shard.start(execution_id)

    shard.pass_time(Duration(59 * SECOND))
    assert not shard.execution(execution_id).has_expired

    shard.pass_time(SECOND)
    assert shard.execution(execution_id).has_expired


def test_a_cancelled_execution_does_not_expire() -> None:
    shard = Shard()
    execution_id = shard.run(execution_timeout=MINUTE)
    shard.cancel(execution_id)

    shard.pass_time(MINUTE)
    shard.finish(execution_id, outcome=Outcome.CANCELLED)

    assert shard.status(execution_id) == "cancelled"


def test_a_new_primary_sets_the_timers_of_deadlines_again() -> None:
    shard = Shard()
    execution_id = shard.run(execution_timeout=MINUTE)
    expire = Expire(execution_id=execution_id, deadline=shard.execution(execution_id).expires_at)

    again = [each.command for each in pending(shard.reloaded()) if isinstance(each, SetTimer)]

    assert again == [expire]
    shard.do(replace(expire, deadline=expire.deadline - SECOND))
    assert not shard.execution(execution_id).has_expired
    shard.cancel(execution_id)
    assert not [each for each in pending(shard.reloaded()) if isinstance(each, SetTimer)]
