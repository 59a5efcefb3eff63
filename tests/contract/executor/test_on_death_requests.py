"""Requests that a warden makes after the end of its node's process, and not before."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from contract.executor.executor_host import (
    EXECUTION_ID,
    FIRE_AT,
    LIMIT_S,
    TOKEN,
    kill_leftovers,
    wait_until,
)
from contract.executor.test_warden import life_of
from rota.core.model.attempt import AttemptKey, Order
from rota.core.model.work import Work
from rota.executor.warden.messages import (
    VERSION,
    Hello,
    Launch,
    OnDeath,
    OnDeathRequest,
    ToWarden,
    frames,
)
from rota.executor.warden.on_death_requests import post_all
from rota.executor.warden.paths import LOG, SOCKET, short_path
from support.rotad import end_warden, warden_of
from support.stopping import stop
from support.strange_servers import Strange, dead, refusing, serving

SPEAKER = """
import sys
from pathlib import Path
from contract.executor.test_on_death_requests import connected
end = connected(Path(sys.argv[1]))
end.sendall(bytes.fromhex(sys.argv[2]))
end.recv(1)
print("said", flush=True)
sys.stdin.readline()
end.close()
print("hung up", flush=True)
sys.stdin.readline()
"""
"""A process that greets the warden as a node would, sends messages, hangs up and keeps running.

It prints "said" after the warden's answer, when the warden has read all messages.
"""

LAST_WORDS = """
import sys
from pathlib import Path
from contract.executor.test_on_death_requests import connected
from contract.executor.test_warden import frames
from rota.executor.warden.messages import VERSION, Hello
end = connected(Path(sys.argv[1]))
end.sendall(b"".join(frames([Hello(VERSION)])))
end.recv(1)
print("said", flush=True)
sys.stdin.readline()
end.sendall(bytes.fromhex(sys.argv[2]))
print("hung up", flush=True)
sys.stdin.readline()
"""
"""A process that the warden has met, and that does not wait for the answer to its messages."""

NODE = """
import asyncio
import sys
from pathlib import Path
from contract.executor.executor_host import wait_until
from contract.executor.test_warden import life_of
from rota.executor.warden.messages import OnDeathRequest

async def live():
    async with life_of(Path(sys.argv[1])) as life:
        life.link.set_on_death(OnDeathRequest((sys.argv[2] + "/dead",), b""))
        print("said", flush=True)
        await wait_until(lambda: life.link.why_away is not None)
        await wait_until(lambda: life.link.why_away is None)
        print("met another", flush=True)
        await asyncio.sleep(3600)

asyncio.run(live())
"""
"""A process with the node's end of the socket, which leaves a request with the warden."""


class Speaker:
    """A process with a connection to the warden of *directory*, which has left requests with it.

    Args:
        directory: The data directory.
        said: Frames in hex that the process sends, or the URL of its request.
        script: The program.
    """

    def __init__(self, directory: Path, said: str, script: str = SPEAKER) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-c", script, str(directory), said],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        self.wait_for("said")

    def __enter__(self) -> "Speaker":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()

    def wait_for(self, word: str) -> None:
        """Wait until the process prints *word*."""
        assert self.process.stdout is not None
        assert self.process.stdout.readline().decode().strip() == word

    def hang_up(self) -> None:
        """Close the connection without ending the process."""
        assert self.process.stdin is not None
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()
        self.wait_for("hung up")

    def kill(self) -> None:
        """Kill the process."""
        self.process.kill()
        self.process.wait()


def speaking(directory: Path, *requests: OnDeath) -> Speaker:
    """Return a process that has left *requests*, each of which replaces the one before."""
    said: list[ToWarden] = [Hello(VERSION), *requests]
    return Speaker(directory, b"".join(frames(said)).hex())


def connected(directory: Path) -> socket.socket:
    """Return a connection to the warden of a data directory."""
    end = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with short_path(directory, SOCKET) as path:
        end.connect(path)
    return end


