"""What crosses nodes about attempts: outcomes, letters, stops, leases; and what is lost when."""

import asyncio
from collections import Counter
from collections.abc import Coroutine

import pytest

from rota.core.errors import Refused
from rota.core.model.attempt import AttemptKey, Ending, Outcome
from rota.core.model.execution import Execution, ExecutionStatus, Task, TaskStatus
from rota.core.model.ids import Epoch, ExecutionId, JobId, NodeId, ShardId
from rota.core.replication.messages import Append
from rota.core.timing.instants import SECOND, Duration, Instant, later
from rota.core.vocabulary.commands import Cancel, FinishAttempt, SaveJob, Trigger
from rota.node.attempts.local_attempts import LocalAttempts
from rota.node.peers.messages import AskLease, Deliver, DeliveryReceipt, GiveLease, Sent
from rota.wire.documents import RetryBody
from sim.cluster.chance import SeededEntropy
from support.in_process import save, spec_of, trigger
from support.virtual_nodes import (
    ARRIVES_S,
    FENCED_BY_S,
    LOST_BY_S,
    TIMING,
    A,
    B,
    C,
    Loses,
    Nodes,
    PlayingExecutor,
    run,
    until,
)

LONG = {"sleepMs": 3_600_000}
FIVE_S = {"sleepMs": 5_000}


async def long_attempt_away(nodes: Nodes) -> ExecutionId:
    """Have an attempt run on A, whose shard has gone to B."""
    shards = nodes[A].shards
    execution_id = await trigger(shards, await save(shards, "job", parameters=LONG))
    await until(lambda: len(nodes[A].playing) == 1)
    await nodes.move(nodes.shard_of(execution_id), B, A, C)
    return execution_id


def name_in(nodes: Nodes, shard: ShardId) -> str:
    """Return the name of a job of *shard*."""
    of_name = nodes[A].shards.of_name
    return next(name for name in map(str, range(99)) if of_name("default", name).id == shard)


def task_of(nodes: Nodes, execution_id: ExecutionId) -> Task:
    task = nodes.task(execution_id)
    assert task is not None
    return task


def where(task: Task) -> list[NodeId]:
    """Return on which node each attempt of a task was started."""
    return [attempt.node_id for attempt in task.attempts]


async def refusal_of(asked: Coroutine[None, None, object]) -> str:
    """Return the code with which something is refused."""
    with pytest.raises(Refused) as refused:
        await asked
    return refused.value.code


def losing_first(count: int, *kinds: type[Sent]) -> Loses:
    """Lose the first messages of each kind."""
    seen: Counter[type[Sent]] = Counter()

    def loses(sender: NodeId, receiver: NodeId, message: Sent) -> bool:
        del sender, receiver
        seen[type(message)] += 1
        return isinstance(message, kinds) and seen[type(message)] <= count

    return loses


def lost_into(messages: list[Sent], message: Sent) -> bool:
    messages.append(message)
    return True


def do_nothing(*args: object, **named: object) -> None:
    """Take the place of something that did not happen."""


def deliveries(nodes: Nodes, node_id: NodeId) -> int:
    """Return how many commands a node has to bring to shards."""
    return len(nodes[node_id].running.attempts.delivery)


async def end_session(nodes: Nodes, node_id: NodeId) -> None:
    """Have the coordinator end a node's session, and wait until the node has another."""
    before = nodes.session_of(node_id)
    assert before is not None
    nodes.server.change(lambda state: state.end(before))
    await until(lambda: nodes.session_of(node_id) not in (before, None))
    await asyncio.sleep(0.1)  # Until the node has heard so itself.


# -- outcomes --------------------------------------------------------------------------------------


