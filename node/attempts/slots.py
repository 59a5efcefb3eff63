"""The slots of a node, and the queues of tasks that wait for one.

A ready task without a free slot waits, ordered by rank, for the first suitable slot: one of this
node, or one that another node lends (`rota.node.attempts.slot_lending`).
"""

import heapq
from collections.abc import Iterator, Mapping
from itertools import count
from typing import NamedTuple

from rota.core.model.attempt import Selector
from rota.core.model.ids import ExecutionId, NodeId, Session
from rota.core.replication.authority.liveness import Liveness
from rota.core.timing.instants import SECOND, Duration, Instant, later
from rota.core.vocabulary.commands import Command, StartTask
from rota.core.vocabulary.decision import FreeSlots
from rota.core.vocabulary.effects import WaitForSlot
from rota.node.shards.shard import Shard

PRIORITY_STEP = Duration(10 * SECOND)
"""The value of one step of a job's priority: a task is started as if it waited so much longer.

The head start is bounded: priorities are between -100 and 100, so a task that has waited for
2,000 s longer than all others is next, and no task starves.
"""

QueuedStart = tuple[Instant, int, StartTask]
"""The rank of a command, its number among all commands, and the command."""


class WaitQueue:
    """The commands that wait for a slot, in their order.

    Args:
        numbers: Gives each command a number; the queues whose commands are compared share it, so
            that no two commands are equal.
    """

    def __init__(self, numbers: Iterator[int]) -> None:
        self._shards: dict[StartTask, Shard] = {}
        self.order: list[QueuedStart] = []
        """A heap. Some commands in it no longer wait, at most as many as those that do."""
        self._numbers = numbers

    def __len__(self) -> int:
        return len(self._shards)

    def put(self, shard: Shard, command: StartTask, rank: Instant) -> None:
        """Add *command*, unless it waits already."""
        if command not in self._shards:
            self._shards[command] = shard
            heapq.heappush(self.order, (rank, next(self._numbers), command))

    def first(self) -> QueuedStart | None:
        """Return the command of the lowest rank, of equals the first added; None if none waits."""
        while self.order and self.order[0][2] not in self._shards:
            heapq.heappop(self.order)
        return self.order[0] if self.order else None

    def shard_of(self, command: StartTask) -> Shard:
        """Return the shard of a command that waits."""
        return self._shards[command]

    def pop(self) -> tuple[Shard, StartTask]:
        """Remove and return the `first`; the queue must not be empty."""
        assert self.first() is not None, "the queue is empty"
        _, _, command = heapq.heappop(self.order)
        return self._shards.pop(command), command

    def discard(self, command: StartTask) -> None:
        """Remove *command*, if it waits."""
        if self._shards.pop(command, None) is not None and len(self.order) > 2 * len(self):
            self.order = [each for each in self.order if each[2] in self._shards]
            heapq.heapify(self.order)

    def in_order(self) -> Iterator[StartTask]:
        """Yield the commands that wait, in their order; costs O(n log n)."""
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
        shard: The shard of the first.
        command: Its command.
    """

    selector: Selector
    task_count: int
    shard: Shard
    command: StartTask


class SlotTable:
    """The slots of this node, and the tasks that wait for one.

    A command that starts attempts gets the free slots when it is decided, and takes those that it
    uses at once; they are free again when the attempts have ended. While tasks wait that may run
    here, only they get slots, so no other task overtakes them.

    Args:
        slots: Attempts that may run at the same time.
        liveness: The session of this node.
        labels: The labels of this node.
    """

    def __init__(self, slots: int, liveness: Liveness, labels: Mapping[str, str]) -> None:
        self.slots = slots
        self.used = 0
        self._liveness = liveness
        self._labels = labels
        self._assigned = 0
        """Slots that are assigned to commands which are not decided yet."""
        self._borrowed: dict[StartTask, FreeSlots] = {}
        """The commands under way that start on another node, with the slot there."""
        self._numbers = count()
        self._waiting: dict[Selector, WaitQueue] = {}
        """By the labels that they require of a node; few jobs require any."""

    @property
    def free(self) -> int:
        """Slots that are neither used nor assigned; below 0 after `close`."""
        return self.slots - self.used - self._assigned

    @property
    def waiting(self) -> int:
        """Tasks that wait for a slot."""
        return sum(map(len, self._waiting.values()))

    @property
    def wanted(self) -> Mapping[Selector, int]:
        """The number of waiting tasks, by the labels that they require."""
        return {selector: len(queue) for selector, queue in self._waiting.items()}

    def places_of(self, execution_id: ExecutionId) -> dict[str, int]:
        """Return, for each waiting task of an execution, how many tasks are before it.

        Only tasks that require the same labels of a node count. Sorts the waiting tasks: 3 ms for
        10,000 of them.
        """
        return {
            command.task: place
            for queue in self._waiting.values()
            for place, command in enumerate(queue.in_order())
            if command.execution_id == execution_id
        }

    def first_waits(self) -> list[FirstWait]:
        """Return the first waiting task of each set of required labels."""
        firsts = ((each, queue, queue.first()) for each, queue in self._waiting.items())
        return [
            FirstWait(selector, len(queue), queue.shard_of(first[2]), first[2])
            for selector, queue, first in firsts
            if first is not None
        ]

    def lendable(self) -> int:
        """Return the number of slots that no waiting task can use; 0 if this node is to leave."""
        may_lend = not self._liveness.is_leaving and self._liveness.has_space
        return max(0, self.free) if may_lend and not self._own_queues() else 0

    def slots_for(self, command: Command) -> FreeSlots:
        """Return the slots in which *command* may start attempts."""
        borrowed = self._borrowed.get(command) if isinstance(command, StartTask) else None
        return borrowed or self._own_slots(self._free_for(command))

    def own_slots(self) -> FreeSlots:
        """Return the slots for tasks that do not wait: none while tasks wait that may run here."""
        return self._own_slots(0 if self._own_queues() else max(0, self.free))

    def take(self, count: int) -> None:
        """Take *count* slots: of `own_slots`, for a loan, or for attempts that run already."""
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
            The borrowed slot that *command* did not need.
        """
        if isinstance(command, StartTask):
            borrowed = self._borrowed.pop(command, None)
            if borrowed is not None:
                return None if started else borrowed
            self._assigned -= 1
        self.used += started
        return None

    def close(self) -> None:
        """Offer no slot any more: the node stops."""
        self.slots = 0

    def freed(self, count: int = 1) -> None:
        """Free *count* slots."""
        self.used -= count

    def wait(self, shard: Shard, waiting: WaitForSlot) -> None:
        """Queue a ready task: it is started when a slot is free and it is first in the queue."""
        command = StartTask(execution_id=waiting.execution_id, task=waiting.task)
        rank = later(waiting.since, Duration(-waiting.priority * PRIORITY_STEP))
        queue = self._waiting.setdefault(waiting.selector, WaitQueue(self._numbers))
        queue.put(shard, command, rank)

    def forget(self, command: StartTask) -> None:
        """Remove a command from its queue: its task no longer waits."""
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
            node_id: The node.
            session: Its present session.
            labels: Its labels.
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
