"""The attempts of this node: the executors that run them, and their outcomes.

An outcome is kept here until the attempt's shard has recorded it, whichever node is then the
shard's primary, so a full inbox or a takeover does not lose the outcome (PROTOCOL R40). Attempts of
the warden and their outcomes outlive this process; the next process adopts them. Attempts of
executors in this process end with it, and are lost.
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
from rota.executor.secret_values import (
    NO_SECRETS,
    SecretUnavailable,
    SecretUnusable,
    SecretValues,
)
from rota.node.attempts.delivery import Delivery
from rota.node.attempts.progress import ProgressRelay
from rota.node.attempts.slot_lending import SlotLending
from rota.node.attempts.slots import SlotTable
from rota.node.namespaces.namespaces import Namespaces
from rota.node.peers.messages import DeliveredCommand
from rota.node.shards.local_shards import Shards
from rota.node.shards.shard import Shard
from rota.node.system.clock import Clock

log = logging.getLogger(__name__)

SecretsOf = Callable[[Order], SecretValues]
"""Returns the values of an order's secrets, and its token; raises `SecretUnavailable` if this node
lacks them."""

FENCED = "killed, because this node was cut off from the primary of the attempt's shard"


@dataclass(frozen=True, kw_only=True, slots=True)
class AttemptExecutors:
    """The executors of a node.

    Attributes:
        own: Executors in this process, by name.
        hosted: Executors of the warden, by name, whose attempts outlive this process; the warden
            ends them at their deadlines.
        held: Attempts that the warden held when this process connected to it.
        forget: Called with each attempt whose outcome is recorded, unless it ran in this process.
    """

    own: Mapping[str, Executor]
    hosted: Mapping[str, Executor] = field(default_factory=dict[str, Executor])
    held: Collection[Order] = ()
    forget: Callable[[AttemptKey], None] = lambda key: None


class LocalAttempts:
    """The attempts of this node.

    Args:
        shards: The shards of this node.
        delivery: Delivers outcomes to their shards.
        clock: Gives the times of attempts that never ran.
        slot_table: The slots of this node.
        lending: Assigns free slots to waiting tasks.
        make_executors: Returns the executors, which report to its arguments.
        rules: The policies of namespaces.
        secrets_of: Returns the values of the secrets that an order names.
    """

    def __init__(
        self,
        shards: Shards,
        delivery: Delivery,
        clock: Clock,
        slot_table: SlotTable,
        lending: SlotLending,
        make_executors: Callable[[Ended, Reported], AttemptExecutors],
        rules: Namespaces,
        *,
        secrets_of: SecretsOf = lambda order: NO_SECRETS,
    ) -> None:
        self.slot_table = slot_table
        self._lending = lending
        self._shards = shards
        self._delivery = delivery
        self._clock = clock
        self._rules = rules
        self._secrets_of = secrets_of
        self._progress = ProgressRelay(shards, delivery, clock)
        self._running: dict[AttemptKey, Order] = {}
        self._unrecorded: dict[AttemptKey, Ending] = {}
        self._fenced: set[AttemptKey] = set()
        self._stopped: set[AttemptKey] = set()
        """The attempts that were stopped on request, and not by the stop of this node."""
        self._is_closing = False
        self._stopped_executors: frozenset[str] = frozenset()
        self.offered: set[AttemptKey] = set()
        """The attempts that were sent here and wait to be confirmed
        (`rota.node.attempts.inbound_attempts`)."""
        self.unsandboxed_count = 0
        """The number of attempts launched with all rights of this node's user."""
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
        """The types of tasks that can run here."""
        return frozenset(self._by_name)

    @property
    def running(self) -> int:
        """The number of attempts that have not been recorded as ended."""
        return len(self._running)

    @property
    def own_count(self) -> int:
        """The number of `running` attempts that end with this process."""
        return sum(
            order.work.executor not in self.executors.hosted for order in self._running.values()
        )

    def launch(self, order: Order) -> None:
        """Run an attempt, unless it is already on this node (R35)."""
        if order.key in self._running:
            return
        self._running[order.key] = order
        executor = self._by_name.get(order.work.executor)
        if executor is None:
            self.ended(order.key, self._never_ran(order))
        elif reason := self._rules.why_not(order):
            # A repetition would fail alike.
            ending = self._never_began(Outcome.FAILED, reason)
            self.ended(order.key, replace(ending, is_permanent=True))
        elif not self._is_closing:
            if is_unsandboxed(order.work):
                self._count_unsandboxed(order)
            # Whatever another node has set, the binds are those of the policy on this node.
            binds = self._rules.permitted_binds(order)
            is_set = order.permitted_binds == binds
            self._launch(order if is_set else replace(order, permitted_binds=binds), executor)

    def _launch(self, order: Order, executor: Executor) -> None:
        """Launch an attempt with the values of its secrets, and its token.

        Without them it counts as lost, which is not one of the user's retries: another node may
        have the key or the secret, and this node may have it later.
        """
        if not order.work.has_secret_values:
            executor.launch(order)
            return
        try:
            secrets = self._secrets_of(order)
        except SecretUnavailable as error:
            log.warning(
                "secret unavailable", extra={"attempt": str(order.key), "reason": str(error)}
            )
            is_lasting = isinstance(error, SecretUnusable)
            outcome = Outcome.FAILED if is_lasting else Outcome.LOST
            self.ended(order.key, self._never_began(outcome, str(error)))
        else:
            executor.launch(order, secrets)

    def _count_unsandboxed(self, order: Order) -> None:
        self.unsandboxed_count += 1
        if self.unsandboxed_count == 1:  # Logged once; the metric counts the rest.
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
        """The attempts that run here, or whose outcome is not yet confirmed as recorded."""
        return self._running

    def stop(self, key: AttemptKey) -> None:
        """Stop an attempt."""
        executor = self._executor_of(key)
        if executor is not None:
            self._stopped.add(key)
            executor.stop(key)

    def fence(self, key: AttemptKey) -> None:
        """Kill an attempt whose deadline has passed; its outcome can no longer be success (R37).

        Attempts of the warden are left to it, since it kills them whatever the state of this
        process.
        """
        executor = self._executor_of(key)
        if executor is None or key in self._unrecorded or key in self._fenced:
            return
        if self._running[key].work.executor in self.executors.hosted:
            return
        log.warning("attempt fenced", extra={"attempt": str(key)})
        self._fenced.add(key)
        executor.stop(key, grace=Duration(0))

    def _executor_of(self, key: AttemptKey) -> Executor | None:
        order = self._running.get(key)
        return self._by_name.get(order.work.executor) if order else None

    def wait_for_slot(self, shard: Shard, waiting: WaitForSlot) -> None:
        """Queue a ready task, which is started when a slot is free."""
        self.slot_table.wait(shard, waiting)
        self._lending.fill()

    def forget_wait(self, execution_id: ExecutionId, task: str) -> None:
        """Remove an ended task from the queue, which otherwise would grow behind long attempts."""
        self.slot_table.forget(StartTask(execution_id=execution_id, task=task))

    def closed(self, shard: Shard) -> None:
        """Start no more tasks of a shard; its attempts continue, and keep their slots."""
        self.slot_table.forget_all(shard)

    def ended(self, key: AttemptKey, ending: Ending) -> None:
        """Report an outcome to the attempt's shard, and assign its slot to the next task."""
        order = self._running.get(key)
        if order is None or key in self._unrecorded:
            return
        if key in self._fenced:
            ending = replace(ending, outcome=Outcome.CANCELLED, reason=FENCED)
        elif key not in self._stopped and order.work.executor in self._stopped_executors:
            ending = _stopped_with_node(ending)
        if ending.outcome is not Outcome.SUCCEEDED:
            ending = replace(ending, result=b"")
        self._fenced.discard(key)
        self._stopped.discard(key)
        self._unrecorded[key] = ending
        self.ended_count[ending.outcome] += 1
        self.slot_table.freed()
        self._lending.fill()  # Before the delivery, so that both are decided in one turn.
        shard = self._shards.of_id(key.execution_id)
        commands: list[DeliveredCommand] = []
        if unsent := self._progress.ended(key):
            commands.append(ReportAttempt(attempt=key, token=order.token, report=unsent))
        commands.append(FinishAttempt(attempt=key, token=order.token, ending=ending))
        self._delivery.deliver(shard, tuple(commands), lambda refusal: self._recorded(key, refusal))

    def reported(self, key: AttemptKey, report: Report) -> None:
        """Send a progress report of a running attempt to its shard."""
        order = self._running.get(key)
        if order is not None and key not in self._unrecorded:
            self._progress.reported(order, report)

    def tick(self) -> None:
        """Send the progress reports that are due."""
        self._progress.tick()

    @property
    def unrecorded_count(self) -> int:
        """The number of outcomes that no shard has recorded yet."""
        return len(self._unrecorded)

    def ending(self, key: AttemptKey) -> Ending | None:
        """Return the outcome of an attempt that has ended here and is not yet recorded."""
        return self._unrecorded.get(key)

    async def output(self, key: AttemptKey) -> Output | None:
        """Return the output of an attempt that an executor of this node keeps, or None."""
        for executor in self._by_name.values():
            output = await executor.output(key)
            if output is not None:
                return output
        return None

    def close(self, *, ends_hosted: bool = False) -> None:
        """Start no more attempts; record those that this node stops as lost, unless they succeed.

        Args:
            ends_hosted: Whether this node stops the attempts of its warden, too. If not, an attempt
                of the warden that ends as cancelled was cancelled by a user.
        """
        self._is_closing = True
        hosted = self.executors.hosted if ends_hosted else ()
        self._stopped_executors = frozenset((*self.executors.own, *hosted))

    def _recorded(self, key: AttemptKey, refusal: str) -> None:
        del self._unrecorded[key]
        self._release(self._running.pop(key))
        if refusal:
            log.warning("outcome refused", extra={"attempt": str(key), "reason": refusal})

    def _release(self, order: Order) -> None:
        """Have the warden delete an attempt, unless an executor in this process ran it."""
        name = order.work.executor
        if name in self.executors.hosted or name not in self._by_name:
            self.executors.forget(order.key)

    def _never_ran(self, order: Order) -> Ending:
        known = ", ".join(sorted(self._by_name))
        reason = f"this node has no executor {order.work.executor!r}; it has {known}"
        return self._never_began(Outcome.FAILED, reason)

    def _never_began(self, outcome: Outcome, reason: str) -> Ending:
        now = self._clock.now()
        return Ending(outcome=outcome, started_at=now, finished_at=now, reason=reason)


def _stopped_with_node(ending: Ending) -> Ending:
    """Return the end of an attempt that the stop of its node has ended.

    An attempt that used the time to end by itself, with 0, has succeeded. Others are lost, which
    costs none of the retries of the user; their output is recorded.
    """
    if ending.outcome is not Outcome.CANCELLED:
        return ending
    if ending.exit_code == 0 and not ending.signal:
        return replace(ending, outcome=Outcome.SUCCEEDED, reason="")
    return replace(ending, outcome=Outcome.LOST, reason=f"its node stopped: {ending.reason}")
