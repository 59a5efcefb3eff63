"""Slots that nodes lend each other, and attempts on other nodes than their primary."""

import asyncio

import pytest
from msgspec.structs import replace

from rota.core.model.attempt import AttemptKey, Outcome
from rota.core.model.execution import ExecutionStatus, Task, TaskStatus
from rota.core.model.ids import ExecutionId, JobId, NodeId, Session, ShardId
from rota.core.timing.instants import SECOND, Instant
from rota.core.vocabulary.commands import Cancel, SaveJob
from rota.core.vocabulary.decision import JobSaved
from rota.node.attempts.attempt_leases import QUESTIONS_MAX
from rota.node.peers.messages import (
    AskLease,
    AskList,
    AskSlots,
    Dispatch,
    GiveLease,
    LendSlots,
    ReturnSlots,
    Sent,
)
from rota.wire.bodies.job_bodies import job_spec
from rota.wire.documents import JobBody
from support.in_process import save, trigger
from support.moved_shards import losing_first
from support.virtual_nodes import FENCED_BY_S, TIMING, A, B, C, Nodes, run, until

LONG = {"sleepMs": 3_600_000}
SHORT = {"sleepMs": 2_000}
ONE, OTHER = ShardId(0), ShardId(1)
GIVEN_UP_S = 5.0
"""Longer than the repeated dispatch of an attempt to a node that does not accept it."""


async def busy(
    nodes: Nodes, count: int, parameters: dict[str, int], shard: ShardId = ONE
) -> list[ExecutionId]:
    """Trigger a job of a shard *count* times, on its primary."""
    shards = nodes[nodes.wanted[shard][0]].shards
    name = next(name for name in map(str, range(99)) if shards.of_name("default", name).id == shard)
    job_id = await save(shards, name, parameters=parameters)
    return [await trigger(shards, job_id) for _ in range(count)]


def where(nodes: Nodes, execution_id: ExecutionId) -> list[NodeId]:
    """Return the node of each attempt of an unfinished execution."""
    task = nodes.task(execution_id)
    return [attempt.node_id for attempt in task.attempts] if task else []


def slot_table(nodes: Nodes, node_id: NodeId) -> tuple[int, int]:
    """Return the numbers of used slots and of waiting tasks on a node."""
    here = nodes[node_id].running.context.attempts.slot_table
    return here.used, here.waiting


def played(nodes: Nodes) -> dict[NodeId, int]:
    """Return how many attempts each node plays."""
    return {node_id: len(nodes[node_id].playing) for node_id in (A, B, C)}


def executions_on(nodes: Nodes, node_id: NodeId) -> set[ExecutionId]:
    """Return the executions whose attempts a node plays."""
    return {key.execution_id for key in nodes[node_id].playing}


async def save_selecting(nodes: Nodes, **selector: str) -> JobId:
    """Create a job on A whose only task needs a node with certain labels."""
    spec = job_spec(
        JobBody(name="picky", type="scripted", parameters=SHORT, node_selector=selector)
    )
    shards = nodes[A].shards
    saved = await shards.ask(shards.of_name("default", "picky"), SaveJob(spec=spec))
    assert isinstance(saved, JobSaved)
    return saved.job_id


def task_of(nodes: Nodes, execution_id: ExecutionId) -> Task:
    task = nodes.task(execution_id)
    assert task is not None
    return task


# -- assignment ------------------------------------------------------------------------------------


def test_tasks_without_a_slot_on_their_primary_run_on_other_nodes() -> None:
    async def story(nodes: Nodes) -> None:
        made = await busy(nodes, 7, SHORT)
        await until(lambda: len(nodes.playing) == 6)
        spread, waiting = played(nodes), slot_table(nodes, A)[1]

        ended = [await nodes.ended(each) for each in made]

        assert spread == {A: 2, B: 2, C: 2}
        assert waiting == 1
        assert {execution.status for execution, _ in ended} == {ExecutionStatus.SUCCESS}
        assert all(len(task.attempts) == 1 for _, task in ended)
        await until(lambda: all(slot_table(nodes, each) == (0, 0) for each in (A, B, C)))

    run(story, slots=2)


