"""What waits to be decided, and how much of it one turn and one entry take."""

from collections import deque

from rota.core.commands import Command, own_bytes
from rota.core.errors import Kind, Refused
from rota.node.shard import OnAnswer, Shard

INBOX_MAX = 20_000
"""Requests that may wait to be decided; one more is refused with 503 and Retry-After."""
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

    def hold(self, shard: Shard, commands: list[Waiting]) -> None:
        """Keep what was taken for a shard that admits nothing at the moment."""
        self.held.setdefault(shard, []).extend(commands)
        self._held_count += len(commands)

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
        self.length = self._held_count = 0
        return waiting


def _end_of_entry(commands: list[Waiting]) -> int:
    """Return how many of *commands* one entry holds; at least one."""
    size = 0
    for count, (command, on_answer) in enumerate(commands, 1):
        size += own_bytes(command)
        # What came together and is to be in one entry stands before one that has an answer.
        if size >= ENTRY_BYTES_MAX and on_answer is not None:
            return count
    return len(commands)
