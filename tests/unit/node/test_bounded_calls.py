"""Blocking calls that return, and that hang."""

import asyncio
from collections.abc import Iterator
from threading import Event, current_thread

import pytest

from rota.node.system.bounded_calls import BoundedCalls

RUNNING_MAX = 3


def calls(within_s: float = 0.01) -> BoundedCalls:
    """Return calls with a short limit."""
    return BoundedCalls("a-call", within_s=within_s, running_max=RUNNING_MAX)


@pytest.fixture
def disk() -> Iterator[Event]:
    """A disk that responds once the event is set."""
    responds = Event()
    yield responds
    responds.set()


async def test_a_check_has_a_result_from_a_thread_that_cannot_delay_the_end_of_the_node() -> None:
    is_daemon = await calls(10).result(lambda: current_thread().daemon)

    assert is_daemon is True


async def test_a_check_that_hangs_has_no_result_and_delays_no_other(disk: Event) -> None:
    checks = calls()

    hung = await checks.result(disk.wait)
    other = await checks.result(lambda: "there")

    assert (hung, other) == (None, "there")


async def test_while_too_many_checks_hang_none_is_begun(disk: Event) -> None:
    checks = calls()
    await asyncio.gather(*(checks.result(disk.wait) for _ in range(RUNNING_MAX)))

    refused = await checks.result(lambda: "there")
    disk.set()
    async with asyncio.timeout(10):
        while await checks.result(lambda: "there") is None:  # noqa: ASYNC110 - threads end.
            await asyncio.sleep(0.001)

    assert refused is None
