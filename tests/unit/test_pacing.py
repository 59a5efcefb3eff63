"""Pauses of a handler that computes for long."""

import asyncio

from rota.node.api.pacing import SLICE_S, Pace


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
