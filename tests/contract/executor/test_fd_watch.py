"""Readable descriptors, watched through a single one: reported until they are removed."""

import asyncio
import os
from collections.abc import Coroutine, Generator
from contextlib import contextmanager

import pytest

from contract.executor.executor_host import LOOPS, wait_until
from rota.executor.kernel.fd_watch import FdWatch


@pytest.fixture(params=LOOPS)
def loop_name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def run(loop_name: str, scenario: Coroutine[None, None, None]) -> None:
    """Run *scenario* on a loop, and fail if a callback raised an exception."""
    errors: list[object] = []
    with asyncio.Runner(loop_factory=LOOPS[loop_name]) as runner:
        runner.get_loop().set_exception_handler(lambda _, context: errors.append(context))
        runner.run(scenario)
    assert errors == []


@contextmanager
def full_pipe() -> Generator[int]:
    """Yield a readable descriptor."""
    ours, theirs = os.pipe()
    os.write(theirs, b"x")
    yield ours
    os.close(ours)
    os.close(theirs)


def test_a_descriptor_is_reported_repeatedly_until_it_is_removed(loop_name: str) -> None:
    async def scenario() -> None:
        watch, reported = FdWatch(), list[int]()

        with full_pipe() as fd, full_pipe() as other:
            watch.add(fd, lambda: reported.append(fd))
            await wait_until(lambda: len(reported) > 1)
            watch.remove(fd)
            reported.clear()
            watch.add(other, lambda: reported.append(other))
            await wait_until(lambda: len(reported) > 1)

        assert set(reported) == {other}
        watch.close()

    run(loop_name, scenario())


def test_a_descriptor_removed_in_the_same_turn_is_not_reported(loop_name: str) -> None:
    async def scenario() -> None:
        watch, reported = FdWatch(), list[int]()

        with full_pipe() as fd, full_pipe() as other:

            def alone(this: int, that: int) -> None:
                reported.append(this)
                watch.remove(that)

            watch.add(fd, lambda: alone(fd, other))
            watch.add(other, lambda: alone(other, fd))
            await wait_until(lambda: len(reported) > 2)

        assert len(set(reported)) == 1
        watch.close()

    run(loop_name, scenario())


def test_removing_an_unwatched_descriptor_changes_nothing(loop_name: str) -> None:
    async def scenario() -> None:
        watch = FdWatch()

        with full_pipe() as fd:
            watch.remove(fd)
            watch.add(fd, lambda: None)
            watch.close()
            watch.remove(fd)
            watch.close()

    run(loop_name, scenario())