class Mailbox:
    """A server that records requests.

    Attributes:
        came: The path and the body of each request, in order of first arrival. On a busy machine
            an answer may come too late for the warden, which then repeats the request.
    """

    def __init__(self) -> None:
        self.came: list[tuple[str, bytes]] = []
        self.url = ""

    async def take(self, request: web.Request) -> web.Response:
        """Record a request."""
        recorded = request.path, await request.read()
        if recorded not in self.came:
            self.came.append(recorded)
        return web.Response(status=204)

    @asynccontextmanager
    async def open(self) -> AsyncGenerator["Mailbox"]:
        """Serve during the block."""
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self.take)
        async with TestServer(app) as server:
            self.url = str(server.make_url("")).rstrip("/")
            yield self

    def request(self, path: str, body: bytes = b"") -> OnDeathRequest:
        """Return a request to this server."""
        return OnDeathRequest((self.url + path,), body)

    async def wait(self, count: int) -> None:
        """Wait until *count* requests have been recorded."""
        await wait_until(lambda: len(self.came) >= count)


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "data"
    end_warden(tmp_path / "data")
    kill_leftovers(tmp_path / "data")


@pytest.fixture
async def mailbox() -> AsyncGenerator[Mailbox]:
    async with Mailbox().open() as mailbox:
        yield mailbox


async def begun(directory: Path) -> None:
    """Start a warden, without a connection to it."""
    async with life_of(directory):
        pass


# -- when requests are posted ----------------------------------------------------------------------


async def test_all_requests_are_posted_when_the_process_is_killed(
    directory: Path, mailbox: Mailbox
) -> None:
    await begun(directory)
    requests = OnDeath((mailbox.request("/one", b"first"), mailbox.request("/two", b"second")))
    with speaking(directory, requests) as speaker:
        speaker.kill()
        await mailbox.wait(2)

    assert sorted(mailbox.came) == [("/one", b"first"), ("/two", b"second")]


async def test_the_end_of_a_connection_is_no_proof_of_death(
    directory: Path, mailbox: Mailbox
) -> None:
    await begun(directory)
    with speaking(directory, OnDeath((mailbox.request("/dead"),))) as speaker:
        speaker.hang_up()
        # The connection that started the warden, and this one.
        await wait_until(lambda: (directory / LOG).read_text().count("connection lost") == 2)
        while_it_lived = list(mailbox.came)
        speaker.kill()
        await mailbox.wait(1)

    assert while_it_lived == []


async def test_a_closed_connection_leads_to_no_request_before_another_process_ends(
    directory: Path, mailbox: Mailbox
) -> None:
    await begun(directory)
    with speaking(directory, OnDeath((mailbox.request("/lives"),))) as first:
        first.hang_up()
        await wait_until(lambda: (directory / LOG).read_text().count("connection lost") == 2)
        # A wrong request for the first would have been posted before this one started.
        with speaking(directory, OnDeath((mailbox.request("/dead"),))) as second:
            second.kill()
            await mailbox.wait(1)

    assert mailbox.came == [("/dead", b"")]


async def test_a_stopped_process_does_not_count_as_ended(directory: Path, mailbox: Mailbox) -> None:
    await begun(directory)
    with speaking(directory, OnDeath((mailbox.request("/dead"),))) as speaker:
        stop(speaker.process.pid)
        await begun(directory)  # The warden answers another connection.

        assert mailbox.came == []


async def test_the_latest_requests_replace_earlier_ones(directory: Path, mailbox: Mailbox) -> None:
    await begun(directory)
    old, new = OnDeath((mailbox.request("/old"),)), OnDeath((mailbox.request("/new"),))
    with speaking(directory, old, new) as speaker:
        speaker.kill()
        await mailbox.wait(1)

    assert mailbox.came == [("/new", b"")]


