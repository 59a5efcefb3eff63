"""Self-check of a node: a slow loop, disk or a wrong wall clock hands its shards over."""

import asyncio
import json
import signal
import time

import pytest

from rota.core.errors import Refused
from rota.core.model.ids import NodeId, ShardId
from rota.core.replication.authority.clock_skew import READING_MAX_AGE, ClockSkew
from rota.core.replication.authority.health_conditions import WELL_AFTER, HealthCondition
from rota.core.replication.authority.liveness import Liveness
from rota.core.timing.instants import MILLISECOND, SECOND, Duration, Instant
from rota.core.vocabulary.commands import PauseJob
from rota.core.vocabulary.disk_space import DiskSpace
from rota.node.attempts.slots import SlotTable
from rota.node.cluster.self_check import SelfCheck
from rota.node.shards.shard import Shard
from rota.node.system.metrics import Metrics
from sim.cluster.chance import BEGINNING, SkewedClock
from support.cluster import Cluster
from support.etcd import needs_etcd
from support.in_process import save
from support.stopping import stop
from support.virtual_nodes import A, B, C, Node, Nodes, run, until

WELL_AFTER_S = WELL_AFTER / SECOND
FIRST = ShardId(0)
NEVER_S = 3_600.0


def opens(nodes: Nodes, shard: ShardId = FIRST) -> list[NodeId]:
    """Return the nodes on which a shard is open."""
    able = [node_id for node_id in (A, B, C) if nodes[node_id].wiring is not None]
    return [node_id for node_id in able if nodes[node_id].shards[shard].is_open]


def members(nodes: Nodes) -> tuple[NodeId, ...]:
    """Return the nodes whose copies of the first shard count."""
    return nodes.server.state.view().configurations[FIRST].members


def name_of_first(node: Node, number: int = 0) -> str:
    """Return the name of a job of the first shard."""
    of_name = node.shards.of_name
    return [name for name in map(str, range(400)) if of_name("default", name).id == FIRST][number]


async def write(node: Node, number: int = 0) -> bool:
    """Save a job of the first shard; return True if the node confirms it."""
    try:
        await save(node.shards, name_of_first(node, number))
    except Refused:
        return False
    return True


def slow_down(node: Node, sync_s: float) -> None:
    """Set the duration of each sync of a node."""
    node.sync_us = int(sync_s * SECOND)


def set_wall_clock(node: Node, ahead_s: float) -> None:
    """Set a node's wall clock."""
    node.clock.wall_clock_error = int(ahead_s * SECOND)


def is_unfit(node: Node) -> bool:
    return "hands its shards over" in (node.running.context.unready() or "")


# -- the disk --------------------------------------------------------------------------------------


def test_a_primary_whose_disk_hangs_hands_over_without_waiting_for_it() -> None:
    async def story(nodes: Nodes) -> None:
        session = nodes.session_of(A)
        slow_down(nodes[A], NEVER_S)

        asking = nodes.group.create_task(write(nodes[A]))
        await until(lambda: opens(nodes) == [B])

        assert nodes.session_of(A) == session  # By a handover, not by a takeover after the session.
        assert not await asking  # The outcome is unknown, so no success is reported.

    run(story)


def test_writes_after_a_handover_do_not_wait_for_a_hanging_disk() -> None:
    async def story(nodes: Nodes) -> None:
        slow_down(nodes[A], NEVER_S)
        await write(nodes[A])
        await until(lambda: opens(nodes) == [B])

        async with asyncio.timeout(1):
            is_done = await write(nodes[B])

        assert is_done

    run(story)


def test_a_primary_whose_disk_hangs_hands_over_though_it_has_only_begun() -> None:
    async def story(nodes: Nodes) -> None:
        slow_down(nodes[B], NEVER_S)

        nodes.wanted[FIRST] = (B, A, C)
        await until(lambda: opens(nodes) == [])
        await until(lambda: bool(opens(nodes)))

        assert opens(nodes) != [B]

    run(story)


def test_a_node_with_a_slow_disk_lets_its_session_end() -> None:
    async def story(nodes: Nodes) -> None:
        slow_down(nodes[A], NEVER_S)

        asking = nodes.group.create_task(write(nodes[A]))
        await until(lambda: nodes.session_of(A) is None)
        await asyncio.sleep(2 * WELL_AFTER_S)

        assert nodes.session_of(A) is None
        assert opens(nodes) == [B]
        await asking

    run(story)


