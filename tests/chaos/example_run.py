"""A run without violations, from which tests of the judge make others."""

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

Json = Any  # Any: a line of a history.

AHEAD = 1_700_000_000.0
"""Wall clock minus boot time, in seconds; the run begins at second 100 of the boot time."""


@dataclass
class Run:
    """The records of a run: documents by file, and the lines of tasks."""

    documents: dict[str, list[Json]] = field(default_factory=dict[str, list[Json]])
    said: list[str] = field(default_factory=list[str])

    def add(self, file: str, **document: Json) -> Json:
        """Add a document to a file, and return it."""
        self.documents.setdefault(file, []).append(document)
        return document

    def all(self, file: str, **wanted: Json) -> list[Json]:
        """Return the documents that have all of *wanted*."""
        return [
            each
            for each in self.documents[file]
            if all(each.get(key) == value for key, value in wanted.items())
        ]

    def one(self, file: str, **wanted: Json) -> Json:
        """Return the only document that has all of *wanted*."""
        [found] = self.all(file, **wanted)
        return found

    def drop(self, file: str, **wanted: Json) -> None:
        """Remove the only document that has all of *wanted*."""
        self.documents[file].remove(self.one(file, **wanted))

    def write(self, folder: Path) -> Path:
        """Write all files."""
        for file, documents in self.documents.items():
            if file.endswith(".jsonl"):
                (folder / file).write_text("".join(json.dumps(each) + "\n" for each in documents))
            else:
                (folder / file).write_text(json.dumps(documents[0]))
        (folder / "said").write_text("".join(f"{line}\n" for line in self.said))
        return folder

    # -- events ------------------------------------------------------------------------------------

    def operation(self, number: int, what: str, at: float, asked: Json, **answer: Json) -> None:
        """Add a request of a client with an immediate answer."""
        self.add("clients.jsonl", op=number, event="invoke", at=at, what=what, asked=asked)
        self.add("clients.jsonl", op=number, event="ok", at=at + 0.1, what=what, answer=answer)

    def job(self, job_id: str, at: float, **definition: Json) -> None:
        """Add the creation of a job by a client."""
        number = len(self.documents.get("jobs.jsonl", ()))
        self.operation(number, "create", at, {"job": definition}, id=job_id)
        self.add("jobs.jsonl", jobId=job_id, name=definition["name"], createdAt=text(at + 0.05))

    def execution(self, execution_id: str, at: float, *outcomes: str, **facts: Json) -> None:
        """Add an execution of one task, whose attempts take half a second each."""
        attempts: list[Json] = []
        for number, outcome in enumerate(outcomes, start=1):
            began = at + number - 1
            token = f"{round(began * 10):032x}"
            attempts.append(
                {
                    "number": number, "nodeId": "n1", "token": token, "outcome": outcome,
                    "startedAt": text(began), "finishedAt": text(began + 0.5),
                }
            )  # fmt: skip
            self.say(execution_id, number, token, began, "start")
            if outcome != "lost":
                self.say(execution_id, number, token, began + 0.5, "end")
        document = {
            "executionId": execution_id, "jobId": execution_id.split("-")[0], "trigger": "manual",
            "status": "success", "fireTime": text(at), "queuedAt": text(at),
            "finishedAt": text(at + len(outcomes)), "traceparent": "",
            "tasks": {"main": {"attempts": attempts}}, **facts,
        }  # fmt: skip
        self.add("executions.jsonl", **document)

    def say(self, execution: str, attempt: int, token: str, at: float, word: str) -> None:
        """Add a line of a task."""
        self.said.append(f"{execution} main {attempt} {token} n1 {at} {word}")

    def write_to_sink(self, at: float, execution: str, attempt: int, token: str) -> None:
        """Add a write of an attempt that the fenced sink accepts."""
        written = {"execution": execution, "task": "main", "attempt": attempt, "token": token}
        self.add("sink.jsonl", at=at, job=execution.split("-")[0], accepted=True, **written)

    def fault(self, kind: str, *hosts: str, begins: float, ends: float) -> None:
        """Add a fault of hosts."""
        number = len(self.documents.get("faults.jsonl", ()))
        for event, at in (("begin", begins), ("end", ends)):
            self.add("faults.jsonl", at=at, fault=number, event=event, kind=kind, hosts=list(hosts))


def text(boottime: float) -> str:
    return datetime.fromtimestamp(boottime + AHEAD, UTC).isoformat().replace("+00:00", "Z")


