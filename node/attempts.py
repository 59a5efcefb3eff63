"""The attempts of this node: places for them, the executors that run them, what became of them.

An outcome is kept here until the attempt's shard has recorded it, whoever is its primary by then,
so it is never lost to a full inbox or a takeover (PROTOCOL R40). Attempts of the warden, and their
outcomes, outlive this process: its next life adopts them. Those of executors in this process end
with it, and are lost.
"""

import heapq
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import count

from msgspec.structs import replace

from rota.core.attempt import AttemptKey, Ending, Order, Outcome, Report
from rota.core.commands import Command, FinishAttempt, ReportAttempt, StartTask
from rota.core.effects import Wait
from rota.core.ids import ExecutionId
from rota.core.instants import SECOND, Duration, Instant, later
from rota.executor.executor import Executor, Output
from rota.node.bringing import Bringing
from rota.node.clock import Clock
from rota.node.messages import Brought
from rota.node.reporting import Reporting
from rota.node.shard import Shard
from rota.node.shards import Shards

log = logging.getLogger(__name__)


PRIORITY_STEP = Duration(10 * SECOND)
"""What one step of a job's priority is worth: it starts like one that waits so much longer.

A bounded head start, not a class of its own: priorities go from -100 to 100, so whoever has waited
for 2,000 s longer than all others is next, and nobody starves.
"""

FENCED = "killed, because this node was cut off from the primary of its shard"


class Turns:
    """The commands that wait for a place, and who of them is next."""

    def __init__(self) -> None:
        self._shards: dict[StartTask, Shard] = {}
        self.order: list[tuple[Instant, int, StartTask]] = []
        """A heap. Some in it no longer wait, at most as many as those that do."""
        self._numbers = count()

    def __len__(self) -> int:
        return len(self._shards)

    def put(self, shard: Shard, command: StartTask, rank: Instant) -> None:
        """Have *command* wait; of one that waits already nothing changes."""
        if command not in self._shards:
            self._shards[command] = shard
            heapq.heappush(self.order, (rank, next(self._numbers), command))

    def pop(self) -> tuple[Shard, StartTask]:
        """Take the one of the lowest rank; of equals the one that came first."""
        while True:
            _, _, command = heapq.heappop(self.order)
            shard = self._shards.pop(command, None)
            if shard is not None:
                return shard, command

    def discard(self, command: StartTask) -> None:
        """Have *command* wait no longer."""
        if self._shards.pop(command, None) is not None and len(self.order) > 2 * len(self):
            self.order = [each for each in self.order if each[2] in self._shards]
            heapq.heapify(self.order)

    def forget(self, shard: Shard) -> None:
        """Have no command of *shard* wait any longer."""
        for command in [each for each, whose in self._shards.items() if whose is shard]:
            self.discard(command)


class Places:
    """How many attempts may run, and who waits for a place.

    A command that starts attempts is told the room when it is decided, and takes the places at
    once; they are free again when the attempts have ended. While tasks wait, only they are given
    room, so that nothing overtakes them.

    Args:
        slots: Attempts that may run at the same time.
    """

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.used = 0
        self._called = 0
        self._waiting = Turns()

    @property
    def waiting(self) -> int:
        """Tasks that wait for a place."""
        return len(self._waiting)

    def room_for(self, command: Command) -> int:
        """Return how many attempts *command* may start."""
        if isinstance(command, StartTask):
            return self.slots - self.used
        return max(0, self.slots - self.used - self._called) if not self._waiting else 0

    def decided(self, command: Command, started: int) -> None:
        """Take the places of *started* attempts."""
        self.used += started
        if isinstance(command, StartTask):
            self._called -= 1

    def freed(self, count: int = 1) -> None:
        """Give places back."""
        self.used -= count

    def wait(self, shard: Shard, waiting: Wait) -> None:
        """Have a ready task started when there is a place and nobody is before it."""
        command = StartTask(execution_id=waiting.execution_id, task=waiting.task)
        rank = later(waiting.since, Duration(-waiting.priority * PRIORITY_STEP))
        self._waiting.put(shard, command, rank)

    def forget(self, command: StartTask) -> None:
        """Have a command not sent after all: its task no longer waits."""
        self._waiting.discard(command)

    def forget_all(self, shard: Shard) -> None:
        """Likewise, every command of a shard."""
        self._waiting.forget(shard)

    def call(self) -> list[tuple[Shard, StartTask]]:
        """Return the commands for which there are places now, in the order of their turn."""
        free = min(self.slots - self.used - self._called, len(self._waiting))
        called = [self._waiting.pop() for _ in range(max(0, free))]
        self._called += len(called)
        return called


