"""I3, C9, L1: at the end all copies are equal, everything has ended, and nothing is left over."""

from collections import defaultdict
from collections.abc import Iterator

from chaos.judge.records import Json, Records, Violation


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