def test_no_task_leaves_its_primary_while_slots_are_free_there() -> None:
    async def story(nodes: Nodes) -> None:
        asked: list[Sent] = []

        def records(sender: NodeId, receiver: NodeId, message: Sent) -> bool:
            del sender, receiver
            asked.extend([message] if isinstance(message, AskSlots) else [])
            return False

        nodes.loses = records

        await busy(nodes, 2, LONG)
        await until(lambda: played(nodes)[A] == 2)
        await asyncio.sleep(2)

        assert played(nodes) == {A: 2, B: 0, C: 0}
        assert not asked

    run(story, slots=2)


def test_the_node_with_the_most_free_slots_is_asked_first() -> None:
    async def story(nodes: Nodes) -> None:
        await nodes.move(OTHER, B, A, C)
        await busy(nodes, 3, LONG, shard=OTHER)
        await until(lambda: played(nodes)[B] == 3)
        await asyncio.sleep(1)  # Until B has announced its free slots.

        await busy(nodes, 6, LONG, shard=ONE)
        await until(lambda: len(nodes.playing) == 9)

        assert played(nodes) == {A: 4, B: 3, C: 2}

    run(story, slots=4)


def test_a_node_lends_no_slot_while_its_own_tasks_wait() -> None:
    async def story(nodes: Nodes) -> None:
        await nodes.move(OTHER, B, A, C)
        foreign = await busy(nodes, 3, LONG)
        await until(lambda: len(nodes.playing) == 3)
        await busy(nodes, 2, LONG)
        own = await busy(nodes, 2, LONG, shard=OTHER)
        [on_b] = [each for each in foreign if where(nodes, each) == [B]]

        shards = nodes[A].shards
        await shards.ask(shards.of_id(on_b), Cancel(execution_id=on_b))
        await until(lambda: executions_on(nodes, B) not in ({on_b}, set()))

        assert executions_on(nodes, B) == {own[0]}

    run(story, slots=1)


def test_a_slot_freed_on_another_node_goes_to_the_waiting_task() -> None:
    async def story(nodes: Nodes) -> None:
        made = await busy(nodes, 4, LONG)
        await until(lambda: len(nodes.playing) == 3)
        [on_b] = [each for each in made if where(nodes, each) == [B]]
        [waits] = [each for each in made if where(nodes, each) == []]

        shards = nodes[A].shards
        await shards.ask(shards.of_id(on_b), Cancel(execution_id=on_b))
        await until(lambda: where(nodes, waits) == [B])

        await until(lambda: played(nodes)[B] == 1)

    run(story, slots=1)


def test_unneeded_slots_are_returned_at_once() -> None:
    async def story(nodes: Nodes) -> None:
        # Both others are asked, for neither is known to have any; one is enough.
        await busy(nodes, 2, LONG)
        await until(lambda: len(nodes.playing) == 2)
        await asyncio.sleep(0.1)

        assert sorted(slot_table(nodes, each) for each in (A, B, C)) == [(0, 0), (1, 0), (1, 0)]

    run(story, slots=1)


def test_a_draining_node_gets_no_tasks_of_others() -> None:
    async def story(nodes: Nodes) -> None:
        active = nodes.server.state.view().members[B]
        nodes.server.change(lambda state: state.register(replace(active, state="draining")))
        await asyncio.sleep(1)

        await busy(nodes, 3, LONG)
        await until(lambda: len(nodes.playing) == 2)
        await asyncio.sleep(2)

        assert played(nodes) == {A: 1, B: 0, C: 1}

    run(story, slots=1)


# -- labels ----------------------------------------------------------------------------------------


