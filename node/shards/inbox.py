"""Commands that wait to be decided, and the limits of one turn and one entry."""

import asyncio
from collections import deque
from dataclasses import dataclass

from rota.core.errors import Kind, Refused
from rota.core.timing.instants import SECOND, Duration, Instant
from rota.core.vocabulary.commands import Command, payload_bytes
from rota.node.shards.shard import Answer, OnAnswer, Shard

INBOX_MAX = 20_000
"""The most requests that may wait to be decided; further ones are refused with 503 and
Retry-After."""
HELD_MAX = Duration(10 * SECOND)
"""The longest time that requests wait for a shard that admits nothing. After that they are refused,
since otherwise they might be carried out hours after their callers gave up."""
TURN_MAX = 512
"""The most commands that one turn decides: about 30 ms, then other work of the loop can run.

Commands submitted together are decided in one turn, even if there are more of them.
"""
ENTRY_BYTES_MAX = 8 << 20
"""Approximate limit of the users' data in one entry; further commands wait for the next turn.

An entry is one message to each copy, and a message may have at most 128 MiB.
"""

Asked = tuple[Shard, Command, OnAnswer | None]
Waiting = tuple[Command, OnAnswer | None]
Taken = dict[Shard, list[Waiting]]


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller of a request. Requests may be repeated, unlike commands of the node itself."""

    answered: asyncio.Future[Answer]

    def __call__(self, answer: Answer) -> None:
        """Give the caller an answer, unless its request was cancelled."""
        if not self.answered.done():
            self.answered.set_result(answer)


class Inbox:
    """Commands that wait to be decided, in the order of their arrival.

    Attributes:
        items: The commands that were submitted, in items of commands that are to be decided in one
            turn.
        length: The number of commands in the items.
        held: Commands for shards that are open here but admit nothing now. The next turn tries
            these commands again, before all others.
    """

    def __init__(self) -> None:
        self.items: deque[tuple[Asked, ...]] = deque()
        self.length = 0
        self.held: Taken = {}
        self._held_count = 0
        self._held_since: dict[Shard, Instant] = {}
        """The instant since which each shard of `held` has admitted nothing."""

    def check_room(self) -> None:
        """Refuse a request if too many requests wait.

        Raises:
            Refused: At least `INBOX_MAX` requests wait.
        """
        waiting = len(self.items) + self._held_count
        if waiting >= INBOX_MAX:
            raise Refused(
                Kind.UNAVAILABLE,
                "busy",
                f"{waiting} requests wait to be decided by this node, which has reached its limit; "
                "try again, and send many changes in one batch",
                retry_after_s=1,
            )

    def put(self, *asked: Asked) -> None:
        """Add commands that are to be decided in one turn."""
        self.items.append(asked)
        self.length += len(asked)

    def take(self) -> Taken:
        """Remove and return the commands for one turn."""
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
        """Return the first of *commands*, for one entry; the rest is put first in the queue."""
        end = _end_of_entry(commands)
        if rest := commands[end:]:
            self.items.appendleft(tuple((shard, *each) for each in rest))
            self.length += len(rest)
        return commands[:end]

    def hold(self, shard: Shard, commands: list[Waiting], now: Instant) -> list[Waiting]:
        """Keep commands that were taken for a shard that admits nothing now.

        Returns:
            The requests among *commands*, which are not kept, if the shard has admitted nothing
            for `HELD_MAX`; otherwise an empty list.
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
        """Remove and return the commands that are held for a shard."""
        commands = self.held.pop(shard, [])
        self._held_count -= len(commands)
        return commands

    def drop_requests(self) -> list[Caller]:
        """Drop the commands of requests, and return their callers; the node's own commands stay."""
        # The caller of a request is stored with the last of its commands.
        requests = [each for each in self.items if isinstance(each[-1][2], Caller)]
        callers = [each for together in requests for _, _, each in together]
        self.items = deque(each for each in self.items if not isinstance(each[-1][2], Caller))
        self.length = sum(map(len, self.items))
        for shard, commands in self.held.items():
            callers += [each for _, each in commands]
            self.held[shard] = [each for each in commands if not isinstance(each[1], Caller)]
        self._held_count = sum(map(len, self.held.values()))
        return [each for each in callers if isinstance(each, Caller)]

    def drop(self) -> list[OnAnswer]:
        """Drop all commands, and return the functions that wait for their answers."""
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
        # Of commands for one entry, only the last has an answer function.
        if size >= ENTRY_BYTES_MAX and on_answer is not None:
            return count
    return len(commands)
