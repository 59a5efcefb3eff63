"""What a warden does when its node's process has ended, and not before."""

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
from rota.core.model.attempt import AttemptKey, Order, Work
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
"""A process that greets the warden as a node would, with more behind it, hangs up and lives on.

It has said so when the warden has answered, and so has read all of it.
"""

LAST_WORDS = SPEAKER.replace("end.recv(1)\n", "")
"""One that does not wait for the answer."""

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
"""A process that has the node's end of the socket, and leaves a will."""


class Speaker:
    """A process that speaks with the warden of *directory*, and has left a will.

    Args:
        directory: The data directory.
        said: What it is to say: frames in hex, or where its letter goes.
        script: What it does.
    """

    def __init__(self, directory: Path, said: str, script: str = SPEAKER) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-c", script, str(directory), said],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        self.hear("said")

    def __enter__(self) -> "Speaker":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()

    def hear(self, word: str) -> None:
        """Wait until it has said that."""
        assert self.process.stdout is not None
        assert self.process.stdout.readline().decode().strip() == word

    def hang_up(self) -> None:
        """Close the connection, and live on."""
        assert self.process.stdin is not None
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()
        self.hear("hung up")

    def kill(self) -> None:
        """End the process as nobody expects it."""
        self.process.kill()
        self.process.wait()


def speaking(directory: Path, *wills: OnDeath) -> Speaker:
    """Return a process that has left these wills, one after the other."""
    said: list[ToWarden] = [Hello(VERSION), *wills]
    return Speaker(directory, b"".join(frames(said)).hex())


def connected(directory: Path) -> socket.socket:
    """Return a connection to the warden of a data directory."""
    end = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with short_path(directory, SOCKET) as path:
        end.connect(path)
    return end


class Mailbox:
    """A server that takes letters.

    Attributes:
        came: The path and the body of each, in order of its first arrival. On a busy machine an
            answer may come too late for the warden, which then posts the letter again.
    """

    def __init__(self) -> None:
        self.came: list[tuple[str, bytes]] = []
        self.url = ""

    async def take(self, request: web.Request) -> web.Response:
        """Take a letter."""
        letter = request.path, await request.read()
        if letter not in self.came:
            self.came.append(letter)
        return web.Response(status=204)

    @asynccontextmanager
    async def open(self) -> AsyncGenerator["Mailbox"]:
        """Take letters while the body runs."""
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self.take)
        async with TestServer(app) as server:
            self.url = str(server.make_url("")).rstrip("/")
            yield self

    def letter(self, path: str, body: bytes = b"") -> OnDeathRequest:
        """Return a letter to here."""
        return OnDeathRequest((self.url + path,), body)

    async def wait(self, count: int) -> None:
        """Wait until so many have come."""
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
    """Have a warden, and nobody who speaks with it."""
    async with life_of(directory):
        pass


# -- when it is carried out ------------------------------------------------------------------------


async def test_all_letters_are_posted_when_the_process_is_killed(
    directory: Path, mailbox: Mailbox
) -> None:
    await begun(directory)
    will = OnDeath((mailbox.letter("/one", b"first"), mailbox.letter("/two", b"second")))
    with speaking(directory, will) as speaker:
        speaker.kill()
        await mailbox.wait(2)

    assert sorted(mailbox.came) == [("/one", b"first"), ("/two", b"second")]


async def test_a_connection_that_ends_proves_nothing(directory: Path, mailbox: Mailbox) -> None:
    await begun(directory)
    with speaking(directory, OnDeath((mailbox.letter("/dead"),))) as speaker:
        speaker.hang_up()
        # Of whoever began the warden, and of this one.
        await wait_until(lambda: (directory / LOG).read_text().count("connection lost") == 2)
        while_it_lived = list(mailbox.came)
        speaker.kill()
        await mailbox.wait(1)

    assert while_it_lived == []


async def test_a_connection_that_ends_has_no_letter_posted_before_another_process_dies(
    directory: Path, mailbox: Mailbox
) -> None:
    await begun(directory)
    with speaking(directory, OnDeath((mailbox.letter("/lives"),))) as first:
        first.hang_up()
        await wait_until(lambda: (directory / LOG).read_text().count("connection lost") == 2)
        # Whatever was posted for the first, by mistake, was posted before this one began.
        with speaking(directory, OnDeath((mailbox.letter("/dead"),))) as second:
            second.kill()
            await mailbox.wait(1)

    assert mailbox.came == [("/dead", b"")]


