"""The record of what users changed, on three nodes: its expiry, its copies, and a takeover."""

import asyncio
from functools import partial

import pytest
from msgspec import convert

from rota.core.model.author import Author
from rota.core.model.ids import ShardId
from rota.core.timing.instants import SECOND, Duration
from rota.core.vocabulary.change_chain import ChainCheck, opened
from rota.core.vocabulary.commands import SaveJob
from rota.core.vocabulary.decision import JobSaved
from rota.node.shards.shard import Shard
from rota.node.system.config import NodeConfig
from rota.storage.user_changes import UserChanges
from rota.wire.bodies.job_bodies import job_spec
from rota.wire.documents import JobBody
from support import virtual_nodes
from support.virtual_nodes import A, B, Node, Nodes, run, until

SHARD = ShardId(0)
KEPT_S = 120
ALICE = Author(principal="alice")


@pytest.fixture(autouse=True)
def short_retention(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have nodes keep changes for two minutes."""
    short = partial(NodeConfig, audit_retention=Duration(KEPT_S * SECOND))
    monkeypatch.setattr(virtual_nodes, "NodeConfig", short)


def test_old_changes_expire_on_all_copies_and_the_chain_survives_a_takeover() -> None:
    async def story(nodes: Nodes) -> None:
        first, second, third = names_in_shard(nodes, 3)
        await save(nodes, nodes[A], first)
        await asyncio.sleep(KEPT_S - 20)
        await save(nodes, nodes[A], second)
        assert jobs_of(nodes[B]) == [first, second]
        await asyncio.sleep(90)

        assert jobs_of(nodes[A]) == jobs_of(nodes[B]) == [second]

        await nodes[A].end()
        await until(lambda: nodes[B].shards[SHARD].is_open)
        await save(nodes, nodes[B], third)
        assert jobs_of(nodes[B]) == [second, third]
        check = checked(nodes[B])
        assert (check.count, check.fault) == (2, "")

    run(story)


def names_in_shard(nodes: Nodes, count: int) -> list[str]:
    shards = nodes[A].shards
    return [n for n in map(str, range(99)) if shards.of_name("default", n).id == SHARD][:count]


async def save(nodes: Nodes, node: Node, name: str) -> None:
    body = convert({"name": name, "type": "scripted"}, JobBody)
    shard: Shard = node.shards[SHARD]
    saved = await node.shards.ask(shard, SaveJob(spec=job_spec(body), author=ALICE))
    assert isinstance(saved, JobSaved)
    await asyncio.sleep(1)  # By then the backups have applied it.


def jobs_of(node: Node) -> list[str]:
    """Return the names of the jobs whose changes a copy has, oldest first."""
    found: list[str] = []
    for _, row in UserChanges(node.store).chain(SHARD, "", 100):
        change = opened(row) if row else None
        assert change is not None
        assert change.author == ALICE
        found.append(change.job.removeprefix("default/"))
    return found


def checked(node: Node) -> ChainCheck:
    chain = node.shards[SHARD].state.chain
    check = ChainCheck(chain)
    for key, row in UserChanges(node.store).chain(SHARD, "", 100):
        check.add(key, row)
    check.finish(chain.last)
    return check
