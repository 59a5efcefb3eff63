"""``kill -9`` of a node at random moments, again and again, under load.

What must hold is judged from outside: from what the node acknowledged to its clients, from lines
that the tasks themselves wrote to a file, and from an enumeration of the fire times that shares
nothing with rota but the meaning of ``@every``.

    make chaos ROUNDS=50 SEED=1
"""

import os
import random
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from rota.core.timing.instants import parse_instant
from support.rotad import Refusal, Rotad, processes_of

ROUNDS = int(os.environ.get("CHAOS_ROUNDS", "50"))
SEED = int(os.environ.get("CHAOS_SEED", "1"))
EVERY_MS = 500
DECIDE_AHEAD_US = 25_000
TICKERS = 24
"""48 fires/s, beside the two of the process job: 50 fires/s."""
POLICIES = ("all", "latest", "skip")
GRACE_MS = 200


@dataclass
class Seen:
    """The answers that the clients received."""

    jobs: dict[str, str] = field(default_factory=dict[str, str])
    executions: dict[str, str] = field(default_factory=dict[str, str])
    refused: Counter[str] = field(default_factory=Counter[str])


@pytest.mark.chaos
@pytest.mark.timeout(3600)
def test_nothing_acknowledged_is_lost_and_nothing_runs_twice(tmp_path: Path) -> None:
    rng = random.Random(SEED)
    starts = tmp_path / "starts"
    with Rotad(tmp_path / "data", "--drain", "0s", "--history", "30d") as node:
        node.start()
        create_schedules(node, starts)
        seen = Seen()
        stop = threading.Event()
        clients = [
            threading.Thread(target=submit, args=(node, seen, stop, number, starts))
            for number in range(2)
        ]
        for client in clients:
            client.start()
        began = time.monotonic()
        try:
            downs_ms = [kill_and_restart(node, rng) for _ in range(ROUNDS)]
        finally:
            stop.set()
            for client in clients:
                client.join()
        finish(node, seen)
        judge(node, seen, starts)
        report(node, seen, starts, began, downs_ms)


def create_schedules(node: Rotad, starts: Path) -> None:
    for number in range(TICKERS):
        policy = POLICIES[number % len(POLICIES)]
        node.create(
            name=f"tick-{number}",
            schedule=f"@every {EVERY_MS}ms",
            misfire=policy,
            grace=f"{GRACE_MS}ms",
            overlap="allow" if number % 2 else "skip",
            type="scripted",
            parameters={"sleepMs": 20 if number % 4 else 0},
        )
    # Real processes that say when they start and end, in a place that outlives the node.
    node.create(
        name="proc", schedule=f"@every {EVERY_MS}ms", misfire="all", command=say(starts, 0.1)
    )


def say(starts: Path, sleep_s: float) -> str:
    line = "$ROTA_EXECUTION_ID $ROTA_ATTEMPT $ROTA_TOKEN $$"
    return f"echo start {line} >> {starts}; sleep {sleep_s}; echo end {line} >> {starts}"


def submit(node: Rotad, seen: Seen, stop: threading.Event, number: int, starts: Path) -> None:
    """Create jobs and trigger them, and remember what was acknowledged."""
    count = 0
    while not stop.is_set():
        count += 1
        name = f"client-{number}-{count}"
        try:
            if count % 4 == 0:
                job = node.create(name=name, command=say(starts, 0.05))
            else:
                job = node.create(name=name, type="scripted")
            seen.jobs[job["jobId"]] = name
            seen.executions[node.trigger(job["jobId"])] = name
        except Refusal as refusal:
            seen.refused[refusal.problem["code"]] += 1
        except (OSError, ValueError):
            # The node is down, or was killed while it answered: not acknowledged.
            seen.refused["no answer"] += 1
        time.sleep(0.03)


def kill_and_restart(node: Rotad, rng: random.Random) -> float:
    """Let the node run for a moment, kill it, start it later; return how long it was not ready."""
    time.sleep(rng.uniform(0.05, 1.2))
    node.kill()
    began = time.monotonic()
    time.sleep(rng.choice([0, 0, 0.1, rng.uniform(0.2, 1.5)]))
    node.start()
    return (time.monotonic() - began) * 1e3


def finish(node: Rotad, seen: Seen) -> None:
    """Stop the schedules, and wait until nothing is unfinished."""
    schedules = [f"tick-{number}" for number in range(TICKERS)] + ["proc"]
    for name in schedules:
        job = node.call("GET", f"/api/v1/jobs/{name}")
        seen.jobs[f"gone {name}"] = job["jobId"]
    unfinished = "/api/v1/executions?limit=1000&status="
    for name in schedules:
        node.call("DELETE", f"/api/v1/jobs/{name}")
    for execution_id in list(seen.executions):
        node.ended(execution_id, timeout_s=60)
    node.wait_until(
        lambda: (
            not any(
                node.call("GET", unfinished + status)["items"] for status in ("queued", "running")
            )
        ),
        timeout_s=60,
    )


