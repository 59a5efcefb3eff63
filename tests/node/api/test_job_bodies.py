"""Random bodies of jobs: the node continues, and a refusal names the invalid field."""

import json
import os
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, example, given, seed, settings
from hypothesis import strategies as st

from support.rotad import Refusal, Rotad

Json = Any  # Any, as JSON is.
Strategy = st.SearchStrategy[Json]

EXAMPLES = int(os.environ.get("CONTRACT_EXAMPLES", "15")) * 20
SEED = int(os.environ.get("CONTRACT_SEED", "1"))

# -- bodies ----------------------------------------------------------------------------------------

NUMBERS: Strategy = st.one_of(
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([0, -1, 2**31, 2**63, 2**64, 10**40, 1e308, -0.0]),
)
TEXTS = st.one_of(
    st.text(max_size=12),
    st.sampled_from(["", "\0", "\ud7ff", " ", "a/b", "..", "x" * 129, "é", "1h30m", "9" * 400]),
)
ANYTHING: Strategy = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
NAMES = st.sampled_from(["a", "b-2", "c.d", "e_f"])
TIMESPANS: Strategy = st.one_of(
    st.sampled_from([0, 1, 0.5, "10s", "1h30m", "365d", "366d", "-1s", "1x", "1e9d"]), NUMBERS
)
COMMANDS: Strategy = st.sampled_from(
    ["true", ["true"], ["true", "é"], "", [], [""], ["\0"], "true\0"]
)
SCHEDULES: Strategy = st.one_of(
    st.sampled_from(
        [
            *("@manual", "@daily", "0 6 * * *", "61 * * * *", "0 0 30 2 *", "@every 1d"),
            *("@every 0s", "@every -1s", "@every 1e99s", "@at 2027-01-01T00:00:00Z", "@at x", "@"),
            *("* * * * * * * *", "H H * * *", "L * * * *", "*/0 * * * *", "9-1 * * * *", "@every"),
        ]
    ),
    TEXTS,
)
ZONES = st.sampled_from(["UTC", "Europe/Berlin", "Mars/Olympus", "", "../etc/passwd", "\0"])
TYPES = st.sampled_from(["scripted", "process", "docker", ""])
STRINGS = st.dictionaries(st.one_of(st.just("KEY"), TEXTS), TEXTS, max_size=3)
RETRIES: Strategy = st.one_of(
    st.sampled_from([0, 1, 1000, 1001, -1]),
    NUMBERS,
    st.fixed_dictionaries(
        {"limit": st.one_of(st.just(1), NUMBERS)},
        optional={
            "backoff": st.sampled_from(["fixed", "explicit", "exponential", "random"]),
            "delay": TIMESPANS,
            "factor": NUMBERS,
            "maxDelay": TIMESPANS,
            "delays": st.lists(TIMESPANS, max_size=3),
            "jitter": NUMBERS,
            "onExitCodes": st.lists(NUMBERS, max_size=3),
            "neverOnExitCodes": st.lists(NUMBERS, max_size=3),
            "onExceptions": st.lists(TEXTS, max_size=3),
            "neverOnExceptions": st.lists(TEXTS, max_size=3),
            "onCauses": st.lists(TEXTS, max_size=3),
            "maxElapsed": TIMESPANS,
        },
    ),
)


BINDS = st.lists(
    st.sampled_from(["/a:/b", "/a:/b:rw", "/a", "a:/b", "/a:/b:x", "/a:\0", ":", ""]), max_size=3
)
SANDBOXES: Strategy = st.one_of(
    st.sampled_from(["none", "default", "strict", "tight"]),
    st.fixed_dictionaries(
        {},
        optional={
            "profile": st.sampled_from(["none", "strict"]),
            "network": st.booleans(),
            "binds": BINDS,
        },
    ),
)
LIMITS: Strategy = st.fixed_dictionaries(
    {},
    optional={
        "cpu": NUMBERS,
        "memory": st.one_of(NUMBERS, st.sampled_from(["512MiB", "1TB", "5M", "9" * 400 + "B"])),
        "pids": NUMBERS,
    },
)
FUNCTIONS: Strategy = st.one_of(
    st.sampled_from(["a:b", "a.b:c.d", "a", ":", "a b:c", "a:b:c"]),
    st.fixed_dictionaries(
        {"function": st.sampled_from(["a:b", "x", "\0:\0"])},
        optional={
            "args": st.lists(NUMBERS, max_size=2),
            "kwargs": STRINGS,
            "interpreter": st.sampled_from(["/usr/bin/python3", "python3", "/\0"]),
            "path": st.lists(st.sampled_from(["/srv", "lib", ""]), max_size=2),
        },
    ),
)
CONTAINERS: Strategy = st.one_of(
    st.sampled_from(["alpine", "", "a b", "é"]),
    st.fixed_dictionaries(
        {"image": st.sampled_from(["alpine", ""])},
        optional={
            "pull": st.sampled_from(["never", "sometimes"]),
            "network": st.sampled_from(["none", "a b"]),
            "binds": BINDS,
            "user": st.sampled_from(["1000:1000", "\0"]),
        },
    ),
)


def mostly(likely: Strategy) -> Strategy:
    """Return *likely*, but once in a while anything at all."""
    return st.integers(0, 9).flatmap(lambda dice: likely if dice else ANYTHING)


