"""The event loop on virtual time."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

import pytest

from sim.loop import Gate, Standstill, VirtualLoop

T = TypeVar("T")
DAY_S = 86_400


def run(main: Callable[[VirtualLoop], Coroutine[Any, Any, T]]) -> T:
    loop = VirtualLoop()  # type: ignore[abstract]  # as in the simulation
    return loop.run(main(loop))


def test_virtual_time_advances_at_once_and_to_the_microsecond() -> None:
    async def sleep(loop: VirtualLoop) -> int:
        await asyncio.sleep(DAY_S)
        await asyncio.sleep(0.000_001)
        return loop.now

    assert run(sleep) == DAY_S * 1_000_000 + 1


def test_timers_of_one_instant_run_in_the_order_of_their_creation() -> None:
    async def set_timers(loop: VirtualLoop) -> list[str]:
        called: list[str] = []
        loop.call_later(2, called.append, "late")
        loop.call_later(1, called.append, "first")
        loop.call_later(1, called.append, "second")
        await asyncio.sleep(3)
        return called

    assert run(set_timers) == ["first", "second", "late"]


def test_a_group_cancels_its_tasks_in_the_order_of_their_creation() -> None:
    async def cancel(loop: VirtualLoop) -> list[int]:
        del loop
        ended: list[int] = []

        async def work(number: int) -> None:
            try:
                await asyncio.sleep(DAY_S)
            finally:
                ended.append(number)

        with suppress(TimeoutError):
            async with asyncio.timeout(1), asyncio.TaskGroup() as group:
                for number in range(50):
                    group.create_task(work(number))
        return ended

    assert run(cancel) == list(range(50))


def test_a_wait_that_never_ends_is_an_error() -> None:
    async def wait(loop: VirtualLoop) -> None:
        await loop.create_future()

    with pytest.raises(Standstill, match="nothing will ever be"):
        run(wait)


def test_callbacks_that_never_wait_are_an_error() -> None:
    async def spin(loop: VirtualLoop) -> None:
        del loop
        while True:  # noqa: ASYNC110 - it is to be a loop that never waits
            await asyncio.sleep(0)

    with pytest.raises(Standstill, match="callbacks have run at"):
        run(spin)


def test_an_unhandled_error_ends_the_run() -> None:
    async def fail_later(loop: VirtualLoop) -> None:
        loop.call_later(1, int, "no number")
        await asyncio.sleep(DAY_S)

    with pytest.raises(ValueError, match="no number"):
        run(fail_later)


async def count_seconds(seen: list[int], loop: VirtualLoop) -> None:
    while True:
        await asyncio.sleep(1)
        seen.append(loop.now // 1_000_000)


def test_a_closed_gate_holds_the_callbacks_of_its_process_until_it_is_opened() -> None:
    async def pause(loop: VirtualLoop) -> list[int]:
        seen: list[int] = []
        gate = Gate("paused")
        async with asyncio.TaskGroup() as group:
            task = group.create_task(count_seconds(seen, loop), context=gate.context)
            await asyncio.sleep(2.5)
            gate.close()
            await asyncio.sleep(4)
            gate.open()
            await asyncio.sleep(1.2)
            task.cancel()
        return seen

    # What was due at 3 s happens at 6.5 s; the process did not notice the time between.
    assert run(pause) == [1, 2, 6, 7]


def test_a_removed_gate_drops_all_callbacks() -> None:
    async def remove(loop: VirtualLoop) -> list[int]:
        seen: list[int] = []
        gate = Gate("removed")
        for delay in (1, 2, 3):
            loop.call_later(delay, seen.append, delay, context=gate.context)
        await asyncio.sleep(1.5)
        gate.remove()
        await asyncio.sleep(3)
        return seen

    assert run(remove) == [1]
