"""Content of a warden's journal at the start of an attempt."""

import asyncio
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import ClassVar

import pytest
from msgspec.structs import replace

from contract.executor.executor_host import (
    EXECUTION_ID,
    FIRE_AT,
    LIMIT_S,
    TOKEN,
    elapsed,
    now,
    store_id_of,
)
from rota.core.model.attempt import AttemptKey, Ending, Order, Outcome, Report
from rota.core.model.ids import NodeId
from rota.core.model.work import Work
from rota.core.timing.instants import HOUR, SECOND, Duration, Instant, later
from rota.executor.attempt_settings import USUAL
from rota.executor.executor import Ended as OnEnded
from rota.executor.executor import Reported as OnReported
from rota.executor.secret_values import NO_SECRETS, SecretValues
from rota.executor.testing import scripted_executor as scripted
from rota.executor.warden.connections import FromNode
from rota.executor.warden.hosted_executors import HostEnvironment, Row, known_executors
from rota.executor.warden.journal import Journal
from rota.executor.warden.messages import (
    VERSION,
    Allow,
    Ended,
    Held,
    Hello,
    Launch,
    Stop,
    ToNode,
    ToWarden,
    frames,
    node_reader,
)
from rota.executor.warden.paths import JOURNAL
from rota.executor.warden.server import Server
from rota.executor.warden.watchdog import Watchdog

GROUP = "7/session"


WATCHDOG = Watchdog(elapsed=elapsed, on_late=lambda: None)
"""Not started; tests only read its deadline."""


class Looking(scripted.ScriptedExecutor):
    """Plays attempts, whose output is the journal as it was when they began.

    Attributes:
        watched: The deadline of the watchdog at the start of each attempt.
    """

    watched: ClassVar[list[Instant | None]] = []

    def __init__(
        self, directory: Path, *, ended: OnEnded, now: Callable[[], Instant], **_: object
    ) -> None:
        self._journal = directory / JOURNAL
        self._found: dict[AttemptKey, bytes] = {}

        def over(key: AttemptKey, ending: Ending) -> None:
            found = self._found.pop(key)
            ended(key, replace(ending, output=found))

        super().__init__(ended=over, now=now)

    def launch(self, order: Order, secrets: SecretValues = NO_SECRETS) -> None:
        """Look, then play it."""
        self._found[order.key] = self._journal.read_bytes()
        self.watched.append(WATCHDOG.due_at)
        super().launch(order, secrets)

    def resume(self, order: Order) -> None:
        """Look, then report it as lost."""
        self._found[order.key] = b""
        self.watched.append(WATCHDOG.due_at)
        super().resume(order)


@pytest.fixture
def looking(monkeypatch: pytest.MonkeyPatch) -> None:
    """The warden hosts an executor that looks into its journal."""
    row = Row(f"{__name__}:Looking", folder="work")
    monkeypatch.setitem(known_executors(), "process", row)


class Node:
    """A node's end of a connection."""

    def __init__(self, end: socket.socket) -> None:
        end.setblocking(False)
        self._end = end
        self._reader = node_reader()

    async def say(self, *messages: ToWarden) -> None:
        """Send messages, as one frame."""
        for frame in frames(messages):
            await asyncio.get_running_loop().sock_sendall(self._end, frame)

    async def receive(self, kind: type[ToNode], count: int) -> list[ToNode]:
        """Return the first messages of a kind, at least *count*."""
        received: list[ToNode] = []
        async with asyncio.timeout(LIMIT_S):
            while len(received) < count:
                data = await asyncio.get_running_loop().sock_recv(self._end, 1 << 16)
                assert data, f"the warden hung up after {received}"
                received += [each for each in self._reader.feed(data) if isinstance(each, kind)]
        return received


