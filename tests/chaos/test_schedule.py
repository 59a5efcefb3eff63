"""Schedules of faults follow from a seed, and all their faults can be done."""

from itertools import pairwise

import pytest

from chaos.harness.deeds import DEEDS
from chaos.harness.schedule import (
    COMPILER,
    KINDS,
    NAMED,
    NAMESPACES,
    RARELY,
    VOLUMES,
    Fault,
    schedule,
)

NODES = ("n1", "n2", "n3")
ALL = (NAMESPACES, COMPILER, VOLUMES)


def faults(
    nemesis: str = "mixed", seed: int = 1, minutes: float = 10, *,
    can: tuple[str, ...] = ALL, members: int = 3, nodes: tuple[str, ...] = NODES,
) -> list[Fault]:  # fmt: skip
    return schedule(nemesis, seed, minutes, nodes, can=can, members=members)


def test_a_seed_determines_the_faults() -> None:
    first, again, other = faults(seed=7), faults(seed=7), faults(seed=8)

    assert first == again
    assert first != other


def test_every_kind_of_fault_can_be_done_and_undone() -> None:
    assert set(DEEDS) == set(KINDS)


def test_a_mixed_run_of_ten_minutes_has_every_kind_once() -> None:
    kinds = [fault.kind for fault in faults(minutes=10, nodes=(*NODES, "n4", "n5"))]

    assert set(kinds) == {*KINDS} - {*NAMED}
    assert all(kinds.count(kind) == 1 for kind in RARELY)


@pytest.mark.parametrize("kind", NAMED)
def test_a_kind_that_mixed_runs_leave_out_is_done_if_named(kind: str) -> None:
    assert {fault.kind for fault in faults(kind, minutes=5)} == {kind}


def test_a_long_mixed_run_repeats_rare_kinds() -> None:
    kinds = [fault.kind for fault in faults(minutes=120)]

    assert all(2 <= kinds.count(kind) <= 6 for kind in RARELY)


@pytest.mark.parametrize(("kind", "node"), [("disk-full", "n3"), ("frozen-disk", "n1")])
def test_faults_of_a_separate_disk_are_always_done_to_the_same_node(kind: str, node: str) -> None:
    assert {fault.hosts for fault in faults(kind, minutes=5)} == {(node,)}


def test_faults_follow_one_another_and_end_in_time() -> None:
    planned = faults(minutes=5)

    assert all(one.begins_s + one.lasts_s < next_.begins_s for one, next_ in pairwise(planned))
    assert planned[-1].begins_s + planned[-1].lasts_s <= 300


def test_a_node_is_killed_every_ten_seconds_and_is_back_after_five() -> None:
    kills = faults("kill", minutes=10)

    assert len(kills) == 60
    assert {fault.lasts_s for fault in kills} == {5}
    assert {round(after.begins_s - before.begins_s) for before, after in pairwise(kills)} == {10}
    assert {fault.hosts[0] for fault in kills} == set(NODES)


def test_a_partition_is_between_two_nodes() -> None:
    assert all(len(set(fault.hosts)) == 2 for fault in faults("partition", minutes=5))


def test_a_mixed_run_leaves_out_kinds_that_are_impossible_here() -> None:
    kinds = {fault.kind for fault in faults(minutes=20, can=(), members=1)}

    assert not any(KINDS[kind].needs for kind in kinds)
    assert "etcd-leader" not in kinds
    assert "zone" not in kinds


@pytest.mark.parametrize("nemesis", ["partition", "clock", "etcd-leader", "zone", "kill,quake"])
def test_an_impossible_kind_is_refused_by_name(nemesis: str) -> None:
    with pytest.raises(ValueError, match=f"^{nemesis.split(',')[-1]} cannot be done here"):
        faults(nemesis, can=(), members=1)


def test_a_run_without_a_nemesis_has_no_faults() -> None:
    assert faults("none") == []