def test_an_outcome_reaches_its_shard_where_that_has_gone() -> None:
    async def story(nodes: Nodes) -> None:
        shards = nodes[A].shards
        execution_id = await trigger(shards, await save(shards, "job", parameters=FIVE_S))

        await nodes.move(nodes.shard_of(execution_id), B, A, C)
        execution, task = await nodes.ended(execution_id)

        assert execution.status is ExecutionStatus.SUCCESS
        assert where(task) == [A]
        await until(lambda: not nodes[A].running.context.attempts.running)

    run(story)


@pytest.mark.parametrize("kind", [Deliver, DeliveryReceipt])
def test_an_outcome_is_brought_again_until_somebody_says_that_it_is_recorded(
    kind: type[Sent],
) -> None:
    async def story(nodes: Nodes) -> None:
        shards = nodes[A].shards
        execution_id = await trigger(shards, await save(shards, "job", parameters=FIVE_S))
        nodes.loses = losing_first(4, kind)

        await nodes.move(nodes.shard_of(execution_id), B, A, C)
        execution, task = await nodes.ended(execution_id)

        assert execution.status is ExecutionStatus.SUCCESS
        assert where(task) == [A]
        await until(lambda: not nodes[A].running.context.attempts.running)
        assert deliveries(nodes, A) == 0

    run(story)


def test_an_outcome_follows_its_shard_from_node_to_node() -> None:
    async def story(nodes: Nodes) -> None:
        shards = nodes[A].shards
        execution_id = await trigger(shards, await save(shards, "job", parameters=FIVE_S))
        shard = nodes.shard_of(execution_id)
        await nodes.move(shard, B, A, C)
        nodes.cut(A, B)
        await until(lambda: nodes[A].running.context.attempts.ended_count[Outcome.SUCCEEDED] == 1)

        nodes.mend()
        await nodes.move(shard, C, A, B)
        execution, task = await nodes.ended(execution_id)

        assert execution.status is ExecutionStatus.SUCCESS
        assert where(task) == [A]

    run(story)


def test_an_outcome_that_nobody_could_commit_is_recorded_when_the_shard_is_back() -> None:
    async def story(nodes: Nodes) -> None:
        shards = nodes[A].shards
        execution_id = await trigger(shards, await save(shards, "job", parameters=FIVE_S))
        shard = nodes.shard_of(execution_id)
        await asyncio.sleep(4.9)
        # It ends on A, which decides it, cannot commit it, and soon is primary no longer.
        nodes.loses = lambda sender, receiver, message: sender == A and isinstance(message, Append)
        nodes.wanted[shard] = (B, A, C)
        nodes[A].is_cut_off = True
        await until(lambda: bool(nodes[A].shards[shard].entries))
        await until(lambda: nodes[B].shards[shard].is_open)
        nodes.mend()
        await until(lambda: not nodes[A].shards[shard].is_open)

        nodes.loses = lambda sender, receiver, message: False
        execution, task = await nodes.ended(execution_id)

        assert execution.status is ExecutionStatus.SUCCESS
        assert where(task) == [A]

    run(story)


def test_what_is_brought_again_while_it_is_being_decided_is_decided_once() -> None:
    async def story(nodes: Nodes) -> None:
        execution_id = await long_attempt_away(nodes)
        shards, shard = nodes[B].shards, nodes.shard_of(execution_id)
        [order] = nodes[A].running.context.attempts.orders.values()
        now = Instant(1)
        ending = Ending(outcome=Outcome.SUCCEEDED, started_at=now, finished_at=now)
        command = FinishAttempt(attempt=order.key, token=order.token, ending=ending)
        before = shards.decision_count

        for _ in range(9):
            nodes[B].running.router.receive(shard, A, Deliver(number=1, commands=(command,)))
        await nodes.ended(execution_id)

        assert shards.decision_count == before + 1

    run(story)