class Exaggerating(scripted.ScriptedExecutor):
    """Plays attempts, each of which reports more than 64 bits hold when it begins."""

    def __init__(
        self,
        directory: Path,
        *,
        ended: OnEnded,
        reported: OnReported,
        now: Callable[[], Instant],
        **_: object,
    ) -> None:
        del directory
        self._reported = reported
        super().__init__(ended=ended, now=now)

    def launch(self, order: Order, secrets: SecretValues = NO_SECRETS) -> None:
        """Report, then play it."""
        self._reported(order.key, Report(percent=1 << 64))
        super().launch(order, secrets)


@asynccontextmanager
async def serving(directory: Path) -> AsyncGenerator[Node]:
    """A warden's server, and the end of a node that has not greeted it yet."""
    around = HostEnvironment(
        directory=directory,
        node_id=NodeId("node-a"),
        store_id=store_id_of(directory),
        now=now,
        environ={},
        settings=USUAL,
    )
    journal = Journal(directory / JOURNAL)
    server = Server(around, journal, elapsed=elapsed, watchdog=WATCHDOG, made_of="test")
    own, theirs = socket.socketpair()
    with own, theirs:
        await asyncio.get_running_loop().connect_accepted_socket(lambda: FromNode(server), theirs)
        async with asyncio.TaskGroup() as group:
            group.create_task(server.run())
            yield Node(own)
            server.retire(Duration(0))
        journal.close()


def orders_of(*names: str) -> list[Order]:
    return [
        Order(
            key=AttemptKey(EXECUTION_ID, name, 1),
            token=TOKEN,
            work=Work(shell="true"),
            fire_at=FIRE_AT,
        )
        for name in names
    ]


@pytest.mark.usefixtures("looking")
async def test_attempts_are_in_the_journal_and_their_deadline_is_watched_before_any_begins(
    tmp_path: Path,
) -> None:
    WATCHDOG.due_at = None
    Looking.watched.clear()
    until = later(elapsed(), Duration(HOUR))
    orders = orders_of("first-task", "second-task")
    async with serving(tmp_path) as node:
        await node.say(
            Hello(VERSION),
            Allow({GROUP: until}),
            *(Launch(GROUP, order) for order in orders),
            Stop(AttemptKey(EXECUTION_ID, "another-task", 1), None),  # Has all begin before it.
        )
        ended = await node.receive(Ended, len(orders))

    assert Looking.watched == [until, until]
    for each in ended:
        assert isinstance(each, Ended)
        assert each.ending.outcome is Outcome.SUCCEEDED
        assert b"first-task" in each.ending.output
        assert b"second-task" in each.ending.output


@pytest.mark.usefixtures("looking")
async def test_an_attempt_of_an_earlier_warden_gets_a_few_seconds_until_its_node_allows_more(
    tmp_path: Path,
) -> None:
    WATCHDOG.due_at = None
    Looking.watched.clear()
    [order] = orders_of("task")
    journal = Journal(tmp_path / JOURNAL)
    journal.started(GROUP, order)
    journal.close()

    async with serving(tmp_path) as node:
        await node.say(Hello(VERSION))
        await node.receive(Held, 1)

    [until] = Looking.watched
    assert until is not None
    assert until <= later(elapsed(), Duration(5 * SECOND))


async def test_a_message_that_cannot_be_encoded_is_dropped_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    row = Row(f"{__name__}:Exaggerating", folder="work")
    monkeypatch.setitem(known_executors(), "process", row)
    until = later(elapsed(), Duration(HOUR))

    async with serving(tmp_path) as node:
        launches = [Launch(GROUP, order) for order in orders_of("first-task", "second-task")]
        await node.say(Hello(VERSION), Allow({GROUP: until}), *launches)
        ended = await node.receive(Ended, len(launches))

    outcomes = [each.ending.outcome for each in ended if isinstance(each, Ended)]
    assert outcomes == [Outcome.SUCCEEDED] * len(launches)
    refused = [each for each in caplog.records if each.message == "message not sent"]
    assert [vars(each)["message_kind"] for each in refused] == ["Reported"] * len(launches)
