"""Jobs that wait for other jobs, in the same shard and in another."""

import pytest

from rota.core.decide.dispatch import pending
from rota.core.errors import Kind, Refused
from rota.core.model.execution import ExecutionStatus, Hold, Origin
from rota.core.model.hook import Hook, HookEvent
from rota.core.model.ids import ExecutionId, Index, JobId, ShardId
from rota.core.model.job import Overlap
from rota.core.timing.instants import MINUTE
from rota.core.vocabulary.changes import (
    Dependent,
    JobMessage,
    OutboxItem,
    Subscribe,
    Succeeded,
    Table,
    Unsubscribe,
)
from rota.core.vocabulary.commands import (
    ConfirmDelivery,
    DeleteJob,
    FinishAttempt,
    ReceiveMessage,
    SaveJob,
)
from rota.core.vocabulary.effects import Deliver, Launch
from unit.core.shard import Shard, at, every, job

A, B, C = "default/a", "default/b", "default/c"
B_AFTER_A = job(name="b", dependencies=(A,))


def succeed(shard: Shard, job_id: JobId) -> ExecutionId:
    """Have one execution of a job succeed, and deliver the success to dependent jobs."""
    execution_id = shard.trigger(job_id)
    shard.finish(execution_id)
    shard.deliver()
    return execution_id


def executions_of(shard: Shard, job_id: JobId) -> list[ExecutionId]:
    return [one.id for one in shard.executions() if one.job_id == job_id]


def messages_of(shard: Shard) -> list[JobMessage]:
    return [effect.item.message for effect in shard.all_effects(Deliver)]


# --- without a schedule --------------------------------------------------------------------------


def test_a_job_runs_after_the_job_it_depends_on_has_succeeded() -> None:
    shard = Shard()
    a, b = shard.save(name="a"), shard.save(name="b", dependencies=(A,))
    shard.deliver()

    succeed(shard, a)

    (execution_id,) = executions_of(shard, b)
    assert shard.execution(execution_id).origin is Origin.DEPENDENCIES
    assert shard.status(execution_id) == "running"


def test_a_job_waits_for_all_that_it_depends_on() -> None:
    shard = Shard()
    a, b = shard.save(name="a"), shard.save(name="b")
    c = shard.save(name="c", dependencies=(A, B))
    shard.deliver()

    succeed(shard, a)
    succeed(shard, a)
    after_one = executions_of(shard, c)
    succeed(shard, b)

    assert after_one == []
    assert len(executions_of(shard, c)) == 1


def test_a_success_is_used_once() -> None:
    shard = Shard()
    a, b = shard.save(name="a"), shard.save(name="b")
    c = shard.save(name="c", dependencies=(A, B))
    shard.deliver()
    succeed(shard, a)
    succeed(shard, b)

    succeed(shard, b)
    after_one_more = len(executions_of(shard, c))
    succeed(shard, a)

    assert after_one_more == 1
    assert len(executions_of(shard, c)) == 2


def test_for_a_closed_shard_so_many_successes_wait_and_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("rota.core.decide.outbox.OUTBOX_ITEMS_MAX", 3)
    shard = Shard()
    a, b = shard.save(name="a"), shard.save(name="b", dependencies=(A,))
    c = shard.save(name="c", dependencies=(A,))
    shard.deliver()

    for _ in range(5):
        shard.finish(shard.trigger(a))
    waiting = dict(shard.state.outbox_counts)
    shard.deliver()
    ran = len(executions_of(shard, b)), len(executions_of(shard, c))
    succeed(shard, a)

    assert waiting == {(A, B): 3, (A, C): 3}
    assert ran == (3, 3)
    assert len(executions_of(shard, b)) == 4
    assert not shard.state.outbox_counts


