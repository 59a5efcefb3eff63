"""Every change of a user has exactly one row, with its author."""

import pytest
from msgspec.structs import replace

from rota.core.errors import Refused
from rota.core.model.author import Author
from rota.core.model.execution import Execution
from rota.core.model.ids import ExecutionId, JobId
from rota.core.timing.instants import MINUTE
from rota.core.vocabulary.change_chain import Action, opened
from rota.core.vocabulary.changes import Table
from rota.core.vocabulary.commands import (
    Cancel,
    DeleteJob,
    Forget,
    ForgetChanges,
    Idempotency,
    PauseJob,
    Rerun,
    RerunScope,
    ResumeJob,
    SaveJob,
    Trigger,
)
from rota.core.vocabulary.decision import JobSaved, Triggered
from unit.core.shard import Shard, every, job, task

ALICE = Author(principal="alice", key="3fGh81Qz", request="018f6a0e", address="10.12.7.31")


def test_each_change_of_a_job_has_a_row_with_its_author_and_the_versions() -> None:
    shard = Shard()
    job_id = saved(shard)

    shard.do(SaveJob(spec=job(description="new"), may_replace=True, author=ALICE))
    shard.do(PauseJob(job_id=job_id, reason="repair", author=ALICE))
    shard.do(ResumeJob(job_id=job_id, author=ALICE))
    shard.do(DeleteJob(job_id=job_id, author=ALICE))

    changes = shard.user_changes()
    assert [(each.action, each.before, each.after, each.detail) for each in changes] == [
        (Action.JOB_CREATED, 0, 1, ""),
        (Action.JOB_REPLACED, 1, 2, ""),
        (Action.JOB_PAUSED, 2, 2, "repair"),
        (Action.JOB_RESUMED, 2, 2, ""),
        (Action.JOB_DELETED, 2, 0, ""),
    ]
    assert {(each.author, each.job, each.job_id) for each in changes} == {
        (ALICE, "default/job", job_id)
    }
    assert [each.number for each in changes] == [1, 2, 3, 4, 5]
    assert changes[-1].at == shard.decided_at


def test_a_cancellation_and_a_rerun_have_a_row_with_their_executions() -> None:
    shard = Shard()
    job_id = saved(shard)
    execution_id = shard.trigger(job_id)

    shard.do(Cancel(execution_id=execution_id, author=ALICE))
    shard.finish(execution_id)
    new_id = shard.do(rerun_of(shard, execution_id))

    assert isinstance(new_id, Triggered)
    _, cancelled, rerun = shard.user_changes()
    assert (cancelled.action, cancelled.execution_id, cancelled.author) == (
        Action.EXECUTION_CANCELLED,
        execution_id,
        ALICE,
    )
    assert (rerun.action, rerun.execution_id, rerun.detail, rerun.author) == (
        Action.EXECUTION_RERUN,
        new_id.execution_id,
        execution_id,
        ALICE,
    )
    assert (cancelled.job_id, rerun.job_id, rerun.job) == (job_id, job_id, "default/job")


def test_the_author_of_a_trigger_is_in_the_execution_and_has_no_row() -> None:
    shard = Shard()
    job_id = saved(shard)

    triggered = shard.do(Trigger(job_id=job_id, author=ALICE))

    assert isinstance(triggered, Triggered)
    assert shard.execution(triggered.execution_id).triggered_by == ALICE
    shard.finish(triggered.execution_id)
    past = shard.read(Table.PAST_EXECUTION, triggered.execution_id, Execution)
    assert past.triggered_by == ALICE
    rerun = shard.do(rerun_of(shard, triggered.execution_id))
    assert isinstance(rerun, Triggered)
    assert shard.execution(rerun.execution_id).triggered_by == ALICE
    assert [each.action for each in shard.user_changes()] == [
        Action.JOB_CREATED,
        Action.EXECUTION_RERUN,
    ]


def test_a_request_that_changes_nothing_has_no_row() -> None:
    shard = Shard()
    job_id = saved(shard)
    execution_id = shard.run(name="other")
    shard.do(PauseJob(job_id=job_id))
    shard.cancel(execution_id)
    before = shard.user_changes()

    shard.do(SaveJob(spec=job(), author=ALICE))
    shard.do(PauseJob(job_id=job_id, author=ALICE))
    shard.do(Cancel(execution_id=execution_id, author=ALICE))
    with pytest.raises(Refused, match="job_exists"):
        shard.do(SaveJob(spec=job(description="new"), author=ALICE))

    assert shard.user_changes() == before
    shard.do(ResumeJob(job_id=job_id))
    shard.do(ResumeJob(job_id=job_id, author=ALICE))
    assert len(shard.user_changes()) == len(before) + 1


def test_a_repeated_request_has_no_second_row() -> None:
    shard = Shard()
    job_id = saved(shard)
    again = Idempotency(key="k", digest="d")

    for _ in range(2):
        shard.do(PauseJob(job_id=job_id, idempotency=again, author=ALICE))
        shard.do(ResumeJob(job_id=job_id))

    actions = [each.action for each in shard.user_changes()]
    assert actions.count(Action.JOB_PAUSED) == 1


def test_what_happens_without_a_user_has_no_row() -> None:
    shard = Shard()
    spec = replace(job(schedules=every("@at 2027-01-04T12:01:00Z")), is_one_off=True)
    shard.do(SaveJob(spec=spec, author=ALICE))
    shard.pass_time(MINUTE)
    (execution_id,) = shard.live()
    shard.finish(execution_id)

    shard.do(Forget(pasts=shard.pasts()))

    assert not shard.state.jobs, "the one-off job expires with its history"
    assert [each.action for each in shard.user_changes()] == [Action.JOB_CREATED]


def test_several_changes_in_one_entry_have_one_row_each() -> None:
    shard = Shard()
    specs = [job(task("a"), name=name) for name in "abc"]

    shard.do_together(*(SaveJob(spec=spec, author=ALICE) for spec in specs))

    assert [each.job for each in shard.user_changes()] == ["default/a", "default/b", "default/c"]
    assert shard.chain_check().fault == ""


def test_the_oldest_changes_are_deleted_and_the_chain_begins_after_them() -> None:
    shard = Shard()
    for name in "abcd":
        shard.save(name=name)

    shard.do(oldest_changes(shard, 3))

    assert [each.job for each in shard.user_changes()] == ["default/d"]
    shard.save(name="e")
    check = shard.chain_check()
    assert (check.count, check.fault) == (2, "")


def test_a_repeated_deletion_of_old_changes_changes_nothing() -> None:
    shard = Shard()
    for name in "abcd":
        shard.save(name=name)
    first, second = oldest_changes(shard, 1), oldest_changes(shard, 3)
    shard.do(second)
    before = dict(shard.rows)

    for repeated in (second, first):
        shard.do(repeated)

    assert shard.rows == before


def oldest_changes(shard: Shard, count: int) -> ForgetChanges:
    rows = shard.change_rows()[:count]
    last = opened(rows[-1][1])
    assert last is not None
    return ForgetChanges(
        keys=tuple(key for key, _ in rows), last=last.number, hash=rows[-1][1].hash
    )


def saved(shard: Shard) -> JobId:
    reply = shard.do(SaveJob(spec=job(), author=ALICE))
    assert isinstance(reply, JobSaved)
    return reply.job_id


def rerun_of(shard: Shard, execution_id: ExecutionId) -> Rerun:
    tasks = (shard.task(execution_id),)
    return Rerun(
        past=shard.execution(execution_id), tasks=tasks, scope=RerunScope.ALL, author=ALICE
    )
