"""Benchmark of the ring: how evenly it places shards, how much changes move, and its speed.

Loads and movement follow from the membership alone, so they are the same on every machine. The
figures of movement are the mean and the worst of ten single changes. Run it with
``.venv/bin/python -m bench.parts.ring``.
"""

import time
from statistics import fmean

from rota.core.model.ids import NodeId
from rota.ring.assignment import Assignment, assign
from rota.ring.membership import Member
from rota.ring.movement import movement

CHANGES = 10
COPIES = 3
CASES = (
    # shards, nodes, zones
    (256, 3, 1),
    (256, 5, 1),
    (256, 20, 4),
    (1024, 10, 1),
    (1024, 50, 5),
    (4096, 50, 5),
)


def nodes(count: int, zone_count: int, first: int = 1) -> list[Member]:
    """Return members n1, n2, ..., as ``rota ring --nodes COUNT --zones COUNT`` makes them."""
    return [
        Member(
            id=NodeId(f"n{number}"),
            zone=f"z{1 + (number - 1) % zone_count}" if zone_count > 1 else "",
        )
        for number in range(first, first + count)
    ]


def main() -> None:
    """Print one line for each case."""
    print(f"{COPIES} copies of each shard; loads relative to the fair share; movement relative to")
    print("the least possible: mean and worst of ten additions, and of ten (or all) removals\n")
    print("shards nodes zones   max  min  primary max  min   add mean worst   remove mean worst")
    for shard_count, node_count, zone_count in CASES:
        print_case(shard_count, node_count, zone_count)
    print()
    for zone_count in (1, 5, 20):
        print_time(16_384, 1_000, zone_count)


def print_case(shard_count: int, node_count: int, zone_count: int) -> None:
    """Print how even an assignment is, and how much additions and removals of nodes move."""
    members = nodes(node_count, zone_count)
    before = assign(members, shard_count, COPIES)
    added = [
        movement(before, assign([*members, newcomer], shard_count, COPIES)).of_least
        for newcomer in nodes(CHANGES, zone_count, first=node_count + 1)
    ]
    removed = [
        movement(
            before, assign([each for each in members if each != leaver], shard_count, COPIES)
        ).of_least
        for leaver in members[:CHANGES]
    ]
    loads, primary_loads = parts_of_shares(before)
    print(
        f"{shard_count:6} {node_count:5} {zone_count:5}  {max(loads):.2f} {min(loads):.2f}"
        f"         {max(primary_loads):.2f} {min(primary_loads):.2f}"
        f"       {fmean(added):.2f}  {max(added):.2f}          {fmean(removed):.2f}"
        f"  {max(removed):.2f}"
    )


def parts_of_shares(assignment: Assignment) -> tuple[list[float], list[float]]:
    """Return each node's load of copies, and of primaries, divided by its share."""
    loads, primary_loads = assignment.loads(), assignment.primary_loads()
    return (
        [loads[node] / share for node, share in assignment.shares.items()],
        [primary_loads[node] / share for node, share in assignment.primary_shares.items()],
    )


def print_time(shard_count: int, node_count: int, zone_count: int) -> None:
    """Print how many seconds one assignment takes."""
    members = nodes(node_count, zone_count)
    start = time.perf_counter()
    assign(members, shard_count, COPIES)
    took_s = time.perf_counter() - start
    print(f"{shard_count} shards on {node_count} nodes in {zone_count} zones: {took_s:.2f} s")


if __name__ == "__main__":
    main()
