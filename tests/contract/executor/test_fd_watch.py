"""Descriptors heard by way of one: until removed, and never one that is removed already."""

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
    """Run *scenario* on a loop in which nothing fails meanwhile."""
    errors: list[object] = []
    with asyncio.Runner(loop_factory=LOOPS[loop_name]) as runner:
        runner.get_loop().set_exception_handler(lambda _, context: errors.append(context))
        runner.run(scenario)
    assert errors == []


@contextmanager
def full_pipe() -> Generator[int]:
    """Give a descriptor that can be read."""
    ours, theirs = os.pipe()
    os.write(theirs, b"x")
    yield ours
    os.close(ours)
    os.close(theirs)


def test_descriptor_is_heard_again_and_again_until_it_is_removed(loop_name: str) -> None:
    async def scenario() -> None:
        watch, heard = FdWatch(), list[int]()

        with full_pipe() as fd, full_pipe() as other:
            watch.add(fd, lambda: heard.append(fd))
            await wait_until(lambda: len(heard) > 1)
            watch.remove(fd)
            heard.clear()
            watch.add(other, lambda: heard.append(other))
            await wait_until(lambda: len(heard) > 1)

        assert set(heard) == {other}
        watch.close()

    run(loop_name, scenario())


def test_one_that_another_has_removed_in_the_same_turn_is_not_heard(loop_name: str) -> None:
    async def scenario() -> None:
        watch, heard = FdWatch(), list[int]()

        with full_pipe() as fd, full_pipe() as other:

            def alone(this: int, that: int) -> None:
                heard.append(this)
                watch.remove(that)

            watch.add(fd, lambda: alone(fd, other))
            watch.add(other, lambda: alone(other, fd))
            await wait_until(lambda: len(heard) > 2)

        assert len(set(heard)) == 1
        watch.close()

    run(loop_name, scenario())


def test_removing_what_is_not_watched_changes_nothing(loop_name: str) -> None:
    async def scenario() -> None:
        watch = FdWatch()

        with full_pipe() as fd:
            watch.remove(fd)
            watch.add(fd, lambda: None)
            watch.close()
            watch.remove(fd)
            watch.close()

    run(loop_name, scenario())
