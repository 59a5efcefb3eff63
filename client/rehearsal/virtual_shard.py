"""A shard on virtual time: the rules of a node decide, and nothing runs.

Each decision is that of `rota.core.decide`, as on a node with one shard and *slots* slots. The
caller decides how each attempt ends, and a task that needs labels finds a node with them. Messages
between jobs arrive at once, webhooks are accepted, and what waits for a person or an event waits
until a command brings the answer.
"""

import heapq
from collections import deque
from collections.abc import Callable, Iterator
from hashlib import blake2b
from itertools import count

from msgspec.structs import replace

from rota.core.decide.dispatch import decide
from rota.core.errors import Refused
from rota.core.model.attempt import AttemptKey, Ending, Order, Outcome, Report, Token
from rota.core.model.hook import HookOutcome
from rota.core.model.ids import Epoch, Index, NodeId, Session
from rota.core.model.work import Selector
from rota.core.state.shard_state import State
from rota.core.timing.instants import Instant
from rota.core.vocabulary.changes import Change
from rota.core.vocabulary.commands import (
    Command,
    ConfirmDelivery,
    EndNotification,
    FinishAttempt,
    LoseSession,
    ReceiveMessage,
    ReportAttempt,
    StartTask,
)
from rota.core.vocabulary.decision import FreeSlots, Limits, Reply, Situation
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

NODE = NodeId("virtual")
Due = tuple[Instant, int, Command]
"""An instant, a number that decides between commands of the same instant, and the command."""
Play = Callable[[Order, Instant], Ending]
"""Returns how an attempt that begins at an instant will end, at that instant or later."""


def no_record(change: Change) -> None:
    """Keep no history."""
    del change


class VirtualShard:
    """One shard, its clock, and what is due.

    Attributes:
        clock: The instant up to which time has passed.
        facts: The calendars, pauses and quotas.
        state: The state of the shard.
    """

    def __init__(
        self,
        begin: Instant,
        *,
        slots: int,
        facts: Facts,
        play: Play,
        watch: Callable[[Consequence, Instant], None],
        record: Callable[[Change], None] = no_record,
    ) -> None:
        """Initialize without jobs.

        Args:
            begin: The instant at which time begins to pass.
            slots: The number of attempts that run at the same time.
            facts: The calendars, pauses and quotas.
            play: Decides how each attempt ends.
            watch: Is called with each launch and outcome of a fire time, and its instant.
            record: Is called with each change, those of the history too.
        """
        self.clock = begin
        self.facts = facts
        self.state = State()
        self._slots = slots
        self._play = play
        self._watch = watch
        self._record = record
        self._session = Session("1")
        self._numbers = count()
        self._due: list[Due] = []
        self._cleared: set[tuple[Instant, Command]] = set()
        self._now: deque[Command] = deque()
        self._waiting: list[tuple[int, Instant, int, StartTask, Selector]] = []
        self._ends: dict[AttemptKey, FinishAttempt] = {}

    @property
    def running(self) -> int:
        """The number of attempts that run."""
        return len(self._ends)

    def do(self, command: Command) -> Reply:
        """Carry out a command, and what follows from it at once; return its reply.

        Raises:
            Refused: It cannot be carried out, such as a definition whose only time has passed.
        """
        reply = self._do(command)
        self._settle()
        return reply

    def report(self, order: Order, report: Report) -> None:
        """Report progress, or a checkpoint, of an attempt that begins or runs."""
        self._now.append(ReportAttempt(attempt=order.key, token=order.token, report=report))

    def lose_running(self) -> int:
        """Lose all attempts that run, as if their node had gone; return their number.

        Their tasks start again by the rules of lost attempts, on a node of the same name.
        """
        lost, ended = len(self._ends), self._session
        self._ends.clear()
        self._session = Session(str(int(ended) + 1))
        self.do(LoseSession(node_id=NODE, session=ended))
        return lost

    def pass_time(self, end: Instant) -> Iterator[Instant]:
        """Let time pass until *end*, inclusive, and yield the instant of each step."""
        while self._due and self._due[0][0] <= end:
            at, _, command = heapq.heappop(self._due)
            if (at, command) in self._cleared:
                self._cleared.discard((at, command))
                continue
            self.clock = max(self.clock, at)
            self._try(command)
            self._settle()
            yield self.clock
        self.clock = max(self.clock, end)

    def _settle(self) -> None:
        """Carry out what follows at once: messages, webhooks, and tasks that get free slots."""
        while self._now or (self._waiting and self.running < self._slots):
            if self._now:
                self._try(self._now.popleft())
            else:
                *_, start, selector = heapq.heappop(self._waiting)
                self._try(start, labels=selector)

    def _try(self, command: Command, labels: Selector = ()) -> None:
        """Decide a command that may come too late, such as the start of a cancelled task."""
        if isinstance(command, FinishAttempt) and self._ends.pop(command.attempt, None) is None:
            return
        try:
            self._do(command, labels)
        except Refused:
            return

    def _do(self, command: Command, labels: Selector = ()) -> Reply:
        number = next(self._numbers)
        situation = Situation(
            now=self.clock,
            entropy=_entropy(number),
            position=Token(Epoch(1), Index(number + 1)),
            slots=FreeSlots(NODE, self._session, dict(labels), self._slots - self.running),
            limits=Limits(),
            facts=self.facts,
        )
        decision = decide(self.state, command, situation)
        for change in decision.changes:
            self.state.apply(change)
            self._record(change)
        for effect in decision.effects:
            self._take(effect)
        return decision.reply

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
                    self._now.append(self._stopped(self._ends[attempt]))
            case WaitForSlot(execution_id, task, since, priority, selector):
                start = StartTask(execution_id=execution_id, task=task)
                number = next(self._numbers)
                heapq.heappush(self._waiting, (-priority, since, number, start, selector))
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
        ending = self._play(order, self.clock)
        end = FinishAttempt(attempt=order.key, token=order.token, ending=ending)
        self._ends[order.key] = end
        heapq.heappush(self._due, (ending.finished_at, next(self._numbers), end))
        self._watch(Launch(order, NODE), self.clock)

    def _stopped(self, end: FinishAttempt) -> FinishAttempt:
        started_at = end.ending.started_at
        ending = Ending(
            outcome=Outcome.CANCELLED, started_at=started_at, finished_at=self.clock, exit_code=-1
        )
        return replace(end, ending=ending)


def succeeded(started_at: Instant, finished_at: Instant) -> Ending:
    """Return the end of an attempt that succeeds."""
    return Ending(
        outcome=Outcome.SUCCEEDED, started_at=started_at, finished_at=finished_at, exit_code=0
    )


def _entropy(number: int) -> int:
    """Return 64 bits whose last 15 differ from those of the decisions before.

    These are part of the ids of executions that are triggered at the same instant.
    """
    digest = blake2b(b"%d" % number, digest_size=8).digest()
    return int.from_bytes(digest, "big") & ~0x7FFF | number & 0x7FFF
