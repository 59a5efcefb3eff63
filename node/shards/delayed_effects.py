"""Committed effects that are not due yet: starts of executions decided shortly before fire times.

A due effect is carried out if this node then has authority for the shard, like any other effect
(PROTOCOL R15). If the shard is closed before, the effect is dropped. The wait is measured by the
monotonic clock, so a change of the wall clock during the wait does not change it.
"""

import asyncio
import heapq
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

from rota.core.model.ids import ExecutionId
from rota.core.timing.instants import Duration, Instant
from rota.core.vocabulary.effects import Effect, Launch, PostponedEffects
from rota.node.shards.shard import Shard
from rota.node.system.clock import Clock, whole_ms

SLEW_PART = 1_000
"""The wait is longer by one part in this number, so that no effect is early if the wall clock is
slowed (adjtimex allows 500 parts in a million)."""


@dataclass(frozen=True, slots=True)
class _Held:
    """Effects of one execution, with the elapsed time at which they are due."""

    due: Instant
    later: PostponedEffects


class DelayedEffects:
    """The effects that are not due yet, by shard.

    Their number is limited by that of the fires within `Situation.decide_ahead`.

    Args:
        clock: The clock of this node; both the wall-clock time and the elapsed time are used.
        most: The longest wait.
        on_due: Called on the event loop with each shard that has due effects.
    """

    def __init__(self, clock: Clock, most: Duration, on_due: Callable[[Shard], None]) -> None:
        self._clock = clock
        self._most = most
        self._on_due = on_due
        self._held: dict[Shard, list[_Held]] = {}
        self._dues: list[tuple[Instant, int, Shard]] = []
        self._numbers = count()
        self._handle: asyncio.TimerHandle | None = None

    def hold(self, shard: Shard, later: PostponedEffects) -> None:
        """Keep effects of a shard until they are due."""
        wait = max(0, min(later.at - self._clock.now(), self._most))
        due = Instant(self._clock.elapsed() + wait + wait // SLEW_PART)
        self._held.setdefault(shard, []).append(_Held(due, later))
        shard.replica.set_postponed(has_postponed=True)
        heapq.heappush(self._dues, (due, next(self._numbers), shard))
        if self._dues[0][0] == due:
            self._arm()

    def take_due(self, shard: Shard) -> list[Effect]:
        """Remove and return the effects of a shard that are due."""
        now = self._clock.elapsed()
        return self._take(shard, lambda each: each.due <= now)

    def withdraw(self, shard: Shard, execution_id: ExecutionId) -> list[Launch]:
        """Drop the effects of an execution; return the attempts that are not to begin."""
        taken = self._take(shard, lambda each: each.later.execution_id == execution_id)
        return [effect for effect in taken if isinstance(effect, Launch)]

    def drop(self, shard: Shard) -> list[Launch]:
        """Drop the effects of a shard; return the attempts that are not to begin here."""
        taken = self._take(shard, lambda each: True)
        return [effect for effect in taken if isinstance(effect, Launch)]

    def close(self) -> None:
        """Cancel the timer, so that `on_due` is not called any more."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _take(self, shard: Shard, is_wanted: Callable[[_Held], bool]) -> list[Effect]:
        held = self._held.pop(shard, [])
        taken = [each for each in held if is_wanted(each)]
        if len(taken) < len(held):
            self._held[shard] = [each for each in held if not is_wanted(each)]
        shard.replica.set_postponed(has_postponed=shard in self._held)
        return [effect for each in taken for effect in each.later.effects]

    def _arm(self) -> None:
        self.close()
        if self._dues:
            wait_s = whole_ms(self._dues[0][0] - self._clock.elapsed())
            self._handle = asyncio.get_running_loop().call_later(wait_s, self._ring)

    def _ring(self) -> None:
        self._handle = None
        now = self._clock.elapsed()
        due: dict[Shard, None] = {}
        while self._dues and self._dues[0][0] <= now:
            due[heapq.heappop(self._dues)[2]] = None
        self._arm()
        for shard in due:
            self._on_due(shard)
