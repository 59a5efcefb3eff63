"""Stand-ins: nodes in a partition fire available jobs, and report them afterwards."""

import asyncio
from collections.abc import Collection

from rota.core.model.attempt import AttemptKey
from rota.core.model.execution import Execution, ExecutionStatus
from rota.core.model.fallback_ids import inward, is_of_fallback
from rota.core.model.ids import ExecutionId, JobId, NodeId, ShardId
from rota.core.model.ledger import LedgerEntry
from rota.core.timing.instants import LATEST_INSTANT, Instant
from rota.core.vocabulary.changes import StandInExecution
from rota.node.shards.shard import Shard
from support.in_process import save
from support.virtual_nodes import A, B, C, Nodes, run, until

STANDS_IN_S = 16.0
"""Time after which a node in a partition stands in and has fired jobs due every two seconds."""
RECONCILED_S = 60.0
QUICK = {"sleepMs": 100}
ALL = (A, B, C)


# -- during a partition ----------------------------------------------------------------------------


def test_a_node_that_is_cut_off_fires_available_jobs_and_no_strict_ones() -> None:
    async def story(nodes: Nodes) -> None:
        strict = await save(nodes[A].shards, "strict", schedule="@every 2s", parameters=QUICK)
        loose = await save_loose(nodes)

        cut_off(nodes, C)
        await asyncio.sleep(STANDS_IN_S)

        assert of_job(loose, beside(nodes))
        assert of_job(loose, at_home(nodes))
        assert not of_job(strict, beside(nodes))

    run(story)


def test_a_stand_in_fires_no_job_of_which_it_cannot_run_a_task() -> None:
    async def story(nodes: Nodes) -> None:
        anywhere = await save_loose(nodes)
        with_gpu = await save_loose(nodes, "gpu", node_selector={"gpu": "a100"})
        with_disk = await save_loose(nodes, "disk", node_selector={"disk": "ssd"})

        cut_off(nodes, C)
        await asyncio.sleep(STANDS_IN_S)

        assert of_job(anywhere, beside(nodes))
        assert of_job(with_gpu, beside(nodes))
        assert not of_job(with_disk, beside(nodes))
        nodes.mend()
        await wait_reconciled(nodes)

    run(story, labels={C: {"gpu": "a100"}})


def test_a_primary_that_is_cut_off_stands_in_for_the_one_that_takes_over() -> None:
    async def story(nodes: Nodes) -> None:
        await save_loose(nodes)

        cut_off(nodes, A)
        await asyncio.sleep(STANDS_IN_S)

        assert beside(nodes)
        assert all(key in nodes.began for key in map(inward, beside(nodes)[:1]))

    run(story)


def test_no_node_stands_in_while_a_shard_is_taken_over() -> None:
    async def story(nodes: Nodes) -> None:
        await save_loose(nodes)

        await nodes[A].end()
        await asyncio.sleep(STANDS_IN_S)

        assert beside(nodes) == []

    run(story)


def test_isolated_nodes_all_fire_and_give_an_execution_the_same_id() -> None:
    async def story(nodes: Nodes) -> None:
        await save_loose(nodes)

        cut_off(nodes, A)
        cut_off(nodes, B)
        cut_off(nodes, C)
        await asyncio.sleep(STANDS_IN_S + 10)

        assert max(nodes.began[key] for key in beside(nodes)) == len(ALL)

    run(story)


def test_one_of_two_nodes_connected_only_to_each_other_stands_in() -> None:
    async def story(nodes: Nodes) -> None:
        await save_loose(nodes)

        cut_off(nodes, A)
        nodes[B].is_cut_off = nodes[C].is_cut_off = True
        await asyncio.sleep(STANDS_IN_S + 10)

        # A, which is alone, fires as well.
        assert max(nodes.began[key] for key in beside(nodes)) == 2

    run(story)


