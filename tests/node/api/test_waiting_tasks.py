"""Tasks that have waited for minutes are troubles of their node, with the reason."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rota.core.timing.instants import MINUTE, Instant
from rota.node.api.documents.waiting_tasks import long_waits
from rota.node.runtime.wiring import NodeWiring
from rota.node.system.clock import SystemClock
from rota.storage.memory import MemoryStore
from support.in_process import running_works, save, trigger, until


class ForwardClock(SystemClock):
    """A wall clock that can be set forward."""

    ahead = 0

    def now(self) -> Instant:
        """Return the time, so many microseconds ahead."""
        return Instant(super().now() + self.ahead)


@pytest.fixture
def clock() -> ForwardClock:
    return ForwardClock()


@pytest.fixture
async def wiring(tmp_path: Path, clock: ForwardClock) -> AsyncIterator[NodeWiring]:
    async with running_works(MemoryStore(), tmp_path, slots=1, clock=clock) as wiring:
        yield wiring


async def test_tasks_that_wait_for_minutes_are_reported_with_the_used_slots(
    wiring: NodeWiring, clock: ForwardClock
) -> None:
    context = wiring.context
    job = await save(context.shards, "long", parameters={"sleepMs": 3_600_000})
    for _ in range(3):
        await trigger(context.shards, job)
    await until(lambda: context.attempts.slot_table.waiting == 2)

    soon = list(long_waits(context))
    clock.ahead = 7 * MINUTE + 1
    later = list(long_waits(context))

    assert soon == []
    [text] = later
    assert text.startswith("2 tasks wait for a slot, the first for 7 min: 1 of 1 slots of this")
    assert "`rota ps` lists the running executions" in text


async def test_tasks_whose_labels_no_node_has_are_reported_with_the_labels(
    wiring: NodeWiring, clock: ForwardClock
) -> None:
    context = wiring.context
    job = await save(context.shards, "picky", node_selector={"gpu": "a100"})
    await trigger(context.shards, job)
    await until(lambda: context.attempts.slot_table.waiting == 1)

    clock.ahead = 2 * MINUTE + 1

    assert list(long_waits(context)) == [
        "1 task waits for a slot, the first for 2 min: no living node has the labels gpu=a100"
    ]
