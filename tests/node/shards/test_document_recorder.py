"""The changes of shared documents in the record of changes, on three nodes."""

import asyncio

from rota.core.model.author import Author
from rota.core.model.ids import ShardId
from rota.core.model.shared_document import DocumentKey
from rota.core.vocabulary.change_chain import opened
from rota.storage.user_changes import UserChanges
from support.virtual_nodes import A, B, Node, Nodes, run, until

SHARD = ShardId(0)
ALICE = Author(principal="alice")


def test_a_takeover_neither_loses_nor_repeats_a_change_of_a_document() -> None:
    async def story(nodes: Nodes) -> None:
        early, late = keys_in_shard(nodes, 2)
        await change(nodes[A], early, 1)
        await until(lambda: recorded(nodes[B]) == [(early.name, 1)])

        await nodes[A].end()
        await change(nodes[B], late, 1)
        await change(nodes[B], early, 2)
        await until(lambda: nodes[B].shards[SHARD].is_open)
        await asyncio.sleep(5)

        assert sorted(recorded(nodes[B])) == sorted(
            [(early.name, 1), (early.name, 2), (late.name, 1)]
        )

    run(story)


def keys_in_shard(nodes: Nodes, count: int) -> list[DocumentKey]:
    keys = [DocumentKey("roles", f"r{number}") for number in range(20)]
    shards = nodes[A].shards
    return [key for key in keys if shards.of_name(key.kind, key.name).id == SHARD][:count]


async def change(node: Node, key: DocumentKey, number: int) -> None:
    assert node.wiring is not None
    documents = node.wiring.cluster.documents
    await documents.change(key, {"verbs": ["read"], "number": number}, by=ALICE)


def recorded(node: Node) -> list[tuple[str, int]]:
    """Return the documents and versions in a node's copy of the record, oldest first."""
    found: list[tuple[str, int]] = []
    for _, row in UserChanges(node.store).chain(SHARD, "", 100):
        made = opened(row) if row else None
        assert made is not None
        assert made.document is not None
        found.append((made.document.name, made.after))
    return found
