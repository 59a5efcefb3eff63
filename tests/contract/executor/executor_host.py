"""Shared parts of the executor suites: a host that launches attempts and records endings."""

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import uvloop

from rota.core.model.attempt import AttemptKey, Ending, Order, Report, Token
from rota.core.model.ids import Epoch, ExecutionId, Index, NodeId
from rota.core.model.work import Work
from rota.core.timing.instants import HOUR, SECOND, Duration, Instant, parse_instant
from rota.executor.executor import CLOSE_GRACE, Ended, Executor
from rota.executor.kernel.orphans import end_orphans
from rota.executor.process.executor import ProcessExecutor
from rota.executor.secret_values import NO_SECRETS, SecretValues
from rota.executor.warden.node_link import WardenLink
from rota.executor.warden.proxies import AttemptEvents, Right, WardenExecutor

LIMIT_S = 20.0  # How long a test waits for what must happen; the machine may be busy.
EXECUTION_ID = ExecutionId("3f2a9c0011223344-0647b1c2d3e4f5-0000")
FIRE_AT = parse_instant("2027-01-01T05:00:00Z")
TOKEN = Token(Epoch(3), Index(41))

LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "uvloop": uvloop.new_event_loop,
    "asyncio": asyncio.SelectorEventLoop,
}

T = TypeVar("T")
MakeExecutor: TypeAlias = Callable[[Ended], Executor]
Scenario: TypeAlias = Callable[["Host"], Awaitable[T]]


class Host:
    """Launches attempts in place of a node, and records their endings."""

    def __init__(self, make: MakeExecutor) -> None:
        self.executor = make(self._record)
        self.endings: dict[AttemptKey, list[Ending]] = {}
        self._is_calling = False
        self._ended = asyncio.Event()
        self._count = 0

    def launch(
        self,
        work: Work,
        *,
        key: AttemptKey | None = None,
        secrets: SecretValues = NO_SECRETS,
        results: bytes = b"",
        permitted: tuple[str, ...] | None = None,
    ) -> AttemptKey:
        """Launch an attempt of a new task, ``task-1``, ``task-2``, or the one named by *key*."""
        self._count += 1
        key = key or AttemptKey(EXECUTION_ID, f"task-{self._count}", 1)
        with self._calling():
            order = Order(
                key=key,
                token=TOKEN,
                work=work,
                fire_at=FIRE_AT,
                results=results,
                permitted_binds=permitted,
            )
            self.executor.launch(order, secrets)
        return key

    def resume(self, work: Work, *, key: AttemptKey) -> None:
        """Resume an attempt that an earlier life launched."""
        with self._calling():
            self.executor.resume(Order(key=key, token=TOKEN, work=work, fire_at=FIRE_AT))

    def stop(self, key: AttemptKey, *, grace: Duration | None = None) -> None:
        """Stop an attempt, with *grace* or else the grace of its work."""
        with self._calling():
            self.executor.stop(key, grace=grace)

    async def ending(self, key: AttemptKey) -> Ending:
        """Wait for the end of *key*, which must be reported exactly once."""
        async with asyncio.timeout(LIMIT_S):
            while key not in self.endings:
                self._ended.clear()
                await self._ended.wait()
        (ending,) = self.endings[key]
        return ending

    async def run(self, work: Work) -> Ending:
        """Launch an attempt and wait for its end."""
        return await self.ending(self.launch(work))

    async def output(self, key: AttemptKey, *, containing: bytes, count: int = 1) -> bytes:
        """Return what *key* has written, once *containing* is in it *count* times."""
        found = b""
        async with asyncio.timeout(LIMIT_S):
            while True:
                output = await self.executor.output(key)
                assert output is not None, f"{key} has no output"
                found = await output.read(0)
                if found.count(containing) >= count:
                    return found
                await asyncio.sleep(0.002)

    @contextmanager
    def _calling(self) -> Generator[None, None, None]:
        self._is_calling = True
        try:
            yield
        finally:
            self._is_calling = False

    def _record(self, key: AttemptKey, ending: Ending) -> None:
        assert not self._is_calling, f"the end of {key} is reported from inside a call"
        self.endings.setdefault(key, []).append(ending)
        self._ended.set()


def run_scenario(loop: str, make: MakeExecutor, scenario: Scenario[T]) -> T:
    """Run *scenario* on a loop of the kind *loop* and close the executor afterwards."""

    async def main() -> T:
        async with _host(make) as host:
            return await scenario(host)

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        return runner.run(main())


def make_process_executor(directory: Path, **options: Any) -> MakeExecutor:
    """Return a maker whose executor marks its processes with *directory*.

    Args:
        directory: Directory of the executor.
        options: Options of `ProcessExecutor`. Any, as they have several types.
    """
    environ = {"PATH": os.environ["PATH"], "HOME": "/home/someone", "NODE_SECRET": "x"}
    options = {"environ": environ, **options}
    return lambda ended: ProcessExecutor(
        directory,
        node_id=NodeId("node-a"),
        store_id=store_id_of(directory),
        ended=ended,
        now=now,
        **options,
    )


def make_warden_executor(directory: Path) -> MakeExecutor:
    """Return a maker whose executor runs processes in a warden, which ends with it."""
    return lambda ended: HostedExecutor("process", directory, ended)


class HostedExecutor(WardenExecutor):
    """An executor in a warden, with the node's end of its socket.

    Attributes:
        link: The node's end of the socket.
        reports: Reports of attempts, in order.
        until: Expiry of the lease of all attempts.
    """

    def __init__(
        self,
        name: str,
        directory: Path,
        ended: Ended,
        *,
        lease: Duration = Duration(15 * SECOND),
        home: str = "/home/someone",
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.reports: list[tuple[AttemptKey, Report]] = []
        self.until = Instant(elapsed() + HOUR)
        self.link = WardenLink(
            directory,
            node_id=NodeId("node-a"),
            store_id=store_id_of(directory),
            lease=lease,
            now=now,
            environ={"PATH": os.environ["PATH"], "HOME": home, "NODE_SECRET": "x"},
        )
        events = AttemptEvents(ended, self._report)
        super().__init__(name, self.link, events, lambda order: Right(order.session, self.until))

    def _report(self, key: AttemptKey, report: Report) -> None:
        self.reports.append((key, report))

    async def begin(self) -> None:
        """Find or start the warden, and connect to it."""
        await self.link.connect()
        self._running = asyncio.get_running_loop().create_task(self.link.run())

    async def close(self, grace: Duration = CLOSE_GRACE) -> None:
        """Stop every attempt, then the warden."""
        await super().close(grace)
        await self.leave()
        await self.link.retire()

    async def leave(self) -> None:
        """Disconnect; the warden's attempts continue."""
        self._running.cancel()
        with suppress(asyncio.CancelledError):
            await self._running


def store_id_of(directory: Path) -> str:
    return f"test-{directory}"


def elapsed() -> Instant:
    return Instant(time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000)


def kill_leftovers(directory: Path) -> None:
    """End the remaining processes of a failed test."""
    assert end_orphans(store_id_of(directory)).pids_left == ()


def is_running(pid: int) -> bool:
    """Return True if the process *pid* runs and is no zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def now() -> Instant:
    return Instant(time.time_ns() // 1_000)


async def wait_until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not condition():  # noqa: ASYNC110 - what is waited for happens in other processes.
            await asyncio.sleep(0.002)


@asynccontextmanager
async def _host(make: MakeExecutor) -> AsyncGenerator[Host, None]:
    host = Host(make)
    if isinstance(host.executor, HostedExecutor):
        await host.executor.begin()
    try:
        yield host
    finally:
        await host.executor.close()
