"""The warden across successive lives of a node."""

import asyncio
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from contract.executor.executor_host import (
    EXECUTION_ID,
    FIRE_AT,
    LIMIT_S,
    TOKEN,
    Host,
    HostedExecutor,
    elapsed,
    is_running,
    kill_leftovers,
    now,
    wait_until,
)
from rota.core.model.attempt import AttemptKey, Order, Outcome
from rota.core.model.work import Work
from rota.core.timing.instants import MILLISECOND, SECOND, Duration, Instant, later
from rota.executor.warden.messages import (
    VERSION,
    Allow,
    Beat,
    Beaten,
    Data,
    Ended,
    Held,
    Hello,
    Launch,
    Met,
    Read,
    Retire,
    Stop,
    ToNode,
    ToWarden,
    frames,
    node_reader,
)
from rota.executor.warden.paths import JOURNAL, LOCK, SOCKET, short_path
from support.rotad import end_warden, warden_of
from support.stopping import stop

LEASE = Duration(4 * SECOND)
KEY = AttemptKey(EXECUTION_ID, "task", 1)


class Life:
    """One life of a node."""

    def __init__(self, directory: Path, *, home: str = "/home/someone") -> None:
        self.host = Host(
            lambda ended: HostedExecutor("process", directory, ended, lease=LEASE, home=home)
        )
        assert isinstance(self.host.executor, HostedExecutor)
        self.executor = self.host.executor
        self.link = self.executor.link

    @property
    def held(self) -> list[AttemptKey]:
        """The attempts that the warden held when this life connected to it."""
        return [order.key for order in self.link.held]

    def allow(self, duration: Duration) -> None:
        """Extend the lease of all attempts to *duration* from now."""
        self.executor.until = later(elapsed(), duration)
        self.link.allow({"": self.executor.until})


@asynccontextmanager
async def life_of(directory: Path, *, home: str = "/home/someone") -> AsyncGenerator[Life]:
    """Run a node's end of the socket during the block; its warden keeps running."""
    life = Life(directory, home=home)
    await life.executor.begin()
    try:
        yield life
    finally:
        await life.executor.leave()
        await life.link.close()


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "data"
    end_warden(tmp_path / "data")
    kill_leftovers(tmp_path / "data")


def gated(gate: Path) -> Work:
    """Return work that ends when there is a file, and writes before and after."""
    return Work(shell=f"echo up; until test -e {gate}; do sleep 0.01; done; echo done")


# -- from life to life -----------------------------------------------------------------------------


async def test_an_attempt_continues_and_its_end_reaches_the_next_life(
    directory: Path, tmp_path: Path
) -> None:
    work = gated(tmp_path / "gate")
    async with life_of(directory) as first:
        first.host.launch(work, key=KEY)
        await first.host.output(KEY, containing=b"up")

    async with life_of(directory) as second:
        held = second.held
        second.host.resume(work, key=KEY)
        before = await second.host.output(KEY, containing=b"up")
        (tmp_path / "gate").touch()
        ending = await second.host.ending(KEY)

    assert held == [KEY]
    assert before == b"up\n"
    assert (ending.outcome, ending.output) == (Outcome.SUCCEEDED, b"up\ndone\n")


async def test_an_end_between_the_meeting_and_the_adoption_is_not_missed(
    directory: Path, tmp_path: Path
) -> None:
    work = gated(tmp_path / "gate")
    async with life_of(directory) as first:
        first.host.launch(work, key=KEY)
        await first.host.output(KEY, containing=b"up")

    async with life_of(directory) as second:
        (tmp_path / "gate").touch()
        await wait_until(lambda: b"ended" in (directory / JOURNAL).read_bytes())
        await second.executor.output(KEY)  # Its answer comes after every earlier report.
        second.host.resume(work, key=KEY)
        ending = await second.host.ending(KEY)

    assert (ending.outcome, ending.output) == (Outcome.SUCCEEDED, b"up\ndone\n")


async def test_an_ending_is_reported_to_every_life_until_one_confirms_its_record(
    directory: Path,
) -> None:
    async with life_of(directory) as first:
        first.host.launch(Work(shell="echo out; exit 3"), key=KEY)
        first_ending = await first.host.ending(KEY)

    async with life_of(directory) as second:
        second.host.resume(Work(), key=KEY)
        second_ending = await second.host.ending(KEY)
        second.link.forget(KEY)
    async with life_of(directory) as third:
        held = third.held
    end_warden(directory)
    async with life_of(directory) as fourth:
        held += fourth.held

    assert first_ending == second_ending
    assert (first_ending.exit_code, first_ending.output) == (3, b"out\n")
    assert held == []


