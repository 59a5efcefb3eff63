"""Membership of a node: its start, its end and its authority in between."""

import asyncio
import logging

import pytest
from msgspec.structs import replace

from rota.core.errors import Refused
from rota.core.model.ids import ShardId
from rota.core.timing.instants import SECOND
from rota.core.vocabulary.shard_configuration import NO_SESSION
from rota.node.cluster.cluster_view import AUDIT_S
from rota.node.shards.inbox import HELD_MAX
from rota.node.shards.shard import Shard
from support.in_process import save, trigger
from support.virtual_nodes import ARRIVES_S, TIMING, A, B, C, Nodes, run, until

SHARD = ShardId(0)


def test_a_new_cluster_starts_before_the_next_audit() -> None:
    async def story(nodes: Nodes) -> None:
        assert nodes.primary(SHARD) is not None
        assert nodes.loop.now < AUDIT_S * SECOND / 2

    run(story)


def test_a_view_that_was_overtaken_by_news_does_not_undo_it() -> None:
    async def story(nodes: Nodes) -> None:
        def delay_views(call: str) -> None:
            nodes.coordinator_returns_s = 1.5 if call == "view" else ARRIVES_S

        session = nodes.session_of(A)
        assert session is not None
        for node_id in (B, C):
            nodes[node_id].on_call = delay_views
            nodes[node_id].running.context.membership.found(())  # Requests a view.
        await asyncio.sleep(1.0)
        # The view under way has this session, and arrives before the promises to A have expired.
        await nodes[A].end()
        nodes.server.change(lambda state: state.end(session))
        since = nodes.loop.now

        await until(lambda: any(nodes[each].shards[SHARD].is_open for each in (B, C)))

        assert nodes.loop.now - since < 2 * TIMING.grace

    run(story)


def test_a_stopped_node_has_no_authority_after_the_end_of_its_session_with_or_without_notice() -> (
    None
):
    async def story(nodes: Nodes) -> None:
        context = nodes[A].running.context
        replica, clock = context.shards[SHARD].replica, context.clock
        # Authority by the session alone: the promises of the backups expire.
        nodes.cut(A, B, C)
        await asyncio.sleep(TIMING.peer_lease / SECOND)
        before = replica.has_authority(clock.elapsed())
        nodes.coordinator_returns_s = 1.0

        nodes[A].stop()
        await until(lambda: nodes.session_of(A) is None)

        assert before
        assert not replica.has_authority(clock.elapsed())

    run(story)


def test_a_node_that_may_not_act_answers_no_reads() -> None:
    async def story(nodes: Nodes) -> None:
        shards = nodes[A].shards
        shard = shards[SHARD]
        await shards.settled(shard)
        nodes.cut(A, B, C)
        nodes[A].is_cut_off = True

        await until(lambda: nodes.primary(SHARD) is not shard)

        # The node has no news of the takeover, and all its entries are committed.
        assert shard.is_open
        with pytest.raises(Refused, match="cannot be sure that it is still the primary of shard 0"):
            await shards.settled(shard)

    run(story)


def test_a_node_answers_no_reads_of_a_shard_that_is_anothers() -> None:
    async def story(nodes: Nodes) -> None:
        shards = nodes[B].shards

        await shards.settled()

        with pytest.raises(
            Refused, match="not the primary of shard 0; according to this node, a is"
        ):
            await shards.settled(shards[SHARD])

    run(story)


def test_a_coordinator_that_refuses_ends_no_node_and_is_counted() -> None:
    async def story(nodes: Nodes) -> None:
        for node_id in (A, B):
            nodes[node_id].refusal = "mvcc: database space exceeded"
        await nodes[C].end()  # The replacement of its copies is refused.
        await until(lambda: nodes[A].running.context.membership.refusal_count > 1)
        before = nodes.server.state.view().configurations[SHARD].members

        for node_id in (A, B):
            nodes[node_id].refusal = ""
        await until(lambda: C not in nodes.server.state.view().configurations[SHARD].members)

        assert C in before

    run(story)


def test_missed_entries_are_sent_with_the_link_and_not_with_the_next_beat() -> None:
    async def story(nodes: Nodes) -> None:
        shards = nodes[A].shards
        nodes.cut(A, B)
        saving = nodes.group.create_task(save(shards, "job"))
        await asyncio.sleep(0.01)
        before = saving.done()
        since = nodes.loop.now

        nodes.link(A, B)
        await saving

        assert not before
        assert nodes.loop.now - since < TIMING.beat / 8

    run(story)


def test_a_node_writes_its_record_again_when_the_coordinator_has_that_of_an_earlier_life() -> None:
    async def story(nodes: Nodes) -> None:
        own = nodes.server.state.view().members[A]
        nodes.server.change(lambda state: state.register(replace(own, key=b"earlier")))

        await until(lambda: nodes.server.state.view().members[A] == own)

    run(story)