def test_an_answer_to_an_earlier_life_answers_nothing() -> None:
    async def story(nodes: Nodes) -> None:
        upstream, _ = await jobs_of_two_nodes(nodes)
        numbers: list[set[int]] = [set()]

        def loses(sender: NodeId, receiver: NodeId, message: Sent) -> bool:
            if isinstance(message, Deliver):
                numbers[-1].add(message.number)
            return isinstance(message, Deliver)

        nodes.loses = loses
        await trigger(nodes[A].shards, upstream)
        await until(lambda: bool(numbers[0]))
        numbers.append(set())
        await nodes[A].end()
        await nodes[A].start()
        await until(lambda: bool(numbers[1]))

        assert abs(max(numbers[0]) - min(numbers[1])) > 1_000_000

    run(story)


# -- leases ----------------------------------------------------------------------------------------


def test_an_attempt_that_is_cut_off_is_killed_before_it_is_lost_and_started_again() -> None:
    async def story(nodes: Nodes) -> None:
        execution_id = await long_attempt_away(nodes)

        nodes[A].is_cut_off = True
        nodes.cut(A, B, C)
        await until(lambda: not nodes[A].playing)
        before = task_of(nodes, execution_id)
        # That no two run at the same time is checked at each launch.
        await until(lambda: len(task_of(nodes, execution_id).attempts) == 2)
        after = task_of(nodes, execution_id)

        assert before.status is TaskStatus.RUNNING
        assert where(before) == [A]
        assert where(after) == [A, B]
        assert after.attempts[0].ending is not None
        assert after.attempts[0].ending.outcome is Outcome.LOST
        assert (after.losses, after.failures) == (1, 0)

    run(story)


def test_a_primary_that_is_cut_off_kills_its_own_attempts_too() -> None:
    async def story(nodes: Nodes) -> None:
        shards = nodes[A].shards
        execution_id = await trigger(shards, await save(shards, "job", parameters=LONG))
        await until(lambda: len(nodes[A].playing) == 1)

        nodes[A].is_cut_off = True
        nodes.cut(A, B, C)
        await until(lambda: len(nodes.playing) == 1 and not nodes[A].playing)

        assert len(task_of(nodes, execution_id).attempts) == 2

    run(story)


@pytest.mark.parametrize("kind", [AskLease, GiveLease])
def test_an_attempt_whose_session_is_over_lives_by_leases_of_which_some_are_lost(
    kind: type[Sent],
) -> None:
    async def story(nodes: Nodes) -> None:
        execution_id = await long_attempt_away(nodes)
        nodes.loses = losing_first(4, kind)

        nodes[A].is_cut_off = True
        await asyncio.sleep(3 * LOST_BY_S)

        assert len(nodes[A].playing) == 1
        assert where(task_of(nodes, execution_id)) == [A]

    run(story)


def test_a_lease_that_comes_late_counts_from_when_it_was_asked_for() -> None:
    late_s = 10.0  # Longer than the primary waits on top of the lease.

    async def story(nodes: Nodes) -> None:
        execution_id = await long_attempt_away(nodes)
        nodes.delays_s = lambda message: (late_s if isinstance(message, GiveLease) else ARRIVES_S,)
        await asyncio.sleep(late_s)

        nodes[A].is_cut_off = True
        nodes.cut(A, B, C)  # What is on its way already comes.
        await until(lambda: len(task_of(nodes, execution_id).attempts) == 2)

        assert not nodes[A].playing

    run(story)


def test_an_attempt_whose_shards_primary_is_out_of_reach_lives_by_its_session() -> None:
    async def story(nodes: Nodes) -> None:
        execution_id = await long_attempt_away(nodes)

        nodes.cut(A, B)
        await asyncio.sleep(3 * LOST_BY_S)

        assert len(nodes[A].playing) == 1
        assert where(task_of(nodes, execution_id)) == [A]

    run(story)


def test_a_node_that_got_another_session_still_runs_its_attempts_of_the_one_before() -> None:
    async def story(nodes: Nodes) -> None:
        execution_id = await long_attempt_away(nodes)
        shards = nodes[A].shards
        other = ShardId(1 - nodes.shard_of(execution_id))
        own = await trigger(shards, await save(shards, name_in(nodes, other), parameters=LONG))

        await end_session(nodes, A)
        await asyncio.sleep(3 * LOST_BY_S)

        assert len(nodes[A].playing) == 2
        assert where(task_of(nodes, execution_id)) == [A]
        assert where(task_of(nodes, own)) == [A]

    run(story)


