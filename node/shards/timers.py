"""Timers: fire times by the wall clock, delays by the elapsed time.

Fire times within the horizon are on the timer wheel. Later ones are rows on disk that are loaded
before they are due, so a million jobs need no memory for the fires of the next day. Delays belong
to unfinished executions, whose number is limited, and to jobs that wait for the end of a pause, at
most one each; they are kept in a heap in memory. Timers are not replicated: a new primary sets them
again from the state.
"""

import asyncio
import heapq
import logging
from collections.abc import Callable, Iterable

from rota.core.model.ids import ShardId
from rota.core.timing.instants import SECOND, Duration, Instant
from rota.core.timing.timer_wheel import HORIZON, TimerWheel
from rota.core.vocabulary.codec import Undecodable, decode_timer_command, encode_timer_command
from rota.core.vocabulary.commands import TimerCommand
from rota.core.vocabulary.effects import ClearTimer, SetTimer, Timescale
from rota.node.system.clock import Clock, whole_ms
from rota.storage.shards import shard_prefix
from rota.storage.store import Family, Store

log = logging.getLogger(__name__)

LOOK_S = 0.25
"""The longest time between two reads of the wall clock, which may have been set."""
PAGED_AHEAD = Duration(HORIZON * 3 // 4)
PAGED_EVERY = Duration(HORIZON // 4)
TAKEN_AT_ONCE = 1_000
CLEARED_MAX = 1_000
"""The number of cleared delays that may always stay in memory."""
SETBACK = Duration(SECOND)
"""If the wall clock is set back by more than this, the wheel is rebuilt."""

Alarm = Callable[[ShardId, TimerCommand], SetTimer | None]
"""Called with a shard and the command that is due; may return a timer that postpones it.

The due time of a returned delay counts from the call.
"""
Key = tuple[ShardId, TimerCommand]


class Timers:
    """The timers of all shards of a node.

    Args:
        store: The store with the rows of far timers.
        clock: The clock of this node; both the wall-clock time and the elapsed time are used.
        alarm: Called on the event loop once for each timer that is due.
        may_fire: Returns True if the wall clock is right; otherwise fire times wait (R20).
        on_failed: Called with an error that ends the timers, a `StoreError` or a bug; the node must
            then end.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        alarm: Alarm,
        *,
        may_fire: Callable[[], bool],
        on_failed: Callable[[Exception], None],
    ) -> None:
        self._store = store
        self._clock = clock
        self._alarm = alarm
        self._may_fire = may_fire
        self._is_firing = True
        self._on_failed = on_failed
        self._wheel: TimerWheel[Key] = TimerWheel(clock.now())
        self._latest_now = clock.now()
        self._paged_until = Instant(self._latest_now + PAGED_AHEAD)
        # The wheel accepts no timer beyond the horizon of its own time. After a pause, or after
        # the wall clock was set forward, the wheel's time lags until all overdue timers have been
        # called; until then, near timers stay on disk.
        self._has_near_rows = False
        self._delays: list[tuple[Instant, int, ShardId, TimerCommand]] = []
        self._order = 0
        # The newest setting of each delay; all other settings in the heap are cleared.
        self._order_of: dict[Key, int] = {}
        self._handle: asyncio.TimerHandle | None = None
        self._looks_at = Instant(0)
        self._is_open = True

    def __len__(self) -> int:
        """Return the number of timers in memory, including cleared delays."""
        return len(self._wheel) + len(self._delays)

    def forget(self, shard: ShardId) -> None:
        """Drop all timers of a shard; they are set again, here or on another node."""
        batch = self._store.batch()
        batch.delete_range(Family.TIMER, shard_prefix(shard), _end(shard))
        self._store.write(batch)
        # Timers on the wheel are still called, within a horizon; such a call is harmless.
        self._order_of = {key: order for key, order in self._order_of.items() if key[0] != shard}
        self._drop_cleared()

    def set(self, shard: ShardId, timer: SetTimer, shard_now: Instant) -> None:
        """Set a timer.

        Args:
            shard: The shard of the timer.
            timer: The timer.
            shard_now: The shard's time, from which a delay is counted.
        """
        if timer.timescale is Timescale.ELAPSED:
            due = Instant(self._clock.elapsed() + max(0, timer.due - shard_now))
            self._order += 1
            self._order_of[shard, timer.command] = self._order
            heapq.heappush(self._delays, (due, self._order, shard, timer.command))
        elif not self._set_near(shard, timer):
            batch = self._store.batch()
            batch.put(Family.TIMER, _row(shard, timer.due, timer.command), b"")
            self._store.write(batch)
            return
        self._arm_sooner()

    def clear(self, shard: ShardId, timer: ClearTimer) -> None:
        """Clear a timer."""
        if timer.timescale is Timescale.ELAPSED:
            self._order_of.pop((shard, timer.command), None)
            self._drop_cleared()
        elif not self._wheel.remove(timer.due, (shard, timer.command)):
            batch = self._store.batch()
            batch.delete(Family.TIMER, _row(shard, timer.due, timer.command))
            self._store.write(batch)

    def _drop_cleared(self) -> None:
        """Rebuild the heap if most of it is cleared, so that the set delays limit its size."""
        if len(self._delays) > 2 * len(self._order_of) + CLEARED_MAX:
            self._delays = [
                delay
                for delay in self._delays
                if self._order_of.get((delay[2], delay[3])) == delay[1]
            ]
            heapq.heapify(self._delays)

    def page_in(self, shards: Iterable[int]) -> None:
        """Load far timers that are due soon; a call returns at once if no loading is due."""
        now = self._clock.now()
        if now + PAGED_AHEAD < self._paged_until + PAGED_EVERY and not self._has_near_rows:
            return
        self._paged_until, self._has_near_rows = Instant(now + PAGED_AHEAD), False
        for number in shards:
            self._page_in(ShardId(number))
        self._arm_sooner()

    def close(self) -> None:
        """Stop the timers, so that `alarm` is not called any more."""
        self._is_open = False
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _set_near(self, shard: ShardId, timer: SetTimer) -> bool:
        """Add a timer to the wheel if it is near enough; return False otherwise."""
        # The clock counts, too: after a pause, the range of the last loading may be long past.
        if timer.due >= max(self._paged_until, self._clock.now() + PAGED_AHEAD):
            return False
        is_taken = self._wheel.add(timer.due, (shard, timer.command))
        self._has_near_rows |= not is_taken
        return is_taken

    def _page_in(self, shard: ShardId) -> None:
        start = shard_prefix(shard)
        end = start + max(0, self._paged_until).to_bytes(8, "big")
        batch = self._store.batch()
        for key, _ in list(self._store.scan(Family.TIMER, start, end)):
            try:
                due, command = (
                    Instant(int.from_bytes(key[2:10], "big")),
                    decode_timer_command(key[10:]),
                )
            except Undecodable as error:
                # Timers are derived from the state: the next opening of the shard sets this one.
                log.error("timer dropped", extra={"shard": shard, "reason": str(error)})
                batch.delete(Family.TIMER, key)
                continue
            if self._wheel.add(due, (shard, command)):
                batch.delete(Family.TIMER, key)
            else:
                self._has_near_rows = True
        self._store.write(batch)

    # -- calls ----------------------------------------------------------------------------------

    def _arm_sooner(self) -> None:
        """Schedule the next call earlier if a timer is due before it."""
        if self._handle is not None:
            if self._clock.elapsed() + self._wait_s() * SECOND >= self._looks_at:
                return
            self._handle.cancel()
        self._arm()

    def _arm(self) -> None:
        if self._is_open:
            wait_s = self._wait_s()
            self._looks_at = Instant(self._clock.elapsed() + int(wait_s * SECOND))
            self._handle = asyncio.get_running_loop().call_later(wait_s, self._ring)

    def _wait_s(self) -> float:
        waits = [LOOK_S]
        due = self._wheel.next_due() if self._is_firing else None
        if due is not None:
            waits.append(whole_ms(due - self._clock.now()))
        if self._delays:
            waits.append(whole_ms(self._delays[0][0] - self._clock.elapsed()))
        return max(0.0, min(waits))

    def _ring(self) -> None:
        try:
            self._call_due()
        except Exception as error:
            self._on_failed(error)

    def _call_due(self) -> None:
        self._handle = None
        self._is_firing = self._may_fire()
        if self._is_firing:
            self._fire(self._clock.now())
        elapsed = self._clock.elapsed()
        while self._delays and self._delays[0][0] <= elapsed:
            _, order, shard, command = heapq.heappop(self._delays)
            if self._order_of.get((shard, command)) == order:
                del self._order_of[shard, command]
                self._call(shard, command)
        self._arm()

    def _fire(self, now: Instant) -> None:
        if now < self._latest_now - SETBACK:
            self._restart_wheel(now)
        self._latest_now = now
        for _, (shard, command) in self._wheel.take_due(now, TAKEN_AT_ONCE):
            self._call(shard, command)

    def _call(self, shard: ShardId, command: TimerCommand) -> None:
        postponed = self._alarm(shard, command)
        if postponed is not None:
            self.set(shard, postponed, Instant(0))

    def _restart_wheel(self, now: Instant) -> None:
        """Set the wheel's time back to the wall clock; timers may become far again."""
        old, self._wheel = self._wheel, TimerWheel(now)
        self._paged_until = Instant(now + PAGED_AHEAD)
        for due, (shard, command) in old.take_all():
            self.set(shard, SetTimer(due, command, Timescale.WALL), now)


def _row(shard: ShardId, due: Instant, command: TimerCommand) -> bytes:
    return shard_prefix(shard) + max(0, due).to_bytes(8, "big") + encode_timer_command(command)


def _end(shard: ShardId) -> bytes:
    return (shard + 1).to_bytes(2, "big")
