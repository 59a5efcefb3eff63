"""The attempts of this node: places for them, the executors that run them, what became of them.

An outcome is kept here until the attempt's shard has recorded it, so a report is never lost to a
full inbox or a takeover (PROTOCOL R40).
"""

import logging
from collections import OrderedDict
from collections.abc import Mapping

from rota.core.attempt import AttemptKey, Ending, Order, Outcome
from rota.core.commands import Command, FinishAttempt, StartTask
from rota.core.errors import Refused
from rota.core.ids import ExecutionId
from rota.executor.executor import Executor, Output
from rota.node.clock import Clock
from rota.node.shards import Answer, Shard, Shards

log = logging.getLogger(__name__)


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
        # Ordered, as a plain dict is slow to give up its oldest key again and again.
        self._waiting: OrderedDict[StartTask, Shard] = OrderedDict()

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

    def freed(self) -> None:
        """Give one place back."""
        self.used -= 1

    def wait(self, shard: Shard, command: StartTask) -> None:
        """Have *command* sent when there is a place."""
        self._waiting[command] = shard

    def forget(self, command: StartTask) -> None:
        """Have a command not sent after all: its task no longer waits."""
        self._waiting.pop(command, None)

    def call(self) -> list[tuple[Shard, StartTask]]:
        """Return the commands for which there are places now, oldest first."""
        count = min(self.slots - self.used - self._called, len(self._waiting))
        called = [self._waiting.popitem(last=False) for _ in range(max(0, count))]
        self._called += len(called)
        return [(shard, command) for command, shard in called]


class Attempts:
    """The attempts of this node.

    Args:
        shards: To whom outcomes are reported.
        clock: Stamps what never ran.
        slots: Attempts that may run at the same time.
    """

    def __init__(self, shards: Shards, clock: Clock, slots: int) -> None:
        self.places = Places(slots)
        self._shards = shards
        self._clock = clock
        self._executors: Mapping[str, Executor] = {}
        self._running: dict[AttemptKey, Order] = {}
        self._unrecorded: dict[AttemptKey, Ending] = {}
        self._is_closing = False
        self.ended_count: dict[Outcome, int] = dict.fromkeys(Outcome, 0)

    def use(self, executors: Mapping[str, Executor]) -> None:
        """Run attempts with these executors, by name; they report to `ended`."""
        self._executors = executors

    @property
    def types(self) -> frozenset[str]:
        """The types of task that can be run here."""
        return frozenset(self._executors)

    @property
    def running(self) -> int:
        """Attempts that have not been recorded as ended."""
        return len(self._running)

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

    def stop(self, key: AttemptKey) -> None:
        """Have an attempt ended."""
        order = self._running.get(key)
        executor = self._executors.get(order.work.executor) if order else None
        if executor is not None:
            executor.stop(key)

    def wait_for_place(self, shard: Shard, execution_id: ExecutionId, task: str) -> None:
        """Have a ready task started when there is a place."""
        self.places.wait(shard, StartTask(execution_id=execution_id, task=task))
        self.fill()

    def forget_wait(self, execution_id: ExecutionId, task: str) -> None:
        """Have a task that is over wait no longer: it must not pile up behind those that run."""
        self.places.forget(StartTask(execution_id=execution_id, task=task))

    def fill(self) -> None:
        """Give free places to those who wait."""
        for shard, command in self.places.call():
            self._shards.submit(shard, command, lambda _: self.fill())

    def ended(self, key: AttemptKey, ending: Ending) -> None:
        """Report an outcome to the attempt's shard, and give its place to the next."""
        order = self._running.get(key)
        if order is None or (self._is_closing and ending.outcome is Outcome.CANCELLED):
            # A closing node stops its attempts; the next life records them as lost.
            return
        self._unrecorded[key] = ending
        self.ended_count[ending.outcome] += 1
        self.places.freed()
        shard = self._shards.of_id(key.execution_id)
        command = FinishAttempt(attempt=key, token=order.token, ending=ending)
        self._shards.submit(shard, command, lambda answer: self._recorded(key, answer))
        self.fill()

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

    def _recorded(self, key: AttemptKey, answer: Answer) -> None:
        del self._running[key], self._unrecorded[key]
        if isinstance(answer, Refused):
            log.warning("outcome refused", extra={"attempt": str(key), "reason": answer.detail})

    def _never_ran(self, order: Order) -> Ending:
        now = self._clock.now()
        known = ", ".join(sorted(self._executors))
        return Ending(
            outcome=Outcome.FAILED,
            started_at=now,
            finished_at=now,
            reason=f"this node has no executor {order.work.executor!r}; it has {known}",
        )
