"""A coordinator that was restored or emptied: nothing acknowledged is lost, all shards freeze."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from functools import partial

import pytest
from msgspec.structs import replace

from rota.core.model.ids import NodeId, ShardId
from rota.core.vocabulary.disk_space import DiskSpace
from rota.node.api.documents.cluster_status import own_status
from rota.node.cluster.cluster_view import AUDIT_S
from rota.node.coordination.agreed_state import CoordinationState
from rota.node.coordination.coordinator import Cluster, Member, News
from rota.node.coordination.testing.simulated_coordinator import SimulatedCoordinator
from rota.node.peers.messages import CoordinationLost
from support.in_process import save
from support.virtual_nodes import A, B, C, Nodes, run, until

SHARD = ShardId(0)
OURS = Cluster(id="ours", shards=2, replicas=3)
LOST_FOR_S = 20.0
"""Time in which sessions and promises expire, and takeovers happen."""
SOON_S = 5.0
"""Far less than the interval of a node's unrequested views."""
Lose = Callable[[Nodes, CoordinationState], None]


def restore(nodes: Nodes, backup: CoordinationState) -> None:
    """Set the coordinator back."""
    nodes.server.restore(backup)


def empty(nodes: Nodes, backup: CoordinationState) -> None:
    """Empty the coordinator."""
    del backup
    nodes.server.restore(CoordinationState())


losing = pytest.mark.parametrize("lose", [restore, empty])


async def saved(nodes: Nodes, node_id: NodeId, count: int, start: int = 0) -> list[str]:
    """Create *count* jobs of the shard, and return their names, all acknowledged."""
    shards = nodes[node_id].shards
    names = [
        name
        for name in map(str, range(start, start + 20 * count))
        if shards.of_name("default", name).id == SHARD
    ][:count]
    for name in names:
        await save(shards, name)
    return names


def missing(nodes: Nodes, names: list[str]) -> list[str]:
    """Return the jobs that the shard's primary does not have."""
    primary = nodes.primary(SHARD)
    assert primary is not None
    return [name for name in names if f"default/{name}" not in primary.state.names]


def frozen(nodes: Nodes, *node_ids: NodeId) -> list[int]:
    """Return how many shards each node has frozen."""
    return [nodes[node_id].shards.frozen_count for node_id in node_ids or (A, B, C)]


def epoch(nodes: Nodes) -> int:
    """Return the coordinator's epoch of the shard."""
    return nodes.server.state.view().configurations[SHARD].epoch


async def lose_c(nodes: Nodes) -> tuple[CoordinationState, list[str]]:
    """Have C away while jobs are acknowledged; return a backup from before that, and the jobs."""
    backup = nodes.server.state.copy()
    await nodes[C].end()
    await until(
        lambda: all(
            len(each.sync) == 2 for each in nodes.server.state.view().configurations.values()
        )
    )
    return backup, await saved(nodes, A, 20)


async def raise_revision(nodes: Nodes, *, for_s: float = AUDIT_S + 1) -> None:
    """Have the coordinator change often, and the nodes see it."""
    member = nodes.server.state.view().members[C]
    for _ in range(50):
        nodes.server.change(partial(CoordinationState.register, member=member))
    await asyncio.sleep(for_s)