class Attempts:
    """The attempts of this node.

    Args:
        shards: Of this node.
        bringing: Brings outcomes to their shards.
        clock: Stamps what never ran.
        slots: Attempts that may run at the same time.
    """

    def __init__(self, shards: Shards, bringing: Bringing, clock: Clock, slots: int) -> None:
        self.places = Places(slots)
        self._shards = shards
        self._bringing = bringing
        self._clock = clock
        self._reporting = Reporting(shards, bringing, clock)
        self._executors: Mapping[str, Executor] = {}
        self._lasting: Collection[str] = ()
        self._forget: Callable[[AttemptKey], None] = lambda key: None
        self._running: dict[AttemptKey, Order] = {}
        self._unrecorded: dict[AttemptKey, Ending] = {}
        self._fenced: set[AttemptKey] = set()
        self._is_closing = False
        self.ended_count: dict[Outcome, int] = dict.fromkeys(Outcome, 0)

    def use(
        self,
        executors: Mapping[str, Executor],
        *,
        lasting: Collection[str] = (),
        forget: Callable[[AttemptKey], None] = lambda key: None,
    ) -> None:
        """Run attempts with these executors, by name; they report to `ended` and `reported`.

        Args:
            executors: By name.
            lasting: Those of the warden, whose attempts outlive this process, and which ends them
                itself when their time is over.
            forget: Told of each attempt whose outcome is recorded.
        """
        self._executors, self._lasting, self._forget = executors, lasting, forget

    def adopt(self, orders: Iterable[Order]) -> None:
        """Go on with what an earlier life of this node launched; it takes its places."""
        for order in orders:
            self._running[order.key] = order
            self.places.used += 1
            executor = self._executors.get(order.work.executor)
            if executor is None:
                self.ended(order.key, self._never_ran(order))
            else:
                executor.resume(order)

    @property
    def types(self) -> frozenset[str]:
        """The types of task that can be run here."""
        return frozenset(self._executors)

    @property
    def running(self) -> int:
        """Attempts that have not been recorded as ended."""
        return len(self._running)

    @property
    def passing(self) -> int:
        """Those of them that end with this process."""
        return sum(order.work.executor not in self._lasting for order in self._running.values())

    def launch(self, order: Order) -> None:
        """Run an attempt; asked again for one that is here, do nothing (R35)."""
        if order.key in self._running:
            return
        self._running[order.key] = order
        executor = self._executors.get(order.work.executor)
        if executor is None:
            self.ended(order.key, self._never_ran(order))
        elif not self._is_closing:
            executor.launch(order)

    @property
    def orders(self) -> Mapping[AttemptKey, Order]:
        """What runs here, or whose outcome is not known to be recorded."""
        return self._running

    def stop(self, key: AttemptKey) -> None:
        """Have an attempt ended."""
        executor = self._executor_of(key)
        if executor is not None:
            executor.stop(key)

    def fence(self, key: AttemptKey) -> None:
        """Kill an attempt whose time is over; from now on it cannot have succeeded (R37).

        Those of the warden it kills itself, whatever this process does.
        """
        executor = self._executor_of(key)
        if executor is None or key in self._unrecorded or key in self._fenced:
            return
        if self._running[key].work.executor in self._lasting:
            return
        log.warning("attempt fenced", extra={"attempt": str(key)})
        self._fenced.add(key)
        executor.stop(key, grace=Duration(0))

    def _executor_of(self, key: AttemptKey) -> Executor | None:
        order = self._running.get(key)
        return self._executors.get(order.work.executor) if order else None

    def wait_for_place(self, shard: Shard, waiting: Wait) -> None:
        """Have a ready task started when there is a place."""
        self.places.wait(shard, waiting)
        self.fill()

    def forget_wait(self, execution_id: ExecutionId, task: str) -> None:
        """Have a task that is over wait no longer: it must not pile up behind those that run."""
        self.places.forget(StartTask(execution_id=execution_id, task=task))

    def closed(self, shard: Shard, unstarted: int) -> None:
        """Start nothing more of a shard; what runs goes on, and keeps its place until it ends."""
        self.places.forget_all(shard)
        self.places.freed(unstarted)
        self.fill()

    def fill(self) -> None:
        """Give free places to those who wait."""
        for shard, command in self.places.call():
            self._shards.submit(shard, command, lambda _: self.fill())

    def ended(self, key: AttemptKey, ending: Ending) -> None:
        """Report an outcome to the attempt's shard, and give its place to the next."""
        order = self._running.get(key)
        if order is None:
            return
        if self._is_closing and ending.outcome is Outcome.CANCELLED:
            # A closing node stops its attempts; the next life finds none, and records them as lost.
            self._forget(key)
            return
        if key in self._fenced:
            self._fenced.discard(key)
            ending = replace(ending, outcome=Outcome.CANCELLED, reason=FENCED)
        self._unrecorded[key] = ending
        self.ended_count[ending.outcome] += 1
        self.places.freed()
        shard = self._shards.of_id(key.execution_id)
        commands: list[Brought] = []
        if untold := self._reporting.ended(key):
            commands.append(ReportAttempt(attempt=key, token=order.token, report=untold))
        commands.append(FinishAttempt(attempt=key, token=order.token, ending=ending))
        self._bringing.bring(shard, tuple(commands), lambda refusal: self._recorded(key, refusal))
        self.fill()

    def reported(self, key: AttemptKey, report: Report) -> None:
        """Have the shard of a running attempt told what it tells of itself."""
        order = self._running.get(key)
        if order is not None and key not in self._unrecorded:
            self._reporting.reported(order, report)

    def tick(self) -> None:
        """Let time pass for what attempts tell."""
        self._reporting.tick()

    def ending(self, key: AttemptKey) -> Ending | None:
        """Return the outcome of an attempt that has ended here and is not yet recorded."""
        return self._unrecorded.get(key)

    async def output(self, key: AttemptKey) -> Output | None:
        """Return what an attempt wrote, as far as it is kept on this node outside its record."""
        for executor in self._executors.values():
            output = await executor.output(key)
            if output is not None:
                return output
        return None

    def close(self) -> None:
        """Start nothing more, and report only what still ends by itself."""
        self._is_closing = True

    def _recorded(self, key: AttemptKey, refusal: str) -> None:
        del self._running[key], self._unrecorded[key]
        self._forget(key)
        if refusal:
            log.warning("outcome refused", extra={"attempt": str(key), "reason": refusal})

    def _never_ran(self, order: Order) -> Ending:
        now = self._clock.now()
        known = ", ".join(sorted(self._executors))
        return Ending(
            outcome=Outcome.FAILED,
            started_at=now,
            finished_at=now,
            reason=f"this node has no executor {order.work.executor!r}; it has {known}",
        )
