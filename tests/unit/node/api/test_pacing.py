"""Pauses of a handler that computes for long."""

import asyncio
from itertools import count

from rota.node.system.pacing import SLICE_S, Pace, paced
from rota.wire.bodies.job_bodies import job_spec, reading
from rota.wire.documents import JobBody, TaskBody


def test_others_have_their_turn_once_a_slice_is_over_and_not_before() -> None:
    now = 0.0
    turns: list[float] = []

    async def other() -> None:
        turns.append(now)

    async def compute() -> None:
        nonlocal now
        pace = Pace(lambda: now)
        async with asyncio.TaskGroup() as group:
            group.create_task(other())
            for _ in range(4):
                await pace.rest()
                now += SLICE_S / 2

    asyncio.run(compute())

    assert turns == [SLICE_S]


def test_many_computations_take_one_slice_of_each_turn_of_the_loop() -> None:
    clock, events = count(), list[str]()

    async def other() -> None:
        while True:
            events.append("turn")
            await asyncio.sleep(0)

    async def compute() -> None:
        # By this clock each slice is over at once.
        pace = Pace(lambda: next(clock))
        await pace.next_slice()
        for _ in range(3):
            events.append("slice")
            await pace.rest()

    async def all_of_them() -> None:
        async with asyncio.TaskGroup() as group:
            others = group.create_task(other())
            async with asyncio.TaskGroup() as computations:
                cancelled, *_ = [computations.create_task(compute()) for _ in range(20)]
                await asyncio.sleep(0)
                cancelled.cancel()
            others.cancel()

    asyncio.run(all_of_them())

    slices_of_turns = "".join(each[0] for each in events).split("t")
    assert sum(map(len, slices_of_turns)) == 19 * 3
    assert max(map(len, slices_of_turns)) <= 2


def test_others_have_their_turns_while_the_tasks_of_a_job_are_read() -> None:
    """10,000 of them take 0.2 s."""
    names = [f"t{number}" for number in range(100)]
    body = JobBody(name="job", tasks=[TaskBody(name=name, command="true") for name in names])
    clock = count()
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def read() -> None:
        async with asyncio.TaskGroup() as group:
            others = group.create_task(other())
            # By this clock a second passes with each look at it.
            spec = await paced(reading(body), Pace(lambda: next(clock)))
            others.cancel()
        assert spec == job_spec(body)

    asyncio.run(read())

    assert turns >= len(names)