def test_shards_come_back_when_the_disk_has_been_well_for_a_while() -> None:
    async def story(nodes: Nodes) -> None:
        slow_down(nodes[A], 2.0)
        await write(nodes[A])
        await until(lambda: opens(nodes) == [B])

        slow_down(nodes[A], 0.001)
        await asyncio.sleep(WELL_AFTER_S - 3)
        between = opens(nodes)
        await nodes.settle()

        assert between == [B]
        assert opens(nodes) == [A]

    run(story)


def test_one_node_continues_where_all_disks_are_slow() -> None:
    async def story(nodes: Nodes) -> None:
        for node_id in (A, B, C):
            slow_down(nodes[node_id], 1.5)
        for number in range(6):
            for node_id in opens(nodes):
                await write(nodes[node_id], number)
            await asyncio.sleep(0.5)
        assert all(is_unfit(nodes[node_id]) for node_id in (A, B, C))

        (only,) = opens(nodes)
        is_done = await write(nodes[only], 7)

        assert is_done

    run(story)


def test_a_backup_whose_disk_was_slow_counts_again_only_when_it_is_well() -> None:
    async def story(nodes: Nodes) -> None:
        slow_down(nodes[C], 1.2)
        await write(nodes[A])
        await until(lambda: C not in members(nodes))

        slow_down(nodes[C], 0.001)
        await asyncio.sleep(WELL_AFTER_S - 4)
        between = members(nodes)
        await until(lambda: C in members(nodes))

        assert between == (A, B)

    run(story)


def test_a_disk_is_not_slow_because_writes_wait_for_the_sync_before_theirs() -> None:
    async def story(nodes: Nodes) -> None:
        slow_down(nodes[A], 0.7)

        for number in range(50):
            nodes.group.create_task(write(nodes[A], number))
            await asyncio.sleep(0.1)

        assert not is_unfit(nodes[A])

    run(story)


def test_a_node_with_a_slow_disk_continues_without_the_coordinator() -> None:
    async def story(nodes: Nodes) -> None:
        await asyncio.sleep(2)  # All requests of starting nodes are answered.
        nodes.server.crash()
        await asyncio.sleep(5)
        calls: list[str] = []
        nodes[A].on_call = calls.append
        slow_down(nodes[A], 1.2)

        done = [await write(nodes[A], number) for number in range(5)]

        assert all(done)
        assert is_unfit(nodes[A])
        assert "swap" not in calls  # After a swap it would have no authority until an answer (R18).
        nodes.server.restart()

    run(story)


def test_a_fenced_node_continues_after_the_loss_of_the_coordinator() -> None:
    async def story(nodes: Nodes) -> None:
        def crash_before_the_handover(call: str) -> None:
            if call == "swap" and nodes.server.is_up:
                nodes.server.crash()

        nodes[A].on_call = crash_before_the_handover
        slow_down(nodes[A], 1.2)

        writing = nodes.group.create_task(write(nodes[A]))
        await until(lambda: not nodes.server.is_up)
        replica = nodes[A].shards[FIRST].replica
        await until(lambda: replica.is_admitting(nodes[A].clock.elapsed()))

        assert is_unfit(nodes[A])
        assert await writing
        nodes.server.restart()

    run(story)


# -- the space on the disk -------------------------------------------------------------------------


@pytest.mark.parametrize("space", [DiskSpace.LOW, DiskSpace.SCARCE])
def test_a_primary_with_little_space_hands_over_and_has_its_shards_again_when_there_is_more(
    space: DiskSpace,
) -> None:
    async def story(nodes: Nodes) -> None:
        nodes[A].space = space
        await until(lambda: opens(nodes) == [B])
        is_done = await write(nodes[B])

        nodes[A].space = DiskSpace.AMPLE
        await nodes.settle()

        assert is_done
        assert opens(nodes) == [A]

    run(story)


def test_without_space_on_any_node_only_commands_that_reduce_load_are_accepted() -> None:
    async def story(nodes: Nodes) -> None:
        job_id = await save(nodes[A].shards, name_of_first(nodes[A]))
        for node_id in (A, B, C):
            nodes[node_id].space = DiskSpace.SCARCE
        # A shard may be handed over until each node has the others' conditions.
        await asyncio.sleep(WELL_AFTER_S)
        [primary] = opens(nodes)
        shards = nodes[primary].shards

        with pytest.raises(Refused) as refused:
            await save(shards, name_of_first(nodes[primary], 1))
        await shards.ask(shards[FIRST], PauseJob(job_id=job_id))

        assert refused.value.code == "disk_full"
        assert shards[FIRST].state.jobs[job_id].pause is not None

    run(story)