def test_a_node_after_a_pause_does_not_stand_in_before_it_has_received_messages() -> None:
    async def story(nodes: Nodes) -> None:
        await save_loose(nodes)

        await nodes[C].pause(60)
        await asyncio.sleep(STANDS_IN_S)

        assert beside(nodes) == []

    run(story)


# -- after a partition -----------------------------------------------------------------------------


def test_an_execution_on_both_sides_is_marked_and_has_one_outcome() -> None:
    async def story(nodes: Nodes) -> None:
        job_id = await save_loose(nodes)
        cut_off(nodes, C)
        await asyncio.sleep(STANDS_IN_S)

        nodes.mend()
        await wait_reconciled(nodes)

        assert_one_outcome_each(nodes, job_id)
        doubles = {key.execution_id for key in beside(nodes)}
        assert doubles
        for execution_id in doubles:
            account = double(nodes, execution_id, C)
            assert account is not None
            assert account.execution.status is ExecutionStatus.SUCCESS
            own = past(nodes, execution_id)
            assert own is not None
            assert own.stand_in == ""

    run(story)


def test_an_execution_only_of_a_stand_in_is_taken_into_the_shard_and_not_repeated() -> None:
    async def story(nodes: Nodes) -> None:
        job_id = await save_loose(nodes)
        await nodes[A].end()
        await nodes[B].end()
        await asyncio.sleep(STANDS_IN_S + 10)
        fired = {key.execution_id for key in beside(nodes)}

        await nodes[A].start()
        await nodes[B].start()
        await wait_reconciled(nodes)

        assert_one_outcome_each(nodes, job_id)
        assert len(fired) > 5
        for execution_id in fired:
            own = past(nodes, execution_id)
            assert own is not None
            assert own.stand_in == C
            assert double(nodes, execution_id, C) is None
            assert AttemptKey(execution_id, "main", 1) not in nodes.began

    run(story)


def test_a_fallback_attempt_continues_after_the_partition_and_is_reported_at_its_end() -> None:
    async def story(nodes: Nodes) -> None:
        await save_loose(nodes, schedule="@every 15s", parameters={"sleepMs": 20_000})
        cut_off(nodes, C)
        await until(lambda: bool(beside(nodes)))
        [key] = beside(nodes)

        nodes.mend()
        await wait_reconciled(nodes)

        account = double(nodes, key.execution_id, C)
        assert account is not None
        assert account.execution.status is ExecutionStatus.SUCCESS
        assert nodes.began[key] == 1
        assert beside(nodes) == [key], "it fired although a primary was reachable"

    run(story)


def test_a_restarted_stand_in_continues_its_executions_and_reports_all() -> None:
    async def story(nodes: Nodes) -> None:
        await save_loose(nodes, schedule="@every 15s", parameters={"sleepMs": 5_000})
        cut_off(nodes, C)
        await until(lambda: bool(beside(nodes)))
        [key] = beside(nodes)

        await nodes[C].end()
        await nodes[C].start()
        await until(lambda: len(beside(nodes)) > 1)
        nodes.mend()
        await wait_reconciled(nodes)

        assert beside(nodes)[1][:2] == key[:2], "the attempt was lost, and began again"
        account = double(nodes, key.execution_id, C)
        assert account is not None
        assert [each.number for each in account.tasks[0].attempts] == [1_000_001, 1_000_002]

    run(story)


def test_a_second_partition_is_handled_like_the_first() -> None:
    async def story(nodes: Nodes) -> None:
        job_id = await save_loose(nodes)
        cut_off(nodes, C)
        await asyncio.sleep(STANDS_IN_S)
        nodes.mend()
        await wait_reconciled(nodes)
        before = len(beside(nodes))

        cut_off(nodes, C)
        await asyncio.sleep(STANDS_IN_S)
        nodes.mend()
        await wait_reconciled(nodes)

        assert len(beside(nodes)) > before
        assert_one_outcome_each(nodes, job_id)
        for key in beside(nodes):
            assert double(nodes, key.execution_id, C) is not None

    run(story)


