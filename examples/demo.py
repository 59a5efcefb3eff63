"""Demonstration: a node runs the example jobs; starts and results are printed and checked.

    python examples/demo.py

All requests are made with `rota.client`; the data is removed at the end.
"""
# ruff: noqa: T201 - a program that prints its results

import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from types import FrameType

from rota.client import Client
from rota.client.definitions import read_definitions
from rota.client.dev.local_node import LocalNode
from rota.core.errors import RotaError
from rota.wire.documents import ExecutionView, JobView, TaskView

EXAMPLES = Path(__file__).parent
FOLLOWED_S = 10.0
LOOK_S = 0.15
SETTLE_S = 8.0
"""A time longer than the last fire and the slowest example."""
HEARTBEAT_S = 0.5
"""A time longer than a heartbeat, and shorter than the two seconds until the next one."""


def main() -> int:
    """Run the demonstration; return 0 if all checks pass."""
    # SIGTERM ends the node, too: an exception runs every `with` and `finally`.
    signal.signal(signal.SIGTERM, _leave)
    with tempfile.TemporaryDirectory(prefix="rota-demo-") as folder:
        node = LocalNode(Path(folder) / "data")
        try:
            node.start()
            with Client(node.url) as client:
                broken = Demo(client).run()
        finally:
            exit_status = node.stop() if node.process else None
        if exit_status != 0:
            broken.append(f"the node stopped with status {exit_status}, not 0")
    for promise in broken:
        print(f"BROKEN: {promise}", file=sys.stderr)
    return 1 if broken else 0


