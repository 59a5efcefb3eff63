"""The attempts of this node: the executors that run them, and what became of them.

An outcome is kept here until the attempt's shard has recorded it, whoever is its primary by then,
so it is never lost to a full inbox or a takeover (PROTOCOL R40). Attempts of the warden, and their
outcomes, outlive this process: its next life adopts them. Those of executors in this process end
with it, and are lost.
"""

import logging
import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from msgspec.structs import replace

from rota.core.model.attempt import AttemptKey, Ending, Order, Outcome, Report
from rota.core.model.ids import ExecutionId
from rota.core.model.work_checks import is_unsandboxed
from rota.core.timing.instants import Duration
from rota.core.vocabulary.commands import FinishAttempt, ReportAttempt, StartTask
from rota.core.vocabulary.effects import WaitForSlot
from rota.executor.executor import Ended, Executor, Output, Reported
from rota.node.attempts.delivery import Delivery
from rota.node.attempts.progress import ProgressRelay
from rota.node.attempts.slot_lending import SlotLending
from rota.node.attempts.slots import SlotTable
from rota.node.peers.messages import DeliveredCommand
from rota.node.shards.local_shards import Shards
from rota.node.shards.shard import Shard
from rota.node.system.clock import Clock

log = logging.getLogger(__name__)

FENCED = "killed, because this node was cut off from the primary of its shard"


@dataclass(frozen=True, kw_only=True, slots=True)
class AttemptExecutors:
    """The executors of a node.

    Attributes:
        own: Executors in this process, by name.
        hosted: Executors of the warden, by name, whose attempts outlive this process; the warden
            ends them at their deadlines.
        held: Attempts that the warden held when this process met it.
        forget: Called with each attempt whose outcome is recorded, unless it ran in this process.
    """

    own: Mapping[str, Executor]
    hosted: Mapping[str, Executor] = field(default_factory=dict[str, Executor])
    held: Collection[Order] = ()
    forget: Callable[[AttemptKey], None] = lambda key: None

    @property
    def lasting(self) -> Collection[str]:
        """Names of the executors whose attempts outlive this process."""
        return self.hosted.keys()