def test_a_node_with_little_space_lends_no_slots() -> None:
    liveness = Liveness(A, born_at=Instant(0))
    slot_table = SlotTable(4, liveness, {})

    before = slot_table.lendable()
    liveness.conditions = frozenset({HealthCondition.SPACE})

    assert (before, slot_table.lendable()) == (4, 0)


def test_a_backup_with_a_full_disk_ends_and_its_primary_continues() -> None:
    async def story(nodes: Nodes) -> None:
        await write(nodes[A])
        nodes[B].fill_disk()

        async with asyncio.timeout(10):
            is_done = await write(nodes[A], 1)
        await nodes[B].ended_by_itself()

        assert is_done
        assert opens(nodes) == [A]

    run(story)


# -- the loop --------------------------------------------------------------------------------------


def test_a_node_whose_loop_stood_still_hands_over() -> None:
    async def story(nodes: Nodes) -> None:
        session = nodes.session_of(A)

        await nodes[A].pause(0.7)
        await until(lambda: opens(nodes) == [B])

        assert nodes.session_of(A) == session
        await until(lambda: nodes.session_of(A) is None)

    run(story)


def test_a_loop_that_is_late_by_less_changes_nothing() -> None:
    async def story(nodes: Nodes) -> None:
        await nodes[A].pause(0.4)
        await asyncio.sleep(5)

        assert not is_unfit(nodes[A])
        assert opens(nodes) == [A]

    run(story)


def test_opening_shards_takes_as_long_as_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(nodes: Nodes) -> None:
        def open_slowly(shard: Shard) -> None:
            opening(shard)
            nodes.loop.now += SECOND

        opening = Shard.open
        monkeypatch.setattr(Shard, "open", open_slowly)

        await nodes.move(FIRST, B, A, C)
        await asyncio.sleep(3)

        # A node that took over for that reason would open the shards as slowly.
        assert not is_unfit(nodes[B])
        assert opens(nodes) == [B]

    run(story)


# -- the wall clock --------------------------------------------------------------------------------


@pytest.mark.parametrize("ahead_s", [5.0, -5.0, 3_600.0])
def test_a_node_with_a_wrong_wall_clock_hands_over(ahead_s: float) -> None:
    async def story(nodes: Nodes) -> None:
        session = nodes.session_of(A)

        set_wall_clock(nodes[A], ahead_s)
        await until(lambda: opens(nodes) == [B])

        assert is_unfit(nodes[A])
        await asyncio.sleep(20)
        assert nodes.session_of(A) == session
        assert opens(nodes) == [B]

    run(story)


def test_nothing_fires_early_by_a_wall_clock_set_forward() -> None:
    async def story(nodes: Nodes) -> None:
        await save(nodes[A].shards, "job", schedule="@every 1h")

        set_wall_clock(nodes[A], 3_599.0)
        await asyncio.sleep(30)

        assert not nodes.playing
        assert not nodes[B].shards.of_name("default", "job").state.executions

    run(story)


def test_no_entry_is_stamped_by_a_wall_clock_set_forward() -> None:
    async def story(nodes: Nodes) -> None:
        set_wall_clock(nodes[A], 3_600.0)

        is_done = await write(nodes[A])
        await until(lambda: opens(nodes) == [B])

        assert not is_done
        stamped_at = nodes[B].shards[FIRST].replica.copy.tip.at
        assert stamped_at < BEGINNING + nodes.loop.now + SECOND

    run(story)


def test_a_node_with_a_wrong_wall_clock_and_no_successor_fires_nothing() -> None:
    async def story(nodes: Nodes) -> None:
        await save(nodes[A].shards, "job", schedule="@every 10s", parameters={"sleepMs": 60_000})
        for node_id in (B, C):
            await nodes[node_id].pause(0.7)  # Both are unfit for some time.
        await asyncio.sleep(1)
        assert len(opens(nodes, nodes[A].shards.of_name("default", "job").id)) == 1
        for node_id in (B, C):
            assert is_unfit(nodes[node_id])

        set_wall_clock(nodes[A], 3_600.0)
        before = len(nodes.playing)
        await asyncio.sleep(5)

        assert len(nodes.playing) == before

    run(story)


