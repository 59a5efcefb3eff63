"""One suite for every executor: what a node may rely on whatever runs its attempts."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol, TypeVar

import pytest
from msgspec.structs import replace

from contract.executor.container_host import BUSYBOX, make_container_executor
from contract.executor.executor_host import (
    EXECUTION_ID,
    Host,
    MakeExecutor,
    Scenario,
    kill_leftovers,
    make_process_executor,
    make_warden_executor,
    now,
    run_scenario,
)
from contract.executor.python_host import (
    PythonKind,
    make_hosted_python_executor,
    make_python_executor,
)
from rota.core.model.attempt import OUTPUT_TAIL_BYTES, AttemptKey, Ending, Outcome
from rota.core.model.work import Image, Work
from rota.core.timing.instants import MILLISECOND, SECOND, Duration
from rota.executor.testing.scripted_executor import ScriptedExecutor
from support.docker import needs_docker

T = TypeVar("T")


class Kind(Protocol):
    """How to ask one kind of executor for the same things.

    Attributes:
        many: How many attempts at once it ends within the time of a test.
    """

    many: int = 200

    def ends(self, *, exit_code: int = 0, output: str = "") -> Work:
        """Return work that writes *output* and ends with *exit_code*."""
        ...

    def lasts(self, *, timeout_ms: int = 0, output: str = "") -> Work:
        """Return work that writes *output* and would take a minute."""
        ...

    def is_bad(self) -> Work:
        """Return work that cannot even begin."""
        ...


class _ProcessKind(Kind):
    def ends(self, *, exit_code: int = 0, output: str = "") -> Work:
        return Work(shell=f"cat; exit {exit_code}", stdin=output)

    def lasts(self, *, timeout_ms: int = 0, output: str = "") -> Work:
        return Work(
            shell="cat; exec sleep 60", stdin=output, timeout=Duration(timeout_ms * MILLISECOND)
        )

    def is_bad(self) -> Work:
        return Work(argv=("no-such-program",))


class _ScriptedKind(Kind):
    def ends(self, *, exit_code: int = 0, output: str = "") -> Work:
        return self._work({"exitCode": exit_code, "output": output})

    def lasts(self, *, timeout_ms: int = 0, output: str = "") -> Work:
        return self._work({"sleepMs": 60_000, "output": output}, timeout_ms)

    def is_bad(self) -> Work:
        return self._work({"exitCode": "three"})

    def _work(self, parameters: dict[str, object], timeout_ms: int = 0) -> Work:
        return Work(
            executor="scripted",
            parameters=json.dumps(parameters),
            timeout=Duration(timeout_ms * MILLISECOND),
        )


class _ContainerKind(Kind):
    many = 12

    def ends(self, *, exit_code: int = 0, output: str = "") -> Work:
        return Work(image=BUSYBOX, shell=f"cat; exit {exit_code}", stdin=output)

    def lasts(self, *, timeout_ms: int = 0, output: str = "") -> Work:
        return replace(
            self.ends(output=output),
            shell="cat; exec sleep 60",
            timeout=Duration(timeout_ms * MILLISECOND),
        )

    def is_bad(self) -> Work:
        return Work(image=Image(name="no-such-image", pull="never"))


class Bench:
    """One kind of executor on one kind of loop."""

    def __init__(self, kind: Kind, loop: str, make: MakeExecutor) -> None:
        self.kind = kind
        self._loop = loop
        self._make = make

    def run(self, scenario: Scenario[T]) -> T:
        """Return what *scenario* returns, after closing the executor."""
        return run_scenario(self._loop, self._make, scenario)

    def ending_of(self, work: Work) -> Ending:
        """Return how an attempt at *work* ends."""

        async def scenario(host: Host) -> Ending:
            return await host.run(work)

        return self.run(scenario)


def make_scripted_executor(directory: Path) -> MakeExecutor:
    del directory
    return lambda ended: ScriptedExecutor(ended=ended, now=now)


ENTRANTS: dict[str, tuple[Kind, Callable[[Path], MakeExecutor]]] = {
    "process": (_ProcessKind(), make_process_executor),
    "process in the warden": (_ProcessKind(), make_warden_executor),
    "python": (PythonKind(), make_python_executor),
    "python in the warden": (PythonKind(), make_hosted_python_executor),
    "scripted": (_ScriptedKind(), make_scripted_executor),
}
"""Every executor: how to ask it for things, and how to make it in a folder."""


@pytest.fixture(
    params=[
        "process on asyncio",
        pytest.param("container on asyncio", marks=needs_docker),
        *(f"{name} on uvloop" for name in ENTRANTS),
    ]
)
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    name, loop = request.param.split(" on ")
    if name == "container":
        host = request.getfixturevalue("dockerd").host
        yield Bench(_ContainerKind(), loop, make_container_executor(host, tmp_path))
        return
    kind, make = ENTRANTS[name]
    yield Bench(kind, loop, make(tmp_path))
    kill_leftovers(tmp_path)


def test_success_carries_its_output_and_no_reason(bench: Bench) -> None:
    before = now()

    ending = bench.ending_of(bench.kind.ends(output="hello\n"))

    assert (ending.outcome, ending.exit_code, ending.signal) == (Outcome.SUCCEEDED, 0, 0)
    assert (ending.output, ending.output_bytes, ending.reason) == (b"hello\n", 6, "")
    assert before <= ending.started_at <= ending.finished_at <= now()


def test_failure_carries_its_exit_code_and_a_reason(bench: Bench) -> None:
    ending = bench.ending_of(bench.kind.ends(exit_code=3))

    assert (ending.outcome, ending.exit_code) == (Outcome.FAILED, 3)
    assert ending.reason == "exited with code 3"


def test_order_that_cannot_work_ends_as_failed_with_a_reason(bench: Bench) -> None:
    ending = bench.ending_of(bench.kind.is_bad())

    assert (ending.outcome, ending.exit_code, ending.signal) == (Outcome.FAILED, -1, 0)
    assert ending.reason


def test_record_keeps_the_last_part_of_a_long_output(bench: Bench) -> None:
    text = "".join(f"line {number}\n" for number in range(2_000))

    ending = bench.ending_of(bench.kind.ends(output=text))

    assert ending.output == text.encode()[-OUTPUT_TAIL_BYTES:]
    assert ending.output_bytes == len(text)


def test_stopped_attempt_is_cancelled(bench: Bench) -> None:
    async def scenario(host: Host) -> Ending:
        key = host.launch(bench.kind.lasts(output="up"))
        await host.output(key, containing=b"up")
        host.stop(key)
        return await host.ending(key)

    ending = bench.run(scenario)

    assert (ending.outcome, ending.signal) == (Outcome.CANCELLED, 15)
    assert (ending.reason, ending.output) == ("stopped on request", b"up")


def test_attempt_that_outlasts_its_timeout_is_timed_out(bench: Bench) -> None:
    ending = bench.ending_of(bench.kind.lasts(timeout_ms=30))

    assert (ending.outcome, ending.signal) == (Outcome.TIMED_OUT, 15)
    assert ending.reason == "still running after its timeout of 30ms"
    assert ending.finished_at - ending.started_at >= 30 * MILLISECOND - MILLISECOND


def test_stopping_what_is_unknown_or_has_ended_does_nothing(bench: Bench) -> None:
    async def scenario(host: Host) -> tuple[Ending, Ending]:
        host.stop(AttemptKey(EXECUTION_ID, "unknown", 1))
        key = host.launch(bench.kind.ends())
        first = await host.ending(key)
        host.stop(key)
        await host.run(bench.kind.ends())
        return first, await host.ending(key)

    first, last = bench.run(scenario)

    assert first == last
    assert first.outcome is Outcome.SUCCEEDED


def test_launching_a_running_attempt_again_is_a_bug(bench: Bench) -> None:
    async def scenario(host: Host) -> None:
        key = host.launch(bench.kind.lasts())
        with pytest.raises(AssertionError, match="launched twice"):
            host.launch(bench.kind.lasts(), key=key)

    bench.run(scenario)


def test_output_is_read_from_an_offset_while_the_attempt_runs(bench: Bench) -> None:
    async def scenario(host: Host) -> tuple[bytes, bytes, bytes, bool]:
        key = host.launch(bench.kind.lasts(output="0123456789"))
        await host.output(key, containing=b"9")
        output = await host.executor.output(key)
        assert output is not None
        parts = await output.read(4), await output.read(4, 3), await output.read(10)
        return *parts, output.is_complete

    rest, part, none, is_complete = bench.run(scenario)

    assert (rest, part, none, is_complete) == (b"456789", b"456", b"", False)


def test_following_ends_when_the_attempt_has_ended(bench: Bench) -> None:
    async def scenario(host: Host) -> tuple[bytes, bool]:
        key = host.launch(bench.kind.lasts(output="0123456789"))
        output = await host.executor.output(key)
        assert output is not None
        followed = b""
        async for part in output.follow():
            followed += part
            if followed.endswith(b"9"):
                host.stop(key)
        return followed, output.is_complete

    assert bench.run(scenario) == (b"0123456789", True)


def test_output_of_an_unknown_attempt_is_none(bench: Bench) -> None:
    async def scenario(host: Host) -> None:
        assert await host.executor.output(AttemptKey(EXECUTION_ID, "unknown", 1)) is None

    bench.run(scenario)


def test_every_attempt_ends_exactly_once_when_stops_race_with_exits(bench: Bench) -> None:
    async def scenario(host: Host) -> list[Ending]:
        stopped: list[AttemptKey] = []

        async def stop_when_another_ends(key: AttemptKey, other: AttemptKey) -> None:
            await host.ending(other)
            host.stop(key)
            host.stop(key)

        keys = [host.launch(bench.kind.ends(output="x")) for _ in range(bench.kind.many // 3)]
        host.stop(keys[0])
        for key, other in zip(keys[1:], keys, strict=False):
            await stop_when_another_ends(key, other)
            stopped.append(key)
        return [await host.ending(key) for key in keys]

    endings = bench.run(scenario)

    assert {ending.outcome for ending in endings} <= {Outcome.SUCCEEDED, Outcome.CANCELLED}
    for ending in endings:
        if ending.outcome is Outcome.SUCCEEDED:
            assert (ending.exit_code, ending.output) == (0, b"x")


def test_many_attempts_at_once_all_end(bench: Bench) -> None:
    async def scenario(host: Host) -> list[Ending]:
        keys = [
            host.launch(bench.kind.ends(exit_code=number % 7, output=str(number)))
            for number in range(bench.kind.many)
        ]
        return [await host.ending(key) for key in keys]

    endings = bench.run(scenario)

    assert [ending.exit_code for ending in endings] == [
        number % 7 for number in range(bench.kind.many)
    ]
    assert [ending.output for ending in endings] == [
        b"%d" % number for number in range(bench.kind.many)
    ]


def test_close_reports_what_it_stopped_and_takes_no_more(bench: Bench) -> None:
    async def scenario(host: Host) -> list[Ending]:
        running = host.launch(bench.kind.lasts(output="up"))
        await host.output(running, containing=b"up")
        only_launched = host.launch(bench.kind.lasts())
        await host.executor.close()
        with pytest.raises(AssertionError, match="after close"):
            host.launch(bench.kind.ends())
        return [*host.endings[running], *host.endings[only_launched]]

    endings = bench.run(scenario)

    assert [ending.outcome for ending in endings] == [Outcome.CANCELLED, Outcome.CANCELLED]


def test_attempt_that_is_not_there_any_more_is_resumed_as_lost(bench: Bench) -> None:
    key = AttemptKey(EXECUTION_ID, "task", 1)

    async def scenario(host: Host) -> tuple[Ending, Ending]:
        host.resume(bench.kind.lasts(), key=key)
        lost = await host.ending(key)
        return lost, await host.run(bench.kind.ends())

    lost, next_one = bench.run(scenario)

    assert (lost.outcome, lost.exit_code, lost.signal) == (Outcome.LOST, -1, 0)
    assert lost.reason
    assert next_one.outcome is Outcome.SUCCEEDED


def test_resuming_a_running_attempt_is_a_bug(bench: Bench) -> None:
    async def scenario(host: Host) -> None:
        key = host.launch(bench.kind.lasts())
        with pytest.raises(AssertionError, match="launched twice"):
            host.resume(bench.kind.lasts(), key=key)

    bench.run(scenario)


def test_attempt_whose_time_is_over_gets_no_grace(bench: Bench) -> None:
    async def scenario(host: Host) -> Ending:
        key = host.launch(bench.kind.lasts(output="up"))
        await host.output(key, containing=b"up")
        host.stop(key)
        host.stop(key, grace=Duration(0))
        return await host.ending(key)

    assert bench.run(scenario).outcome is Outcome.CANCELLED


def test_expiring_nothing_removes_nothing(bench: Bench) -> None:
    async def scenario(host: Host) -> int:
        await host.run(bench.kind.ends(output="x" * 100))
        return await host.executor.expire(now())

    assert bench.run(scenario) == 0


@pytest.mark.parametrize(("number", "outcome"), [(2, Outcome.FAILED), (3, Outcome.SUCCEEDED)])
def test_script_fails_its_first_attempts(number: int, outcome: Outcome) -> None:
    async def scenario(host: Host) -> Ending:
        key = AttemptKey(EXECUTION_ID, "task", number)
        work = Work(executor="scripted", parameters='{"failTimes": 2}')
        return await host.ending(host.launch(work, key=key))

    ending = run_scenario("uvloop", lambda ended: ScriptedExecutor(ended=ended, now=now), scenario)

    assert ending.outcome is outcome


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        ('{"sleepSeconds": 1}', "unknown field `sleepSeconds`"),
        ('{"sleepMs": "1"}', r"Expected `int`, got `str` - at `\$.sleepMs`"),
        ('{"outcome": "succeeded", "exitCode": 2}', "succeeded contradicts exitCode 2"),
        ('{"outcome"', "truncated"),
    ],
)
def test_bad_script_says_what_is_wrong(parameters: str, reason: str) -> None:
    async def scenario(host: Host) -> Ending:
        return await host.run(Work(executor="scripted", parameters=parameters))

    ending = run_scenario("uvloop", lambda ended: ScriptedExecutor(ended=ended, now=now), scenario)

    assert ending.outcome is Outcome.FAILED
    with pytest.raises(ValueError, match=reason):
        raise ValueError(ending.reason)


def test_script_sleeps_as_long_as_it_says() -> None:
    async def scenario(host: Host) -> Ending:
        return await host.run(Work(executor="scripted", parameters='{"sleepMs": 20}'))

    ending = run_scenario("uvloop", lambda ended: ScriptedExecutor(ended=ended, now=now), scenario)

    assert 19 * MILLISECOND <= ending.finished_at - ending.started_at <= 10 * SECOND
