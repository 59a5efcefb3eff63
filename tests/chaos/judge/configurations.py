"""I6: what etcd says of each shard, revision by revision, went as the rules allow."""

from collections.abc import Iterator
from itertools import pairwise

from chaos.judge.records import Records, Violation


def violations(records: Records) -> Iterator[Violation]:
    """Yield changes that no rule allows."""
    minimum = records.run["minSync"]
    owners: dict[str, tuple[int, str]] = {}
    for shard, history in sorted(records.configurations.items()):
        for before, after in pairwise(history):
            if after.epoch != before.epoch + 1:
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