async def test_a_process_that_stands_still_is_not_dead(directory: Path, mailbox: Mailbox) -> None:
    await begun(directory)
    with speaking(directory, OnDeath((mailbox.letter("/dead"),))) as speaker:
        speaker.process.send_signal(signal.SIGSTOP)
        await begun(directory)  # By another, which the warden answers.

        assert mailbox.came == []


async def test_the_newest_will_counts(directory: Path, mailbox: Mailbox) -> None:
    await begun(directory)
    old, new = OnDeath((mailbox.letter("/old"),)), OnDeath((mailbox.letter("/new"),))
    with speaking(directory, old, new) as speaker:
        speaker.kill()
        await mailbox.wait(1)

    assert mailbox.came == [("/new", b"")]


async def test_a_life_that_begins_at_once_does_not_undo_the_will_of_the_one_before(
    directory: Path, mailbox: Mailbox
) -> None:
    await begun(directory)
    with connected(directory) as next_one:
        await begun(directory)  # By then that connection is heard.
        warden = warden_of(directory)
        with speaking(directory, OnDeath((mailbox.letter("/dead"),))) as speaker:
            # The greeting of the next is heard together with the end of this one, and before it.
            os.kill(warden, signal.SIGSTOP)
            next_one.sendall(b"".join(frames([Hello(VERSION)])))
            speaker.kill()
            os.kill(warden, signal.SIGCONT)
            await mailbox.wait(1)

    assert mailbox.came == [("/dead", b"")]


async def test_what_a_process_had_launched_with_its_last_words_is_told_to_be_held(
    directory: Path, mailbox: Mailbox
) -> None:
    await begun(directory)
    warden = warden_of(directory)
    will = OnDeath((msgspec.structs.replace(mailbox.letter("/dead", b"news"), includes_held=True),))
    launched = Order(
        key=AttemptKey(EXECUTION_ID, "task", 1),
        token=TOKEN,
        work=Work(shell="true"),
        fire_at=FIRE_AT,
    )
    said: list[ToWarden] = [Hello(VERSION), will, Launch("group", launched)]

    os.kill(warden, signal.SIGSTOP)
    with Speaker(directory, b"".join(frames(said)).hex(), LAST_WORDS) as speaker:
        speaker.kill()
        os.kill(warden, signal.SIGCONT)
        await mailbox.wait(1)

    [(_, posted)] = mailbox.came
    assert msgspec.msgpack.decode(posted, type=tuple[bytes, list[AttemptKey]]) == (
        b"news",
        [launched.key],
    )


async def test_a_node_tells_every_warden_that_it_meets(directory: Path, mailbox: Mailbox) -> None:
    with Speaker(directory, script=NODE, said=mailbox.url) as node:
        first = warden_of(directory)

        end_warden(directory)
        node.hear("met another")
        second = warden_of(directory)
        node.kill()
        await mailbox.wait(1)

    assert second not in (0, first)
    assert mailbox.came == [("/dead", b"")]


# -- how letters are posted ------------------------------------------------------------------------


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever posts waits longer for an answer than a busy machine takes to give it."""
    for name in ("TRY_S", "WITHIN_S"):
        monkeypatch.setattr(f"rota.executor.warden.on_death_requests.{name}", LIMIT_S)


@pytest.mark.usefixtures("patient")
async def test_a_letter_goes_to_the_first_that_answers() -> None:
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
async def test_a_letter_is_posted_again_until_somebody_says_what_became_of_it() -> None:
    strange = Strange(refusing(503), refusing(500), refusing(403))

    async with serving(strange) as url:
        await post_all([OnDeathRequest((url,), b"")])

    assert len(strange.asked) == 3


async def test_a_request_that_no_node_accepts_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rota.executor.warden.on_death_requests.WITHIN_S", 0.2)

    with dead() as unreachable:
        async with asyncio.timeout(10):
            await post_all([OnDeathRequest((unreachable,), b"")])


async def test_one_that_is_not_taken_does_not_hold_up_the_others(mailbox: Mailbox) -> None:
    with dead() as unreachable:
        async with asyncio.TaskGroup() as group:
            posting = group.create_task(
                post_all([OnDeathRequest((unreachable,), b""), mailbox.letter("/other")])
            )
            await mailbox.wait(1)
            posting.cancel()

    assert mailbox.came == [("/other", b"")]