def test_a_task_runs_on_a_node_with_its_labels() -> None:
    async def story(nodes: Nodes) -> None:
        job_id = await save_selecting(nodes, disk="ssd")

        made = [await trigger(nodes[A].shards, job_id) for _ in range(3)]
        ended = [await nodes.ended(each) for each in made]

        assert {task.attempts[0].node_id for _, task in ended} == {C}

    run(story, slots=2, labels={C: {"disk": "ssd", "zone": "z"}, B: {"disk": "tape"}})


def test_a_task_without_a_matching_node_waits_and_shows_the_reason() -> None:
    async def story(nodes: Nodes) -> None:
        job_id = await save_selecting(nodes, gpu="a100", disk="ssd")
        execution_id = await trigger(nodes[A].shards, job_id)
        await asyncio.sleep(3)
        waiting = task_of(nodes, execution_id)

        await nodes[C].end()
        nodes.labels[C] = {"disk": "ssd", "gpu": "a100"}
        await nodes[C].start()
        _, task = await nodes.ended(execution_id)

        assert waiting.status is TaskStatus.READY
        assert waiting.reason == "waits for a node with disk=ssd, gpu=a100"
        assert [attempt.node_id for attempt in task.attempts] == [C]
        assert task.reason == ""

    run(story, labels={C: {"disk": "ssd"}})


def test_a_task_that_waits_for_labels_does_not_block_others() -> None:
    async def story(nodes: Nodes) -> None:
        job_id = await save_selecting(nodes, gpu="a100")
        await trigger(nodes[A].shards, job_id)

        [execution_id] = await busy(nodes, 1, SHORT)
        await nodes.ended(execution_id)

        assert slot_table(nodes, A) == (0, 1)

    run(story)


# -- lost, late and duplicate messages -------------------------------------------------------------


@pytest.mark.parametrize("kind", [AskSlots, LendSlots, Dispatch, AskLease, GiveLease, ReturnSlots])
def test_lost_messages_cost_time_and_nothing_else(kind: type[Sent]) -> None:
    async def story(nodes: Nodes) -> None:
        nodes.loses = losing_first(3, kind)

        made = await busy(nodes, 9, SHORT)
        ended = [await nodes.ended(each) for each in made]

        assert {execution.status for execution, _ in ended} == {ExecutionStatus.SUCCESS}
        await until(lambda: all(slot_table(nodes, each) == (0, 0) for each in (A, B, C)))

    run(story, slots=1)


def test_duplicate_messages_start_nothing_twice_and_keep_no_slot() -> None:
    async def story(nodes: Nodes) -> None:
        nodes.delays_s = lambda message: (0.001, 0.003)
        made = await busy(nodes, 9, SHORT)
        for each in made:
            await nodes.ended(each)
        await asyncio.sleep(0.1)

        assert set(nodes.began.values()) == {1}
        assert len(nodes.began) == 9
        assert [slot_table(nodes, each) for each in (A, B, C)] == [(0, 0)] * 3

    run(story, slots=2)


@pytest.mark.parametrize("after_s", [(20.0,), tuple(1.99 + n / 200 for n in range(20))])
def test_an_attempt_that_arrives_again_after_it_ended_does_not_begin_again(
    after_s: tuple[float, ...],
) -> None:
    async def story(nodes: Nodes) -> None:
        nodes.delays_s = lambda message: (
            (0.001, *after_s) if isinstance(message, Dispatch) else (0.001,)
        )
        made = await busy(nodes, 3, SHORT)
        for each in made:
            await nodes.ended(each)
        began = dict(nodes.began)

        await asyncio.sleep(30)

        assert nodes.began == began
        assert set(began.values()) == {1}
        assert slot_table(nodes, B) == slot_table(nodes, C) == (0, 0)

    run(story, slots=1)