def test_the_tokens_of_a_stand_in_are_below_those_of_the_shard() -> None:
    async def story(nodes: Nodes) -> None:
        await save_loose(nodes)
        cut_off(nodes, C)
        await asyncio.sleep(STANDS_IN_S)
        nodes.mend()
        await wait_reconciled(nodes)

        for key in beside(nodes):
            account = double(nodes, key.execution_id, C)
            assert account is not None
            shard, node_id = home(nodes, nodes.shard_of(key.execution_id))
            history = nodes[node_id].running.context.history
            own = history.tasks(shard.id, key.execution_id)["main"].attempts[-1]
            assert account.tasks[0].attempts[-1].token < own.token

    run(story)


# -- helpers ---------------------------------------------------------------------------------------


async def save_loose(
    nodes: Nodes,
    name: str = "loose",
    *,
    schedule: str = "@every 2s",
    parameters: dict[str, int] = QUICK,
    node_selector: dict[str, str] | None = None,
) -> JobId:
    """Create an available job."""
    job_id = await save(
        nodes[A].shards,
        name,
        schedule=schedule,
        node_selector=node_selector or {},
        parameters=parameters,
        misfire="all",
        consistency="available",
    )
    await asyncio.sleep(1)  # Until all copies have applied it.
    return job_id


def cut_off(nodes: Nodes, node_id: NodeId) -> None:
    """Cut a node off from the others and from the coordinator."""
    nodes.cut(node_id, *(each for each in ALL if each != node_id))
    nodes[node_id].is_cut_off = True


def beside(nodes: Nodes) -> list[AttemptKey]:
    """Return the attempts that started on fallback shards, in order."""
    return [key for key in nodes.began if is_of_fallback(key)]


def at_home(nodes: Nodes) -> list[AttemptKey]:
    """Return the attempts that started on other shards."""
    return [key for key in nodes.began if not is_of_fallback(key)]


def of_job(job_id: JobId, keys: Collection[AttemptKey]) -> list[AttemptKey]:
    """Return the attempts of a job."""
    return [key for key in keys if key.execution_id.startswith(job_id)]


async def wait_reconciled(nodes: Nodes) -> None:
    """Wait until the cluster is settled and no fallback shard is left."""
    await nodes.settle()
    fallback_shards = [nodes[each].running.fallback_shards for each in ALL]
    await until(lambda: not any(side.open_numbers for side in fallback_shards), RECONCILED_S)
    await asyncio.sleep(6)  # For fires that were put off.


def home(nodes: Nodes, number: ShardId) -> tuple[Shard, NodeId]:
    """Return the shard at its primary, and the primary."""
    shard = nodes.primary(number)
    assert shard is not None
    return shard, next(each for each in ALL if nodes[each].shards[number] is shard)


def past(nodes: Nodes, execution_id: ExecutionId) -> Execution | None:
    """Return a finished execution, as its primary has it."""
    shard, node_id = home(nodes, nodes.shard_of(execution_id))
    return nodes[node_id].running.context.history.execution(shard.id, execution_id)


def double(nodes: Nodes, execution_id: ExecutionId, stand_in: NodeId) -> StandInExecution | None:
    """Return a stand-in's record of an execution that the shard ran too."""
    shard, node_id = home(nodes, nodes.shard_of(execution_id))
    accounts = nodes[node_id].running.context.history.duplicates(shard.id, execution_id)
    return next((each for each in accounts if each.node_id == stand_in), None)


def assert_one_outcome_each(nodes: Nodes, job_id: JobId) -> None:
    """Assert that the ledger of a job, due every two seconds, has no gap and no repetition."""
    shard, node_id = home(nodes, nodes.shard_of(job_id))
    history = nodes[node_id].running.context.history
    rows = history.ledger(shard.id, job_id, Instant(0), LATEST_INSTANT)
    entries = [row for row in rows if isinstance(row, LedgerEntry)]
    times = [entry.fire_at for entry in entries]
    assert times == list(range(times[0], times[-1] + 1, 2_000_000))
    assert all(entry.count == 1 for entry in entries)
