"""The slots of a node, and the queues of tasks that wait for a slot.

A ready task without a free slot waits, in the order of rank, for the first suitable slot of this
node or of another node that lends one (`rota.node.attempts.slot_lending`).
"""

import heapq
from collections.abc import Iterator, Mapping
from itertools import count
from typing import NamedTuple

from rota.core.model.ids import ExecutionId, NodeId, Session
from rota.core.model.work import Selector
from rota.core.replication.authority.liveness import Liveness
from rota.core.timing.instants import SECOND, Duration, Instant, later
from rota.core.vocabulary.commands import Command, StartTask
from rota.core.vocabulary.decision import FreeSlots
from rota.core.vocabulary.effects import WaitForSlot
from rota.node.shards.shard import Shard

PRIORITY_STEP = Duration(10 * SECOND)
"""The value of one step of a job's priority: a task is ranked as if it had waited for this much
longer.

The head start is limited: priorities are between -100 and 100, so a task that has waited for
2,000 s longer than all others is next, and no task starves.
"""

QueuedStart = tuple[Instant, int, StartTask]
"""The rank of a command, its number among all commands, and the command."""


class WaitQueue:
    """The commands that wait for a slot, in their order.

    Args:
        numbers: Gives each command a number; the queues whose commands are compared share this
            iterator, so that no two commands are equal.

    Attributes:
        order: A heap of commands. Some of them may no longer wait; commands that were discarded are
            at most as many as those that wait.
    """

    def __init__(self, numbers: Iterator[int]) -> None:
        self._shards: dict[StartTask, Shard] = {}
        self.order: list[QueuedStart] = []
        self._numbers = numbers

    def __len__(self) -> int:
        return len(self._shards)

    def put(self, shard: Shard, command: StartTask, rank: Instant) -> None:
        """Add *command*, unless it waits already."""
        if command not in self._shards:
            self._shards[command] = shard
            heapq.heappush(self.order, (rank, next(self._numbers), command))

    def first(self) -> QueuedStart | None:
        """Return the command of the lowest rank, and of equal ranks the first one that was added.

        Returns:
            None if no command waits.
        """
        while self.order and self.order[0][2] not in self._shards:
            heapq.heappop(self.order)
        return self.order[0] if self.order else None

    def shard_of(self, command: StartTask) -> Shard:
        """Return the shard of a command that waits."""
        return self._shards[command]

    def pop(self) -> tuple[Shard, StartTask]:
        """Remove and return the `first` command; the queue must not be empty."""
        assert self.first() is not None, "the queue is empty"
        _, _, command = heapq.heappop(self.order)
        return self._shards.pop(command), command

    def discard(self, command: StartTask) -> None:
        """Remove *command*, if it waits."""
        if self._shards.pop(command, None) is not None and len(self.order) > 2 * len(self):
            self.order = [each for each in self.order if each[2] in self._shards]
            heapq.heapify(self.order)

    def in_order(self) -> Iterator[StartTask]:
        """Yield the commands that wait, in their order; takes O(n log n)."""
        return (command for _, _, command in sorted(self.order) if command in self._shards)

    def forget(self, shard: Shard) -> None:
        """Remove all commands of *shard*."""
        for command in [each for each, whose in self._shards.items() if whose is shard]:
            self.discard(command)


class FirstWait(NamedTuple):
    """The first of the tasks that require the same labels of a node.

    Attributes:
        selector: The labels.
        task_count: The number of these tasks.
        shard: The shard of the first task.
        command: The command of the first task.
    """

    selector: Selector
    task_count: int
    shard: Shard
    command: StartTask