def test_nodes_that_start_again_have_no_view_read_for_the_new_keys_of_their_records() -> None:
    async def story(nodes: Nodes) -> None:
        own = nodes.server.state.view().members[A]
        await asyncio.sleep(1)
        calls: list[str] = []
        for node_id in (A, B, C):
            nodes[node_id].on_call = calls.append

        nodes.server.change(lambda state: state.register(replace(own, key=b"earlier")))
        await until(lambda: nodes.server.state.view().members[A] == own, timeout_s=AUDIT_S / 4)
        await asyncio.sleep(1)

        assert "change" in calls
        assert "view" not in calls

    run(story)


def test_a_node_acts_by_the_record_that_it_has_written_before_there_is_news_of_it() -> None:
    async def story(nodes: Nodes) -> None:
        own = nodes.server.state.view().members[A]
        membership = nodes[A].running.context.membership

        def miss_news_of_the_change(call: str) -> None:
            nodes[A].loses_watch_steps |= call == "change"

        nodes[A].on_call = miss_news_of_the_change
        nodes.server.change(lambda state: state.register(replace(own, key=b"earlier")))
        await until(lambda: membership.members[A] != own)

        await until(lambda: membership.members[A] == own, timeout_s=AUDIT_S / 4)

        assert nodes[A].loses_watch_steps

    run(story)


def test_a_request_that_a_shard_cannot_decide_for_long_is_refused_and_never_carried_out() -> None:
    async def story(nodes: Nodes) -> None:
        shards = nodes[A].shards
        job_id = await save(shards, "job")
        shard = shards.of_id(job_id)
        await cut_off_from_all(nodes, shard)

        began_at = nodes.loop.now
        with pytest.raises(Refused, match="cannot be sure that it is still the primary of shard"):
            await trigger(shards, job_id)
        waited = nodes.loop.now - began_at
        mend(nodes)
        await nodes.settle()
        primary = nodes.primary(shard.id)

        assert HELD_MAX <= waited < HELD_MAX + SECOND
        assert primary is not None
        assert not primary.state.executions

    run(story)


async def cut_off_from_all(nodes: Nodes, shard: Shard) -> None:
    """Make the primary of a shard unable to decide, and takeover impossible."""
    for each in (A, B, C):
        nodes[each].is_cut_off = True
    nodes.cut(A, B, C)
    clock = nodes[A].clock
    await until(lambda: not shard.replica.is_admitting(clock.elapsed()))


def mend(nodes: Nodes) -> None:
    """Undo `cut_off_from_all`."""
    nodes.mend()
    for each in (A, B, C):
        nodes[each].is_cut_off = False


def test_a_node_whose_record_was_deleted_begins_another_session() -> None:
    async def story(nodes: Nodes) -> None:
        before, membership = nodes.session_of(A), nodes[A].running.context.membership
        nodes.server.change(lambda state: state.lose_life(A))

        # Before other nodes take over its attempts.
        async with asyncio.timeout(TIMING.session / SECOND):
            await until(lambda: nodes.session_of(A) not in (None, before))

        await until(lambda: membership.session == nodes.session_of(A))
        await nodes.settle()

    run(story)


def test_a_node_whose_record_was_deleted_may_not_act_by_its_session() -> None:
    async def story(nodes: Nodes) -> None:
        membership = nodes[A].running.context.membership
        nodes[A].refusal = "mvcc: database space exceeded"
        nodes.server.change(lambda state: state.lose_life(A))

        await until(lambda: membership.session == NO_SESSION)
        nodes[A].refusal = ""

        await nodes.settle()

    run(story)


def test_shards_taken_up_are_logged_with_their_count(caplog: pytest.LogCaptureFixture) -> None:
    async def story(nodes: Nodes) -> None:
        await asyncio.sleep(2)

        lines = [each for each in caplog.records if each.getMessage() == "shards taken up"]
        assert sum(vars(each)["count"] for each in lines) >= len(nodes.wanted)
        assert len(lines) < len(nodes.wanted)
        assert all(vars(each)["epoch_min"] >= 1 for each in lines)

    with caplog.at_level(logging.INFO):
        run(story)


def test_shards_given_up_at_once_are_logged_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    async def story(nodes: Nodes) -> None:
        caplog.clear()
        shards = list(nodes[A].shards)
        nodes[A].is_cut_off = True
        nodes.cut(A, B, C)
        await until(lambda: all(nodes.primary(each.id) not in (None, each) for each in shards))

        nodes.mend()
        await until(lambda: not any(each.is_open for each in shards))
        await asyncio.sleep(1)

        lines = [each for each in caplog.records if each.getMessage() == "shards given up"]
        assert [vars(each)["count"] for each in lines] == [len(nodes.wanted)]

    with caplog.at_level(logging.INFO):
        run(story)