def test_an_answer_to_an_earlier_request_starts_nothing() -> None:
    async def story(nodes: Nodes) -> None:
        await busy(nodes, 1, LONG)
        await until(lambda: played(nodes)[A] == 1)
        [key] = nodes[A].playing
        order = nodes[A].running.context.attempts.orders[key]
        nodes.delays_s = lambda message: (5.0,) if isinstance(message, GiveLease) else (0.001,)
        nodes[B].running.router.receive(ONE, A, AskList())
        await asyncio.sleep(1)  # Until A has answered.
        nodes.cut(B, A)

        other = AttemptKey(key.execution_id, "other", 1)
        session = nodes.session_of(B)
        assert session is not None
        unknown = replace(order, key=other, session=session)
        nodes[B].running.router.receive(ONE, A, Dispatch(order=unknown))
        before = slot_table(nodes, B)
        nodes.cuts.discard((A, B))
        await asyncio.sleep(5)

        assert before == (1, 0), "it has a slot, and waits for its confirmation"
        assert nodes[B].playing == []

    run(story)


def test_an_attempt_does_not_begin_by_a_lease_that_has_ended() -> None:
    late_s = 0.99 * TIMING.attempt_lease / SECOND
    """After the end of the lease, and before the wait for it ends."""

    async def story(nodes: Nodes) -> None:
        arrived: list[int] = []

        def delay(message: Sent) -> tuple[float, ...]:
            if not isinstance(message, GiveLease):
                return (0.001,)
            nodes.loop.call_later(late_s, lambda: arrived.append(nodes.loop.now))
            return (late_s,)

        nodes.delays_s = delay
        await busy(nodes, 2, LONG)
        await until(lambda: len(nodes[A].playing) == 1 and bool(arrived))
        await asyncio.sleep(0.05 * late_s)

        assert played(nodes) == {A: 1, B: 0, C: 0}
        assert len(nodes.began) == 1

    run(story, slots=1)


def test_the_slot_of_an_attempt_that_is_never_confirmed_is_free_after_a_lease() -> None:
    async def story(nodes: Nodes) -> None:
        await busy(nodes, 1, LONG)
        await until(lambda: played(nodes)[A] == 1)
        [key] = nodes[A].playing
        order = nodes[A].running.context.attempts.orders[key]
        session = nodes.session_of(B)
        assert session is not None
        nodes.cut(A, B)
        unknown = replace(order, key=AttemptKey(key.execution_id, "other", 1), session=session)
        nodes[B].running.router.receive(ONE, A, Dispatch(order=unknown))
        before = slot_table(nodes, B)

        await until(lambda: slot_table(nodes, B) == (0, 0), 2 * TIMING.attempt_lease / SECOND)

        assert before == (1, 0)
        assert nodes[B].playing == []

    run(story)


def test_an_attempt_of_another_session_than_its_nodes_is_not_accepted() -> None:
    async def story(nodes: Nodes) -> None:
        await busy(nodes, 1, LONG)
        await until(lambda: played(nodes)[A] == 1)
        [key] = nodes[A].playing
        of_another = nodes[A].running.context.attempts.orders[key]
        assert of_another.session != nodes.session_of(B)

        nodes[B].running.router.receive(ONE, A, Dispatch(order=of_another))

        assert slot_table(nodes, B) == (0, 0)

    run(story)


def test_a_lent_slot_is_used_under_the_session_of_the_lender() -> None:
    async def story(nodes: Nodes) -> None:
        known = nodes[A].running.context.membership.sessions
        assert isinstance(known, dict)
        known[B] = known[C] = Session("of a process that has ended")

        made = await busy(nodes, 3, SHORT)

        for each in made:
            _, task = await nodes.ended(each)
            [attempt] = task.attempts
            assert attempt.session == nodes.session_of(attempt.node_id)

    run(story, slots=1)