class SlotTable:
    """The slots of this node, and the tasks that wait for a slot.

    A command that starts attempts gets the free slots when it is decided, and takes the slots that
    it uses at once; they are free again when the attempts have ended. While tasks that may run here
    wait, only these tasks get slots, so no other task overtakes them.

    Args:
        slots: The number of attempts that may run at the same time.
        liveness: Has the session of this node.
        labels: The labels of this node.
    """

    def __init__(self, slots: int, liveness: Liveness, labels: Mapping[str, str]) -> None:
        self.slots = slots
        self.used = 0
        self._liveness = liveness
        self._labels = labels
        self._assigned = 0
        """The number of slots that are assigned to commands that are not decided yet."""
        self._borrowed: dict[StartTask, FreeSlots] = {}
        """The commands under way whose tasks start on another node, with the slot on that node."""
        self._numbers = count()
        self._waiting: dict[Selector, WaitQueue] = {}
        """The queues, by the labels that their tasks require of a node; few jobs require any."""

    @property
    def free(self) -> int:
        """The number of slots that are neither used nor assigned; may be negative after `close`."""
        return self.slots - self.used - self._assigned

    @property
    def waiting(self) -> int:
        """The number of tasks that wait for a slot."""
        return sum(map(len, self._waiting.values()))

    @property
    def wanted(self) -> Mapping[Selector, int]:
        """The number of waiting tasks, by the labels that they require."""
        return {selector: len(queue) for selector, queue in self._waiting.items()}

    def places_of(self, execution_id: ExecutionId) -> dict[str, int]:
        """Return, for each waiting task of an execution, the number of tasks before it.

        Only tasks that require the same labels of a node count. The method sorts the waiting tasks,
        which takes 3 ms for 10,000 tasks.
        """
        return {
            command.task: place
            for queue in self._waiting.values()
            for place, command in enumerate(queue.in_order())
            if command.execution_id == execution_id
        }

    def first_waits(self) -> list[FirstWait]:
        """Return, for each set of required labels, the waiting task that is the next to start."""
        firsts = ((each, queue, queue.first()) for each, queue in self._waiting.items())
        return [
            FirstWait(selector, len(queue), queue.shard_of(first[2]), first[2])
            for selector, queue, first in firsts
            if first is not None
        ]

    def lendable(self) -> int:
        """Return the number of free slots that no waiting task can use.

        Returns:
            0 if this node is leaving, if its disk is nearly full, or if tasks wait that may run
            here.
        """
        may_lend = not self._liveness.is_leaving and self._liveness.has_space
        return max(0, self.free) if may_lend and not self._own_queues() else 0

    def slots_for(self, command: Command) -> FreeSlots:
        """Return the slots in which *command* may start attempts."""
        borrowed = self._borrowed.get(command) if isinstance(command, StartTask) else None
        return borrowed or self._own_slots(self._free_for(command))

    def own_slots(self) -> FreeSlots:
        """Return the slots for tasks that do not wait; none while tasks wait that may run here."""
        return self._own_slots(0 if self._own_queues() else max(0, self.free))

    def take(self, count: int) -> None:
        """Take *count* slots for new attempts, for a loan, or for attempts that already run."""
        self.used += count

    def _own_slots(self, free: int) -> FreeSlots:
        return FreeSlots(
            node_id=self._liveness.node_id,
            session=self._liveness.session,
            labels=self._labels,
            free=free,
        )

    def _free_for(self, command: Command) -> int:
        if isinstance(command, StartTask):
            return self.slots - self.used
        return self.own_slots().free

    def decided(self, command: Command, started: int) -> FreeSlots | None:
        """Take the slots of *started* attempts.

        Returns:
            The borrowed slot of *command* if it was not needed; otherwise None.
        """
        if isinstance(command, StartTask):
            borrowed = self._borrowed.pop(command, None)
            if borrowed is not None:
                return None if started else borrowed
            self._assigned -= 1
        self.used += started
        return None

    def close(self) -> None:
        """Offer no more slots, because the node stops."""
        self.slots = 0

    def freed(self, count: int = 1) -> None:
        """Free *count* slots."""
        self.used -= count

    def wait(self, shard: Shard, waiting: WaitForSlot) -> None:
        """Queue a ready task, which is started when it is the first and a slot is free."""
        command = StartTask(execution_id=waiting.execution_id, task=waiting.task)
        rank = later(waiting.since, Duration(-waiting.priority * PRIORITY_STEP))
        queue = self._waiting.setdefault(waiting.selector, WaitQueue(self._numbers))
        queue.put(shard, command, rank)

    def forget(self, command: StartTask) -> None:
        """Remove a command from its queue, because its task no longer waits."""
        for queue in self._waiting.values():
            queue.discard(command)
        self._drop_empty()

    def forget_all(self, shard: Shard) -> None:
        """Remove every command of a shard."""
        for queue in self._waiting.values():
            queue.forget(shard)
        self._drop_empty()

    def assign(self) -> list[tuple[Shard, StartTask]]:
        """Assign the free slots; return the commands that get one, in the order of their rank."""
        assigned = self._pop(self.free, self._labels)
        self._assigned += len(assigned)
        return assigned

    def assign_lent(
        self, node_id: NodeId, session: Session, labels: Mapping[str, str], count: int
    ) -> list[tuple[Shard, StartTask]]:
        """Assign slots that another node lends; return the commands that get one.

        Args:
            node_id: The other node.
            session: The present session of the other node.
            labels: The labels of the other node.
            count: The number of lent slots.
        """
        assigned = self._pop(count, labels)
        slot = FreeSlots(node_id=node_id, session=session, labels=labels, free=1)
        self._borrowed |= {command: slot for _, command in assigned}
        return assigned

    def _pop(self, count: int, labels: Mapping[str, str]) -> list[tuple[Shard, StartTask]]:
        taken: list[tuple[Shard, StartTask]] = []
        while len(taken) < count and (queues := self._queues_for(labels)):
            taken.append(min(queues, key=_first).pop())
        self._drop_empty()
        return taken

    def _own_queues(self) -> list[WaitQueue]:
        return self._queues_for(self._labels)

    def _queues_for(self, labels: Mapping[str, str]) -> list[WaitQueue]:
        """Return the queues of tasks that may run on a node with *labels*."""
        return [
            queue
            for selector, queue in self._waiting.items()
            if queue and all(labels.get(name) == value for name, value in selector)
        ]

    def _drop_empty(self) -> None:
        for selector in [each for each, queue in self._waiting.items() if not queue]:
            del self._waiting[selector]


def _first(queue: WaitQueue) -> QueuedStart:
    first = queue.first()
    assert first is not None, "the queue is empty"
    return first
