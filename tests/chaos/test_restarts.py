"""A node that is restarted again and again under running tasks: none is lost, none runs twice.

Half of the restarts are ``kill -9``, half are graceful. Each task writes its start and its end to a
file outside of the node's data, and ends with its own exit code and output; the node's records are
compared with these.

    make chaos ROUNDS=500 SEED=1
"""

import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from support.rotad import Refusal, Rotad, processes_of

ROUNDS = int(os.environ.get("CHAOS_ROUNDS", "50"))
SEED = int(os.environ.get("CHAOS_SEED", "1"))
TASKS = 200
WANTED = 250
"""Unfinished executions: enough to keep all slots occupied."""
LONGEST_S = 20.0
"""So a task lives through several restarts, and some end while no node is there."""
PAGE = 500


@dataclass
class Seen:
    """Acknowledged executions, refusals, and the times without a node."""

    executions: dict[str, int] = field(default_factory=dict[str, int])
    """The expected exit code of each execution."""
    refused: Counter[str] = field(default_factory=Counter[str])
    downs_ms: list[float] = field(default_factory=list[float])
    running: list[int] = field(default_factory=list[int])
    """Tasks that ran at each end of a node."""


@pytest.mark.chaos
@pytest.mark.timeout(7200)
def test_no_task_is_lost_or_doubled_by_restarts(tmp_path: Path) -> None:
    rng, said, seen = random.Random(SEED), tmp_path / "said", Seen()
    said.touch()
    flags = ("--slots", str(TASKS), "--drain", "0s", "--attempt-lease", "60s", "--history", "30d")
    with Rotad(tmp_path / "data", *flags) as node:
        node.start()
        for code in range(3):
            node.create(name=f"task-{code}", command=line(said, code), retries=0)
        began = time.monotonic()
        with feeding(node, seen):
            wait(node, lambda: running(said) >= TASKS * 0.9)
            for _ in range(ROUNDS):
                restart(node, rng, seen, said)
        took_s = time.monotonic() - began
        wait_for_all(node, list(seen.executions))
        judge(node, seen, said)
        report(seen, said, took_s)


def line(said: Path, code: int) -> str:
    """Return a task that writes its start and end, takes a random time, and exits with *code*."""
    who = "$ROTA_EXECUTION_ID $ROTA_ATTEMPT"
    wait_ms = f"$(( ($$ * 7919) % {round(LONGEST_S * 1000)} ))"
    return (
        f"echo start {who} >> {said}; ms={wait_ms};"
        f" sleep $((ms / 1000)).$(printf %03d $((ms % 1000)));"
        f" echo end {who} >> {said}; echo $ROTA_EXECUTION_ID; exit {code}"
    )


class feeding:  # noqa: N801 - reads as a phrase after `with`
    """Keep the node's slots full while the body runs."""

    def __init__(self, node: Rotad, seen: Seen) -> None:
        self._node = node
        self._seen = seen
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._feed)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _feed(self) -> None:
        while not self._is_over.is_set():
            try:
                self._trigger()
            except Refusal as refusal:
                self._seen.refused[refusal.problem["code"]] += 1
            except (OSError, ValueError):
                self._seen.refused["no answer"] += 1  # The node is away, or went while it answered.
            time.sleep(0.1)

    def _trigger(self) -> None:
        gauges = self._node.call("GET", "/metrics").splitlines()
        [unfinished] = [
            float(each.split()[1])
            for each in gauges
            if each.startswith("rota_executions_unfinished ")
        ]
        items = [{"job": f"task-{number % 3}"} for number in range(WANTED - int(unfinished))]
        if not items:
            return
        made = self._node.call("POST", "/api/v1/executions:batch", {"items": items})["items"]
        for number, each in enumerate(made):
            if each["executionId"]:
                self._seen.executions[each["executionId"]] = number % 3


def wait_for_all(node: Rotad, ids: list[str]) -> None:
    for start in range(0, len(ids), PAGE):
        body = {"executionIds": ids[start : start + PAGE], "timeout": 60}
        ended = node.call("POST", "/api/v1/executions:wait", body)["items"]
        assert all(each["finishedAt"] for each in ended), "not over after 60 s"


def restart(node: Rotad, rng: random.Random, seen: Seen, said: Path) -> None:
    """Let the node run for a moment, stop or kill it, wait for a moment, and start it."""
    time.sleep(rng.uniform(0.0, 0.6))
    seen.running.append(running(said))
    if rng.random() < 0.5:
        node.kill()
    else:
        assert node.stop() == 0
    began = time.monotonic()
    time.sleep(rng.choice([0, 0, 0.1, rng.uniform(0.1, 1.0)]))
    node.start(timeout_s=60)
    seen.downs_ms.append((time.monotonic() - began) * 1e3)


def running(said: Path) -> int:
    """Return how many tasks have said that they began and not that they ended."""
    words = Counter(each.split()[0] for each in said.read_text().splitlines())
    return words["start"] - words["end"]


def wait(node: Rotad, is_so: Callable[[], bool]) -> None:
    node.wait_until(is_so, timeout_s=60)


def judge(node: Rotad, seen: Seen, said: Path) -> None:
    """Compare the node's records with the lines of the tasks."""
    lines = said.read_text().splitlines()
    starts = Counter(each.split()[1] for each in lines if each.startswith("start"))
    ends = Counter(each.split()[1] for each in lines if each.startswith("end"))
    for execution_id, code in seen.executions.items():
        execution = node.call("GET", f"/api/v1/executions/{execution_id}")
        attempts = execution["tasks"]["main"]["attempts"]
        # An attempt whose start was recorded, and then the node was killed before it was launched,
        # is recorded as lost: it never ran, and has said nothing.
        [attempt] = [each for each in attempts if each["outcome"] != "lost"]
        assert starts[execution_id] == ends[execution_id] == 1, (execution_id, attempts)
        assert attempt["exitCode"] == code, attempts
        assert attempt["outcome"] == ("success" if code == 0 else "failed"), attempts
        assert attempt["outputTail"] == f"{execution_id}\n", attempts
        assert execution["status"] == ("success" if code == 0 else "failed"), execution
    assert max(starts.values()) == 1, "also for executions that were not acknowledged"
    assert processes_of(node.data_dir) == []


def report(seen: Seen, said: Path, took_s: float) -> None:
    downs, at_once = sorted(seen.downs_ms), sorted(seen.running)
    print(
        f"\n{ROUNDS} restarts in {took_s:.0f} s (seed {SEED}) under {at_once[len(at_once) // 2]} "
        f"tasks at the median; away for {downs[len(downs) // 2]:.0f} ms at the median, "
        f"{downs[-1]:.0f} ms at most\n"
        f"{len(seen.executions)} executions acknowledged, {said.read_text().count('start')} tasks "
        f"started; not acknowledged: {dict(seen.refused)}\n"
        "lost 0, twice 0, wrong outcomes 0, left over 0"
    )
