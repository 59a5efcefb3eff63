"""Places: how many attempts run on this node, who waits for one, and who is next.

A ready task that finds no place here waits, in the order of its turn, for whichever comes first: a
place of this node that suits it, or one that another node lends
(`rota.node.attempts.slot_lending`).
"""

import heapq
from collections.abc import Iterator, Mapping
from itertools import count

from rota.core.model.attempt import Selector
from rota.core.model.ids import NodeId, Session
from rota.core.replication.authority.liveness import Liveness
from rota.core.timing.instants import SECOND, Duration, Instant, later
from rota.core.vocabulary.commands import Command, StartTask
from rota.core.vocabulary.decision import FreeSlots
from rota.core.vocabulary.effects import WaitForSlot
from rota.node.shards.shard import Shard

PRIORITY_STEP = Duration(10 * SECOND)
"""What one step of a job's priority is worth: it starts like one that waits so much longer.

A bounded head start, not a class of its own: priorities go from -100 to 100, so whoever has waited
for 2,000 s longer than all others is next, and nobody starves.
"""

QueuedStart = tuple[Instant, int, StartTask]
"""When its time to wait began, which one it was of all, and what is to be said then."""


class WaitQueue:
    """The commands that wait for a place, and who of them is next.

    Args:
        numbers: Give each its number; one source for all turns that are compared with one another,
            so that no two commands are equal.
    """

    def __init__(self, numbers: Iterator[int]) -> None:
        self._shards: dict[StartTask, Shard] = {}
        self.order: list[QueuedStart] = []
        """A heap. Some in it no longer wait, at most as many as those that do."""
        self._numbers = numbers

    def __len__(self) -> int:
        return len(self._shards)

    def put(self, shard: Shard, command: StartTask, rank: Instant) -> None:
        """Have *command* wait; of one that waits already nothing changes."""
        if command not in self._shards:
            self._shards[command] = shard
            heapq.heappush(self.order, (rank, next(self._numbers), command))

    def first(self) -> QueuedStart | None:
        """Return the one of the lowest rank, of equals the one that came first; or None."""
        while self.order and self.order[0][2] not in self._shards:
            heapq.heappop(self.order)
        return self.order[0] if self.order else None

    def pop(self) -> tuple[Shard, StartTask]:
        """Take the `first`, which there has to be."""
        assert self.first() is not None, "nobody waits"
        _, _, command = heapq.heappop(self.order)
        return self._shards.pop(command), command

    def discard(self, command: StartTask) -> None:
        """Have *command* wait no longer."""
        if self._shards.pop(command, None) is not None and len(self.order) > 2 * len(self):
            self.order = [each for each in self.order if each[2] in self._shards]
            heapq.heapify(self.order)

    def forget(self, shard: Shard) -> None:
        """Have no command of *shard* wait any longer."""
        for command in [each for each, whose in self._shards.items() if whose is shard]:
            self.discard(command)