def test_requests_that_wait_for_a_successor_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(nodes: Nodes) -> None:
        monkeypatch.setattr("rota.node.shards.inbox.INBOX_MAX", 3)
        for node_id in (B, C):
            await nodes[node_id].pause(0.7)
        set_wall_clock(nodes[A], 3_600.0)
        await asyncio.sleep(1)

        asking = [nodes.group.create_task(write(nodes[A])) for _ in range(3)]
        await asyncio.sleep(0.1)
        with pytest.raises(Refused, match="3 requests wait"):
            nodes[A].shards.check_open()

        set_wall_clock(nodes[A], 0.0)
        await asyncio.gather(*asking)

    run(story)


def test_shards_return_after_the_wall_clock_has_been_right_for_some_time() -> None:
    async def story(nodes: Nodes) -> None:
        set_wall_clock(nodes[A], 5.0)
        await until(lambda: opens(nodes) == [B])

        set_wall_clock(nodes[A], 0.0)
        await nodes.settle()

        assert opens(nodes) == [A]
        assert not is_unfit(nodes[A])

    run(story)


def test_two_nodes_alone_do_not_blame_either_wall_clock() -> None:
    async def story(nodes: Nodes) -> None:
        await nodes[C].end()
        await asyncio.sleep(READING_MAX_AGE / SECOND + 5)

        set_wall_clock(nodes[A], 5.0)
        await asyncio.sleep(10)

        assert opens(nodes) == [A]
        assert not is_unfit(nodes[A])
        assert not is_unfit(nodes[B])

    run(story)


def test_a_node_found_wrong_stays_unfit_without_enough_others_to_compare() -> None:
    async def story(nodes: Nodes) -> None:
        set_wall_clock(nodes[A], 5.0)
        await until(lambda: opens(nodes) == [B])

        await nodes[C].end()
        await asyncio.sleep(READING_MAX_AGE / SECOND + WELL_AFTER_S + 10)

        assert opens(nodes) == [B]

    run(story)


# -- metrics, readiness and logs -------------------------------------------------------------------


def test_metrics_and_readiness_give_the_reason_of_a_fence() -> None:
    async def story(nodes: Nodes) -> None:
        context = nodes[A].running.context
        before = context.metrics.text()

        set_wall_clock(nodes[A], 5.0)
        await until(lambda: opens(nodes) == [B])

        assert b'rota_fenced{reason="clock"} 0.0' in before
        assert b'rota_fenced{reason="clock"} 1.0' in context.metrics.text()
        assert b'rota_fences_total{reason="clock"} 1.0' in context.metrics.text()
        assert "its wall clock differs" in (context.unready() or "")

    run(story)


def test_a_node_that_is_alone_only_counts(caplog: pytest.LogCaptureFixture) -> None:
    clock = SkewedClock(lambda: 0, ahead=Duration(SECOND), drift_ppm=0)
    liveness, metrics = Liveness(A, born_at=Instant(0)), Metrics()
    clock_skew = ClockSkew(Duration(500 * MILLISECOND))
    self_check = SelfCheck(clock_skew, liveness, clock, metrics, is_alone=True)

    self_check.tick(lag=600 * MILLISECOND, sync_time=0)

    assert liveness.is_fit
    assert self_check.why_unfit is None
    assert b'rota_fences_total{reason="loop"} 1.0' in metrics.text()
    assert [(record.message, vars(record)["reason"]) for record in caplog.records] == [
        ("node slow", HealthCondition.LOOP.value)
    ]


def test_a_health_condition_has_one_line_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(nodes: Nodes) -> None:
        slow_down(nodes[A], NEVER_S)

        asking = nodes.group.create_task(write(nodes[A]))
        await asyncio.sleep(30)
        await asking

    run(story)

    assert [record.message for record in caplog.records].count("node unfit") == 1


@needs_etcd
def test_a_real_node_that_was_stopped_for_a_second_hands_over_for_a_while(
    own_cluster: Cluster,
) -> None:
    node = own_cluster.start().nodes[0]
    process = node.process
    assert process is not None

    stop(process.pid)
    time.sleep(0.9)  # Less than the session TTL.
    process.send_signal(signal.SIGCONT)
    own_cluster.wait_until(lambda: "n1" not in primaries(own_cluster), "n1 keeps shards")

    own_cluster.wait_whole()
    assert "n1" in primaries(own_cluster)
    events = [json.loads(line)["event"] for line in node.log_path.read_text().splitlines()]
    assert "node unfit" in events
    assert "node well" in events


def primaries(cluster: Cluster) -> set[str]:
    return {each["primary"] for each in cluster.configurations().values()}
