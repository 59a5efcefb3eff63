"""Ids of fallback shards and of their attempts (docs/explanation/available.md).

A fallback shard holds the decisions of a stand-in for a shard, on one node. Its number is that of
the shard with the highest bit set, so that rows and timers of both can share a store: a cluster has
at most 16,384 shards. Its executions have the same ids as the shard would give them, so the keys of
its attempts must differ: their numbers begin above all numbers that a shard reaches.
"""

from msgspec.structs import replace

from rota.core.model.attempt import AttemptKey
from rota.core.model.execution import Task
from rota.core.model.ids import ShardId

_FALLBACK_BIT = 0x8000
_BEYOND = 1_000_000
"""More than any task has attempts: retries and losses are limited to about a thousand."""


def fallback_shard_of(shard: ShardId) -> ShardId:
    """Return the number of the fallback shard of *shard*."""
    return ShardId(_FALLBACK_BIT | shard)


def is_fallback_shard(number: ShardId) -> bool:
    """Return True if *number* is that of a fallback shard."""
    return number >= _FALLBACK_BIT


def shard_of_fallback(fallback: ShardId) -> ShardId:
    """Return the number of the shard of a fallback shard."""
    return ShardId(fallback ^ _FALLBACK_BIT)


def outward(key: AttemptKey) -> AttemptKey:
    """Return the key under which an attempt of a fallback shard runs on its node."""
    return key._replace(number=key.number + _BEYOND)


def inward(key: AttemptKey) -> AttemptKey:
    """Return the key of an attempt in the fallback shard; the inverse of `outward`."""
    return key._replace(number=key.number - _BEYOND)


def outward_task(task: Task) -> Task:
    """Return a task of a fallback shard with the attempts numbered as they ran on the node."""
    attempts = tuple(replace(each, number=each.number + _BEYOND) for each in task.attempts)
    return replace(task, attempts=attempts)


def is_of_fallback(key: AttemptKey) -> bool:
    """Return True if *key*, as it runs on a node, is that of a fallback shard's attempt."""
    return key.number > _BEYOND
