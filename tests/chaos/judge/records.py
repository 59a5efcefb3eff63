"""Records of a run, read from its folder.

    run.json            parameters, and the difference of wall clock and CLOCK_BOOTTIME
    clients.jsonl       requests of clients, and their answers       (boot-time seconds)
    faults.jsonl        faults of hosts                              (boot-time seconds)
    said                lines that tasks wrote                       (boot-time seconds)
    jobs.jsonl, executions.jsonl, ledger.jsonl    answers of the API when all was over
    configurations.jsonl                          every value that each shard had in etcd
    restores.jsonl      when etcd was set back, and to which epochs (revisions grow all the same)
    replicas.jsonl                                a digest of each copy's rows, from the disks
    sink.jsonl          writes of attempts to the fenced sink        (boot-time seconds)
    stalls.jsonl        stalls of the machine itself                 (boot-time seconds)
    end.json            processes and trouble that were left; nodes that ended by themselves

Instants of the wall clock are whole microseconds since 1970.
"""

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

Json = Any  # Any: JSON; its shape depends on the file.

SECOND = 1_000_000
OWN_MAX = 1_000_000
"""Attempts with higher numbers are those of stand-ins, which count from there."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Violation:
    """A broken rule.

    Attributes:
        rule: Name of the rule, such as ``C1``.
        text: What is wrong, with the facts.
        at: When it was seen, in boot-time seconds; None where only all records together show it.
    """

    rule: str
    text: str
    at: float | None = None


@dataclass(frozen=True)
class Operation:
    """A request of a client, and its answer.

    Attributes:
        outcome: ``ok``; ``fail``: it certainly had no effect; ``info``: its effect is unknown.
        began_at: In boot-time seconds.
        ended_at: Likewise; infinity if no answer ever came.
    """

    number: int
    what: str
    asked: Json
    began_at: float
    outcome: str = "info"
    answer: Json = field(default_factory=dict[str, Json])
    ended_at: float = float("inf")


@dataclass(frozen=True)
class Fault:
    """A fault of hosts, with begin and end in boot-time seconds.

    Attributes:
        revision: etcd's, when it began; None if etcd did not answer.
    """

    kind: str
    hosts: tuple[str, ...]
    began_at: float
    ended_at: float
    revision: int | None = None


@dataclass(frozen=True)
class Line:
    """A line that a task wrote. Lines are in the order of the writes."""

    place: int
    execution: str
    task: str
    attempt: int
    token: str
    node: str
    at: float
    word: str


@dataclass(frozen=True)
class Written:
    """A write of an attempt to the fenced sink; writes are in the order of arrival."""

    job: str
    execution: str
    task: str
    attempt: int
    token: str
    at: float
    accepted: bool


@dataclass(frozen=True)
class Attempt:
    """An attempt on record; instants in microseconds."""

    number: int
    node: str
    token: str
    started_at: int
    finished_at: int | None
    outcome: str | None


@dataclass(frozen=True)
class Double:
    """A possible duplicate: attempts of a stand-in under an execution's id, by task."""

    node: str
    tasks: dict[str, tuple[Attempt, ...]]


@dataclass(frozen=True)
class Execution:
    """An execution on record; instants in microseconds.

    Attributes:
        stand_in: The node that ran it in place of its shard's primary.
        doubles: Its possible duplicates.
    """

    id: str
    job_id: str
    trigger: str
    status: str
    fire_at: int
    queued_at: int
    finished_at: int | None
    trace: str
    tasks: dict[str, tuple[Attempt, ...]]
    stand_in: str | None = None
    doubles: tuple[Double, ...] = ()

    def own(self, task: str) -> tuple[Attempt, ...]:
        """Return the attempts of a task that its shard's primaries started."""
        return () if self.stand_in else self.tasks.get(task, ())

    def by_stand_in(self, node: str, task: str) -> tuple[Attempt, ...]:
        """Return the attempts of a task that a node started as a stand-in."""
        if node == self.stand_in:
            return self.tasks.get(task, ())
        return next((each.tasks.get(task, ()) for each in self.doubles if each.node == node), ())


@dataclass(frozen=True)
class Row:
    """A row of the ledger; instants in microseconds."""

    job_id: str
    first: int
    last: int
    count: int
    outcome: str
    execution: str | None
    recorded_at: int
    reason: str = ""