def test_an_attempt_of_a_session_before_goes_on_when_its_shard_comes_back() -> None:
    async def story(nodes: Nodes) -> None:
        execution_id = await long_attempt_away(nodes)
        await end_session(nodes, A)

        await nodes.move(nodes.shard_of(execution_id), A, B, C)
        await asyncio.sleep(LOST_BY_S)

        assert len(nodes[A].playing) == 1
        assert where(task_of(nodes, execution_id)) == [A]

    run(story)


def test_an_attempt_of_a_session_before_does_not_live_by_the_present_one() -> None:
    async def story(nodes: Nodes) -> None:
        execution_id = await long_attempt_away(nodes)
        await end_session(nodes, A)

        nodes.cut(A, B)
        await until(lambda: len(task_of(nodes, execution_id).attempts) == 2)

        assert not nodes[A].playing
        assert where(task_of(nodes, execution_id)) == [A, B]

    run(story)


def test_an_attempt_of_a_session_that_has_ended_keeps_the_rest_of_its_time() -> None:
    async def story(nodes: Nodes) -> None:
        await long_attempt_away(nodes)
        nodes.cut(A, B)
        await asyncio.sleep(LOST_BY_S)  # It has no lease any more, and goes on by its session.
        liveness = nodes[A].running.foundation.liveness
        until_then = liveness.session_end

        await end_session(nodes, A)
        left_s = (until_then - nodes[A].clock.elapsed()) / SECOND
        await asyncio.sleep(left_s / 2)

        assert left_s > 0
        assert len(nodes[A].playing) == 1

        await asyncio.sleep(left_s / 2 + TIMING.session / SECOND)

        assert not nodes[A].playing

    run(story)