class LocalAttempts:
    """The attempts of this node.

    Args:
        shards: Of this node.
        delivery: Brings outcomes to their shards.
        clock: Stamps what never ran.
        slot_table: For them.
        lending: Assigns free slots to waiting tasks.
        make_executors: Returns the executors; they report to its arguments.
    """

    def __init__(
        self,
        shards: Shards,
        delivery: Delivery,
        clock: Clock,
        slot_table: SlotTable,
        lending: SlotLending,
        make_executors: Callable[[Ended, Reported], AttemptExecutors],
    ) -> None:
        self.slot_table = slot_table
        self._lending = lending
        self._shards = shards
        self._delivery = delivery
        self._clock = clock
        self._reporting = ProgressRelay(shards, delivery, clock)
        self._running: dict[AttemptKey, Order] = {}
        self._unrecorded: dict[AttemptKey, Ending] = {}
        self._fenced: set[AttemptKey] = set()
        self._is_closing = False
        self.offered: set[AttemptKey] = set()
        """Sent here, and waiting to be confirmed (`rota.node.attempts.inbound_attempts`)."""
        self.unsandboxed_count = 0
        """Attempts launched with all the rights of this node's user."""
        self.ended_count: dict[Outcome, int] = dict.fromkeys(Outcome, 0)
        self.executors = make_executors(self.ended, self.reported)
        self._by_name = {**self.executors.hosted, **self.executors.own}

    def adopt(self) -> None:
        """Resume the attempts that the warden holds from an earlier process; they take slots."""
        for order in self.executors.held:
            self._running[order.key] = order
            self.slot_table.take(1)
            executor = self._by_name.get(order.work.executor)
            if executor is None:
                self.ended(order.key, self._never_ran(order))
            else:
                executor.resume(order)

    @property
    def types(self) -> frozenset[str]:
        """The types of task that can be run here."""
        return frozenset(self._by_name)

    @property
    def running(self) -> int:
        """Attempts that have not been recorded as ended."""
        return len(self._running)

    @property
    def passing(self) -> int:
        """Those of them that end with this process."""
        return sum(
            order.work.executor not in self.executors.lasting for order in self._running.values()
        )

    def launch(self, order: Order) -> None:
        """Run an attempt; asked again for one that is here, do nothing (R35)."""
        if order.key in self._running:
            return
        self._running[order.key] = order
        executor = self._by_name.get(order.work.executor)
        if executor is None:
            self.ended(order.key, self._never_ran(order))
        elif not self._is_closing:
            if is_unsandboxed(order.work):
                self._count_unsandboxed(order)
            executor.launch(order)

    def _count_unsandboxed(self, order: Order) -> None:
        self.unsandboxed_count += 1
        if self.unsandboxed_count == 1:  # One line: the metric counts the rest.
            user = "root" if os.geteuid() == 0 else "the node's user"
            log.warning(
                "tasks run without a sandbox",
                extra={
                    "as": user,
                    "first": str(order.key),
                    "advice": "see docs/reference/sandbox.md: sandbox 'strict', or a user that "
                    "owns nothing else; rota_attempts_unsandboxed_total counts them",
                },
            )

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
        if self._running[key].work.executor in self.executors.lasting:
            return
        log.warning("attempt fenced", extra={"attempt": str(key)})
        self._fenced.add(key)
        executor.stop(key, grace=Duration(0))

    def _executor_of(self, key: AttemptKey) -> Executor | None:
        order = self._running.get(key)
        return self._by_name.get(order.work.executor) if order else None

    def wait_for_place(self, shard: Shard, waiting: WaitForSlot) -> None:
        """Have a ready task started when there is a place."""
        self.slot_table.wait(shard, waiting)
        self._lending.fill()

    def forget_wait(self, execution_id: ExecutionId, task: str) -> None:
        """Have a task that is over wait no longer: it must not pile up behind those that run."""
        self.slot_table.forget(StartTask(execution_id=execution_id, task=task))

    def closed(self, shard: Shard) -> None:
        """Start nothing more of a shard; what runs goes on, and keeps its place until it ends."""
        self.slot_table.forget_all(shard)

    def ended(self, key: AttemptKey, ending: Ending) -> None:
        """Report an outcome to the attempt's shard, and give its place to the next."""
        order = self._running.get(key)
        if order is None:
            return
        if self._is_closing and ending.outcome is Outcome.CANCELLED:
            # A closing node stops its attempts; the next life finds none, and records them as lost.
            self._let_go_of(order)
            return
        if key in self._fenced:
            self._fenced.discard(key)
            ending = replace(ending, outcome=Outcome.CANCELLED, reason=FENCED)
        self._unrecorded[key] = ending
        self.ended_count[ending.outcome] += 1
        self.slot_table.freed()
        self._lending.fill()  # First, so that who gets the place shares the turn of the outcome.
        shard = self._shards.of_id(key.execution_id)
        commands: list[DeliveredCommand] = []
        if untold := self._reporting.ended(key):
            commands.append(ReportAttempt(attempt=key, token=order.token, report=untold))
        commands.append(FinishAttempt(attempt=key, token=order.token, ending=ending))
        self._delivery.bring(shard, tuple(commands), lambda refusal: self._recorded(key, refusal))

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
        for executor in self._by_name.values():
            output = await executor.output(key)
            if output is not None:
                return output
        return None

    def close(self) -> None:
        """Start nothing more, and report only what still ends by itself."""
        self._is_closing = True

    def _recorded(self, key: AttemptKey, refusal: str) -> None:
        del self._unrecorded[key]
        self._let_go_of(self._running.pop(key))
        if refusal:
            log.warning("outcome refused", extra={"attempt": str(key), "reason": refusal})

    def _let_go_of(self, order: Order) -> None:
        """Have the warden forget an attempt, unless one of this process's own executors ran it."""
        name = order.work.executor
        if name in self.executors.lasting or name not in self._by_name:
            self.executors.forget(order.key)

    def _never_ran(self, order: Order) -> Ending:
        now = self._clock.now()
        known = ", ".join(sorted(self._by_name))
        return Ending(
            outcome=Outcome.FAILED,
            started_at=now,
            finished_at=now,
            reason=f"this node has no executor {order.work.executor!r}; it has {known}",
        )