async def test_a_process_that_greets_at_once_does_not_undo_the_requests_of_its_predecessor(
    directory: Path, mailbox: Mailbox
) -> None:
    await begun(directory)
    with connected(directory) as next_one:
        await begun(directory)  # By then the warden has accepted that connection.
        warden = warden_of(directory)
        with speaking(directory, OnDeath((mailbox.request("/dead"),))) as speaker:
            # The warden reads the next greeting in the same turn as this end, and before it.
            stop(warden)
            next_one.sendall(b"".join(frames([Hello(VERSION)])))
            speaker.kill()
            os.kill(warden, signal.SIGCONT)
            await mailbox.wait(1)

    assert mailbox.came == [("/dead", b"")]


async def test_a_launch_sent_right_before_the_end_is_listed_as_held(
    directory: Path, mailbox: Mailbox
) -> None:
    await begun(directory)
    warden = warden_of(directory)
    requests = OnDeath(
        (msgspec.structs.replace(mailbox.request("/dead", b"news"), includes_held=True),)
    )
    launched = Order(
        key=AttemptKey(EXECUTION_ID, "task", 1),
        token=TOKEN,
        work=Work(shell="true"),
        fire_at=FIRE_AT,
    )
    said: list[ToWarden] = [requests, Launch("group", launched)]

    with Speaker(directory, b"".join(frames(said)).hex(), LAST_WORDS) as speaker:
        stop(warden)
        speaker.hang_up()
        speaker.kill()
        os.kill(warden, signal.SIGCONT)
        await mailbox.wait(1)

    [(_, posted)] = mailbox.came
    assert msgspec.msgpack.decode(posted, type=tuple[bytes, list[AttemptKey]]) == (
        b"news",
        [launched.key],
    )


async def test_a_node_leaves_its_requests_with_every_warden_that_it_meets(
    directory: Path, mailbox: Mailbox
) -> None:
    with Speaker(directory, script=NODE, said=mailbox.url) as node:
        first = warden_of(directory)

        end_warden(directory)
        node.wait_for("met another")
        second = warden_of(directory)
        node.kill()
        await mailbox.wait(1)

    assert second not in (0, first)
    assert mailbox.came == [("/dead", b"")]


# -- how requests are posted -----------------------------------------------------------------------


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit for answers that even a busy machine meets."""
    for name in ("TRY_S", "WITHIN_S"):
        monkeypatch.setattr(f"rota.executor.warden.on_death_requests.{name}", LIMIT_S)


@pytest.mark.usefixtures("patient")
async def test_a_request_is_sent_to_the_first_url_that_answers() -> None:
    strange = Strange(refusing(404))

    with dead() as unreachable:
        async with serving(strange) as url:
            await post_all(
                [OnDeathRequest((f"{unreachable}/a", f"{url}/b"), b"body", {"X-Word": "kept"})]
            )

    [asked] = strange.asked
    assert (asked.method, asked.path, await asked.read()) == ("POST", "/b", b"body")
    assert asked.headers["X-Word"] == "kept"


@pytest.mark.usefixtures("patient")
async def test_a_request_is_repeated_until_an_answer_is_final() -> None:
    strange = Strange(refusing(503), refusing(500), refusing(403))

    async with serving(strange) as url:
        await post_all([OnDeathRequest((url,), b"")])

    assert len(strange.asked) == 3


async def test_a_request_that_no_node_accepts_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rota.executor.warden.on_death_requests.WITHIN_S", 0.2)

    with dead() as unreachable:
        async with asyncio.timeout(10):
            await post_all([OnDeathRequest((unreachable,), b"")])


async def test_an_undeliverable_request_does_not_delay_the_others(mailbox: Mailbox) -> None:
    with dead() as unreachable:
        async with asyncio.TaskGroup() as group:
            posting = group.create_task(
                post_all([OnDeathRequest((unreachable,), b""), mailbox.request("/other")])
            )
            await mailbox.wait(1)
            posting.cancel()

    assert mailbox.came == [("/other", b"")]
