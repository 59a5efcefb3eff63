"""Random jobs of simulated users."""

from random import Random
from typing import Any, Literal
from zlib import crc32

from msgspec.structs import replace

from rota.core.model.job import JobSpec
from rota.wire.bodies.job_bodies import job_spec
from rota.wire.documents import (
    ApprovalBody,
    CaseBody,
    ForeachBody,
    HookBody,
    JobBody,
    RepeatBody,
    RetryBody,
    ScheduleBody,
    TaskBody,
    WaitForEventBody,
)
from sim.cluster.plan import NO_POOL, POOLS

SECOND_FIELDS = ("*/2", "*/3", "7", "10,40", "5/7", "20-25", "*/10")
TEARDOWN = "teardown"
"""The name of the teardown of some graphs."""
EVENT = "go"
"""The event that some graphs wait for."""
INTERVALS = ("1s", "2s", "2500ms", "5s phase 1s", "7s")


def draw_job(
    chance: Random,
    name: str,
    upstreams: list[str],
    *,
    has_pools: bool = False,
    has_reruns: bool = False,
    has_hooks: bool = False,
) -> JobSpec:
    """Draw a job.

    Args:
        chance: Of its user.
        name: Unique.
        upstreams: Full names of jobs that it may depend on.
        has_pools: Whether nodes have labels.
        has_reruns: Whether most jobs are graphs, and some have deadlines.
        has_hooks: Whether jobs have hooks.
    """
    kinds = ["interval", "cron", "graph", "manual", *(["graph"] * 4 if has_reruns else ())]
    kind = chance.choice(kinds)
    fields: dict[str, Any] = {
        "overlap": chance.choice(["allow", "allow", "skip", "queue_one"]),
        "misfire": chance.choice(["all", "latest", "skip"]),
        "grace": chance.choice(["1s", "10s"]),
        "priority": chance.choice([0, 0, 5]),
    }
    # By the name and not by chance, so that seeds stay the worlds that they were.
    if fields["overlap"] != "allow" and crc32(name.encode()) % 3 == 0:
        fields["max_parallel"] = 2
    if fields["overlap"] != "allow" and crc32(name.encode()) // 3 % 3 == 0:
        fields["concurrency_key"] = "params.sleepMs | default(0)"
    if crc32(name.encode()) // 9 % 4 == 0:
        fields["misfire_window"] = "20s"
    if fields["misfire"] == "all" and crc32(name.encode()) // 9 % 4 < 2:
        fields["misfire_max"] = 2
    if crc32(name.encode()) % 7 == 0:
        fields["pause_after_failures"] = 2
    match kind:
        case "interval":
            fields["schedule"] = f"@every {chance.choice(INTERVALS)}"
        case "cron":
            fields["schedule"] = f"{chance.choice(SECOND_FIELDS)} * * * * *"
        case "graph":
            fields["schedule"] = chance.choice(["@manual", "@every 5s"])
            tasks = _with_flow(_draw_tasks(chance), crc32(name.encode()) // 36)
            fields["tasks"] = _with_call(tasks, crc32(name.encode()) // 36, upstreams)
            fields["fail_fast"] = crc32(name.encode()) // 36 % 5 == 1
        case _:
            if upstreams and chance.random() < 0.5:
                fields["dependencies"] = [chance.choice(upstreams)]
    if kind in ("interval", "cron") and crc32(name.encode()) // 36 % 4 == 0:
        is_late = crc32(name.encode()) // 144 % 2
        policy: dict[str, Any] = {"jitter": "700ms"} if is_late else {"max_executions": 5}
        if crc32(name.encode()) // 288 % 2:
            policy["overlap"] = "queue_all" if fields["overlap"] == "allow" else "cancel_running"
        fields["schedules"] = [ScheduleBody(schedule=fields.pop("schedule"), **policy)]
    if kind != "graph":
        fields |= {"type": "scripted", "parameters": draw_script(chance)}
    fields["retries"] = _draw_retries(chance)
    is_calling = any(task.run_job for task in fields.get("tasks", ()))
    if not fields.get("dependencies") and not is_calling and crc32(name.encode()) % 3 == 0:
        # By its name and not by chance, so that seeds stay the worlds that they were.
        fields["consistency"] = "available"
    if has_pools:
        _want_pool(fields, crc32(name.encode()) // 3 % 12)
    if has_reruns:
        fields["start_deadline"] = chance.choice([0, 0, "1s", "5s"])
        fields["execution_timeout"] = chance.choice([0, 0, "1s", "5s"])
    if has_hooks:
        _add_hooks(fields, chance, upstreams)
    return job_spec(JobBody(name=name, **fields))


def _add_hooks(fields: dict[str, Any], chance: Random, others: list[str]) -> None:
    """Add a webhook for each event, and for some a job that is triggered by it."""
    for field in ("on_failure", "on_success", "on_recovery", "on_late"):
        fields[field] = [HookBody(webhook=f"https://receiver.example/{field}")]
        if others and chance.random() < 0.2:
            fields[field].append(HookBody(job=chance.choice(others)))
    fields["late_after"] = chance.choice(["500ms", "2s", "5s"])


def _want_pool(fields: dict[str, Any], number: int) -> None:
    """Add a selector to some jobs, or to the last tasks of graphs; one in 12 matches no node."""
    pool = (*POOLS, *POOLS, NO_POOL)[number : number + 1]
    if pool and "tasks" in fields:
        fields["tasks"][-1] = replace(fields["tasks"][-1], node_selector={"pool": pool[0]})
    elif pool:
        fields["node_selector"] = {"pool": pool[0]}


def draw_script(chance: Random, longest_ms: int = 4_000) -> dict[str, Any]:
    """Draw the script of an attempt (`rota.executor.testing.scripted_executor.Script`)."""
    return {
        "sleepMs": chance.choice([0, 50, 300, 1_500, longest_ms, longest_ms]),
        "failTimes": chance.choice([0, 0, 0, 1, 2]),
        "outcome": chance.choice(["succeeded"] * 5 + ["failed"]),
    }


def _draw_tasks(chance: Random) -> list[TaskBody]:
    names = [f"t{number}" for number in range(chance.randrange(2, 6))]
    rules: list[Literal["all_success", "all_done", "one_failed"]]
    rules = ["all_success", "all_success", "all_done", "one_failed"]
    return [
        TaskBody(
            name=name,
            type="scripted",
            parameters=draw_script(chance),
            needs=chance.sample(names[:number], chance.randrange(min(number, 2) + 1)),
            trigger_rule=chance.choice(rules),
        )
        for number, name in enumerate(names)
    ]


def _with_flow(tasks: list[TaskBody], number: int) -> list[TaskBody]:
    """Return tasks of which, in two jobs of three, some are loops, waits or have conditions.

    By a number and not by chance, so that seeds stay the worlds that they were.
    """
    wait: dict[str, Any] = {"approval": ApprovalBody(timeout="1s")}
    if number % 2:
        wait = {"wait_for_event": WaitForEventBody(event=EVENT, timeout="1s", on_timeout="skip")}
    flows: list[dict[str, Any]] = [
        {"foreach": [1, "two", None], "when": "states|length < 9"},
        {"foreach": ForeachBody(items="range(5)", max_parallel=2, tolerated_failures=2)},
        {"repeat": RepeatBody(until="index > 1", limit=2, delay="300ms")},
        {"sleep": "700ms", "type": None, "parameters": None},
        {**wait, "type": None, "parameters": None},
        {"when": "index is defined"},
    ]
    if number % 3 == 0:
        return tasks
    first, second = flows[number // 3 % len(flows)], flows[number // 18 % len(flows)]
    made = [replace(tasks[0], **first), replace(tasks[1], **second), *tasks[2:]]
    if number % 7 < 2:
        cases = [CaseBody(when="index is defined"), CaseBody(to=[made[-1].name])]
        made.insert(0, TaskBody(name="switch", switch=cases))
        made[-1] = replace(made[-1], needs=[*made[-1].needs, "switch"])
    if number % 5 < 2:
        made.append(replace(tasks[-1], name=TEARDOWN, needs=[tasks[0].name], teardown=True))
    return made


def _with_call(tasks: list[TaskBody], number: int, others: list[str]) -> list[TaskBody]:
    """Return tasks of which, in one job of three, the first runs another job.

    By a number and not by chance, so that seeds stay the worlds that they were.
    """
    first = tasks[0]
    if number % 3 or not others:
        return tasks
    other = others[number // 3 % len(others)]
    return [TaskBody(name=first.name, run_job=other), *tasks[1:]]


def _draw_retries(chance: Random) -> RetryBody:
    delay = chance.choice(["100ms", "1s"])
    return RetryBody(limit=chance.choice([0, 1, 3]), backoff="fixed", delay=delay)
