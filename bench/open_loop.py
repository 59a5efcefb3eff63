"""Load that does not wait: each request is sent when it is due, even if earlier ones still run.

A closed loop sends the next request when the last one is answered. While the system stalls, such a
loop sends no requests, and one slow response stands for the many that would have been slow
("coordinated omission", Gil Tene). Here, a stall of a second at 100 requests per second gives 100
late samples.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from rota.core.timing.instants import SECOND, Instant

T = TypeVar("T")
SPUN_S = 0.0015


async def open_loop(send: Callable[[Instant], Awaitable[T]], *, rate: float, count: int) -> list[T]:
    """Send *count* requests, evenly spread; return the results in order.

    Args:
        send: Sends a request. It gets the instant at which the request is due, from which the
            latency counts. It may be called later if this process gets no processor; on a shared
            machine, such a delay cannot be distinguished from one of the measured system.
        rate: The number of requests per second.
        count: The number of requests.
    """
    loop = asyncio.get_running_loop()
    began, began_at = loop.time(), time.time_ns() // 1_000
    async with asyncio.TaskGroup() as group:
        sent: list[asyncio.Task[T]] = []
        for number in range(count):
            await _until(loop, began + number / rate)
            due = Instant(began_at + round(number / rate * SECOND))
            sent.append(group.create_task(_sent(send, due)))
    return [each.result() for each in sent]


async def _until(loop: asyncio.AbstractEventLoop, due: float) -> None:
    """Return at *due*; the last millisecond is spent in a busy loop.

    The timers of a loop have a resolution of milliseconds, and their rounding would otherwise count
    as latency of the measured system.
    """
    await asyncio.sleep(max(0.0, due - SPUN_S - loop.time()))
    while loop.time() < due:  # noqa: ASYNC110 - what is waited for is the time
        await asyncio.sleep(0)


async def _sent(send: Callable[[Instant], Awaitable[T]], due: Instant) -> T:
    return await send(due)