@dataclass(frozen=True)
class Configuration:
    """A value that a shard had in etcd."""

    shard: int
    epoch: int
    primary: str
    sync: tuple[tuple[str, str], ...]
    """Nodes, and the names of their copies."""
    revision: int
    """etcd's, which grows with every write of any key."""


@dataclass(frozen=True)
class Restore:
    """etcd was set back.

    Attributes:
        revision: The last one before.
        epochs: Of the shards afterwards; shards without a configuration are left out.
    """

    revision: int
    epochs: dict[int, int]


@dataclass
class Records:
    """All records of a run.

    Attributes:
        run: The parameters.
        operations: Of clients, in the order in which they began.
        jobs: By id: name and when it was made.
        said: By execution and task.
        restores: When etcd was set back, in order.
        stalls: Stalls of the machine itself.
        replicas: Of each node's copy of a shard: shard, node, digest.
        end: What was left at the end.
    """

    run: Json
    operations: list[Operation]
    faults: list[Fault]
    lines: list[Line]
    jobs: dict[str, Json]
    executions: dict[str, Execution]
    ledger: dict[str, list[Row]]
    configurations: dict[int, list[Configuration]]
    replicas: list[Json]
    stalls: list[Fault]
    sink: list[Written]
    restores: list[Restore]
    end: Json

    def wall(self, boottime: float) -> int:
        """Return the wall clock's instant at *boottime*, in microseconds."""
        return round((boottime + float(self.run["wallClockAhead"])) * SECOND)

    def boottime(self, instant: int) -> float:
        """Return boot-time seconds of an instant."""
        return instant / SECOND - float(self.run["wallClockAhead"])

    def asked(self, *whats: str) -> Iterator[Operation]:
        """Yield the operations of some kinds."""
        return (each for each in self.operations if each.what in whats)

    def shard_of(self, job_id: str) -> int:
        """Return the shard of a job: its id begins with the hash slot, and shards are ranges."""
        return int(job_id[:4], 16) * len(self.configurations) >> 16

    def configuration_at(self, shard: int, revision: int) -> "Configuration | None":
        """Return a shard's configuration as of a revision of etcd."""
        known = [each for each in self.configurations[shard] if each.revision <= revision]
        return known[-1] if known else None

    def definition_of(self, execution: Execution) -> Json:
        """Return the definition of an execution's job; None if no client asked for such a job."""
        job = self.jobs.get(execution.job_id)
        return None if job is None else self.definitions_by_name.get(job["name"])

    def __post_init__(self) -> None:
        self.asked_by_name: dict[str, list[Operation]] = defaultdict(list)
        for each in self.asked("create"):
            self.asked_by_name[each.asked["job"]["name"]].append(each)
        self.definitions_by_name: dict[str, Json] = {
            name: asked[0].asked["job"] for name, asked in self.asked_by_name.items()
        }
        self.lines_of: dict[tuple[str, str], list[Line]] = defaultdict(list)
        """Of attempts that primaries started, by execution and task."""
        self.lines_by: dict[str, dict[tuple[str, str], list[Line]]] = defaultdict(
            lambda: defaultdict(list)
        )
        """Of attempts that stand-ins started, by node too."""
        for line in self.lines:
            of = self.lines_of if line.attempt <= OWN_MAX else self.lines_by[line.node]
            of[line.execution, line.task].append(line)


def read(folder: Path) -> Records:
    """Read the folder of a run."""
    return Records(
        run=json.loads((folder / "run.json").read_text()),
        operations=_operations(folder / "clients.jsonl"),
        faults=_faults(folder / "faults.jsonl"),
        lines=_lines(folder / "said"),
        jobs={each["jobId"]: each for each in _json_lines(folder / "jobs.jsonl")},
        executions={
            each.id: each for each in map(_execution, _json_lines(folder / "executions.jsonl"))
        },
        ledger=_ledger(folder / "ledger.jsonl"),
        configurations=_configurations(folder / "configurations.jsonl"),
        replicas=list(_json_lines(folder / "replicas.jsonl")),
        stalls=[
            Fault("stall", (), each["at"] - each["took"], each["at"])
            for each in _json_lines(folder / "stalls.jsonl")
        ],
        sink=[Written(**each) for each in _json_lines(folder / "sink.jsonl")],
        restores=[_restore(each) for each in _json_lines(folder / "restores.jsonl")],
        end=json.loads((folder / "end.json").read_text()),
    )


