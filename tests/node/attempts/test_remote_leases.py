"""Leases of remote attempts, and attempts that count as lost."""

import asyncio

import pytest

from rota.core.model.attempt import AttemptKey, Outcome
from rota.core.model.execution import TaskStatus
from rota.core.model.ids import Epoch, ShardId
from rota.core.timing.instants import SECOND, Duration, Instant, later
from rota.node.attempts.local_attempts import LocalAttempts
from rota.node.peers.messages import AskLease, GiveLease, Sent
from support.in_process import save, trigger
from support.moved_shards import (
    FIVE_S,
    LONG,
    do_nothing,
    end_session,
    long_attempt_away,
    losing_first,
    lost_into,
    name_in,
    task_of,
    where,
)
from support.virtual_nodes import (
    ARRIVES_S,
    FENCED_BY_S,
    LOST_BY_S,
    TIMING,
    A,
    B,
    C,
    Nodes,
    PlayingExecutor,
    run,
    until,
)

# -- leases ----------------------------------------------------------------------------------------


def test_an_attempt_that_is_cut_off_is_killed_before_it_is_lost_and_started_again() -> None:
    async def story(nodes: Nodes) -> None:
        execution_id = await long_attempt_away(nodes)

        nodes[A].is_cut_off = True
        nodes.cut(A, B, C)
        await until(lambda: not nodes[A].playing)
        before = task_of(nodes, execution_id)
        # Each launch checks that no two attempts run at the same time.
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


def test_a_late_lease_counts_from_its_request() -> None:
    late_s = 10.0  # Longer than the primary waits on top of the lease.

    async def story(nodes: Nodes) -> None:
        execution_id = await long_attempt_away(nodes)
        nodes.delays_s = lambda message: (late_s if isinstance(message, GiveLease) else ARRIVES_S,)
        await asyncio.sleep(late_s)

        nodes[A].is_cut_off = True
        nodes.cut(A, B, C)  # Messages in transit still arrive.
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


def test_an_attempt_of_an_earlier_session_continues_after_the_return_of_its_shard() -> None:
    async def story(nodes: Nodes) -> None:
        execution_id = await long_attempt_away(nodes)
        await end_session(nodes, A)

        await nodes.move(nodes.shard_of(execution_id), A, B, C)
        await asyncio.sleep(LOST_BY_S)

        assert len(nodes[A].playing) == 1
        assert where(task_of(nodes, execution_id)) == [A]

    run(story)


def test_an_attempt_of_an_earlier_session_is_not_leased_by_the_present_one() -> None:
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
        await asyncio.sleep(LOST_BY_S)  # Without a lease the attempt runs on under its session.
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

        # The coordinator loses the session early, as etcd has done.
        nodes.server.change(lambda state: state.end(state.view().lives[A].session))
        await until(lambda: len(task_of(nodes, execution_id).attempts) == 2)

        assert not nodes[A].playing
        assert "session longer than requested" in caplog.messages

    run(story)


def test_an_attempt_that_was_fenced_cannot_have_succeeded(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(nodes: Nodes) -> None:
        shards = nodes[A].shards
        execution_id = await trigger(shards, await save(shards, "job", parameters=FIVE_S))
        await until(lambda: len(nodes[A].playing) == 1)
        # The end of the attempt and the kill cross.
        monkeypatch.setattr(PlayingExecutor, "stop", do_nothing)

        nodes[A].running.context.attempts.fence(nodes[A].playing[0])
        _, task = await nodes.ended(execution_id)

        outcomes = [each.ending.outcome for each in task.attempts if each.ending]
        assert outcomes == [Outcome.CANCELLED, Outcome.SUCCEEDED]

    run(story)


def test_an_attempt_without_a_record_at_the_primary_is_stopped() -> None:
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


def test_attempts_before_a_restart_are_lost_at_the_first_report_of_the_node() -> None:
    async def story(nodes: Nodes) -> None:
        execution_id = await long_attempt_away(nodes)
        await nodes[A].end()

        await nodes[A].start()
        await asyncio.sleep(2)

        assert where(task_of(nodes, execution_id)) == [A, B]
        assert task_of(nodes, execution_id).failures == 0

    run(story)


def test_attempts_of_an_absent_node_are_lost_after_their_leases() -> None:
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


def test_attempts_are_lost_after_a_reboot_of_the_machine() -> None:
    async def story(nodes: Nodes) -> None:
        execution_id = await long_attempt_away(nodes)
        await asyncio.sleep(5)  # B has leased the attempt by the clock before the reboot.
        await nodes[A].end()
        nodes[A].forget_playing()
        nodes[A].clock.reboot()

        await nodes[A].start()
        await until(lambda: where(task_of(nodes, execution_id)) == [A, B])

        assert task_of(nodes, execution_id).failures == 0

    run(story)


def test_attempts_are_lost_after_a_return_with_an_empty_disk_and_a_slow_clock() -> None:
    async def story(nodes: Nodes) -> None:
        execution_id = await long_attempt_away(nodes)
        await asyncio.sleep(5)  # B has received an incarnation above that of the next life.
        await nodes[A].end()
        nodes[A].wipe()

        await nodes[A].start()
        await until(lambda: where(task_of(nodes, execution_id)) == [A, B])

        assert task_of(nodes, execution_id).failures == 0

    run(story)


def test_a_node_with_a_new_directory_makes_no_attempt_of_the_old_one_lost() -> None:
    async def story(nodes: Nodes) -> None:
        execution_id = await long_attempt_away(nodes)
        await nodes[A].end()
        end_attempts = nodes[A].replace_directory()

        await nodes[A].start()  # The warden of the old directory still runs the attempt.
        await asyncio.sleep(2 * TIMING.session / SECOND)
        before = where(task_of(nodes, execution_id))
        end_attempts()  # Its lease has run out.
        await until(lambda: len(where(task_of(nodes, execution_id))) == 2)

        assert before == [A]

    run(story)


def test_a_primary_with_a_new_directory_makes_no_attempt_of_the_old_one_lost() -> None:
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


def test_a_lease_request_of_an_earlier_incarnation_makes_no_attempt_lost() -> None:
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
        # As after a lost shard between the commit and the launch.
        with monkeypatch.context() as patch:
            patch.setattr(LocalAttempts, "launch", do_nothing)
            execution_id = await trigger(shards, job_id)
            await until(lambda: task_of(nodes, execution_id).status is TaskStatus.RUNNING)
            await asyncio.sleep(0.1)

        await nodes.move(nodes.shard_of(execution_id), B, A, C)
        await until(lambda: bool(nodes[B].playing))

        assert where(task_of(nodes, execution_id)) == [A, B]

    run(story)


def test_a_lease_request_from_before_the_takeover_makes_no_attempt_lost() -> None:
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