def test_an_attempt_refused_by_a_node_runs_on_another() -> None:
    async def story(nodes: Nodes) -> None:
        nodes.delays_s = lambda message: (30.0,) if isinstance(message, Dispatch) else (0.001,)
        made = await busy(nodes, 2, LONG)
        await until(lambda: all(where(nodes, each) for each in made))
        [away] = [each for each in made if where(nodes, each) != [A]]
        [silent] = where(nodes, away)
        nodes.loses = lambda sender, receiver, message: (
            isinstance(message, Dispatch) and receiver == silent
        )
        nodes.delays_s = lambda message: (0.001,)
        await until(lambda: len(nodes.playing) == 2, GIVEN_UP_S)

        await asyncio.sleep(40)

        task = task_of(nodes, away)
        assert len(nodes.playing) == 2
        assert {attempt.ending.outcome for attempt in task.attempts[:-1] if attempt.ending} == {
            Outcome.LOST
        }
        assert task.attempts[-1].ending is None
        assert task.failures == 0

    run(story, slots=1)


def test_an_attempt_on_its_way_is_not_lost_because_its_node_does_not_name_it() -> None:
    async def story(nodes: Nodes) -> None:
        nodes.delays_s = lambda message: (1.5,) if isinstance(message, Dispatch) else (0.001,)
        made = await busy(nodes, 2, LONG)
        await until(lambda: all(where(nodes, each) for each in made))
        [away] = [each for each in made if where(nodes, each) != [A]]
        [node_id] = where(nodes, away)

        nodes[node_id].running.router.receive(ONE, A, AskList())
        await until(lambda: len(nodes.playing) == 2)

        assert where(nodes, away) == [node_id]

    run(story, slots=1)


def test_an_attempt_continues_with_more_open_lease_requests_than_are_kept() -> None:
    async def story(nodes: Nodes) -> None:
        made = await busy(nodes, 2, LONG)
        await until(lambda: len(nodes.playing) == 2)
        [away] = [each for each in made if where(nodes, each) != [A]]
        [node_id] = where(nodes, away)
        shard = nodes[A].shards.of_id(away)
        nodes.delays_s = lambda message: (1 if isinstance(message, GiveLease) else 0.001,)

        nodes[node_id].is_cut_off = True  # Its session ends: the lease alone counts.
        for _ in range(6_000):  # Four leases long, and twice the limit each second.
            nodes[node_id].running.router.receive(shard.id, A, AskList())
            assert nodes[node_id].running.attempts.leases.question_count <= QUESTIONS_MAX
            await asyncio.sleep(0.002)
            nodes[node_id].running.router.receive(shard.id, A, AskList())
            await asyncio.sleep(0.002)

        assert where(nodes, away) == [node_id]
        assert len(nodes.playing) == 2

    run(story, slots=1)


def test_an_old_lease_request_makes_no_attempt_of_a_newer_one_lost() -> None:
    async def story(nodes: Nodes) -> None:
        made = await busy(nodes, 2, LONG)
        await until(lambda: len(nodes.playing) == 2)
        [away] = [each for each in made if where(nodes, each) != [A]]
        [node_id] = where(nodes, away)
        shard = nodes[A].shards.of_id(away)
        before = Instant(nodes[node_id].clock.elapsed() - SECOND)

        old = AskLease(incarnation=1, epoch=shard.epoch, attempts=(), sent_at=before)
        nodes[A].running.router.receive(shard.id, node_id, old)
        await asyncio.sleep(1)

        assert where(nodes, away) == [node_id]

    run(story, slots=1)


# -- nodes that end and start ----------------------------------------------------------------------


def test_an_attempt_continues_after_the_loss_of_its_primary() -> None:
    async def story(nodes: Nodes) -> None:
        made = await busy(nodes, 3, {"sleepMs": 15_000})
        await until(lambda: len(nodes.playing) == 3)
        on_c = next(each for each in made if where(nodes, each) == [C])

        await nodes[A].end()
        execution, task = await nodes.ended(on_c)

        assert execution.status is ExecutionStatus.SUCCESS
        assert [attempt.node_id for attempt in task.attempts] == [C]

    run(story, slots=1)


