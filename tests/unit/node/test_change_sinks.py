"""Destinations of changes: real files and sockets, which are moved, cut off and restarted."""

import asyncio
import json
import os
import resource
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rota.node.system import change_sinks
from rota.node.system.change_sinks import ChangeFile, ExportedLine, SinkAway, Syslog
from rota.node.system.config_values import SYSLOG, SyslogTarget
from support.in_process import until

LINES = [ExportedLine(f"2027-01-04T12:00:0{n}Z", b'{"number":%d}' % n) for n in range(3)]
HEAD = f"<110>1 2027-01-04T12:00:00Z {socket.gethostname()} rota node-a change - "


class Receiver:
    """A receiver of syslog over TCP, with all that it has received."""

    def __init__(self) -> None:
        self.received = b""
        self.port = 0
        self._server: asyncio.Server | None = None
        self._writers: list[asyncio.StreamWriter] = []

    async def start(self) -> None:
        """Listen, on the same port as before."""
        self._server = await asyncio.start_server(self._receive, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """End, with all connections."""
        assert self._server is not None
        self._server.close()
        for each in self._writers:
            each.close()
            await each.wait_closed()
        self._writers.clear()
        await self._server.wait_closed()

    async def _receive(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        while part := await reader.read(1_000):
            self.received += part

    @property
    def target(self) -> SyslogTarget:
        """The address of the receiver."""
        return SyslogTarget("tcp", "127.0.0.1", self.port)

    def messages(self) -> list[str]:
        """Return the messages, of which each has its length before it."""
        found: list[str] = []
        rest = self.received
        while rest:
            length, _, rest = rest.partition(b" ")
            if len(rest) < int(length):
                break  # The rest is on the way.
            found.append(rest[: int(length)].decode())
            rest = rest[int(length) :]
        return found


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    receiver = Receiver()
    await receiver.start()
    yield receiver
    await receiver.stop()


async def test_a_file_has_one_document_a_line_and_no_other_user_can_read_it(
    tmp_path: Path,
) -> None:
    file = tmp_path / "changes.jsonl"
    sink = ChangeFile(file)

    await sink.send(LINES[:2])
    await sink.send(LINES[2:])

    sink.close()
    assert numbers_in(file) == [0, 1, 2]
    assert file.stat().st_mode & 0o777 == 0o600


async def test_a_file_that_was_moved_is_followed_by_a_new_one(tmp_path: Path) -> None:
    file, moved = tmp_path / "changes.jsonl", tmp_path / "changes.jsonl.1"
    sink = ChangeFile(file)
    await sink.send(LINES[:1])

    file.rename(moved)
    await sink.send(LINES[1:])

    assert (numbers_in(moved), numbers_in(file)) == ([0], [1, 2])


async def test_a_line_that_was_written_by_half_is_ended(tmp_path: Path) -> None:
    file = tmp_path / "changes.jsonl"
    file.write_text('{"numb')

    await ChangeFile(file).send(LINES[:1])

    assert file.read_text() == '{"numb\n{"number":0}\n'


async def test_a_file_that_cannot_be_written_is_reported_and_used_again_later(
    tmp_path: Path,
) -> None:
    file = tmp_path / "logs" / "changes.jsonl"
    sink = ChangeFile(file)

    with pytest.raises(SinkAway, match=r"changes\.jsonl: No such file or directory"):
        await sink.send(LINES)
    file.parent.mkdir()
    await sink.send(LINES)

    assert numbers_in(file) == [0, 1, 2]


async def test_a_new_file_is_in_its_folder_on_the_disk_before_its_lines_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    sync = os.fsync

    def noted(file: int) -> None:
        synced.append(os.fstat(file).st_ino)
        sync(file)

    monkeypatch.setattr(os, "fsync", noted)
    file = tmp_path / "changes.jsonl"

    await ChangeFile(file).send(LINES)

    assert synced == [os.stat(tmp_path).st_ino, os.stat(file).st_ino]


async def test_a_full_disk_leaves_no_line_by_half_and_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "changes.jsonl"
    sink = ChangeFile(file)
    await sink.send(LINES[:1])
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    resource.setrlimit(resource.RLIMIT_FSIZE, (20, before[1]))  # The second line fits by half.
    try:
        with pytest.raises(SinkAway, match=r"changes\.jsonl: File too large"):
            await sink.send(LINES[1:])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert numbers_in(file) == [0]
    await sink.send(LINES[1:])

    assert numbers_in(file) == [0, 1, 2]


async def test_a_destination_that_hangs_is_reported_and_delays_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_sinks, "WITHIN_S", 0.05)
    pipe = tmp_path / "changes.jsonl"
    os.mkfifo(pipe)
    much = [ExportedLine(LINES[0].at, b"x" * 100_000)]  # More than a pipe takes.
    sink = ChangeFile(pipe)

    for _ in range(2):
        with pytest.raises(SinkAway, match=r"changes\.jsonl: no response within 0\.05 s"):
            await sink.send(much)
    sink.close()

    with pipe.open("rb") as reader:  # So that the thread ends.
        assert len(reader.read(100_001)) == 100_001


async def test_a_name_that_no_host_can_have_is_reported() -> None:
    with pytest.raises(SinkAway, match=r"tcp://a\.\.b:1: "):
        await Syslog(SyslogTarget("tcp", "a..b", 1), "node-a").send(LINES)


async def test_messages_over_tcp_have_the_form_of_syslog(receiver: Receiver) -> None:
    sink = Syslog(receiver.target, "node-a")

    await sink.send(LINES)

    await until(lambda: len(receiver.messages()) == 3)
    sink.close()
    assert receiver.messages()[0] == HEAD + '{"number":0}'


async def test_a_receiver_that_ended_is_reported_and_used_again_later(
    receiver: Receiver,
) -> None:
    sink = Syslog(receiver.target, "node-a")
    await sink.send(LINES[:1])
    await until(lambda: len(receiver.messages()) == 1)
    await receiver.stop()

    with pytest.raises(SinkAway, match=r"tcp://127\.0\.0\.1"):
        await sink.send(LINES[1:])

    await receiver.start()
    await sink.send(LINES[1:])
    await until(lambda: len(receiver.messages()) == 3)
    sink.close()


@pytest.mark.parametrize("transport", ["udp", "unix"])
async def test_each_datagram_is_a_message(transport: str, tmp_path: Path) -> None:
    family = socket.AF_UNIX if transport == "unix" else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "log") if transport == "unix" else ("127.0.0.1", 0))
        listening.settimeout(10)
        host, port = str(tmp_path / "log"), 0
        if transport == "udp":
            host, port = listening.getsockname()

        sink = Syslog(SyslogTarget(transport, host, port), "node-a")

        await sink.send(LINES)

        sink.close()
        found = [listening.recv(10_000).decode() for _ in LINES]
    assert found[0] == HEAD + '{"number":0}'
    assert len(found) == 3


@pytest.mark.parametrize(
    ("given", "target"),
    [
        ("log.example.org:601", SyslogTarget("tcp", "log.example.org", 601)),
        ("tcp://[::1]:601", SyslogTarget("tcp", "::1", 601)),
        ("udp://10.0.0.1:514", SyslogTarget("udp", "10.0.0.1", 514)),
        ("/dev/log", SyslogTarget("unix", "/dev/log", 0)),
        ("", None),
    ],
)
def test_a_receiver_is_read_from_its_text(given: str, target: SyslogTarget | None) -> None:
    assert SYSLOG.parse(given) == target
    if target is not None:
        assert SYSLOG.parse(str(target)) == target


@pytest.mark.parametrize("given", ["tls://a:1", "a", "udp://a", "://a:1"])
def test_another_text_is_refused(given: str) -> None:
    with pytest.raises(ValueError, match="HOST:PORT"):
        SYSLOG.parse(given)


def numbers_in(file: Path) -> list[int]:
    return [json.loads(line)["number"] for line in file.read_text().splitlines()]
