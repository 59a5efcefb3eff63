"""Reasons and exit codes of ended containers."""

import re

import pytest

from rota.core.model.work import ResourceLimits
from rota.executor.container.engine import Engine, EngineSilent, Resources
from rota.executor.container.exit_reasons import reason_of, signal_of, unenforced


@pytest.mark.parametrize(
    ("exit_code", "number", "reason"),
    [
        (0, 0, ""),
        (1, 0, "exited with code 1"),
        (128, 0, "exited with code 128"),
        (137, 9, "ended by signal 9 (SIGKILL)"),
        (143, 15, "ended by signal 15 (SIGTERM)"),
        (163, 35, "ended by signal 35 (a real-time signal)"),
        (255, 0, "exited with code 255"),
    ],
)
def test_exit_code_above_128_is_that_of_a_signal(exit_code: int, number: int, reason: str) -> None:
    assert (signal_of(exit_code), reason_of(exit_code)) == (number, reason)


@pytest.mark.parametrize(
    ("asked", "given", "dropped"),
    [
        (ResourceLimits(), Resources(), []),
        (
            ResourceLimits(cpu=1, memory=9, pids=3),
            Resources(nano_cpus=1, memory=9, pids_limit=3),
            [],
        ),
        (ResourceLimits(cpu=1), Resources(cpu_quota=100_000), []),
        (ResourceLimits(cpu=1), Resources(nano_cpus=0, memory=0), ["processors"]),
        (
            ResourceLimits(memory=9, pids=3),
            Resources(memory=0, pids_limit=None),
            ["memory", "processes"],
        ),
    ],
)
def test_a_limit_that_the_engine_dropped_is_reported(
    asked: ResourceLimits, given: Resources, dropped: list[str]
) -> None:
    expected = tuple(f"the container engine's machine does not limit {what}" for what in dropped)

    assert unenforced(asked, given) == expected


@pytest.mark.parametrize(
    ("host", "why"),
    [
        ("unix:///no/such.sock", "No such file or directory"),
        ("tcp://127.0.0.1:1", "Connection refused"),
        ("tcp://no-such-host.invalid:2375", ".*(not known|resolution|No address).*"),
    ],
)
async def test_engine_that_is_not_there_is_named_with_what_to_do(host: str, why: str) -> None:
    engine = Engine(host)

    with pytest.raises(EngineSilent) as raised:
        await engine.find({})
    await engine.close()

    advice = "; start the engine, or set the node's DOCKER_HOST to another one"
    expected = f"the container engine at {re.escape(host)} cannot be reached: {why}{advice}"
    assert re.fullmatch(expected, str(raised.value))
