"""The load of benchmarks: open, so that a stall is seen by all that was due in it."""

import asyncio

from bench.open_loop import open_loop

from rota.core.timing.instants import SECOND, Instant

RATE = 200.0


async def test_a_request_that_is_not_answered_does_not_delay_those_after_it() -> None:
    is_last_sent = asyncio.Event()
    sent: list[Instant] = []

    async def send(due: Instant) -> Instant:
        sent.append(due)
        if len(sent) == 5:
            is_last_sent.set()
        await is_last_sent.wait()  # A closed loop would wait here for ever.
        return due

    async with asyncio.timeout(30):
        answered = await open_loop(send, rate=RATE, count=5)

    assert answered == sent


async def test_requests_are_due_evenly_whenever_they_are_sent() -> None:
    async def send(due: Instant) -> Instant:
        return due

    first, *others = await open_loop(send, rate=RATE, count=5)

    assert [due - first for due in others] == [
        round(number * SECOND / RATE) for number in range(1, 5)
    ]
