"""I3, C9, L1, L2: at the end all copies are equal, everything has ended, and nothing is left over.

And no node has ended by itself, except on a spoiled disk.
"""

from collections import defaultdict
from collections.abc import Iterator

from chaos.judge.records import Json, Records, Violation

DISK_FAILED = 74
"""The status of a node that cannot use its disk."""
SPOIL = {"disk-full", "bad-disk", "slow-disk"}
DAMAGES = "flip"
SOON_S = 15.0
"""Limit after the end of a fault until an affected node may still end."""


def violations(records: Records) -> Iterator[Violation]:
    """Yield copies that differ from their primary's, and what is left."""
    copies: dict[int, dict[str, Json]] = defaultdict(dict)
    for each in records.replicas:
        copies[each["shard"]][each["node"]] = each
    for shard, history in sorted(records.configurations.items()):
        last = history[-1]
        primary = copies[shard].get(last.primary)
        for node, _ in last.sync:
            copy = copies[shard].get(node)
            if copy is None or primary is None:
                yield Violation("I3", f"shard {shard} is not on the disk of {node}")
            elif copy["tables"] != primary["tables"]:
                tables = sorted(
                    table
                    for table in {*copy["tables"], *primary["tables"]}
                    if copy["tables"].get(table) != primary["tables"].get(table)
                )
                yield Violation(
                    "I3",
                    f"shard {shard}: {node} (applied {copy['applied']}) differs from "
                    f"{last.primary} ({primary['applied']}) in tables {tables}",
                )
    if records.end["trouble"]:
        yield Violation("L1", f"not well after all faults: {records.end['trouble']}")
    for process in records.end["processes"]:
        yield Violation("C9", f"left over: {process}")
    for each in records.end["ended"]:
        if each["status"] != DISK_FAILED or not _is_spoiled(records, each["node"], each["at"]):
            yield Violation("L2", f"a node ended by itself: {each}")


def _is_spoiled(records: Records, node: str, at: float) -> bool:
    """Return True if a disk is bad or damaged; damage may be detected at any later time."""
    return any(
        node in fault.hosts
        and fault.began_at <= at
        and (fault.kind == DAMAGES or (fault.kind in SPOIL and at <= fault.ended_at + SOON_S))
        for fault in records.faults
    )
