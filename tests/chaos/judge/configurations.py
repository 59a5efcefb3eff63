"""I6: the configurations of each shard in etcd follow one another by the rules.

Where etcd was set back, a node that has not learned of that may replace what etcd was left with:
the epoch is used again then, and void (protocol.md, "When etcd loses its state").
"""

from collections.abc import Iterator
from itertools import pairwise

from chaos.judge.records import Configuration, Records, Violation

GENERATION_BITS = 40
"""The bits of an epoch above these are its generation, which only a recovery raises."""


def violations(records: Records) -> Iterator[Violation]:
    """Yield changes that no rule allows."""
    minimum = records.run["minSync"]
    owners: dict[str, tuple[int, str]] = {}
    for shard, history in sorted(records.configurations.items()):
        for before, after in pairwise(history):
            if after.epoch not in (
                _left_with(records, before, after) + 1,
                _recovered(records, history, before, after),
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


def _left_with(records: Records, before: Configuration, after: Configuration) -> int:
    """Return the epoch that *after* replaced: that of *before*, or what a restore left."""
    for each in reversed(records.restores):
        if before.revision <= each.revision < after.revision:
            return each.epochs.get(before.shard, 0)
    return before.epoch


def _recovered(
    records: Records, history: list[Configuration], before: Configuration, after: Configuration
) -> int | None:
    """Return the first epoch of *after*'s generation, if a recovery may have begun that."""
    generation, replaced = (each.epoch >> GENERATION_BITS for each in (after, before))
    since = next(each.revision for each in history if each.epoch >> GENERATION_BITS == replaced)
    is_set_back = any(since <= each.revision < after.revision for each in records.restores)
    return (generation << GENERATION_BITS) + 1 if generation > replaced and is_set_back else None
