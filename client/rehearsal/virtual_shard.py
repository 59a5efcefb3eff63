"""A shard on virtual time: the rules of a node decide, and nothing runs.

Each decision is that of `rota.core.decide`, as on a node with one shard and *slots* slots. Attempts
succeed after the duration of their job. Messages between jobs arrive at once, webhooks are
accepted, and what waits for a person or an event waits for ever.
"""

import heapq
from collections import deque
from collections.abc import Callable, Iterator
from hashlib import blake2b
from itertools import count

from rota.core.decide.dispatch import decide
from rota.core.errors import Refused
from rota.core.model.attempt import AttemptKey, Ending, Order, Outcome, Token
from rota.core.model.hook import HookOutcome
from rota.core.model.ids import Epoch, Index, NodeId, Session
from rota.core.model.job import JobSpec
from rota.core.state.shard_state import State
from rota.core.timing.instants import MICROSECOND, Duration, Instant, later
from rota.core.vocabulary.commands import (
    Command,
    ConfirmDelivery,
    EndNotification,
    FinishAttempt,
    ReceiveMessage,
    SaveJob,
    StartTask,
)
from rota.core.vocabulary.decision import FreeSlots, Limits, Situation
from rota.core.vocabulary.effects import (
    ClearTimer,
    Consequence,
    Deliver,
    Launch,
    PostponedEffects,
    PublishFires,
    SendWebhook,
    SetTimer,
    Stop,
    WaitForSlot,
)
from rota.core.vocabulary.facts import Facts

NODE, SESSION = NodeId("rehearsal"), Session("rehearsal")
Due = tuple[Instant, int, Command]
"""An instant, a number that decides between commands of the same instant, and the command."""


class VirtualShard:
    """One shard, its clock, and what is due.

    Attributes:
        clock: The instant up to which time has passed.
        running: The number of attempts that run.
        state: The state of the shard.
    """

    def __init__(
        self,
        begin: Instant,
        *,
        slots: int,
        facts: Facts,
        duration_of: Callable[[str], Duration],
        watch: Callable[[Consequence, Instant], None],
    ) -> None:
        """Initialize without jobs.

        Args:
            begin: The instant at which time begins to pass.
            slots: The number of attempts that run at the same time.
            facts: The calendars.
            duration_of: Returns the duration of each attempt of a job, by its full name.
            watch: Is called with each launch, end and outcome of a fire time, and its instant.
        """
        self.clock = begin
        self.running = 0
        self.state = State()
        self._slots = slots
        self._facts = facts
        self._duration_of = duration_of
        self._watch = watch
        self._decided_at = begin
        self._numbers = count()
        self._due: list[Due] = []
        self._cleared: set[tuple[Instant, Command]] = set()
        self._now: deque[Command] = deque()
        self._waiting: list[tuple[int, Instant, int, StartTask]] = []
        self._ends: dict[AttemptKey, Token] = {}

    def save(self, spec: JobSpec) -> None:
        """Save a job.

        Raises:
            Refused: Its definition cannot be saved, such as one whose only time has passed.
        """
        self._do(SaveJob(spec=spec))
        self._settle()

    def pass_time(self, end: Instant) -> Iterator[Instant]:
        """Let time pass until *end*, and yield the instant of each step."""
        while self._due and self._due[0][0] < end:
            at, _, command = heapq.heappop(self._due)
            if (at, command) in self._cleared:
                self._cleared.discard((at, command))
                continue
            self.clock = max(self.clock, at)
            self._try(command)
            self._settle()
            yield self.clock
        self.clock = end

    def _settle(self) -> None:
        """Carry out what follows at once: messages, webhooks, and tasks that get free slots."""
        while self._now or (self._waiting and self.running < self._slots):
            if self._now:
                self._try(self._now.popleft())
            else:
                self._try(heapq.heappop(self._waiting)[-1])

    def _try(self, command: Command) -> None:
        """Decide a command that may come too late, such as the start of a cancelled task."""
        if isinstance(command, FinishAttempt):
            if self._ends.pop(command.attempt, None) is None:
                return
            self.running -= 1
        try:
            self._do(command)
        except Refused:
            return

    def _do(self, command: Command) -> None:
        now = max(self.clock, later(self._decided_at, MICROSECOND))
        self._decided_at = now
        number = next(self._numbers)
        situation = Situation(
            now=now,
            entropy=int.from_bytes(blake2b(b"%d" % number, digest_size=8).digest(), "big"),
            position=Token(Epoch(1), Index(number + 1)),
            slots=FreeSlots(NODE, SESSION, {}, self._slots - self.running),
            limits=Limits(),
            lead=Duration(now - self.clock),
            facts=self._facts,
        )
        decision = decide(self.state, command, situation)
        for change in decision.changes:
            self.state.apply(change)
        for effect in decision.effects:
            self._take(effect)

    def _take(self, effect: Consequence) -> None:
        match effect:
            case SetTimer(due, command):
                heapq.heappush(self._due, (due, next(self._numbers), command))
                self._cleared.discard((due, command))
            case ClearTimer(due, command):
                self._cleared.add((due, command))
            case Launch(order):
                self._launch(order)
            case Stop(attempt):
                if attempt in self._ends:
                    self._now.append(self._end_of(attempt, self._ends[attempt], Outcome.CANCELLED))
            case WaitForSlot(execution_id, task, since, priority):
                start = StartTask(execution_id=execution_id, task=task)
                heapq.heappush(self._waiting, (-priority, since, next(self._numbers), start))
            case Deliver(item):
                self._now.append(ReceiveMessage(message=item.message))
                self._now.append(ConfirmDelivery(key=item.key))
            case SendWebhook(notification):
                end = EndNotification(key=notification.key, outcome=HookOutcome.DELIVERED)
                self._now.append(end)
            case PostponedEffects(_, _, effects):
                for each in effects:
                    self._take(each)
            case PublishFires():
                self._watch(effect, self.clock)
            case _:
                pass

    def _launch(self, order: Order) -> None:
        self.running += 1
        self._ends[order.key] = order.token
        duration = self._duration_of(order.job)
        ends_at = later(self.clock, duration)
        end = self._end_of(order.key, order.token, Outcome.SUCCEEDED, ends_at)
        heapq.heappush(self._due, (ends_at, next(self._numbers), end))
        self._watch(Launch(order, NODE), self.clock)

    def _end_of(
        self, attempt: AttemptKey, token: Token, outcome: Outcome, at: Instant | None = None
    ) -> FinishAttempt:
        is_success = outcome is Outcome.SUCCEEDED
        ending = Ending(
            outcome=outcome,
            started_at=self.clock,
            finished_at=self.clock if at is None else at,
            exit_code=0 if is_success else -1,
        )
        return FinishAttempt(attempt=attempt, token=token, ending=ending)
