"""Attempts on nodes whose shards have moved, on virtual nodes."""

import asyncio
from collections import Counter
from collections.abc import Coroutine

import pytest

from rota.core.errors import Refused
from rota.core.model.execution import Task
from rota.core.model.ids import ExecutionId, NodeId, ShardId
from rota.node.peers.messages import Sent
from support.in_process import save, trigger
from support.virtual_nodes import (
    A,
    B,
    C,
    Loses,
    Nodes,
    until,
)

LONG = {"sleepMs": 3_600_000}
FIVE_S = {"sleepMs": 5_000}


async def long_attempt_away(nodes: Nodes) -> ExecutionId:
    """Start an attempt on A, and move its shard to B."""
    shards = nodes[A].shards
    execution_id = await trigger(shards, await save(shards, "job", parameters=LONG))
    await until(lambda: len(nodes[A].playing) == 1)
    await nodes.move(nodes.shard_of(execution_id), B, A, C)
    return execution_id


def name_in(nodes: Nodes, shard: ShardId) -> str:
    """Return the name of a job of *shard*."""
    of_name = nodes[A].shards.of_name
    return next(name for name in map(str, range(99)) if of_name("default", name).id == shard)


def task_of(nodes: Nodes, execution_id: ExecutionId) -> Task:
    task = nodes.task(execution_id)
    assert task is not None
    return task


def where(task: Task) -> list[NodeId]:
    """Return the node of each attempt of a task."""
    return [attempt.node_id for attempt in task.attempts]


async def refusal_of(asked: Coroutine[None, None, object]) -> str:
    """Return the code of the refusal of a request."""
    with pytest.raises(Refused) as refused:
        await asked
    return refused.value.code


def losing_first(count: int, *kinds: type[Sent]) -> Loses:
    """Return a filter that drops the first *count* messages of each kind."""
    seen: Counter[type[Sent]] = Counter()

    def loses(sender: NodeId, receiver: NodeId, message: Sent) -> bool:
        del sender, receiver
        seen[type(message)] += 1
        return isinstance(message, kinds) and seen[type(message)] <= count

    return loses


def lost_into(messages: list[Sent], message: Sent) -> bool:
    messages.append(message)
    return True


def do_nothing(*args: object, **named: object) -> None:
    """Replace a call that has no effect."""


def deliveries(nodes: Nodes, node_id: NodeId) -> int:
    """Return the number of deliveries that a node has open."""
    return len(nodes[node_id].running.attempts.delivery)


async def end_session(nodes: Nodes, node_id: NodeId) -> None:
    """End a node's session at the coordinator, and wait until the node has another."""
    before = nodes.session_of(node_id)
    assert before is not None
    nodes.server.change(lambda state: state.end(before))
    await until(lambda: nodes.session_of(node_id) not in (before, None))
    await asyncio.sleep(0.1)  # Until the node itself has the new session.