async def test_a_running_attempt_is_not_forgotten_though_its_node_confirms_a_record(
    directory: Path, tmp_path: Path
) -> None:
    work = gated(tmp_path / "gate")
    async with life_of(directory) as first:
        first.host.launch(work, key=KEY)
        await first.host.output(KEY, containing=b"up")
        first.link.forget(KEY)
    async with life_of(directory) as second:
        held = second.held
        second.host.resume(work, key=KEY)
        (tmp_path / "gate").touch()
        ending = await second.host.ending(KEY)

    assert held == [KEY]
    assert ending.outcome is Outcome.SUCCEEDED


async def test_an_ending_survives_the_end_of_the_warden(directory: Path) -> None:
    async with life_of(directory) as first:
        first.host.launch(Work(shell="exit 3"), key=KEY)
        before = await first.host.ending(KEY)
    end_warden(directory)

    async with life_of(directory) as second:
        second.host.resume(Work(), key=KEY)
        after = await second.host.ending(KEY)

    assert before == after


async def test_what_runs_when_its_warden_is_killed_is_lost_and_what_comes_after_is_not(
    directory: Path,
) -> None:
    async with life_of(directory) as life:
        life.host.launch(Work(shell="echo up; sleep 600"), key=KEY)
        await life.host.output(KEY, containing=b"up")

        os.kill(warden_of(directory), signal.SIGKILL)
        lost = await life.host.ending(KEY)
        life.link.forget(KEY)
        next_one = await life.host.run(Work(shell="echo next"))

    assert lost.outcome is Outcome.LOST
    assert next_one.output == b"next\n"


async def test_what_is_asked_for_while_there_is_no_warden_is_done_by_the_next(
    directory: Path,
) -> None:
    async with life_of(directory) as life:
        await life.host.run(Work(shell="true"))
        end_warden(directory)
        await wait_until(lambda: life.link.why_away is not None)

        stopped = life.host.launch(Work(shell="sleep 600"))
        ending = await life.host.run(Work(shell="echo done"))
        life.host.stop(stopped)

        assert ending.output == b"done\n"
        assert (await life.host.ending(stopped)).outcome is Outcome.CANCELLED


async def test_a_question_that_cannot_be_sent_fails_alone(directory: Path) -> None:
    async with life_of(directory) as life:
        launched = life.host.launch(Work(shell="echo fine"))
        too_large = KEY._replace(number=1 << 70)

        with pytest.raises(OverflowError):
            async with asyncio.timeout(LIMIT_S):
                await life.executor.output(too_large)

        assert (await life.host.ending(launched)).output == b"fine\n"


async def test_what_was_sent_to_a_warden_that_is_gone_is_lost(directory: Path) -> None:
    async with life_of(directory) as life:
        await life.host.run(Work(shell="true"))
        end_warden(directory)

        # The loop has not noticed the end yet.
        ending = await life.host.run(Work(shell="echo never"))

    assert (ending.outcome, ending.reason) == (Outcome.LOST, "its warden ended")


async def test_an_attempt_missing_from_the_journal_is_found_by_its_mark(
    directory: Path, tmp_path: Path
) -> None:
    async with life_of(directory) as life:
        life.host.launch(Work(shell=f"echo $$ > {tmp_path}/pid; echo up; sleep 600"), key=KEY)
        await life.host.output(KEY, containing=b"up")
        pid = int((tmp_path / "pid").read_text())
        os.kill(int((directory / LOCK).read_text()), signal.SIGKILL)
        (directory / JOURNAL).unlink()

        ending = await life.host.ending(KEY)

    assert ending.outcome is Outcome.LOST
    assert not is_running(pid)


async def test_the_last_report_of_an_attempt_reaches_the_next_life(
    directory: Path, tmp_path: Path
) -> None:
    work = gated(tmp_path / "gate")
    reporting = Work(shell=f"echo 40 > $ROTA_PROGRESS; {work.shell}")
    async with life_of(directory) as first:
        first.host.launch(reporting, key=KEY)
        await wait_until(lambda: bool(first.executor.reports))

    async with life_of(directory) as second:
        second.host.resume(reporting, key=KEY)
        await wait_until(lambda: bool(second.executor.reports))

    assert [report.percent for _, report in second.executor.reports] == [40]


async def test_output_is_followed_to_its_end_though_it_is_not_kept(
    directory: Path, tmp_path: Path
) -> None:
    async with life_of(directory) as life:
        life.host.launch(gated(tmp_path / "gate"), key=KEY)
        await life.host.output(KEY, containing=b"up")
        output = await life.executor.output(KEY)
        assert output is not None
        followed = b""

        async for part in output.follow():
            followed += part
            (tmp_path / "gate").touch()
            await life.host.ending(KEY)

    assert followed == b"up\ndone\n"


# -- its time --------------------------------------------------------------------------------------


