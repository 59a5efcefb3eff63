"""Reports of a program in any language through files: progress, checkpoints, a result."""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from contract.executor.executor_host import (
    EXECUTION_ID,
    FIRE_AT,
    TOKEN,
    Host,
    Scenario,
    kill_leftovers,
    make_process_executor,
    run_scenario,
    wait_until,
)
from rota.core.model.attempt import (
    CHECKPOINT_BYTES_MAX,
    RESULT_BYTES_MAX,
    AttemptKey,
    Ending,
    Order,
    Outcome,
    Report,
)
from rota.core.model.work import Sandbox, Work
from rota.executor.launch.task_channel import CHECKPOINT, PROGRESS, RESULTS, TaskChannel, percent_in

T = TypeVar("T")

DEEP = "[" * 2_000 + "]" * 2_000

KEY = AttemptKey(EXECUTION_ID, "reports", 2)
SOCKET = 'import os, socket; socket.socket(socket.AF_UNIX).bind(os.environ["ROTA_RESULT"])'
GATE = "while [ ! -e {} ]; do sleep 0.01; done"


class Bench:
    """A process executor in a folder of its own.

    Attributes:
        reports: Reports of attempts, in order.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.reports: list[tuple[AttemptKey, Report]] = []

    def run(self, scenario: Scenario[T]) -> T:
        """Return what *scenario* returns, after closing the executor."""
        make = make_process_executor(self.directory, reported=self._record)
        return run_scenario("asyncio", make, scenario)

    def ending_of(
        self,
        shell: str,
        *,
        checkpoint: bytes = b"",
        results: bytes = b"",
        profile: str = "none",
    ) -> Ending:
        """Return the end of a shell line that is given *checkpoint* and *results*."""

        async def scenario(host: Host) -> Ending:
            work = Work(shell=shell, sandbox=Sandbox(profile=profile))
            host.executor.launch(
                Order(
                    key=KEY,
                    token=TOKEN,
                    work=work,
                    fire_at=FIRE_AT,
                    checkpoint=checkpoint,
                    results=results,
                )
            )
            return await host.ending(KEY)

        return self.run(scenario)

    def _record(self, key: AttemptKey, report: Report) -> None:
        self.reports.append((key, report))


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    yield Bench(tmp_path)
    kill_leftovers(tmp_path)


every_profile = pytest.mark.parametrize(
    "profile",
    [
        "none",
        pytest.param(
            "strict",
            marks=pytest.mark.skipif(shutil.which("bwrap") is None, reason="no bubblewrap"),
        ),
    ],
)


@every_profile
def test_progress_is_reported_while_the_attempt_runs(bench: Bench, profile: str) -> None:
    async def scenario(host: Host) -> None:
        shell = "echo 10 > $ROTA_PROGRESS; echo 50 >> $ROTA_PROGRESS; sleep 60"
        key = host.launch(Work(shell=shell, sandbox=Sandbox(profile=profile)))
        await wait_until(lambda: (key, Report(percent=50)) in bench.reports)

    bench.run(scenario)


def test_each_change_is_reported_once(bench: Bench) -> None:
    async def scenario(host: Host) -> None:
        first, second = bench.directory / "first", bench.directory / "second"
        shell = (
            f"echo 10 > $ROTA_PROGRESS; {GATE.format(first)}; "
            f"echo 20 > $ROTA_PROGRESS; {GATE.format(second)}"
        )
        key = host.launch(Work(shell=shell))
        await wait_until(lambda: len(bench.reports) == 1)
        first.touch()
        await wait_until(lambda: len(bench.reports) == 2)
        second.touch()
        await host.ending(key)

    bench.run(scenario)

    assert [report.percent for _, report in bench.reports] == [10, 20]


def test_the_last_report_is_not_lost_with_the_end(bench: Bench) -> None:
    ending = bench.ending_of(
        "echo 99 > $ROTA_PROGRESS; echo seen > x; mv x $ROTA_CHECKPOINT; exit 1"
    )

    assert ending.outcome is Outcome.FAILED
    assert [report.percent for _, report in bench.reports if report.percent] == [99]
    assert [report.checkpoint for _, report in bench.reports if report.checkpoint] == [b"seen\n"]


@every_profile
def test_a_checkpoint_reaches_the_next_attempt_and_is_not_reported_again(
    bench: Bench, profile: str
) -> None:
    ending = bench.ending_of("cat $ROTA_CHECKPOINT", checkpoint=b"row 17", profile=profile)

    assert ending.output == b"row 17"
    assert bench.reports == []


@every_profile
def test_results_of_needed_tasks_are_in_a_file(bench: Bench, profile: str) -> None:
    results = b'{"extract":{"rows":3},"silent":null}'

    ending = bench.ending_of("cat $ROTA_RESULTS", results=results, profile=profile)

    assert ending.output == results
    assert bench.reports == []


def test_a_task_that_needs_no_other_has_no_variable_for_results(bench: Bench) -> None:
    ending = bench.ending_of("test -z ${ROTA_RESULTS+set}")

    assert ending.outcome is Outcome.SUCCEEDED


def test_without_a_checkpoint_there_is_no_file(bench: Bench) -> None:
    ending = bench.ending_of("ls $ROTA_CHECKPOINT $ROTA_PROGRESS $ROTA_RESULT")

    assert ending.outcome is Outcome.FAILED


def test_checkpoint_that_is_too_large_is_not_saved_and_said_to_be(bench: Bench) -> None:
    ending = bench.ending_of(
        f"head -c {CHECKPOINT_BYTES_MAX + 1} /dev/zero > x; mv x $ROTA_CHECKPOINT"
    )

    assert bench.reports == []
    assert ending.outcome is Outcome.SUCCEEDED
    assert ending.reason == "its last checkpoint is not saved: it is larger than 65536 bytes"


def test_checkpoint_of_the_largest_size_is_saved(bench: Bench) -> None:
    bench.ending_of(f"head -c {CHECKPOINT_BYTES_MAX} /dev/zero > x; mv x $ROTA_CHECKPOINT")

    assert bench.reports == [(KEY, Report(checkpoint=bytes(CHECKPOINT_BYTES_MAX)))]


def test_empty_checkpoint_says_nothing(bench: Bench) -> None:
    bench.ending_of(": > $ROTA_CHECKPOINT", checkpoint=b"row 17")

    assert bench.reports == []


@every_profile
def test_result_is_handed_on(bench: Bench, profile: str) -> None:
    ending = bench.ending_of("echo '{\"rows\": 3}' > $ROTA_RESULT", profile=profile)

    assert (ending.outcome, ending.result) == (Outcome.SUCCEEDED, b'{"rows": 3}')


@pytest.mark.parametrize(
    ("shell", "reason"),
    [
        ("echo '{rows: 3}' > $ROTA_RESULT", "its result is not JSON: "),
        (f"echo '{DEEP}' > $ROTA_RESULT", "its result is nested too deeply"),
        ("printf '\"\\377\"' > $ROTA_RESULT", "its result is not JSON: "),
        (
            f"(printf '\"'; head -c {RESULT_BYTES_MAX} /dev/zero; echo '\"') > $ROTA_RESULT",
            "its result is larger than 1048576 bytes",
        ),
    ],
    ids=["not JSON", "deep", "not UTF-8", "too large"],
)
def test_bad_result_fails_the_attempt(bench: Bench, shell: str, reason: str) -> None:
    ending = bench.ending_of(shell)

    assert (ending.outcome, ending.exit_code, ending.result) == (Outcome.FAILED, 0, b"")
    assert ending.reason.startswith(reason)


def test_an_error_of_ours_in_reading_a_result_ends_the_attempt(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: TaskChannel) -> bytes:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(TaskChannel, "result", fail)

    ending = bench.ending_of("echo 1 > $ROTA_RESULT")

    assert ending.outcome is Outcome.FAILED
    assert ending.reason == "its reports cannot be read: ZeroDivisionError('a bug')"


def test_failed_attempt_hands_nothing_on(bench: Bench) -> None:
    ending = bench.ending_of("echo 1 > $ROTA_RESULT; exit 3")

    assert (ending.reason, ending.result) == ("exited with code 3", b"")


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        ("mkfifo $ROTA_RESULT", "a named pipe"),
        ("ln -s /etc/hostname $ROTA_RESULT", "a link"),
        ("ln -s /nowhere $ROTA_RESULT", "a link"),
        ("mkdir $ROTA_RESULT", "a folder"),
        (f"{sys.executable} -c {SOCKET!r}", "a socket"),
        pytest.param(
            *("mknod $ROTA_RESULT c 1 5", "a device"),  # /dev/zero
            marks=pytest.mark.skipif(os.geteuid() != 0, reason="only root makes devices"),
        ),
    ],
)
def test_a_result_that_is_no_file_fails_the_attempt(bench: Bench, make: str, kind: str) -> None:
    ending = bench.ending_of(make)

    assert (ending.outcome, ending.result) == (Outcome.FAILED, b"")
    assert ending.reason == f"its result is not read: it is {kind}, not a file"


def test_progress_and_checkpoint_that_are_no_files_are_named_in_the_reason(bench: Bench) -> None:
    ending = bench.ending_of("mkfifo $ROTA_PROGRESS; ln -s /etc/hostname $ROTA_CHECKPOINT")

    assert ending.outcome is Outcome.SUCCEEDED
    assert bench.reports == []
    assert ending.reason == (
        "its progress is not read: it is a named pipe, not a file; "
        "its checkpoint is not read: it is a link, not a file"
    )


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read all files")
def test_a_result_that_may_not_be_read_fails_the_attempt(bench: Bench) -> None:
    ending = bench.ending_of("echo 1 > $ROTA_RESULT; chmod 0 $ROTA_RESULT")

    assert ending.reason == "its result is not read: Permission denied"


@pytest.mark.parametrize(
    ("content", "percent"),
    [
        (b"50", 50),
        (b"50\n", 50),
        (b" 7 %\n", 7),
        (b"10\n20\n30\n", 30),
        (b'{"percent": 61.8}', 61),
        (b'loading\n{"percent": 5, "stage": "x"}\n', 5),
        (b"250", 100),
        (b"-3", 0),
        (b"0", 0),
        (b"", None),
        (b"half", None),
        (b"nan", None),
        (b"inf", None),
        (b'{"percent": "x"}', None),
        (b'{"percent"', None),
        (b'{"percent":' + DEEP.encode(), None),
        (b'{"x":' + DEEP.encode() + b',"percent":1}', None),
    ],
)
def test_percentage_is_that_of_the_last_line(content: bytes, percent: int | None) -> None:
    assert percent_in(content) == percent


def test_invalid_progress_appears_once_in_the_reason(bench: Bench) -> None:
    lines = (
        "for n in 1 2 3; do echo $n of many, of which there is no end to be seen > $ROTA_PROGRESS"
    )

    ending = bench.ending_of(f"{lines}; done")

    assert bench.reports == []
    assert ending.outcome is Outcome.SUCCEEDED
    shown = "3 of many, of which there is no end to b"
    assert ending.reason == f"its last progress is not a percentage: '{shown}'"


def test_progress_that_was_understood_in_the_end_is_no_complaint(tmp_path: Path) -> None:
    channel, file = TaskChannel(tmp_path), tmp_path / PROGRESS
    file.write_text("half")
    channel.news()
    complained = bool(channel.complaint)

    file.write_text("half\n50")
    channel.news()

    assert (complained, channel.complaint) == (True, "")


def test_last_line_of_a_long_progress_is_found(tmp_path: Path) -> None:
    (tmp_path / PROGRESS).write_text("".join(f"{n % 100}\n" for n in range(10_000)) + "42\n")

    assert TaskChannel(tmp_path).news() == Report(percent=42)


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_nothing_is_written_through_what_a_task_left_in_the_folder(
    tmp_path: Path, kind: str
) -> None:
    victim, folder = tmp_path / "victim", tmp_path / "folder"
    folder.mkdir()
    for name in (CHECKPOINT, RESULTS):
        if kind == "link":
            (folder / name).symlink_to(victim)
        else:
            os.mkfifo(folder / name)
    order = Order(
        key=KEY, token=TOKEN, work=Work(), fire_at=FIRE_AT, checkpoint=b"state", results=b"[1]"
    )

    TaskChannel(folder).begin(order)

    assert not victim.exists()
    assert ((folder / CHECKPOINT).read_bytes(), (folder / RESULTS).read_bytes()) == (
        b"state",
        b"[1]",
    )