class Demo:
    """Demonstration on one node."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.started_at = time.perf_counter()
        self.printed: set[str] = set()
        """The keys of the lines that were printed."""

    def run(self) -> list[str]:
        """Create the example jobs, follow them, print the executions; return the failed checks."""
        version = self.client.version()
        self.print(f"rota {version.version} runs at {self.client.url}")
        jobs = {name: self.create(name) for name in ("heartbeat", "report", "flaky")}
        for name in ("report", "flaky"):
            self.client.trigger(jobs[name].job_id)
        self.follow()
        broken = self.end_heartbeat(jobs["heartbeat"])
        executions = self.finished_executions()
        print_table(executions)
        broken += broken_promises(executions)
        succeeded = sum(execution.status == "success" for execution in executions)
        lateness = max(execution.lateness_ms or 0.0 for execution in executions)
        print(
            f"\n{len(executions)} executions, {succeeded} succeeded, started at most "
            f"{lateness:.1f} ms late; {'as promised' if not broken else 'not as promised'}"
        )
        return broken

    def create(self, name: str) -> JobView:
        """Create the job of an example file."""
        [definition] = read_definitions(EXAMPLES / f"{name}.yaml")
        job = self.client.create_job(definition)
        when = job.schedules[0].schedule if job.schedules else "when triggered"
        self.print(f"{name}: created, {len(job.tasks)} task{'s'[: len(job.tasks) > 1]}, {when}")
        return job

    def follow(self) -> None:
        """Print events for `FOLLOWED_S` seconds."""
        while time.perf_counter() - self.started_at < FOLLOWED_S:
            for execution in self.client.executions():
                if execution.execution_id not in self.printed:
                    self.print_news(self.client.execution(execution.execution_id))
            time.sleep(LOOK_S)

    def print_news(self, execution: ExecutionView) -> None:
        """Print what is new about an execution."""
        for key, news in news_of(execution):
            if key in self.printed:
                continue
            self.printed.add(key)
            if news:
                self.print(f"{execution.job.removeprefix('default/')}: {news}")

    def print(self, what: str) -> None:
        """Print one line."""
        print(f"{time.perf_counter() - self.started_at:5.1f} s  {what}", flush=True)

    def finished_executions(self) -> list[ExecutionView]:
        """Wait until all executions have ended; return them with tasks, by ascending fire time."""
        ids = [execution.execution_id for execution in self.client.executions()]
        self.client.wait_many(ids, timeout_s=SETTLE_S)
        return [self.client.execution(each) for each in reversed(ids)]

    def end_heartbeat(self, created: JobView) -> list[str]:
        """Delete the job that fires every two seconds; return the fires that its ledger lacks."""
        assert created.next_fire_at is not None
        before = self.between_fires(created)
        self.client.delete_job(created.job_id)
        # Every fire time from the first one to the last one before the deletion.
        due_at, coming_at = instant(created.next_fire_at), instant(before.next_fire_at or "")
        entries = self.client.ledger(created.job_id)
        outcomes = {instant(entry.fire_time): entry.outcome for entry in entries}
        broken: list[str] = []
        while due_at < coming_at:
            outcome = outcomes.get(due_at, "missing in the ledger")
            if outcome != "fired":
                broken.append(f"heartbeat of {due_at}: {outcome}")
            due_at += timedelta(seconds=2)
        return broken

    def between_fires(self, created: JobView) -> JobView:
        """Return the job shortly after a fire, as its deletion cancels executions that run."""
        before = job = self.client.job(created.job_id)
        for _ in range(round(SETTLE_S / LOOK_S)):
            if job.next_fire_at != before.next_fire_at:
                break
            time.sleep(LOOK_S)
            job = self.client.job(created.job_id)
        time.sleep(HEARTBEAT_S)
        return job


def news_of(execution: ExecutionView) -> list[tuple[str, str]]:
    """Return the events of an execution in order, each with a unique key."""
    tasks = execution.tasks or {}
    facts: list[tuple[str, str, str]] = []
    for name, task in tasks.items():
        title = "" if len(tasks) == 1 else f"{name} "
        for attempt in task.attempts:
            key = f"{execution.execution_id} {name} {attempt.number}"
            if len(tasks) > 1:
                facts.append((attempt.started_at, f"{key} started", f"{title}started"))
            if attempt.finished_at is not None:
                nth = "" if attempt.number == 1 else f" at attempt {attempt.number}"
                said = f"{title}{attempt.outcome}{nth}: {attempt.output_tail.strip()}"
                facts.append((attempt.finished_at, f"{key} ended", said))
    news = [(key, said) for _, key, said in sorted(facts)]
    if execution.finished_at is not None:
        # The key of the last event is the id: after it, the execution is not requested again.
        news.append((execution.execution_id, execution.status if len(tasks) > 1 else ""))
    return news


def broken_promises(executions: list[ExecutionView]) -> Iterator[str]:
    """Yield the failed checks of the executions of the examples."""
    for execution in executions:
        if execution.status != "success":
            yield f"{execution.job} {execution.execution_id}: {execution.status}"
    by_job = {execution.job: execution.tasks or {} for execution in executions}
    outcomes = [attempt.outcome for attempt in by_job["default/flaky"]["main"].attempts]
    if outcomes != ["failed", "failed", "success"]:
        yield f"flaky should fail twice and then succeed, not {', '.join(map(str, outcomes))}"
    tasks = by_job["default/report"]
    order = [
        ("fetch", "sales"),
        ("fetch", "stock"),
        ("fetch", "visits"),
        ("sales", "publish"),
        ("stock", "publish"),
        ("visits", "publish"),
    ]
    for first, second in order:
        ended, started = tasks[first].attempts[-1].finished_at, tasks[second].attempts[0].started_at
        if ended is None or ended > started:
            yield f"report: {second} started at {started}, before {first} ended at {ended}"


def print_table(executions: list[ExecutionView]) -> None:
    """Print the executions, with one line for each task."""
    print(f"\n{'FIRE TIME (UTC)':16} {'JOB':10} {'TASK':8} ATTEMPTS  OUTCOME    LATENESS")
    for execution in executions:
        late = f"{execution.lateness_ms:5.1f} ms" if execution.lateness_ms is not None else ""
        for name, task in sorted((execution.tasks or {}).items(), key=_start):
            print(
                f"{execution.fire_time[11:23]:16} {execution.job.removeprefix('default/'):10} "
                f"{name:8} {len(task.attempts):<9} {task.attempts[-1].outcome!s:10} {late}"
            )


def instant(text: str) -> datetime:
    """Return the instant in *text*, which has the format of the API."""
    return datetime.fromisoformat(text)


def _start(named: tuple[str, TaskView]) -> str:
    _, task = named
    return task.attempts[0].started_at


def _leave(number: int, frame: FrameType | None) -> None:
    del frame
    sys.exit(128 + number)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except RotaError as error:
        print(f"the demonstration failed: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