async def test_an_attempt_is_killed_when_its_time_is_over(directory: Path) -> None:
    async with life_of(directory) as life:
        allowed_at = now()
        life.allow(Duration(500 * MILLISECOND))
        key = life.host.launch(Work(shell="trap '' TERM; while :; do sleep 0.1; done"))
        ending = await life.host.ending(key)

    assert ending.outcome is Outcome.CANCELLED
    assert ending.reason == "killed, because its node had no right to run it any more"
    assert ending.finished_at - allowed_at >= 400 * MILLISECOND


async def test_an_attempt_continues_as_long_as_its_lease_is_extended(
    directory: Path, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    async with life_of(directory) as life:
        life.allow(Duration(SECOND))
        key = life.host.launch(gated(gate))
        until = life.executor.until
        while elapsed() < until + SECOND:
            life.allow(Duration(SECOND))
            await asyncio.sleep(0.1)
        gate.touch()
        ending = await life.host.ending(key)

    assert ending.outcome is Outcome.SUCCEEDED


async def test_what_succeeds_after_its_time_has_not(directory: Path) -> None:
    async with life_of(directory) as life:
        life.allow(Duration(SECOND))
        key = life.host.launch(Work(shell="echo up; sleep 600"))
        await life.host.output(key, containing=b"up")
        stop(warden_of(directory))
        await wait_until(lambda: elapsed() > life.executor.until)
        os.kill(warden_of(directory), signal.SIGCONT)
        late = life.host.launch(Work(shell="echo never"))

        endings = [await life.host.ending(each) for each in (key, late)]

    assert [each.outcome for each in endings] == [Outcome.CANCELLED] * 2
    assert endings[1].output == b""


async def test_a_launch_after_its_time_is_refused(directory: Path, tmp_path: Path) -> None:
    async with life_of(directory) as life:
        life.executor.until = Instant(elapsed() - 1)

        ending = await life.host.run(Work(shell=f"touch {tmp_path}/ran"))

    assert ending.outcome is Outcome.CANCELLED
    assert not (tmp_path / "ran").exists()


# -- who it listens to -----------------------------------------------------------------------------


def launch_of(work: Work) -> Launch:
    return Launch("g", Order(key=KEY, token=TOKEN, work=work, fire_at=FIRE_AT))


class Talker:
    """A node's end of a socket that says what the test wants."""

    def __init__(self, directory: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(LIMIT_S)
        with short_path(directory, SOCKET) as path:
            self._socket.connect(path)
        self._reader = node_reader()

    def say(self, *messages: ToWarden) -> None:
        """Send messages."""
        for frame in frames(messages):
            self.send(frame)

    def send(self, data: bytes) -> None:
        """Send bytes, which need not be a frame."""
        self._socket.sendall(data)

    def greet(self) -> None:
        """Become the connection that the warden accepts, and extend the lease of all attempts."""
        self.say(Hello(VERSION), Allow({"g": Instant(elapsed() + 600 * SECOND)}))
        self.receive_until(Met)

    def receive_until(self, last: type[ToNode]) -> list[ToNode]:
        """Return the messages up to the first of the kind *last*."""
        received: list[ToNode] = []
        while not any(isinstance(each, last) for each in received):
            data = self._socket.recv(1 << 16)
            assert data, f"the warden hung up after {received}"
            received += self._reader.feed(data)
        return received

    def is_hung_up(self) -> bool:
        """Wait for the end of the connection."""
        try:
            while self._socket.recv(1 << 16):
                pass
        except ConnectionError:
            pass
        return True

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()


async def test_what_an_older_connection_sent_is_not_done_once_a_newer_one_was_answered(
    directory: Path, tmp_path: Path
) -> None:
    async with life_of(directory):
        pass
    warden, older = warden_of(directory), Talker(directory)
    older.greet()
    stop(warden)

    newer = Talker(directory)
    newer.say(Hello(VERSION))
    older.say(launch_of(Work(shell=f"touch {tmp_path}/ran")))
    os.kill(warden, signal.SIGCONT)
    held = [each for each in newer.receive_until(Met) if isinstance(each, Held)]
    newer.say(Beat())
    newer.receive_until(Beaten)
    newest = Talker(directory)
    newest.say(Hello(VERSION))
    held_later = [each for each in newest.receive_until(Met) if isinstance(each, Held)]

    # The warden may have read the launch before the newer greeting, but then its answer has it.
    assert [each.order.key for each in held] == [each.order.key for each in held_later]
    assert older.is_hung_up()
    for talker in (older, newer, newest):
        talker.close()


async def test_a_launch_and_its_stop_may_come_together(directory: Path) -> None:
    async with life_of(directory):
        pass
    talker = Talker(directory)
    talker.greet()

    talker.say(launch_of(Work(shell="sleep 600")), Stop(KEY, None))
    [ended] = [each for each in talker.receive_until(Ended) if isinstance(each, Ended)]

    assert ended.ending.outcome is Outcome.CANCELLED
    talker.close()


async def test_a_patient_reader_is_answered_when_there_is_something(
    directory: Path, tmp_path: Path
) -> None:
    async with life_of(directory):
        pass
    talker, gate = Talker(directory), tmp_path / "gate"
    talker.greet()
    work = Work(shell=f"until test -e {gate}; do sleep 0.01; done; echo done; sleep 600")

    talker.say(launch_of(work), Read(7, "process", KEY, 0, 100, True), Beat())
    before = talker.receive_until(Beaten)
    gate.touch()
    after = talker.receive_until(Data)

    assert not any(isinstance(each, Data) for each in before)
    assert after[-1] == Data(7, True, False, b"done\n")
    talker.close()


async def test_a_node_of_another_version_gets_no_attempts_but_may_retire_the_warden(
    directory: Path,
) -> None:
    async with life_of(directory) as life:
        life.host.launch(Work(shell="sleep 600"), key=KEY)
    stranger = Talker(directory)

    stranger.say(Hello(VERSION + 1))
    received = stranger.receive_until(Met)
    stranger.say(Retire(Duration(0)))
    await wait_until(lambda: warden_of(directory) == 0)

    assert [type(each) for each in received] == [Met]
    stranger.close()


async def test_an_unknown_message_ends_the_connection_and_nothing_else(
    directory: Path,
) -> None:
    async with life_of(directory) as life:
        life.host.launch(Work(shell="sleep 600"), key=KEY)
    stranger = Talker(directory)

    stranger.send(b"\0\0\0\4what")

    assert stranger.is_hung_up()
    async with life_of(directory) as life:
        assert life.held == [KEY]
    stranger.close()


# -- its process -----------------------------------------------------------------------------------


async def test_its_socket_is_for_its_user_alone_however_deep_the_directory(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*["a-long-name-of-a-folder"] * 6)

    async with life_of(deep) as life:
        ending = await life.host.run(Work(shell="true"))
        mode = (deep / SOCKET).stat().st_mode
    end_warden(deep)

    assert len(str(deep / SOCKET)) > 108
    assert (stat.S_ISSOCK(mode), stat.S_IMODE(mode)) == (True, 0o600)
    assert ending.outcome is Outcome.SUCCEEDED


GREETS = """
import socket, sys
end = socket.socket(socket.AF_UNIX)
try:
    end.connect(sys.argv[1])
    end.sendall(bytes.fromhex(sys.argv[2]))
    print(len(end.recv(1 << 16)))
except ConnectionError:
    print(0)
"""


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="no bwrap: apt-get install bubblewrap")
async def test_a_process_in_a_sandbox_that_reaches_the_socket_is_refused(directory: Path) -> None:
    sandbox = ("bwrap", "--dev-bind", "/", "/", "--unshare-pid")
    hello = b"".join(frames([Hello(VERSION)])).hex()

    def answer(*inside: str) -> bytes:
        argv = (*inside, sys.executable, "-c", GREETS, str(directory / SOCKET), hello)
        done = subprocess.run(argv, capture_output=True, timeout=LIMIT_S)
        assert done.returncode == 0, done.stderr
        return done.stdout

    async with life_of(directory):
        answers = [await asyncio.to_thread(answer, *sandbox), await asyncio.to_thread(answer)]

    assert answers[0] == b"0\n"
    assert int(answers[1]) > 0


async def test_two_lives_that_start_at_once_get_one_warden(directory: Path) -> None:
    lives = [Life(directory), Life(directory)]

    await asyncio.gather(*(life.link.connect() for life in lives))
    guard = int((directory / LOCK).read_text())

    assert warden_of(directory)
    for life in lives:
        await life.link.close()
    assert int((directory / LOCK).read_text()) == guard


async def test_a_warden_made_otherwise_serves_while_it_has_attempts_and_is_then_replaced(
    directory: Path, tmp_path: Path
) -> None:
    work = gated(tmp_path / "gate")
    async with life_of(directory) as first:
        first.host.launch(work, key=KEY)
        await first.host.output(KEY, containing=b"up")
    before = warden_of(directory)

    async with life_of(directory, home="/home/other") as second:
        second.host.resume(work, key=KEY)
        while_it_runs = warden_of(directory)
        (tmp_path / "gate").touch()
        adopted = await second.host.ending(KEY)
        second.link.forget(KEY)
        ending = await second.host.run(Work(shell="echo $HOME"))
        after = warden_of(directory)

    assert before == while_it_runs
    assert adopted.outcome is Outcome.SUCCEEDED
    assert after not in (0, before)
    assert ending.output == b"/home/other\n"