@pytest.mark.parametrize("kind", [Dispatch, AskLease, GiveLease])
def test_an_attempt_in_transit_is_left_to_the_next_primary(
    kind: type[Sent],
) -> None:
    async def story(nodes: Nodes) -> None:
        def loses(sender: NodeId, receiver: NodeId, message: Sent) -> bool:
            is_last = isinstance(message, kind) and A in (sender, receiver)
            if is_last:
                nodes.cut(A, B, C)
            return is_last

        nodes.loses = loses
        made = await busy(nodes, 2, SHORT)
        await until(lambda: bool(nodes.cuts))
        nodes.loses = lambda sender, receiver, message: False
        await nodes[A].end()
        nodes.mend()

        ended = [await nodes.ended(each) for each in made]

        assert {execution.status for execution, _ in ended} == {ExecutionStatus.SUCCESS}
        assert all(task.failures == 0 for _, task in ended)

    run(story, slots=1)


def test_an_attempt_for_a_node_that_has_ended_starts_elsewhere_at_once() -> None:
    async def story(nodes: Nodes) -> None:
        nodes.loses = lambda sender, receiver, message: isinstance(message, Dispatch)
        made = await busy(nodes, 2, SHORT)
        await until(lambda: any(where(nodes, each) not in ([], [A]) for each in made))
        nodes.loses = lambda sender, receiver, message: False

        ended = [await nodes.ended(each) for each in made]

        assert all(task.failures == 0 for _, task in ended)
        assert {execution.status for execution, _ in ended} == {ExecutionStatus.SUCCESS}

    run(story, slots=1)


def test_slots_of_a_lost_borrower_return_to_the_lender() -> None:
    async def story(nodes: Nodes) -> None:
        nodes.loses = lambda sender, receiver, message: isinstance(message, LendSlots)
        await busy(nodes, 2, LONG)
        await until(lambda: slot_table(nodes, B)[0] == 1)

        await nodes[A].end()

        # It is now the primary of the waiting task, and has one slot.
        await until(lambda: played(nodes)[B] == 1)

    run(story, slots=1)


def test_a_node_borrows_again_after_each_restart() -> None:
    async def story(nodes: Nodes) -> None:
        job_id = await save_selecting(nodes, gpu="1")
        for _ in range(6):  # Question numbers begin at a random one: five times out of six in vain.
            execution_id = await trigger(nodes[A].shards, job_id)
            _, task = await nodes.ended(execution_id)
            assert [attempt.node_id for attempt in task.attempts] == [B]
            await nodes[A].end()
            await asyncio.sleep(FENCED_BY_S)
            await nodes[A].start()
            await nodes.settle()

    run(story, labels={B: {"gpu": "1"}})


def test_a_node_borrows_again_with_an_empty_disk_and_its_clock_behind() -> None:
    async def story(nodes: Nodes) -> None:
        job_id = await save_selecting(nodes, gpu="1")
        await nodes.ended(await trigger(nodes[A].shards, job_id))
        await nodes[A].end()
        nodes[A].wipe()
        await asyncio.sleep(FENCED_BY_S)
        await nodes[A].start()
        await nodes.settle()

        _, task = await nodes.ended(await trigger(nodes[A].shards, job_id))

        assert [attempt.node_id for attempt in task.attempts] == [B]

    run(story, labels={B: {"gpu": "1"}})


def test_cancelling_ends_an_attempt_wherever_it_runs() -> None:
    async def story(nodes: Nodes) -> None:
        made = await busy(nodes, 2, LONG)
        await until(lambda: len(nodes.playing) == 2)
        [away] = [each for each in made if where(nodes, each) != [A]]

        shards = nodes[A].shards
        await shards.ask(shards.of_id(away), Cancel(execution_id=away))
        execution, _ = await nodes.ended(away)

        assert execution.status is ExecutionStatus.CANCELLED
        assert len(nodes.playing) == 1

    run(story, slots=1)
