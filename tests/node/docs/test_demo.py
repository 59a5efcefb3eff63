"""The demonstration: its result does not depend on the moment of its end."""

import time
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from rota.client import Client
from rota.core.timing.instants import MILLISECOND, SECOND, parse_instant
from rota.node.system.clock import SystemClock
from support.rotad import Rotad

DECIDED = 8 * MILLISECOND
"""Time before a fire time at which the fire is decided and has not started."""
DEMO = Path(__file__).parents[3] / "examples" / "demo.py"


def demo() -> Any:  # Any: a module that is a program
    """Return the program, loaded and not run."""
    spec = spec_from_file_location("demo", DEMO)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_heartbeat_that_is_about_to_fire_when_the_demonstration_ends_is_not_cancelled(
    own_node: Rotad,
) -> None:
    with Client(own_node.start().url) as client:
        shown = demo().Demo(client)
        job = shown.create("heartbeat")
        left = parse_instant(str(job.next_fire_at)) - SystemClock().now()
        time.sleep(max(0, left - DECIDED) / SECOND)

        broken = shown.end_heartbeat(job)
        executions = shown.finished_executions()

    assert broken == []
    assert [execution.status for execution in executions] == ["success"] * len(executions) != []
