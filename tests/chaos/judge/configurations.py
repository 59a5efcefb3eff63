"""I6: what etcd says of each shard, revision by revision, went as the rules allow."""

from collections.abc import Iterator
from itertools import pairwise

from chaos.judge.records import Configuration, Records, Violation

GENERATION_BITS = 40
"""Above them, in an epoch, is its generation, which only a recovery of etcd's state raises."""


def violations(records: Records) -> Iterator[Violation]:
    """Yield changes that no rule allows."""
    minimum = records.run["minSync"]
    owners: dict[str, tuple[int, str]] = {}
    for shard, history in sorted(records.configurations.items()):
        for before, after in pairwise(history):
            if after.epoch != before.epoch + 1 and not _is_recovered(
                records, history, before, after
            ):
                yield Violation("I6", f"epoch {after.epoch} after {before.epoch}: {after}")
            if len(after.sync) < minimum <= len(before.sync):
                yield Violation("I6", f"fewer than {minimum} copies count: {after}")
        for each in history:
            nodes = [node for node, _ in each.sync]
            if each.primary not in nodes or len(nodes) != len(set(nodes)):
                yield Violation("I6", f"the primary does not count, or a node twice: {each}")
            for node, copy in each.sync:
                if owners.setdefault(copy, (shard, node)) != (shard, node):
                    yield Violation("I6", f"copy {copy} was of {owners[copy]}: {each}")


def _is_recovered(
    records: Records, history: list[Configuration], before: Configuration, after: Configuration
) -> bool:
    """Whether *after* begins a later generation, and etcd was set back in that of *before*."""
    generation, count = divmod(after.epoch, 1 << GENERATION_BITS)
    replaced = before.epoch >> GENERATION_BITS
    since = next(each.revision for each in history if each.epoch >> GENERATION_BITS == replaced)
    is_set_back = any(since <= each < after.revision for each in records.restores)
    return count == 1 and generation > replaced and is_set_back
