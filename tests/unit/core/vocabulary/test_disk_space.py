"""Little space on a node's disk: what is refused, and what is recorded of fires."""

from itertools import pairwise

import pytest

from rota.core.decide.fire import SCARCE_PAUSE
from rota.core.model.ids import ExecutionId, JobId
from rota.core.model.job import Misfire
from rota.core.model.ledger import FireOutcome
from rota.core.timing.instants import MILLISECOND, MINUTE, SECOND, Duration, Instant, later
from rota.core.vocabulary.commands import (
    Cancel,
    Command,
    DeleteJob,
    Fire,
    PauseJob,
    ResumeJob,
    Trigger,
)
from rota.core.vocabulary.disk_space import DiskSpace, adds_load
from rota.core.vocabulary.effects import SetTimer
from rota.node.system.disk_guard import judge
from unit.core.shard import Shard, at, every

MIB = 1 << 20
JOB = JobId("3f2a9c0011223344")


@pytest.mark.parametrize(
    ("free_mib", "space"),
    [
        (256, DiskSpace.AMPLE),
        (255, DiskSpace.LOW),
        (128, DiskSpace.LOW),
        (127, DiskSpace.SCARCE),
        (0, DiskSpace.SCARCE),
    ],
)
def test_space_is_low_below_the_reserve_and_scarce_below_half_of_it(
    free_mib: int, space: DiskSpace
) -> None:
    found = judge(free_mib * MIB, reserve_bytes=256 * MIB)

    assert found.space is space
    assert (found.refusal is None) == (space is DiskSpace.AMPLE)


def test_without_a_reserve_space_is_ample_until_there_is_none() -> None:
    assert judge(0, reserve_bytes=0).space is DiskSpace.AMPLE


@pytest.mark.parametrize(
    ("command", "is_load"),
    [
        (Trigger(job_id=JOB), True),
        (ResumeJob(job_id=JOB), True),
        (PauseJob(job_id=JOB), False),
        (DeleteJob(job_id=JOB), False),
        (Cancel(execution_id=ExecutionId(f"{JOB}-0660c1a4f8fe40-0000")), False),
        (Fire(job_id=JOB), False),
    ],
)
def test_only_what_adds_load_is_refused(command: Command, *, is_load: bool) -> None:
    assert adds_load(command) == is_load


def test_a_fire_begins_no_execution_where_space_is_scarce() -> None:
    shard = Shard(space=DiskSpace.SCARCE)
    shard.save(schedules=every("* * * * *"))

    shard.pass_time(MINUTE)

    (entry,) = shard.ledger()
    assert (entry.outcome, entry.execution_id) == (FireOutcome.MISSED, "")
    assert entry.reason.startswith("disk_full: the disk of node node-a ")
    assert shard.executions() == []


def test_fires_begin_executions_where_space_is_low() -> None:
    shard = Shard(space=DiskSpace.LOW)
    shard.save(schedules=every("* * * * *"))

    shard.pass_time(MINUTE)

    assert shard.outcomes() == [("12:01:00", 1, "fired")]


@pytest.mark.parametrize("misfire", Misfire)
def test_no_misfire_policy_begins_executions_where_space_is_scarce(misfire: Misfire) -> None:
    shard = Shard(space=DiskSpace.SCARCE)
    shard.save(schedules=every("* * * * *"), misfire=misfire)

    shard.pass_time(Duration(10 * MINUTE))

    assert shard.outcomes() == [("12:01:00", 10, "missed")]


def test_fires_are_not_decided_ahead_where_space_is_scarce() -> None:
    shard = Shard(space=DiskSpace.SCARCE, ahead=Duration(25 * MILLISECOND))
    job_id = shard.save(schedules=every("* * * * *"))

    shard.set_clock(Instant(at("12:01") - 25 * MILLISECOND))
    shard.fire(job_id)

    assert shard.ledger() == []
    assert [timer.due for timer in shard.all_effects(SetTimer)] == [at("12:01")]


def test_many_fires_share_an_entry_and_each_has_one_outcome() -> None:
    shard = Shard(space=DiskSpace.SCARCE)
    shard.save(schedules=every("* * * * * *"))

    for _ in range(60):
        shard.pass_time(SECOND)
    shard.space = DiskSpace.AMPLE
    for _ in range(60):
        shard.pass_time(SECOND)

    entries = shard.ledger()
    missed = [each for each in entries if each.outcome is FireOutcome.MISSED]
    assert len(missed) <= 1 + 60 * SECOND // SCARCE_PAUSE
    assert sum(each.count for each in missed) in (59, 60)
    assert sum(each.count for each in entries) == 120
    assert all(later(before.until, SECOND) == after.fire_at for before, after in pairwise(entries))
    assert {each.outcome for each in entries[len(missed) :]} == {FireOutcome.FIRED}