@losing
def test_nothing_acknowledged_is_lost_when_all_nodes_start_after_a_loss(
    lose: Lose, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(nodes: Nodes) -> None:
        backup, names = await lose_c(nodes)
        for node_id in (A, B):
            await nodes[node_id].end()
        await asyncio.sleep(LOST_FOR_S)
        lose(nodes, backup)
        for node_id in (A, B, C):
            await nodes[node_id].start()
        await asyncio.sleep(LOST_FOR_S)

        assert nodes.primary(SHARD) is None
        assert frozen(nodes) == [len(nodes.wanted)] * 3
        assert "rota cluster recover-coordination" in (nodes[A].running.context.unready() or "")
        alarms = [each for each in caplog.records if each.levelno == logging.ERROR]
        assert [each.message for each in alarms] == ["coordinator lost its state"] * 3
        count = f"{len(nodes.wanted)} shards cannot get another primary"
        assert all(count in vars(each)["reason"] for each in alarms)

        nodes.recover()
        await nodes.settle()
        assert not missing(nodes, names)
        assert frozen(nodes) == [0, 0, 0]
        assert nodes[A].running.context.unready() is None
        await saved(nodes, A, 1, start=1_000)

    run(story)


@pytest.mark.parametrize("lives", [1, 3], ids=["under the same epoch", "under later epochs"])
def test_nothing_acknowledged_is_lost_when_a_stale_node_starts_alone_after_a_loss(
    lives: int,
) -> None:
    """The stale node takes over by the coordinator's old state before the others start."""

    async def story(nodes: Nodes) -> None:
        backup, names = await lose_c(nodes)
        lost = epoch(nodes)
        await raise_revision(nodes)
        for node_id in (A, B):
            await nodes[node_id].end()
        await asyncio.sleep(LOST_FOR_S)
        nodes.server.restore(backup)
        await nodes[C].start()
        for _ in range(lives - 1):
            await asyncio.sleep(LOST_FOR_S)
            await nodes[C].end()
            await nodes[C].start()
        await asyncio.sleep(LOST_FOR_S)
        taken = nodes.server.state.view().configurations[SHARD]
        assert taken.primary == C
        assert taken.epoch >= lost + lives - 1
        for node_id in (A, B):
            await nodes[node_id].start()
        await until(lambda: all(frozen(nodes)))

        nodes.recover()
        await nodes.settle()

        assert not missing(nodes, names)
        assert frozen(nodes) == [0, 0, 0]
        await saved(nodes, A, 1, start=1_000)

    run(story)


@losing
def test_running_nodes_continue_and_change_nothing(lose: Lose) -> None:
    async def story(nodes: Nodes) -> None:
        backup, names = await lose_c(nodes)
        lose(nodes, backup)
        await nodes[C].start()
        await asyncio.sleep(LOST_FOR_S)
        before = nodes.server.state.view().configurations
        names += await saved(nodes, A, 5, start=1_000)
        await asyncio.sleep(LOST_FOR_S)

        assert nodes.primary(SHARD) is nodes[A].shards[SHARD]
        assert not missing(nodes, names)
        assert frozen(nodes) == [len(nodes.wanted)] * 3
        assert nodes.server.state.view().configurations == before
        assert all(map(nodes.session_of, (A, B, C)))

        nodes.recover()
        await nodes.settle()
        assert not missing(nodes, names)
        assert frozen(nodes) == [0, 0, 0]

    run(story)


@losing
def test_a_dead_primary_is_not_replaced_before_the_recovery(lose: Lose) -> None:
    async def story(nodes: Nodes) -> None:
        backup, names = await lose_c(nodes)
        lose(nodes, backup)
        await nodes[C].start()
        await until(lambda: all(frozen(nodes)))
        await nodes[A].end()
        await asyncio.sleep(LOST_FOR_S)

        assert nodes.primary(SHARD) is None

        await nodes[A].start()
        await asyncio.sleep(LOST_FOR_S)
        assert nodes.primary(SHARD) is None
        nodes.recover()
        await nodes.settle()
        assert not missing(nodes, names)

    run(story)


def test_members_that_an_emptied_coordinator_lost_may_send_on() -> None:
    async def story(nodes: Nodes) -> None:
        for node_id in (A, B, C):
            nodes[node_id].refusal = "mvcc: database space exceeded"
        nodes.server.restore(CoordinationState())
        await until(lambda: all(frozen(nodes)))

        await saved(nodes, A, 5)

        assert not nodes.server.state.view().members

    run(story)


def test_a_coordinator_set_back_while_all_were_restarted_is_noticed_by_every_node() -> None:
    """No node is stale, and yet every epoch would be used twice."""

    async def story(nodes: Nodes) -> None:
        backup = nodes.server.state.copy()
        names = await saved(nodes, A, 3)
        for node_id in (A, B, C):
            await nodes[node_id].end()
            await asyncio.sleep(LOST_FOR_S)
            await nodes[node_id].start()
            await nodes.settle()
        for node_id in (A, B, C):
            await nodes[node_id].end()
        nodes.server.restore(backup)
        nodes.cut(A, B, C)
        nodes.cut(B, C)
        for node_id in (A, B, C):
            await nodes[node_id].start()

        await until(lambda: frozen(nodes) == [len(nodes.wanted)] * 3)
        await asyncio.sleep(LOST_FOR_S)
        assert epoch(nodes) == backup.view().configurations[SHARD].epoch

        nodes.mend()
        nodes.recover()
        await nodes.settle()
        assert not missing(nodes, names)

    run(story)


def test_a_member_without_evidence_is_notified_and_stays_frozen_after_a_restart() -> None:
    async def story(nodes: Nodes) -> None:
        nodes[C].is_cut_off = True
        nodes.cut(C, A, B)
        nodes[A].running.context.membership.heard_loss(B, 0)
        await until(lambda: all(frozen(nodes, A, B)))
        assert frozen(nodes, C) == [0]

        nodes.mend()
        nodes[C].is_cut_off = True
        await until(lambda: all(frozen(nodes)))
        await asyncio.sleep(1)
        nodes.cut(C, A, B)
        await nodes[C].end()
        nodes[C].is_cut_off = False
        await nodes[C].start()
        await asyncio.sleep(LOST_FOR_S)

        assert frozen(nodes, C) == [len(nodes.wanted)]
        assert nodes[C].shards[SHARD].replica.newest is None

    run(story)


def test_a_message_with_an_impossible_generation_is_refused_and_counted() -> None:
    async def story(nodes: Nodes) -> None:
        router = nodes[A].running.router

        router.receive(None, B, CoordinationLost(generation=1 << 20))

        assert frozen(nodes, A) == [0]
        assert router.refused["coordination_lost"] == 1

    run(story)


def test_a_revision_that_fell_is_noticed_with_configurations_as_they_were() -> None:
    async def story(nodes: Nodes) -> None:
        backup = nodes.server.state.copy()
        await raise_revision(nodes)
        configurations = nodes.server.state.view().configurations
        for node_id in (A, B, C):
            await nodes[node_id].end()
        nodes.server.restore(backup)
        assert backup.view().configurations == configurations
        for node_id in (A, B, C):
            await nodes[node_id].start()

        await until(lambda: all(frozen(nodes)))

    run(story)


def test_a_fall_below_a_revision_that_only_news_had_is_noticed() -> None:
    async def story(nodes: Nodes) -> None:
        await asyncio.sleep(AUDIT_S + 1)
        backup = nodes.server.state.copy()
        await raise_revision(nodes, for_s=1)

        nodes.server.restore(backup)

        await until(lambda: all(frozen(nodes)))

    run(story)


def test_a_step_from_before_a_set_back_is_no_evidence_after_the_recovery(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    passes = asyncio.Event()
    passes.set()
    watch = SimulatedCoordinator.watch

    async def held_up(coordinator: SimulatedCoordinator, revision: int) -> AsyncGenerator[News]:
        async with aclosing(watch(coordinator, revision)) as steps:
            async for step in steps:
                await passes.wait()
                yield step

    def leap(state: CoordinationState) -> None:
        state.revision += 50
        state.register(state.view().members[C])

    async def look(nodes: Nodes) -> None:
        for node_id in (A, B, C):
            nodes[node_id].running.cluster.swap_queue.look()
        await asyncio.sleep(1)

    async def story(nodes: Nodes) -> None:
        nodes.server.state.cluster = OURS
        backup = nodes.server.state.copy()
        passes.clear()
        nodes.server.change(leap)  # In one step, which is on its way to all nodes until the end.
        await look(nodes)
        nodes.server.restore(backup)
        await look(nodes)
        await until(lambda: all(frozen(nodes)))
        nodes.recover()
        await look(nodes)
        await until(lambda: frozen(nodes) == [0, 0, 0])

        passes.set()
        await look(nodes)
        await asyncio.sleep(AUDIT_S + 1)

        assert frozen(nodes) == [0, 0, 0]

    monkeypatch.setattr(SimulatedCoordinator, "watch", held_up)
    run(story)


@pytest.mark.parametrize("record", [None, Cluster(id="theirs", shards=2, replicas=3)])
def test_a_missing_record_of_the_cluster_or_that_of_another_is_noticed(
    record: Cluster | None,
) -> None:
    async def story(nodes: Nodes) -> None:
        nodes.cluster_id = "ours"
        nodes.server.state.cluster = Cluster(id="ours", shards=2, replicas=3)
        await nodes[C].end()
        await nodes[C].start()
        await nodes.settle()
        before = frozen(nodes)

        nodes.server.state.cluster = record
        nodes[C].running.cluster.swap_queue.look()

        await until(lambda: all(frozen(nodes)))
        assert before == [0, 0, 0]

    run(story)


def test_a_shard_is_founded_only_while_every_node_that_lives_is_linked() -> None:
    """A node without data would found a shard that another, unconnected node has seen."""

    async def story(nodes: Nodes) -> None:
        for node_id in (A, B, C):
            await nodes[node_id].end()
        nodes.server.restore(CoordinationState())
        nodes[A].lose_disk()
        nodes.cut(A, B, C)
        for node_id in (B, C, A):
            await nodes[node_id].start()
        await asyncio.sleep(LOST_FOR_S)
        assert not nodes.server.state.view().configurations

        nodes.mend()
        for other in (B, C):
            nodes.link(A, other)
        await asyncio.sleep(LOST_FOR_S)

        assert not nodes.server.state.view().configurations
        assert frozen(nodes, B, C) == [len(nodes.wanted)] * 2

    run(story)


def test_founding_waits_no_longer_than_the_session_of_a_node_out_of_reach() -> None:
    async def story(nodes: Nodes) -> None:
        for node_id in (A, B, C):
            await nodes[node_id].end()
            nodes[node_id].lose_disk()
        nodes.server.restore(CoordinationState())
        nodes.cut(A, B, C)
        await nodes[B].start()
        await nodes[A].start()
        await asyncio.sleep(LOST_FOR_S)
        assert nodes.primary(SHARD) is None

        await nodes[B].end()

        await until(lambda: SHARD in nodes.server.state.view().configurations, SOON_S)

    run(story)


async def found_late(nodes: Nodes) -> None:
    """Have A found shards: it may only with a link to B, or after the end of B."""
    for node_id in (A, B, C):
        await nodes[node_id].end()
        nodes[node_id].lose_disk()
    nodes.server.restore(CoordinationState())
    nodes.cut(A, B)

    def want(*wanted: NodeId) -> None:
        nodes.wanted |= dict.fromkeys(nodes.wanted, wanted)
        member = Member(node_id=C, store_id=C, address=",".join(wanted))
        nodes.server.change(partial(CoordinationState.register, member=member))

    want(C, A, B)
    await nodes[A].start()
    await asyncio.sleep(1)  # A has seen all that lives by now.
    await nodes[B].start()
    want(A, B, C)
    await asyncio.sleep(1)
    assert not nodes.server.state.view().configurations


def test_a_shard_is_founded_soon_after_the_last_node_that_lives_is_linked() -> None:
    async def story(nodes: Nodes) -> None:
        await found_late(nodes)

        nodes.link(A, B)

        await until(lambda: SHARD in nodes.server.state.view().configurations, SOON_S)

    run(story)


def test_a_shard_is_founded_soon_after_the_last_node_out_of_reach_is_gone() -> None:
    async def story(nodes: Nodes) -> None:
        await found_late(nodes)

        await nodes[B].end()

        await until(lambda: SHARD in nodes.server.state.view().configurations, SOON_S)

    run(story)


def test_a_shard_that_a_recovery_left_closed_is_not_founded_by_replaced_nodes() -> None:
    async def story(nodes: Nodes) -> None:
        nodes.cluster_id = OURS.id
        nodes.server.state.cluster = OURS
        await nodes.settle()
        names = await saved(nodes, A, 3)
        for node_id in (B, C):
            await nodes[node_id].end()
        empty(nodes, nodes.server.state)
        await until(lambda: frozen(nodes, A) == [2])
        # The recovery writes the cluster's record, and no configuration of a shard that is unsure.
        nodes.server.state.cluster = replace(OURS, generation=1)
        nodes.wanted[SHARD] = (B, C, A)
        for node_id in (B, C):
            nodes[node_id].wipe()
            await nodes[node_id].start()
        await asyncio.sleep(LOST_FOR_S)

        assert names
        assert SHARD not in nodes.server.state.view().configurations

    run(story)


async def lose_what_b_took_over(nodes: Nodes) -> int:
    """Have B take over from A, and the coordinator lose that; return the coordinator's epoch."""
    backup, before = nodes.server.state.copy(), epoch(nodes)
    await nodes[A].end()
    await until(lambda: nodes.primary(SHARD) is nodes[B].shards[SHARD])
    nodes.server.restore(backup)
    await until(lambda: all(frozen(nodes, B, C)))
    return before


def test_a_node_requests_no_change_before_live_nodes_can_report_a_loss() -> None:
    async def story(nodes: Nodes) -> None:
        before = await lose_what_b_took_over(nodes)
        nodes.cut(A, B, C)

        await nodes[A].start()
        await asyncio.sleep(1)
        for other in (B, C):
            nodes.link(A, other)
        await until(lambda: all(frozen(nodes)))
        await asyncio.sleep(LOST_FOR_S)

        assert epoch(nodes) == before

    run(story)


def test_a_change_that_waits_while_a_loss_is_found_is_not_requested() -> None:
    async def story(nodes: Nodes) -> None:
        before = await lose_what_b_took_over(nodes)
        nodes.cut(A, B, C)

        await nodes[A].start()
        await until(lambda: nodes[A].running.context.membership.swaps_waiting == len(nodes.wanted))
        nodes[A].running.context.membership.heard_loss(B, 0)
        await asyncio.sleep(LOST_FOR_S)

        assert epoch(nodes) == before

    run(story)


def test_changes_wait_for_a_node_out_of_reach_no_longer_than_sessions_live() -> None:
    async def story(nodes: Nodes) -> None:
        await nodes[B].end()
        await nodes[A].end()
        nodes[C].refusal = "mvcc: database space exceeded"
        before = epoch(nodes)
        nodes.cut(A, C)

        await nodes[A].start()

        await until(lambda: epoch(nodes) > before)
        assert nodes.session_of(C)

    run(story)


def test_a_shard_that_was_never_founded_is_founded_after_a_recovery() -> None:
    async def story(nodes: Nodes) -> None:
        other = ShardId(1)
        for node_id in (A, B, C):
            await nodes[node_id].end()
            nodes[node_id].lose_disk()
        nodes.server.restore(CoordinationState(cluster=OURS))
        nodes.cluster_id = OURS.id
        nodes.wanted[other] = (C, A, B)
        nodes.server.change(
            partial(CoordinationState.register, member=Member(node_id=C, store_id=C, address=C))
        )
        for node_id in (A, B):
            await nodes[node_id].start()
        await until(lambda: SHARD in nodes.server.state.view().configurations)
        await until(lambda: len(nodes.server.state.view().configurations[SHARD].sync) == 2)
        nodes[A].running.context.membership.heard_loss(B, 0)
        await until(lambda: frozen(nodes, A, B) == [2, 2])
        assert other not in nodes.server.state.view().configurations

        nodes.recover()
        await until(lambda: other in nodes.server.state.view().configurations, SOON_S)
        await nodes[C].start()
        await nodes.settle()

        assert frozen(nodes) == [0, 0, 0]

    run(story)


# -- reports of a loss -----------------------------------------------------------------------------


def test_the_generation_of_the_clusters_record_is_read_though_no_shard_has_it() -> None:
    async def story(nodes: Nodes) -> None:
        nodes.cluster_id = OURS.id
        nodes.server.state.cluster = replace(OURS, generation=1)

        await nodes[C].end()
        await nodes[C].start()

        await until(lambda: nodes[C].running.context.continuity.generation == 1)

    run(story)


def test_the_loss_is_the_first_reason_of_readiness_and_a_trouble_of_the_cluster() -> None:
    async def story(nodes: Nodes) -> None:
        context = nodes[A].running.context
        nodes[A].space = DiskSpace.LOW
        await until(lambda: context.unready() is not None)
        context.membership.heard_loss(B, 0)
        await until(lambda: frozen(nodes, A) == [len(nodes.wanted)])

        frozen_why, other = context.unready() or "", context.unready(exclude_cluster=True)

        assert "rota cluster recover-coordination" in frozen_why
        assert other not in (None, frozen_why)
        [shown] = own_status(context).nodes
        assert shown.troubles is not None
        assert shown.troubles[:2] == [other, frozen_why]

    run(story)
