"""Ids of fallback shards and of their attempts (docs/explanation/available.md).

A fallback shard holds the decisions of a stand-in for a shard, on one node. Its number is that of
the shard with the highest bit set, which no shard uses: a cluster has at most 16,384 shards. So the
rows and timers of both can share a store. The executions of a fallback shard have the ids that the
shard would give them, so the keys of its attempts must differ: their numbers begin above all
numbers that attempts of a shard can reach.
"""

from msgspec.structs import replace

from rota.core.model.attempt import AttemptKey
from rota.core.model.execution import Task
from rota.core.model.ids import ShardId

_FALLBACK_BIT = 0x8000
_BEYOND = 1_000_000
"""A number of attempts that no task reaches: retries and losses are limited to about a thousand."""


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
    """Return *task* of a fallback shard with the numbers under which its attempts ran."""
    attempts = tuple(replace(each, number=each.number + _BEYOND) for each in task.attempts)
    return replace(task, attempts=attempts)


def is_of_fallback(key: AttemptKey) -> bool:
    """Return True if *key*, as used on a node, is that of an attempt of a fallback shard."""
    return key.number > _BEYOND