def judge(node: Rotad, seen: Seen, starts: Path) -> None:
    """Hold what is there against what was promised."""
    jobs = {each["jobId"]: each["name"] for each in pages(node, "/api/v1/jobs?limit=1000")}
    for job_id, name in seen.jobs.items():
        if not job_id.startswith("gone "):
            assert jobs.get(job_id) == name, f"acknowledged job {name} ({job_id}) is lost"
    for execution_id, name in seen.executions.items():
        execution = node.call("GET", f"/api/v1/executions/{execution_id}")
        assert execution["status"] == "success", (name, execution)
    for gone, job_id in seen.jobs.items():
        if gone.startswith("gone "):
            judge_ledger(node, gone.removeprefix("gone "), job_id)
    judge_starts(starts)
    assert processes_of(node.data_dir) == []


def judge_ledger(node: Rotad, name: str, job_id: str) -> None:
    """Every expected fire has exactly one outcome, and it is one that the policy allows."""
    policy = "all" if name == "proc" else POLICIES[int(name.split("-")[1]) % len(POLICIES)]
    allowed = {
        "all": {"fired", "skipped"},
        "latest": {"fired", "skipped", "coalesced"},
        "skip": {"fired", "skipped", "missed"},
    }[policy]
    executions = {
        each["executionId"]: each for each in pages(node, "/api/v1/executions?limit=1000")
        if each["jobId"] == job_id
    }  # fmt: skip
    expected = None
    for entry in node.ledger(job_id):
        first, last = parse_instant(entry["fireTime"]), parse_instant(entry["until"])
        recorded = parse_instant(entry["recordedAt"])
        assert first % (EVERY_MS * 1000) == 0, entry
        assert expected in (None, first), f"{name}: {expected} has no outcome, or {first} has two"
        assert last - first == (entry["count"] - 1) * EVERY_MS * 1000, entry
        assert entry["outcome"] in allowed, entry
        # An execution that can start is decided a little before it is due (`decide_ahead`).
        ahead = DECIDE_AHEAD_US if entry["outcome"] == "fired" else 0
        assert recorded >= last - ahead, f"{name}: decided before it was due: {entry}"
        if entry["outcome"] in ("coalesced", "missed"):
            assert recorded - last > GRACE_MS * 1000, f"{name}: it was not late: {entry}"
        if entry["outcome"] == "fired":
            assert entry["count"] == 1
            assert executions[entry["executionId"]]["fireTime"] == entry["fireTime"]
        expected = last + EVERY_MS * 1000
    fired = [each["fireTime"] for each in executions.values() if each["trigger"] == "schedule"]
    assert len(fired) == len(set(fired)), f"{name}: a fire time has two executions"


def judge_starts(starts: Path) -> None:
    """No attempt starts twice, none starts before the last one ended, tokens grow."""
    lines: dict[str, list[list[str]]] = defaultdict(list)
    for line in starts.read_text().splitlines():
        word, execution_id, attempt, token, pid = line.split()
        lines[execution_id].append([word, attempt, token, pid])
    for execution_id, said in lines.items():
        begun = [(int(attempt), token) for word, attempt, token, _ in said if word == "start"]
        assert begun == sorted(set(begun)), f"{execution_id} began {begun}"
        ends = [attempt for word, attempt, _, _ in said if word == "end"]
        assert len(ends) == len(set(ends)), f"{execution_id} ended {ends}"
        # An end after the next attempt's start would be an overlap.
        latest = 0
        for word, attempt, _, _ in said:
            latest = max(latest, int(attempt))
            assert word == "start" or int(attempt) == latest, f"{execution_id} overlaps: {said}"


def pages(node: Rotad, path: str) -> Iterator[Any]:
    cursor = ""
    while True:
        page = node.call("GET", path + cursor)
        yield from page["items"]
        if not page["nextCursor"]:
            return
        cursor = f"&cursor={page['nextCursor']}"


def report(node: Rotad, seen: Seen, starts: Path, began: float, downs_ms: list[float]) -> None:
    outcomes: Counter[str] = Counter()
    for gone, job_id in seen.jobs.items():
        if gone.startswith("gone "):
            for entry in node.ledger(job_id):
                outcomes[entry["outcome"]] += entry["count"]
    attempts = Counter(line.split()[0] for line in starts.read_text().splitlines())
    downs_ms.sort()
    print(
        f"\n{ROUNDS} kills in {time.monotonic() - began:.0f} s (seed {SEED}); "
        f"not ready for {downs_ms[len(downs_ms) // 2]:.0f} ms at the median, "
        f"{downs_ms[-1]:.0f} ms at most\n"
        f"fires {sum(outcomes.values())}: {dict(outcomes)}\n"
        f"acknowledged: {len(seen.jobs) - TICKERS - 1} jobs, {len(seen.executions)} executions; "
        f"not acknowledged: {dict(seen.refused)}\n"
        f"processes: {attempts['start']} starts, {attempts['end']} ends\n"
        f"lost 0, twice 0, without an outcome 0, orphans 0"
    )
