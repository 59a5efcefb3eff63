"""A training in epochs that continues from its checkpoint; examples/training.yaml runs it.

The checkpoint is the whole state of the training. A model of more than 64 KiB goes to storage that
all nodes reach, and the checkpoint is its place there.
"""

import time
from typing import Any

POINTS = [(x / 10, 3 * x / 10 + 1) for x in range(-10, 11)]
RATE = 0.1


def train(epochs: int, pause_s: float, ctx: Any) -> dict[str, Any]:
    """Fit the line of *POINTS* by gradient descent, and return it."""
    state = ctx.last_checkpoint or {"epoch": 0, "slope": 0.0, "offset": 0.0}
    first = state["epoch"]
    print(f"attempt {ctx.attempt} begins at epoch {first}", flush=True)  # noqa: T201 - the output of the task
    while state["epoch"] < epochs:
        errors = [(x, state["slope"] * x + state["offset"] - y) for x, y in POINTS]
        state = {
            "epoch": state["epoch"] + 1,
            "slope": state["slope"] - RATE * sum(2 * e * x for x, e in errors) / len(errors),
            "offset": state["offset"] - RATE * sum(2 * e for _, e in errors) / len(errors),
        }
        ctx.checkpoint(state)
        ctx.progress(100 * state["epoch"] / epochs)
        time.sleep(pause_s)
    return {**state, "began_at": first}