def clean() -> Run:
    """Return a run with a schedule, triggers, a killed host and no violation."""
    run = Run()
    run.add(
        "run.json",
        wallClockAhead=AHEAD,
        endedAt=130.0,
        minSync=2,
        attemptLeaseS=15.0,
        standInAfterS=6,
    )
    run.fault("kill-host", "n1", begins=110.2, ends=112.0)
    tick = {"name": "tick", "schedule": "@every 2s", "misfire": "skip", "grace": "2s"}
    run.job("tick", 100.0, **tick, overlap="skip", python="say:short")
    run.job("asked", 100.2, name="asked", command="say")
    for number, at in enumerate(range(102, 120, 2)):
        if number in (4, 5):  # No primary at 110 and 112.
            continue
        run.execution(f"tick-{at}", float(at), "success", trigger="schedule")
        run.add("ledger.jsonl", **row("fired", at, execution=f"tick-{at}"))
    run.add("ledger.jsonl", **row("missed", 110, 112, recorded=114.5))
    asked = {"job": "asked", "key": "key-1", "trace": "trace-1"}
    run.operation(10, "trigger", 104.0, asked, execution="asked-1")
    run.execution("asked-1", 104.0, "failed", "success", traceparent="trace-1")
    asked = {"job": "asked", "key": "key-2", "trace": "trace-2"}
    run.operation(11, "trigger", 109.5, asked, execution="asked-2")
    run.execution("asked-2", 109.7, "lost", "success", traceparent="trace-2")
    run.operation(12, "see", 111.0, {"execution": "asked-2"}, status="success")
    run.operation(13, "put", 105.0, {"register": "r", "value": "1"})
    run.operation(14, "get", 106.0, {"register": "r"}, value="1")
    run.operation(15, "delete", 107.0, {"register": "r"})
    run.operation(16, "pause", 119.5, {"job": "tick"})
    run.said.sort(key=lambda line: float(line.split()[5]))
    for epoch, primary in ((1, "n1"), (2, "n2")):
        value = {"epoch": epoch, "primary": primary, "sync": [["n1", "c1"], ["n2", "c2"]]}
        run.add("configurations.jsonl", shard=0, revision=epoch, value=value)
    for node in ("n1", "n2"):
        run.add("replicas.jsonl", node=node, shard=0, applied=9, tables={"1": "2 rows"})
    run.documents["stalls.jsonl"] = []
    run.documents["restores.jsonl"] = []
    run.write_to_sink(104.2, "asked-1", 1, "0" * 31 + "1")
    run.write_to_sink(105.2, "asked-1", 2, "0" * 31 + "2")
    job_is_paused_and_resumed(run)
    stand_in_fires_alone(run)
    run.add("end.json", trouble="", wholeAfterS=1.0, processes=[], ended=[])
    return run


def job_is_paused_and_resumed(run: Run) -> None:
    """Add a job that fires, is paused, resumed, and paused again."""
    run.operation(17, "hold", 100.5, {"job": "raced"})
    run.operation(18, "release", 106.5, {"job": "raced"})
    run.job("raced", 100.0, name="raced", schedule="@every 2s", misfire="all", python="say:short")
    run.add("ledger.jsonl", **row("paused", 102, 106, job="raced", recorded=106.55))
    for at in range(108, 120, 2):
        run.execution(f"raced-{at}", float(at), "success", trigger="schedule")
        run.add("ledger.jsonl", **row("fired", at, job="raced", execution=f"raced-{at}"))
    run.operation(19, "hold", 119.2, {"job": "raced"})
    run.operation(20, "pause", 119.5, {"job": "raced"})


def stand_in_fires_alone(run: Run) -> None:
    """Add an isolation of 15 s: a stand-in fires an available job, as a duplicate and alone."""
    available = {"name": "open", "consistency": "available", "command": "say"}
    run.job("0000open", 128.0, **available, schedule="@every 2s")
    run.documents["run.json"][0]["endedAt"] = 150.0
    run.fault("isolate", "n2", begins=130.2, ends=145.2)
    run.one("faults.jsonl", kind="isolate", event="begin")["revision"] = 1
    for at in range(130, 146, 2):
        execution = f"0000open-{at}"
        run.execution(execution, float(at), "success", trigger="schedule")
        run.add("ledger.jsonl", **row("fired", at, job="0000open", execution=execution))
    stands_in(run, "0000open-140", 141.0)
    stands_in(run, "0000open-142", 142.0)
    claimed = run.one("executions.jsonl", executionId="0000open-142")
    claimed.update(claimed.pop("possibleDuplicates")[0], standIn="n2")
    run.said = [line for line in run.said if not line.startswith("0000open-142 main 1 ")]
    run.operation(40, "pause", 145.5, {"job": "open"})


def stands_in(run: Run, execution: str, began: float) -> None:
    """Add a stand-in's run of an execution, as a possible duplicate."""
    attempt = {
        "number": 1_000_001, "nodeId": "n2", "token": "1" * 32, "outcome": "success",
        "startedAt": text(began), "finishedAt": text(began + 0.5),
    }  # fmt: skip
    double = {"nodeId": "n2", "tasks": {"main": {"attempts": [attempt]}}}
    run.one("executions.jsonl", executionId=execution)["possibleDuplicates"] = [double]
    for at, word in ((began, "start"), (began + 0.5, "end")):
        run.said.append(f"{execution} main 1000001 {'1' * 32} n2 {at} {word}")


def row(outcome: str, first: float, last: float = 0, **facts: Json) -> Json:
    last = last or first
    return {
        "jobId": facts.get("job", "tick"), "fireTime": text(first), "until": text(last),
        "outcome": outcome, "count": round(last - first) // 2 + 1,
        "executionId": facts.get("execution"), "recordedAt": text(facts.get("recorded", last)),
    }  # fmt: skip