def instant(text: str | None) -> int | None:
    """Return microseconds since 1970 of an RFC 3339 text; None of None."""
    if text is None:
        return None
    return (datetime.fromisoformat(text) - _EPOCH) // timedelta(microseconds=1)


def at(text: str) -> int:
    """Return microseconds since 1970 of an RFC 3339 text."""
    found = instant(text)
    assert found is not None
    return found


def _operations(path: Path) -> list[Operation]:
    begun: dict[int, Json] = {}
    ended: dict[int, Json] = {}
    for line in _json_lines(path):
        (begun if line["event"] == "invoke" else ended)[line["op"]] = line
    return [_operation(each, ended.get(number)) for number, each in begun.items()]


def _operation(begun: Json, ended: Json) -> Operation:
    asked = Operation(begun["op"], begun["what"], begun["asked"], begun["at"])
    if ended is None:
        return asked
    return Operation(
        asked.number,
        asked.what,
        asked.asked,
        asked.began_at,
        ended["event"],
        ended["answer"],
        ended["at"],
    )


def _faults(path: Path) -> list[Fault]:
    begun: dict[int, Json] = {}
    faults: list[Fault] = []
    for line in _json_lines(path):
        if line["event"] == "begin":
            begun[line["fault"]] = line
        elif line["event"] == "end":
            faults.append(_fault(begun.pop(line["fault"]), line["at"]))
    unended = [_fault(each, float("inf")) for each in begun.values()]
    return sorted(faults + unended, key=lambda fault: fault.began_at)


def _fault(begun: Json, ended_at: float) -> Fault:
    return Fault(begun["kind"], tuple(begun["hosts"]), begun["at"], ended_at, begun.get("revision"))


def _lines(path: Path) -> list[Line]:
    lines: list[Line] = []
    for place, text in enumerate(path.read_text().splitlines()):
        execution, task, attempt, token, node, seconds, word = text.split()
        lines.append(Line(place, execution, task, int(attempt), token, node, float(seconds), word))
    return lines


def _execution(view: Json) -> Execution:
    return Execution(
        id=view["executionId"],
        job_id=view["jobId"],
        trigger=view["trigger"],
        status=view["status"],
        fire_at=at(view["fireTime"]),
        queued_at=at(view["queuedAt"]),
        finished_at=instant(view["finishedAt"]),
        trace=view["traceparent"],
        tasks=_tasks(view),
        stand_in=view.get("standIn"),
        doubles=tuple(
            Double(each["nodeId"], _tasks(each)) for each in view.get("possibleDuplicates") or ()
        ),
    )


def _tasks(view: Json) -> dict[str, tuple[Attempt, ...]]:
    return {name: tuple(map(_attempt, task["attempts"])) for name, task in view["tasks"].items()}


def _attempt(view: Json) -> Attempt:
    return Attempt(
        number=view["number"],
        node=view["nodeId"],
        token=view["token"],
        started_at=at(view["startedAt"]),
        finished_at=instant(view["finishedAt"]),
        outcome=view["outcome"],
    )


def _ledger(path: Path) -> dict[str, list[Row]]:
    rows: dict[str, list[Row]] = defaultdict(list)
    for view in _json_lines(path):
        row = Row(
            job_id=view["jobId"],
            first=at(view["fireTime"]),
            last=at(view["until"]),
            count=view["count"],
            outcome=view["outcome"],
            execution=view["executionId"],
            recorded_at=at(view["recordedAt"]),
            reason=view.get("reason", ""),
        )
        rows[row.job_id].append(row)
    return rows


def _configurations(path: Path) -> dict[int, list[Configuration]]:
    found: dict[int, list[Configuration]] = defaultdict(list)
    for each in _json_lines(path):
        value = each["value"]
        found[each["shard"]].append(
            Configuration(
                each["shard"],
                value["epoch"],
                value["primary"],
                tuple((node, copy) for node, copy in value["sync"]),
                each["revision"],
            )
        )
    return found


def _restore(line: Json) -> Restore:
    epochs = {int(shard): epoch for shard, epoch in line["epochs"].items()}
    return Restore(line["revision"], epochs)


def _json_lines(path: Path) -> Iterator[Json]:
    with path.open() as lines:
        for line in lines:
            yield json.loads(line)