EXPRESSIONS = st.sampled_from(
    ["params.x", "param.x", "results.a ==", "{{ item }}", "(" * 2_000, "'" + "x" * 900, "a\0b"]
)
SHARED = {
    "command": mostly(COMMANDS),
    "type": mostly(TYPES),
    "parameters": ANYTHING,
    "env": mostly(STRINGS),
    "cwd": mostly(st.sampled_from(["", "/tmp", "tmp", "/\0"])),
    "stdin": mostly(TEXTS),
    "retries": mostly(RETRIES),
    "timeout": mostly(TIMESPANS),
    "stopGrace": mostly(TIMESPANS),
    "python": mostly(FUNCTIONS),
    "container": mostly(CONTAINERS),
    "sandbox": mostly(SANDBOXES),
    "limits": mostly(LIMITS),
    "nodeSelector": mostly(STRINGS),
}
TASKS: Strategy = st.fixed_dictionaries(
    {"name": mostly(NAMES)},
    optional={
        **SHARED,
        "needs": mostly(st.lists(mostly(NAMES), max_size=3)),
        "triggerRule": mostly(st.sampled_from(["all_success", "all_done", "one_failed"])),
        "when": mostly(EXPRESSIONS),
        "foreach": mostly(st.one_of(EXPRESSIONS, st.lists(ANYTHING, max_size=2))),
        "repeat": mostly(
            st.fixed_dictionaries(
                {"until": mostly(EXPRESSIONS), "limit": mostly(NUMBERS)},
                optional={"delay": mostly(TIMESPANS)},
            )
        ),
        "sleep": mostly(TIMESPANS),
        "approval": mostly(st.one_of(TEXTS, st.fixed_dictionaries({"form": ANYTHING}))),
        "skipExitCodes": mostly(st.lists(mostly(NUMBERS), max_size=2)),
        "unknown": ANYTHING,
    },
)
JOBS: Strategy = st.fixed_dictionaries(
    {},
    optional={
        "name": mostly(NAMES),
        "namespace": mostly(NAMES),
        "description": mostly(TEXTS),
        "schedule": mostly(SCHEDULES),
        "schedules": mostly(
            st.lists(
                st.one_of(
                    SCHEDULES,
                    st.fixed_dictionaries(
                        {"schedule": mostly(SCHEDULES)},
                        optional={"timezone": mostly(ZONES), "dayOr": mostly(st.booleans())},
                    ),
                ),
                max_size=3,
            )
        ),
        "timezone": mostly(ZONES),
        "tasks": mostly(st.lists(mostly(TASKS), max_size=4)),
        "dependencies": mostly(st.lists(mostly(NAMES), max_size=3)),
        "misfire": mostly(st.sampled_from(["all", "latest", "skip"])),
        "grace": mostly(TIMESPANS),
        "overlap": mostly(st.sampled_from(["allow", "skip", "queue_one"])),
        "priority": mostly(NUMBERS),
        "labels": mostly(STRINGS),
        "nmae": ANYTHING,
        **SHARED,
    },
)


@seed(SEED)
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(body=mostly(JOBS), is_whole=st.booleans())
@example(body={"name": "x", "a/b~c`d": 1}, is_whole=False)
@example(body={"name": "x", "env": {"/": 1}}, is_whole=True)
@example(body={"name": "x", "tasks": [{"name": "y", "command": "true", "~": 0}]}, is_whole=False)
def test_every_refusal_of_a_job_names_a_field_of_its_body(
    node: Rotad, body: Json, is_whole: bool
) -> None:
    if is_whole and isinstance(body, dict):
        given = cast("dict[str, Json]", body)  # isinstance cannot say of what.
        body = {"name": "whole", "type": "scripted", **given}
        body.pop("nmae", None)

    refusal = refusal_of(node, body)

    if refusal is not None:
        assert refusal.status < 500, refusal
    if refusal is not None and refusal.status == 422:
        pointers = [each["pointer"] for each in refusal.problem["errors"]]
        assert pointers, refusal
        assert [each for each in pointers if not could_be_in(body, each)] == [], refusal


@pytest.mark.parametrize("name", ["a/b", "a~b", "~1", "a`b", "`", "a\nb", "", " - at `$.name`"])
def test_an_unknown_field_is_pointed_at_whatever_its_name_is_made_of(
    node: Rotad, name: str
) -> None:
    refusal = refusal_of(node, {"name": "x", "command": "true", name: 1})

    assert refusal is not None
    [error] = refusal.problem["errors"]
    assert steps_of(error["pointer"]) == [name]


def refusal_of(node: Rotad, body: Json) -> Refusal | None:
    """Create a job and delete it, or return why it is not created."""
    try:
        made = node.call("POST", "/api/v1/jobs", json.dumps(body).encode())
    except Refusal as refusal:
        return refusal
    node.call("DELETE", f"/api/v1/jobs/{made['jobId']}")
    return None


def could_be_in(body: Json, pointer: str) -> bool:
    """Return True if *pointer* names a value in *body*, or a field missing in an object."""
    if not pointer:
        return True
    *path, last = steps_of(pointer)
    for step in path:
        if step not in members(body):
            return False
        body = members(body)[step]
    return isinstance(body, dict) or last in members(body)


def steps_of(pointer: str) -> list[str]:
    """Return the names in a JSON pointer (RFC 6901)."""
    return [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]


def members(value: Json) -> dict[str, Json]:
    """Return what a step of a JSON pointer may name in *value*."""
    if isinstance(value, list):
        return {str(place): item for place, item in enumerate(cast("list[object]", value))}
    return cast("dict[str, Json]", value) if isinstance(value, dict) else {}
