"""What waits to be decided, and how much of it one turn and one entry take."""

import asyncio
from collections import deque
from dataclasses import dataclass

from rota.core.errors import Kind, Refused
from rota.core.timing.instants import SECOND, Duration, Instant
from rota.core.vocabulary.commands import Command, payload_bytes
from rota.node.shards.shard import Answer, OnAnswer, Shard

INBOX_MAX = 20_000
"""Requests that may wait to be decided; one more is refused with 503 and Retry-After."""
HELD_MAX = Duration(10 * SECOND)
"""How long requests wait for a shard that admits nothing; then they are refused, for otherwise they
would be carried out hours after their callers gave up."""
TURN_MAX = 512
"""Commands that one turn decides: about 30 ms of work, then the loop sees to the rest.

What was asked for together is decided together, even where that alone is more.
"""
ENTRY_BYTES_MAX = 8 << 20
"""About what one entry holds of what users give and are handed; more goes into the next turn's.

An entry is one message to each copy, and no message may have more than 128 MiB.
"""

Asked = tuple[Shard, Command, OnAnswer | None]
Waiting = tuple[Command, OnAnswer | None]
Taken = dict[Shard, list[Waiting]]


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller of a request: one who may ask again, unlike the node's own timers and outcomes."""

    answered: asyncio.Future[Answer]

    def __call__(self, answer: Answer) -> None:
        """Give the caller an answer, unless that has gone away meanwhile."""
        if not self.answered.done():
            self.answered.set_result(answer)


class Inbox:
    """Commands that wait to be decided, in the order in which they came.

    Attributes:
        items: What was asked for together is one item, and is decided in one turn.
        length: How many commands the items are.
        held: What came for shards that admit nothing at the moment, but are this node's. The next
            turn tries it again, before everything else.
    """

    def __init__(self) -> None:
        self.items: deque[tuple[Asked, ...]] = deque()
        self.length = 0
        self.held: Taken = {}
        self._held_count = 0
        self._held_since: dict[Shard, Instant] = {}
        """Since when each shard of *held* admits nothing."""

    def check_room(self) -> None:
        """Refuse a request that is one too many.

        Raises:
            Refused: As many wait as may.
        """
        waiting = len(self.items) + self._held_count
        if waiting >= INBOX_MAX:
            raise Refused(
                Kind.UNAVAILABLE,
                "busy",
                f"{waiting} requests wait to be decided by this node, which is its limit",
                retry_after_s=1,
            )

    def put(self, *asked: Asked) -> None:
        """Add what is to be decided in one turn."""
        self.items.append(asked)
        self.length += len(asked)

    def take(self) -> Taken:
        """Take out what one turn decides."""
        taken, self.held = self.held, {}
        self._held_since = {shard: self._held_since[shard] for shard in taken}
        self._held_count = count = 0
        while self.items and (not count or count + len(self.items[0]) <= TURN_MAX):
            together = self.items.popleft()
            count += len(together)
            for shard, command, on_answer in together:
                taken.setdefault(shard, []).append((command, on_answer))
        self.length -= count
        return taken

    def for_one_entry(self, shard: Shard, commands: list[Waiting]) -> list[Waiting]:
        """Return those of *commands* that one entry holds; the others come first next time."""
        end = _end_of_entry(commands)
        if rest := commands[end:]:
            self.items.appendleft(tuple((shard, *each) for each in rest))
            self.length += len(rest)
        return commands[:end]

    def hold(self, shard: Shard, commands: list[Waiting], now: Instant) -> list[Waiting]:
        """Keep what was taken for a shard that admits nothing at the moment.

        Returns:
            The requests among *commands*, if that has been so for `HELD_MAX`: they are not kept.
        """
        since = self._held_since.setdefault(shard, now)
        late: list[Waiting] = []
        if now - since >= HELD_MAX:
            late = [each for each in commands if isinstance(each[1], Caller)]
            commands = [each for each in commands if not isinstance(each[1], Caller)]
        if commands:
            self.held.setdefault(shard, []).extend(commands)
            self._held_count += len(commands)
        return late

    def hold_no_more(self, shard: Shard) -> list[Waiting]:
        """Take out what is held for a shard."""
        commands = self.held.pop(shard, [])
        self._held_count -= len(commands)
        return commands

    def drop(self) -> list[OnAnswer]:
        """Drop everything, and return who waits for it."""
        waiting = [each for commands in self.held.values() for _, each in commands if each]
        waiting += [each for together in self.items for _, _, each in together if each]
        self.items.clear()
        self.held.clear()
        self._held_since.clear()
        self.length = self._held_count = 0
        return waiting


def _end_of_entry(commands: list[Waiting]) -> int:
    """Return how many of *commands* one entry holds; at least one."""
    size = 0
    for count, (command, on_answer) in enumerate(commands, 1):
        size += payload_bytes(command)
        # What came together and is to be in one entry stands before one that has an answer.
        if size >= ENTRY_BYTES_MAX and on_answer is not None:
            return count
    return len(commands)
