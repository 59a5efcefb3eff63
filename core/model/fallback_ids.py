"""Where a side stands: what a stand-in decides of a shard (docs/explanation/available.md).

A side is a shard of its own on one node. Its number is that of its shard with the highest bit set,
so that rows and timers of both share a store without meeting: a cluster has at most 16,384 shards.
Its executions have the ids that the shard itself would give them, so what names one attempt on a
node needs a mark more: those of a side are numbered from beyond all numbers that a shard reaches.
"""

from msgspec.structs import replace

from rota.core.model.attempt import AttemptKey
from rota.core.model.execution import Task
from rota.core.model.ids import ShardId

_SIDE = 0x8000
_BEYOND = 1_000_000
"""More than any task has attempts: retries and losses are limited to about a thousand."""


def fallback_shard_of(shard: ShardId) -> ShardId:
    """Return the number of the side of *shard*."""
    return ShardId(_SIDE | shard)


def is_fallback_shard(number: ShardId) -> bool:
    """Tell whether *number* is a side's."""
    return number >= _SIDE


def shard_of_fallback(side: ShardId) -> ShardId:
    """Return the number of the shard whose side it is."""
    return ShardId(side ^ _SIDE)


def outward(key: AttemptKey) -> AttemptKey:
    """Return the key under which an attempt of a side runs on its node."""
    return key._replace(number=key.number + _BEYOND)


def inward(key: AttemptKey) -> AttemptKey:
    """Return the key that the side knows it by."""
    return key._replace(number=key.number - _BEYOND)


def outward_task(task: Task) -> Task:
    """Return what is on record of a task of a side, with its attempts numbered as they ran."""
    attempts = tuple(replace(each, number=each.number + _BEYOND) for each in task.attempts)
    return replace(task, attempts=attempts)


def is_of_fallback(key: AttemptKey) -> bool:
    """Tell whether what runs on a node under *key* is an attempt of a side."""
    return key.number > _BEYOND