def test_dependencies_are_not_changed_while_too_many_changes_wait_for_a_closed_shard(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("rota.core.decide.outbox.OUTBOX_ITEMS_MAX", 2)
    shard = Shard()
    shard.save(name="a")
    with_it = SaveJob(spec=B_AFTER_A, may_replace=True)
    without = SaveJob(spec=job(name="b"), may_replace=True)
    shard.do(with_it)
    shard.do(without)

    with pytest.raises(Refused, match="changes of the dependencies of default/b wait") as refusal:
        shard.do(with_it)
    shard.deliver()
    shard.do(with_it)

    assert refusal.value.kind is Kind.UNAVAILABLE
    assert shard.state.outbox_counts == {(B, A): 1}


def test_a_failure_and_a_cancellation_open_no_gate() -> None:
    shard = Shard()
    a, b = shard.save(name="a"), shard.save(name="b", dependencies=(A,))
    shard.deliver()
    failed, cancelled = shard.trigger(a), shard.trigger(a)

    shard.fail(failed)
    shard.cancel(cancelled)
    shard.finish(cancelled)
    shard.deliver()

    assert executions_of(shard, b) == []


def test_a_trigger_by_hand_does_not_wait() -> None:
    shard = Shard()
    b = shard.save(name="b", dependencies=(A,))

    execution_id = shard.trigger(b)

    assert shard.status(execution_id) == "running"


def test_a_chain_of_jobs_runs_one_after_the_other() -> None:
    shard = Shard()
    a = shard.save(name="a")
    b, c = shard.save(name="b", dependencies=(A,)), shard.save(name="c", dependencies=(B,))
    shard.deliver()

    succeed(shard, a)
    before = executions_of(shard, c)
    shard.finish(executions_of(shard, b)[0])
    shard.deliver()

    assert before == []
    assert len(executions_of(shard, c)) == 1


@pytest.mark.parametrize("hooks", [(), (Hook(event=HookEvent.SUCCESS, job=A),)])
def test_a_circle_ends_with_an_execution_that_fails_and_says_why(
    hooks: tuple[Hook, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of dependencies, or of a dependency and a hook."""
    monkeypatch.setattr("rota.core.decide.advance_execution.LINKS_MAX", 4)
    shard = Shard()
    a = shard.save(name="a", dependencies=() if hooks else (B,))
    shard.save(name="b", dependencies=(A,), hooks=hooks)
    shard.deliver()

    shard.trigger(a)
    for _ in range(9):
        for execution_id in shard.live():
            shard.finish(execution_id)
        shard.deliver()

    [*before, last] = shard.executions()
    assert [one.links for one in before] == [0, 1, 2, 3, 4]
    assert {one.status for one in before} == {ExecutionStatus.SUCCESS}
    assert (last.status, last.started_at) == (ExecutionStatus.FAILED, 0)
    assert "depend on each other in a circle" in last.reason


def test_a_success_that_the_overlap_policy_forbids_to_follow_is_used_up() -> None:
    shard = Shard()
    a = shard.save(name="a")
    b = shard.save(name="b", dependencies=(A,), overlap=Overlap.SKIP)
    shard.deliver()
    succeed(shard, a)
    (first,) = executions_of(shard, b)

    succeed(shard, a)
    shard.finish(first)

    assert executions_of(shard, b) == [first]
    assert not shard.state.plans[b].upstreams[0].is_met


# --- with a schedule -----------------------------------------------------------------------------


def test_a_scheduled_job_runs_at_its_fire_time_if_its_gates_are_open() -> None:
    shard = Shard()
    a = shard.save(name="a")
    b = shard.save(name="b", dependencies=(A,), schedules=every("* * * * *"))
    shard.deliver()

    succeed(shard, a)
    before = executions_of(shard, b)
    shard.pass_time(MINUTE)

    assert before == []
    assert shard.status(executions_of(shard, b)[0]) == "running"


def test_a_scheduled_job_waits_at_its_fire_time_for_its_gates() -> None:
    shard = Shard()
    a = shard.save(name="a")
    b = shard.save(name="b", dependencies=(A,), schedules=every("* * * * *"))
    shard.deliver()

    shard.pass_time(MINUTE)
    (execution_id,) = executions_of(shard, b)
    before = shard.execution(execution_id)
    succeed(shard, a)

    assert (before.status.value, before.hold) == ("queued", Hold.DEPENDENCIES)
    assert shard.status(execution_id) == "running"
    assert shard.execution(execution_id).fire_at == at("12:01")


def test_gates_close_behind_a_scheduled_execution() -> None:
    shard = Shard()
    a = shard.save(name="a")
    b = shard.save(name="b", dependencies=(A,), schedules=every("* * * * *"))
    shard.deliver()
    succeed(shard, a)
    shard.pass_time(MINUTE)

    shard.pass_time(MINUTE)

    first, second = executions_of(shard, b)
    assert (shard.status(first), shard.status(second)) == ("running", "queued")


def test_only_one_execution_waits_for_the_gates() -> None:
    shard = Shard()
    b = shard.save(name="b", dependencies=(A,), schedules=every("* * * * *"))

    shard.pass_time(MINUTE)
    shard.pass_time(MINUTE)

    (waiting,) = executions_of(shard, b)
    first, second = shard.ledger()
    assert (first.outcome.value, second.outcome.value) == ("fired", "skipped")
    assert second.execution_id == waiting
    assert "waits for the jobs that it depends on" in second.reason


def test_an_execution_queued_by_overlap_waits_for_the_gates_too() -> None:
    shard = Shard()
    a = shard.save(name="a")
    b = shard.save(
        name="b",
        dependencies=(A,),
        schedules=every("* * * * *"),
        overlap=Overlap.QUEUE_ONE,
    )
    shard.deliver()
    succeed(shard, a)
    shard.pass_time(MINUTE)
    shard.pass_time(MINUTE)
    first, second = executions_of(shard, b)

    shard.finish(first)
    after_first = shard.status(second)
    succeed(shard, a)

    assert after_first == "queued"
    assert shard.status(second) == "running"


def test_an_open_gate_does_not_let_an_execution_overlap() -> None:
    shard = Shard()
    a = shard.save(name="a")
    b = shard.save(
        name="b",
        dependencies=(A,),
        schedules=every("* * * * *"),
        overlap=Overlap.QUEUE_ONE,
    )
    shard.deliver()
    succeed(shard, a)
    shard.pass_time(MINUTE)
    shard.pass_time(MINUTE)
    first, second = executions_of(shard, b)

    succeed(shard, a)
    after_success = shard.status(second)
    shard.finish(first)

    assert after_success == "queued"
    assert shard.status(second) == "running"


def test_an_execution_queued_by_overlap_with_open_gates_uses_the_success() -> None:
    shard = Shard()
    a = shard.save(name="a")
    b = shard.save(
        name="b",
        dependencies=(A,),
        schedules=every("* * * * *"),
        overlap=Overlap.QUEUE_ONE,
    )
    shard.deliver()
    succeed(shard, a)
    shard.pass_time(MINUTE)
    succeed(shard, a)
    shard.pass_time(MINUTE)
    first, second = executions_of(shard, b)

    shard.finish(first)
    shard.pass_time(MINUTE)

    assert shard.status(second) == "running"
    assert shard.execution(executions_of(shard, b)[2]).hold is Hold.DEPENDENCIES


def test_cancelling_the_one_that_waits_leaves_the_gates_as_they_are() -> None:
    shard = Shard()
    a, b = shard.save(name="a"), shard.save(name="b")
    c = shard.save(name="c", dependencies=(A, B), schedules=every("* * * * *"))
    shard.deliver()
    succeed(shard, a)
    shard.pass_time(MINUTE)
    (waiting,) = executions_of(shard, c)

    shard.cancel(waiting)
    succeed(shard, b)
    shard.pass_time(MINUTE)

    assert shard.status(executions_of(shard, c)[1]) == "running"


# --- messages ------------------------------------------------------------------------------------


def test_a_repeated_message_changes_nothing() -> None:
    shard = Shard()
    b = shard.save(name="b", dependencies=(A,))
    message = Succeeded(upstream=A, dependent=B, index=Index(50))
    shard.do(ReceiveMessage(message=message))
    shard.finish(executions_of(shard, b)[0])

    shard.do(ReceiveMessage(message=message))

    assert len(executions_of(shard, b)) == 1


def test_an_older_message_after_a_newer_one_changes_nothing() -> None:
    shard = Shard()
    b = shard.save(name="b", dependencies=(A,))
    shard.do(ReceiveMessage(message=Succeeded(upstream=A, dependent=B, index=Index(50))))

    shard.do(ReceiveMessage(message=Succeeded(upstream=A, dependent=B, index=Index(49))))

    assert len(executions_of(shard, b)) == 1


def test_a_late_repetition_does_not_undo_what_came_after_it() -> None:
    shard = Shard()
    waits, waits_not = Subscribe(upstream=A, dependent=B), Unsubscribe(upstream=A, dependent=B)
    sender = ShardId(3)
    for key, message in (("1", waits), ("2", waits_not), ("3", waits)):
        shard.do(ReceiveMessage(message=message, sender=sender, outbox_key=key))

    shard.do(ReceiveMessage(message=waits_not, sender=sender, outbox_key="2"))
    after_repetition = dict(shard.reloaded().dependents)
    shard.do(ReceiveMessage(message=waits_not, sender=ShardId(4), outbox_key="2"))

    assert after_repetition == {A: {B: None}}
    assert not shard.state.dependents


def test_outbox_items_of_one_decision_have_keys_in_the_order_of_sending() -> None:
    shard = Shard()
    for name in ("z", "a"):
        shard.do(ReceiveMessage(message=Subscribe(upstream=A, dependent=f"default/{name}")))

    shard.finish(shard.trigger(shard.save(name="a")))

    items = [effect.item for effect in shard.all_effects(Deliver)]
    assert [item.to for item in items] == ["default/z", "default/a"]
    assert [item.key for item in items] == sorted(item.key for item in items)


def test_each_dependency_has_its_own_position() -> None:
    shard = Shard()
    c = shard.save(name="c", dependencies=(A, B))
    shard.do(ReceiveMessage(message=Succeeded(upstream=A, dependent=C, index=Index(50))))

    shard.do(ReceiveMessage(message=Succeeded(upstream=B, dependent=C, index=Index(3))))

    assert len(executions_of(shard, c)) == 1


@pytest.mark.parametrize(
    "message",
    [
        Succeeded(upstream=B, dependent=C, index=Index(1)),
        Succeeded(upstream=A, dependent="default/gone", index=Index(1)),
    ],
    ids=["not a dependency", "no such job"],
)
def test_a_message_to_an_unknown_job_does_no_harm(message: JobMessage) -> None:
    shard = Shard()
    shard.save(name="c", dependencies=(A,))

    shard.do(ReceiveMessage(message=message))

    assert shard.executions() == []


def test_a_parcel_stays_until_it_is_delivered() -> None:
    shard = Shard()
    shard.save(name="b", dependencies=(A,))
    (key,) = shard.messages

    found = list(pending(shard.reloaded()))
    shard.do(ConfirmDelivery(key=key))
    shard.do(ConfirmDelivery(key=key))

    message = Subscribe(upstream=A, dependent=B)
    assert found == [Deliver(OutboxItem(key=key, to=A, message=message))]
    assert shard.keys(Table.OUTBOX) == []


def test_jobs_of_two_shards_wait_for_each_other() -> None:
    here, there = Shard(), Shard()
    a = here.save(name="a")
    b = there.save(name="b", dependencies=(A,))
    there.deliver(to=here)

    here.finish(here.trigger(a))
    here.deliver(to=there)

    assert len(executions_of(there, b)) == 1


def test_a_job_made_before_the_one_it_depends_on_waits_for_that() -> None:
    shard = Shard()
    b = shard.save(name="b", dependencies=(A,))
    shard.deliver()

    succeed(shard, shard.save(name="a"))

    assert len(executions_of(shard, b)) == 1


def test_a_deleted_job_no_longer_waits() -> None:
    shard = Shard()
    a, b = shard.save(name="a"), shard.save(name="b", dependencies=(A,))
    shard.deliver()

    shard.delete(b)
    messages = messages_of(shard)
    shard.deliver()
    shard.finish(shard.trigger(a))

    assert messages == [Unsubscribe(upstream=A, dependent=B)]
    assert messages_of(shard) == []
    assert shard.read_all(Table.DEPENDENT, Dependent) == []
    assert shard.state.dependents == {}


def test_a_job_that_others_wait_for_may_be_made_again() -> None:
    shard = Shard()
    a, b = shard.save(name="a"), shard.save(name="b", dependencies=(A,))
    shard.deliver()
    shard.delete(a)

    succeed(shard, shard.save(name="a"))

    assert len(executions_of(shard, b)) == 1


def test_a_waiting_job_made_again_waits_for_the_next_success() -> None:
    shard = Shard()
    a, b = shard.save(name="a"), shard.save(name="b", dependencies=(A,))
    shard.deliver()
    shard.delete(b)
    b = shard.save(name="b", dependencies=(A,))
    shard.deliver()

    before = executions_of(shard, b)
    succeed(shard, a)

    assert before == []
    assert len(executions_of(shard, b)) == 1


def test_a_job_deleted_and_made_again_in_one_entry_still_waits() -> None:
    shard = Shard()
    a, b = shard.save(name="a"), shard.save_spec(B_AFTER_A)
    shard.deliver()

    shard.do_together(DeleteJob(job_id=b), SaveJob(spec=B_AFTER_A))
    kept = shard.keys(Table.OUTBOX)
    shard.deliver()
    succeed(shard, a)

    assert len(kept) == 2
    assert len(shard.all_effects(Launch)) == 0
    assert [one.job_name for one in shard.state.executions.values()] == [B]


def test_a_success_in_the_entry_of_a_new_subscription_does_not_replace_it() -> None:
    """Both messages are about the same two jobs; one goes each way."""
    shard = Shard()
    a, b = shard.save(name="a"), shard.save_spec(B_AFTER_A)
    shard.deliver()
    running = shard.trigger(a)
    shard.delete(b)
    report: FinishAttempt = shard.report(running)

    shard.do_together(SaveJob(spec=B_AFTER_A), report)
    shard.deliver()

    assert shard.state.dependents == {A: {B: None}}


def test_two_successes_in_one_entry_are_one() -> None:
    shard = Shard()
    a, b = shard.save(name="a"), shard.save(name="b", dependencies=(A,))
    shard.deliver()
    reports = [shard.report(shard.trigger(a)) for _ in range(2)]

    shard.do_together(*reports)
    shard.deliver()

    assert len(executions_of(shard, b)) == 1