def test_a_session_granted_for_longer_than_asked_lets_no_attempt_run_twice(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(nodes: Nodes) -> None:
        nodes.server.state.ttl_s_min = 20 * TIMING.session / SECOND
        await end_session(nodes, A)
        execution_id = await long_attempt_away(nodes)
        nodes.cut(A, B, C)
        nodes[A].is_cut_off = True

        # The coordinator loses it before its time, as etcd has done.
        nodes.server.change(lambda state: state.end(state.view().lives[A].session))
        await until(lambda: len(task_of(nodes, execution_id).attempts) == 2)

        assert not nodes[A].playing
        assert "session longer than asked for" in caplog.messages

    run(story)


def test_an_attempt_that_was_fenced_cannot_have_succeeded(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(nodes: Nodes) -> None:
        shards = nodes[A].shards
        execution_id = await trigger(shards, await save(shards, "job", parameters=FIVE_S))
        await until(lambda: len(nodes[A].playing) == 1)
        # Its end and the kill cross.
        monkeypatch.setattr(PlayingExecutor, "stop", do_nothing)

        nodes[A].running.context.attempts.fence(nodes[A].playing[0])
        _, task = await nodes.ended(execution_id)

        outcomes = [each.ending.outcome for each in task.attempts if each.ending]
        assert outcomes == [Outcome.CANCELLED, Outcome.SUCCEEDED]

    run(story)


def test_what_the_primary_has_no_record_of_is_to_be_stopped() -> None:
    async def story(nodes: Nodes) -> None:
        execution_id = await long_attempt_away(nodes)
        shard = nodes.shard_of(execution_id)
        answers: list[Sent] = []
        nodes.loses = lambda sender, receiver, message: lost_into(answers, message)
        known, unknown = AttemptKey(execution_id, "main", 1), AttemptKey(execution_id, "main", 7)

        ask = AskLease(incarnation=1, epoch=Epoch(0), attempts=(known, unknown), sent_at=Instant(5))
        nodes[B].running.router.receive(shard, A, ask)

        assert answers == [GiveLease(stop=(unknown,), sent_at=Instant(5))]

    run(story)


def test_a_primary_without_authority_gives_no_lease() -> None:
    async def story(nodes: Nodes) -> None:
        execution_id = await long_attempt_away(nodes)
        shard = nodes.shard_of(execution_id)
        nodes[B].is_cut_off = True
        nodes.cut(B, A, C)
        replica = nodes[B].shards[shard].replica
        clock = nodes[B].running.context.clock
        await until(lambda: not replica.has_authority(clock.elapsed()))
        answers: list[Sent] = []
        nodes.loses = lambda sender, receiver, message: lost_into(answers, message)

        ask = AskLease(incarnation=1, epoch=Epoch(0), attempts=(), sent_at=Instant(5))
        nodes[B].running.router.receive(shard, A, ask)

        assert not [each for each in answers if isinstance(each, GiveLease)]

    run(story)


# -- losses ----------------------------------------------------------------------------------------


def test_what_a_node_ran_before_it_was_started_again_is_lost_as_soon_as_it_says_so() -> None:
    async def story(nodes: Nodes) -> None:
        execution_id = await long_attempt_away(nodes)
        await nodes[A].end()

        await nodes[A].start()
        await asyncio.sleep(2)

        assert where(task_of(nodes, execution_id)) == [A, B]
        assert task_of(nodes, execution_id).failures == 0

    run(story)


def test_what_a_node_that_stays_away_ran_is_lost_when_its_time_is_over() -> None:
    async def story(nodes: Nodes) -> None:
        execution_id = await long_attempt_away(nodes)
        await nodes[A].end()
        nodes[A].forget_playing()

        await asyncio.sleep(FENCED_BY_S / 2)
        early = where(task_of(nodes, execution_id))
        await asyncio.sleep(LOST_BY_S)

        assert early == [A]
        assert where(task_of(nodes, execution_id)) == [A, B]

    run(story)


def test_what_a_machine_ran_is_lost_when_the_machine_is_back_on_another_boot_clock() -> None:
    async def story(nodes: Nodes) -> None:
        execution_id = await long_attempt_away(nodes)
        await asyncio.sleep(5)  # B has leased it by the clock of before.
        await nodes[A].end()
        nodes[A].forget_playing()
        nodes[A].clock.reboot()

        await nodes[A].start()
        await until(lambda: where(task_of(nodes, execution_id)) == [A, B])

        assert task_of(nodes, execution_id).failures == 0

    run(story)


def test_what_a_machine_ran_is_lost_when_it_is_back_with_an_empty_disk_and_its_clock_behind() -> (
    None
):
    async def story(nodes: Nodes) -> None:
        execution_id = await long_attempt_away(nodes)
        await asyncio.sleep(5)  # B has heard an incarnation above that of the next life.
        await nodes[A].end()
        nodes[A].wipe()

        await nodes[A].start()
        await until(lambda: where(task_of(nodes, execution_id)) == [A, B])

        assert task_of(nodes, execution_id).failures == 0

    run(story)


def test_a_node_with_a_new_directory_makes_nothing_lost_of_the_one_before() -> None:
    async def story(nodes: Nodes) -> None:
        execution_id = await long_attempt_away(nodes)
        await nodes[A].end()
        end_attempts = nodes[A].replace_directory()

        await nodes[A].start()  # Beside it the warden of the directory before runs the attempt.
        await asyncio.sleep(2 * TIMING.session / SECOND)
        before = where(task_of(nodes, execution_id))
        end_attempts()  # Its lease has run out.
        await until(lambda: len(where(task_of(nodes, execution_id))) == 2)

        assert before == [A]

    run(story)


def test_a_node_with_a_new_directory_that_becomes_primary_makes_nothing_lost_either() -> None:
    async def story(nodes: Nodes) -> None:
        execution_id = await long_attempt_away(nodes)
        await nodes[A].end()
        end_attempts = nodes[A].replace_directory()

        await nodes[A].start()
        await nodes.move(nodes.shard_of(execution_id), A, B, C)
        before = where(task_of(nodes, execution_id))
        end_attempts()
        await until(lambda: len(where(task_of(nodes, execution_id))) == 2)

        assert before == [A]

    run(story)


def test_a_question_of_an_earlier_incarnation_makes_nothing_lost() -> None:
    async def story(nodes: Nodes) -> None:
        execution_id = await long_attempt_away(nodes)
        shard = nodes[B].shards[nodes.shard_of(execution_id)]
        await asyncio.sleep(5)

        after_all = later(nodes[A].clock.elapsed(), Duration(60 * SECOND))
        ask = AskLease(incarnation=0, epoch=shard.epoch, attempts=(), sent_at=after_all)
        nodes[B].running.router.receive(shard.id, A, ask)
        await asyncio.sleep(1)

        assert where(task_of(nodes, execution_id)) == [A]

    run(story)


def test_an_attempt_that_was_recorded_and_never_launched_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story(nodes: Nodes) -> None:
        shards = nodes[A].shards
        job_id = await save(shards, "job", parameters=LONG)
        # As if its primacy had ended between the commit and the launch.
        with monkeypatch.context() as patch:
            patch.setattr(LocalAttempts, "launch", do_nothing)
            execution_id = await trigger(shards, job_id)
            await until(lambda: task_of(nodes, execution_id).status is TaskStatus.RUNNING)
            await asyncio.sleep(0.1)

        await nodes.move(nodes.shard_of(execution_id), B, A, C)
        await until(lambda: bool(nodes[B].playing))

        assert where(task_of(nodes, execution_id)) == [A, B]

    run(story)


def test_what_a_node_said_before_it_knew_of_the_takeover_makes_nothing_lost() -> None:
    async def story(nodes: Nodes) -> None:
        execution_id = await long_attempt_away(nodes)
        shard = nodes.shard_of(execution_id)
        epoch = nodes[B].shards[shard].epoch

        after_all = later(nodes[A].clock.elapsed(), Duration(60 * SECOND))
        early = AskLease(incarnation=1, epoch=Epoch(epoch - 1), attempts=(), sent_at=after_all)
        nodes[B].running.router.receive(shard, A, early)
        await asyncio.sleep(1)
        after_early = where(task_of(nodes, execution_id))
        nodes[A].forget_playing()
        late = AskLease(incarnation=1, epoch=epoch, attempts=(), sent_at=after_all)
        nodes[B].running.router.receive(shard, A, late)
        await asyncio.sleep(1)

        assert after_early == [A]
        assert where(task_of(nodes, execution_id)) == [A, B]

    run(story)


# -- a shard that has gone elsewhere ---------------------------------------------------------------


def test_a_cancelled_attempt_is_stopped_where_it_runs() -> None:
    async def story(nodes: Nodes) -> None:
        execution_id = await long_attempt_away(nodes)
        nodes.loses = losing_first(3, GiveLease)

        shards = nodes[B].shards
        await shards.ask(shards.of_id(execution_id), Cancel(execution_id=execution_id))
        execution, task = await nodes.ended(execution_id)

        assert execution.status is ExecutionStatus.CANCELLED
        assert where(task) == [A]
        assert not nodes.playing

    run(story)


def test_an_attempt_that_was_cancelled_before_its_shard_went_is_stopped() -> None:
    async def story(nodes: Nodes) -> None:
        execution_id = await long_attempt_away(nodes)
        nodes.loses = lambda sender, receiver, message: isinstance(message, GiveLease)
        shards = nodes[B].shards
        await shards.ask(shards.of_id(execution_id), Cancel(execution_id=execution_id))

        await nodes.move(nodes.shard_of(execution_id), C, A, B)
        nodes.loses = lambda sender, receiver, message: False
        execution, _ = await nodes.ended(execution_id)

        assert execution.status is ExecutionStatus.CANCELLED
        assert not nodes.playing

    run(story)


def test_tasks_that_waited_for_a_place_get_one_where_the_shard_has_gone() -> None:
    async def story(nodes: Nodes) -> None:
        shards = nodes[A].shards
        job_id = await save(shards, "job", parameters=LONG)
        running, waiting = await trigger(shards, job_id), await trigger(shards, job_id)
        await until(lambda: len(nodes[A].playing) == 1)

        await nodes.move(nodes.shard_of(running), B, A, C)
        await until(lambda: len(nodes[B].playing) == 1)

        slot_table = nodes[A].running.context.attempts.slot_table
        assert where(task_of(nodes, running)) == [A]
        assert where(task_of(nodes, waiting)) == [B]
        assert (slot_table.used, slot_table.waiting) == (1, 0)

    run(story, slots=1)


def test_a_delay_before_a_retry_goes_on_where_the_shard_has_gone() -> None:
    async def story(nodes: Nodes) -> None:
        shards = nodes[A].shards
        retries = RetryBody(limit=1, backoff="fixed", delay="20s")
        job_id = await save(shards, "job", parameters={"failTimes": 1}, retries=retries)
        execution_id = await trigger(shards, job_id)
        await until(lambda: task_of(nodes, execution_id).status is TaskStatus.BACKING_OFF)

        await nodes.move(nodes.shard_of(execution_id), B, A, C)
        execution, task = await nodes.ended(execution_id)

        assert execution.status is ExecutionStatus.SUCCESS
        assert where(task) == [A, B]

    run(story)


def test_a_start_that_was_never_committed_gives_its_place_back() -> None:
    async def story(nodes: Nodes) -> None:
        shards, slot_table = nodes[A].shards, nodes[A].running.context.attempts.slot_table
        job_id = await save(shards, "job", parameters=LONG)
        shard = shards.of_id(job_id)
        nodes.loses = lambda sender, receiver, message: sender == A and isinstance(message, Append)
        nodes[A].is_cut_off = True

        asked = nodes.group.create_task(refusal_of(trigger(shards, job_id)))
        await until(lambda: nodes[B].shards[shard.id].is_open)
        nodes.mend()
        assert await asked == "primary_lost"
        await until(lambda: not shard.is_open)

        assert (slot_table.used, slot_table.waiting) == (0, 0)
        nodes.loses = lambda sender, receiver, message: False

    run(story)


def test_a_place_that_was_called_for_a_shard_that_then_went_is_free() -> None:
    async def story(nodes: Nodes) -> None:
        shards, slot_table = nodes[A].shards, nodes[A].running.context.attempts.slot_table
        job_id = await save(shards, "job", parameters={"sleepMs": 4_000})
        await trigger(shards, job_id)
        await trigger(shards, job_id)
        await until(lambda: (slot_table.used, slot_table.waiting) == (1, 1))

        # The first ends, the second is called, and nothing can be decided any more.
        nodes[A].is_cut_off = True
        nodes.cut(A, B, C)
        await until(lambda: not shards.of_id(job_id).is_open or not slot_table.waiting)
        nodes.mend()
        await until(lambda: not shards.of_id(job_id).is_open)

        await until(lambda: not slot_table.used)
        assert slot_table.slots_for(Trigger(job_id=job_id)).free == 1

    run(story, slots=1)


# -- the right to speak ----------------------------------------------------------------------------


def test_a_primary_that_is_cut_off_tells_nothing_of_what_it_remembers() -> None:
    async def story(nodes: Nodes) -> None:
        shards = nodes[A].shards
        shard = shards.of_id(await save(shards, "job"))
        await shards.settled(shard)

        nodes[A].is_cut_off = True
        nodes.cut(A, B, C)
        await until(lambda: nodes.primary(shard.id) is not shard)

        assert shard.is_open
        with pytest.raises(Refused, match="not_primary"):
            await shards.settled(shard)

    run(story)


# -- letters ---------------------------------------------------------------------------------------

UP, DOWN = ShardId(0), ShardId(1)


async def jobs_of_two_nodes(nodes: Nodes) -> tuple[JobId, JobId]:
    """Have a job on A, and one on B that runs after it."""
    up, down = name_in(nodes, UP), name_in(nodes, DOWN)
    await nodes.move(DOWN, B, A, C)
    upstream = await save(nodes[A].shards, up)
    downstream = await save(nodes[B].shards, down, dependencies=[f"default/{up}"])
    await until(lambda: bool(nodes[A].shards[UP].state.dependents))
    return upstream, downstream


@pytest.mark.parametrize("kind", [Deliver, DeliveryReceipt])
def test_a_letter_to_a_shard_elsewhere_takes_effect_once(kind: type[Sent]) -> None:
    async def story(nodes: Nodes) -> None:
        upstream, downstream = await jobs_of_two_nodes(nodes)
        nodes.loses = losing_first(4, kind)

        await trigger(nodes[A].shards, upstream)
        await until(lambda: bool(nodes[A].shards[UP].state.outbox))
        await until(lambda: not nodes[A].shards[UP].state.outbox)
        await asyncio.sleep(2)

        history = nodes[B].running.context.history
        [execution] = history.executions_of(DOWN, downstream, None)
        assert isinstance(execution, Execution)
        assert execution.status is ExecutionStatus.SUCCESS

    run(story)


def test_a_letter_is_brought_by_the_next_primary_of_the_shard_that_wrote_it() -> None:
    async def story(nodes: Nodes) -> None:
        upstream, downstream = await jobs_of_two_nodes(nodes)
        nodes.cut(A, B)
        await trigger(nodes[A].shards, upstream)
        await until(lambda: bool(nodes[A].shards[UP].state.outbox))

        await nodes[A].end()
        nodes.mend()
        nodes.wanted = {UP: (C, B, A), DOWN: (B, C, A)}
        history = nodes[B].running.context.history
        await until(lambda: any(history.executions_of(DOWN, downstream, None)))
        await asyncio.sleep(2)

        assert len(list(history.executions_of(DOWN, downstream, None))) == 1

    run(story)


def test_letters_of_a_shard_that_has_gone_are_left_to_its_next_primary() -> None:
    async def story(nodes: Nodes) -> None:
        upstream, _ = await jobs_of_two_nodes(nodes)
        nodes.loses = lambda sender, receiver, message: isinstance(message, Deliver)
        await trigger(nodes[A].shards, upstream)
        await until(lambda: deliveries(nodes, A) == 1)

        await nodes.move(UP, C, A, B)

        assert deliveries(nodes, A) == 0
        assert deliveries(nodes, C) == 1

    run(story)


def test_letters_take_effect_in_the_order_of_their_journal_however_they_come() -> None:
    async def story(nodes: Nodes) -> None:
        await jobs_of_two_nodes(nodes)
        up, down = name_in(nodes, UP), name_in(nodes, DOWN)
        chance = SeededEntropy(3)
        nodes.delays_s = lambda message: (
            tuple(chance.draw() / 2**62 for _ in range(4))
            if isinstance(message, Deliver)
            else (ARRIVES_S,)
        )

        for dependencies in ([], [f"default/{up}"]) * 5:
            spec = spec_of(down, dependencies=dependencies)
            shard = nodes[B].shards.of_name("default", down)
            await nodes[B].shards.ask(shard, SaveJob(spec=spec, may_replace=True))
            await asyncio.sleep(chance.draw() / 2**64)
        await until(lambda: not nodes[B].shards[DOWN].state.outbox)
        await asyncio.sleep(5)

        dependents = nodes[A].shards[UP].state.dependents
        assert dependents == {f"default/{up}": {f"default/{down}": None}}

    run(story)