class SlotTable:
    """How many attempts may run here, and who waits for a place.

    A command that starts attempts is told the room when it is decided, and takes the places at
    once; they are free again when the attempts have ended. While tasks wait that may run here, only
    they are given room, so that nothing overtakes them.

    Args:
        slots: Attempts that may run at the same time.
        liveness: Of this node, which is named in it.
        labels: Of this node.
    """

    def __init__(self, slots: int, liveness: Liveness, labels: Mapping[str, str]) -> None:
        self.slots = slots
        self.used = 0
        self._liveness = liveness
        self._labels = labels
        self._called = 0
        self._borrowed: dict[StartTask, FreeSlots] = {}
        """Of the commands that are under way: those that start on another node."""
        self._numbers = count()
        self._waiting: dict[Selector, WaitQueue] = {}
        """By what they want of a node; few jobs want anything."""

    @property
    def free(self) -> int:
        """Places that nobody has or was called for; below 0 while a stop takes them away."""
        return self.slots - self.used - self._called

    @property
    def waiting(self) -> int:
        """Tasks that wait for a place."""
        return sum(map(len, self._waiting.values()))

    @property
    def wanted(self) -> Mapping[Selector, int]:
        """How many tasks wait, by what they want of a node."""
        return {selector: len(turns) for selector, turns in self._waiting.items()}

    def lendable(self) -> int:
        """Return how many places nobody here has a use for, as long as this node is to stay."""
        may_lend = not self._liveness.is_leaving and self._liveness.has_space
        is_theirs = may_lend and not self._own_turns()
        return max(0, self.free) if is_theirs else 0

    def place_for(self, command: Command) -> FreeSlots:
        """Return where *command* may start attempts, and how many."""
        borrowed = self._borrowed.get(command) if isinstance(command, StartTask) else None
        return borrowed or self._own_place(self._room_for(command))

    def own_place(self) -> FreeSlots:
        """Return where what does not wait in a turn may start: nowhere while others do."""
        return self._own_place(0 if self._own_turns() else max(0, self.free))

    def take(self, count: int) -> None:
        """Take *count* slots: for `own_place`, for a loan, or for attempts that run already."""
        self.used += count

    def _own_place(self, room: int) -> FreeSlots:
        return FreeSlots(
            node_id=self._liveness.node_id,
            session=self._liveness.session,
            labels=self._labels,
            free=room,
        )

    def _room_for(self, command: Command) -> int:
        if isinstance(command, StartTask):
            return self.slots - self.used
        return self.own_place().free

    def decided(self, command: Command, started: int) -> FreeSlots | None:
        """Take the places of *started* attempts.

        Returns:
            The borrowed place that *command* turned out not to need.
        """
        if isinstance(command, StartTask):
            borrowed = self._borrowed.pop(command, None)
            if borrowed is not None:
                return None if started else borrowed
            self._called -= 1
        self.used += started
        return None

    def close(self) -> None:
        """Offer no slot any more: the node stops."""
        self.slots = 0

    def freed(self, count: int = 1) -> None:
        """Give places back."""
        self.used -= count

    def wait(self, shard: Shard, waiting: WaitForSlot) -> None:
        """Have a ready task started when there is a place and nobody is before it."""
        command = StartTask(execution_id=waiting.execution_id, task=waiting.task)
        rank = later(waiting.since, Duration(-waiting.priority * PRIORITY_STEP))
        turns = self._waiting.setdefault(waiting.selector, WaitQueue(self._numbers))
        turns.put(shard, command, rank)

    def forget(self, command: StartTask) -> None:
        """Have a command not sent after all: its task no longer waits."""
        for turns in self._waiting.values():
            turns.discard(command)
        self._drop_empty()

    def forget_all(self, shard: Shard) -> None:
        """Likewise, every command of a shard."""
        for turns in self._waiting.values():
            turns.forget(shard)
        self._drop_empty()

    def call(self) -> list[tuple[Shard, StartTask]]:
        """Return the commands for which there are places here now, in the order of their turn."""
        called = self._take(self.free, self._labels)
        self._called += len(called)
        return called

    def call_away(
        self, node_id: NodeId, session: Session, labels: Mapping[str, str], count: int
    ) -> list[tuple[Shard, StartTask]]:
        """Return the commands that get the places that another node lends.

        Args:
            node_id: The node.
            session: Its present life.
            labels: What it says of itself.
            count: How many places it lends.
        """
        called = self._take(count, labels)
        place = FreeSlots(node_id=node_id, session=session, labels=labels, free=1)
        self._borrowed |= {command: place for _, command in called}
        return called

    def _take(self, count: int, labels: Mapping[str, str]) -> list[tuple[Shard, StartTask]]:
        taken: list[tuple[Shard, StartTask]] = []
        while len(taken) < count and (among := self._turns_for(labels)):
            taken.append(min(among, key=_first).pop())
        self._drop_empty()
        return taken

    def _own_turns(self) -> list[WaitQueue]:
        return self._turns_for(self._labels)

    def _turns_for(self, labels: Mapping[str, str]) -> list[WaitQueue]:
        """Return those who wait and may run on a node with *labels*."""
        return [
            turns
            for selector, turns in self._waiting.items()
            if turns and all(labels.get(name) == value for name, value in selector)
        ]

    def _drop_empty(self) -> None:
        for selector in [each for each, turns in self._waiting.items() if not turns]:
            del self._waiting[selector]


def _first(turns: WaitQueue) -> QueuedStart:
    first = turns.first()
    assert first is not None, "nobody waits"
    return first
