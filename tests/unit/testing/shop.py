"""A program with tasks, for tests that call them."""

import os
from typing import Any

import rota
from rota.client import result, skip

app = rota.App("shop")
failures: list[Exception] = []
"""The exceptions that the next calls of `orders` raise."""


@app.task(schedule="0 3 * * *", retries=3, backoff="fixed 10m")
def orders() -> list[int]:
    """Return the orders, unless it is to fail."""
    if failures:
        raise failures.pop(0)
    return [1, 2, 3]


async def total(rows: list[int] = result("orders")) -> int:
    """Return the sum of the orders."""
    return sum(rows)


def resumed(ctx: Any) -> object:  # Any: the context of a worker.
    """Save a checkpoint and fail; from the second attempt, return the checkpoint."""
    if ctx.last_checkpoint is None:
        ctx.checkpoint({"row": 7})
        raise ValueError("row 8 is broken")
    return [ctx.last_checkpoint, ctx.attempt, ctx.fire_time.isoformat()]


def nothing_today() -> None:
    """Skip."""
    skip("no orders")


def variables(name: str = "") -> list[str | None]:
    """Return a parameter, and the job in the environment."""
    return [name, os.environ.get("ROTA_JOB")]
