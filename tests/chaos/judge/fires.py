"""C3, C8, I11: each fire time of each job has one outcome, and one that its policies allow.

The fire times are computed independently (`chaos.judge.oracle`), from the job as its client wrote
it. They count from the creation of the job until the first request to pause it.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator

from chaos.judge.oracle import SECOND, fire_times
from chaos.judge.records import Execution, Json, Records, Row, Violation, at

OUTCOMES = {
    "all": {"fired", "skipped"},
    "latest": {"fired", "skipped", "coalesced"},
    "skip": {"fired", "skipped", "missed"},
}
LATE = {"coalesced", "missed"}
EARLY_S = 0.55
"""The wall clock of a node may differ by half a second from those of most nodes."""
DECIDED_AHEAD = 25_000
"""The nodes' `decide_ahead`, in microseconds."""
DISK_FULL = re.compile(r"disk_full: the disk of node (\S+) ")
"""Why a fire was missed whatever its policy says."""
NOTICED_S = 5.0
"""Limit until a primary has noticed that a disk has space again."""
SLACK = SECOND
"""Between the creation time of a job for the client and for the shard."""


def violations(records: Records) -> Iterator[Violation]:
    """Yield fire times without outcome or with several, and outcomes that cannot be."""
    fired: dict[str, list[Execution]] = defaultdict(list)
    for execution in records.executions.values():
        if execution.trigger == "schedule":
            fired[execution.job_id].append(execution)
    paused_at = {each.asked["job"]: records.wall(each.began_at) for each in records.asked("pause")}
    paused = {each.asked["job"] for each in records.asked("hold")}
    """Jobs whose pauses `chaos.judge.pauses` checks."""
    end = records.wall(records.run["endedAt"])
    for job_id, job in records.jobs.items():
        definition = records.definitions_by_name.get(job["name"])
        rows, executions = records.ledger.get(job_id, []), fired.pop(job_id, [])
        if definition is None or "schedule" not in definition:
            if rows or executions:
                yield Violation("C3", f"{job['name']} has no schedule, and fired: {rows[:3]}")
            continue
        until = paused_at.get(job["name"], end)
        yield from _made(records, job)
        yield from _covered(job, definition["schedule"], rows, until)
        for row in rows:
            yield from _allowed(records, definition, row, until, paused)
        yield from _matched(job, rows, executions)
    yield from _early(records)
    for executions in fired.values():
        yield Violation("C3", f"of a job that is not there: {[each.id for each in executions[:3]]}")


def _early(records: Records) -> Iterator[Violation]:
    """No task starts before it is due, whatever the wall clock of its node."""
    for line in records.lines:
        execution = records.executions.get(line.execution)
        if execution and execution.trigger == "schedule" and line.word == "start":
            early_s = records.boottime(execution.fire_at) - line.at
            if early_s > EARLY_S:
                yield Violation("C3", f"{line} came {early_s:.3f} s before it was due", line.at)


def _made(records: Records, job: Json) -> Iterator[Violation]:
    """The first fire time depends on the creation time of the job, so that has to be right."""
    made_at = at(job["createdAt"])
    asked = [each for each in records.asked_by_name.get(job["name"], []) if each.outcome != "fail"]
    if not any(
        records.wall(each.began_at) - SLACK <= made_at
        and (each.outcome == "info" or made_at <= records.wall(each.ended_at) + SLACK)
        for each in asked
    ):
        yield Violation("C3", f"{job['name']} says that it was made at {job['createdAt']}: {asked}")


def _covered(job: Json, schedule: str, rows: list[Row], until: int) -> Iterator[Violation]:
    covered: Counter[int] = Counter()
    made_at = at(job["createdAt"])
    for row in rows:
        # An @at that has passed when the job is made is late, and still fires.
        times = fire_times(schedule, row.first - 1, row.last)
        if len(times) != row.count or times[0] != row.first or times[-1] != row.last:
            yield Violation("C3", f"{job['name']}: {row} speaks of {len(times)} fire times")
        covered.update(times)
    expected = set(fire_times(schedule, made_at, until))
    if missing := sorted(expected - set(covered)):
        yield Violation(
            "C3", f"{job['name']} ({schedule}) has no outcome for {len(missing)}: {missing[:5]}"
        )
    if twice := sorted(time for time, times in covered.items() if times > 1):
        yield Violation("C3", f"{job['name']} has several outcomes for {twice[:5]}")
    if early := sorted(time for time in covered if time <= made_at and "@at" not in schedule):
        yield Violation("C3", f"{job['name']} was made at {made_at}, and fired at {early[:5]}")


def _allowed(
    records: Records, definition: Json, row: Row, until: int, paused: set[str]
) -> Iterator[Violation]:
    name = definition["name"]
    allowed = OUTCOMES[definition.get("misfire", "latest")]
    if row.last > until or name in paused:
        allowed = allowed | {"paused"}
    if full := DISK_FULL.match(row.reason):
        yield from _full(records, name, row, full[1])
        return
    if row.outcome not in allowed:
        yield Violation("C8", f"{name}: {row}; its policy allows {sorted(allowed)}")
    ahead = DECIDED_AHEAD if row.outcome == "fired" else 0
    if row.recorded_at < row.last - ahead:
        yield Violation("C3", f"{name}: decided before it was due: {row}")
    grace = int(definition.get("grace", "10s").removesuffix("s")) * SECOND
    if row.outcome in LATE and row.recorded_at - row.last <= grace:
        yield Violation("C8", f"{name}: it was not late: {row}")
    if row.outcome == "skipped":
        blocking = records.executions.get(row.execution or "")
        if definition.get("overlap") != "skip" or blocking is None:
            yield Violation("C8", f"{name}: nothing was in the way: {row}")
        elif blocking.job_id != row.job_id or blocking.queued_at > row.recorded_at:
            yield Violation("C8", f"{name}: {blocking.id} was not in the way: {row}")


def _full(records: Records, name: str, row: Row, node_id: str) -> Iterator[Violation]:
    """A fire is missed for want of space only while the disk of that node is full."""
    if row.outcome != "missed" or row.recorded_at < row.last:
        yield Violation("C8", f"{name}: no outcome of a full disk: {row}")
    recorded = records.boottime(row.recorded_at)
    if not any(
        fault.kind == "disk-full"
        and node_id in fault.hosts
        and fault.began_at - EARLY_S <= recorded <= fault.ended_at + NOTICED_S
        for fault in records.faults
    ):
        yield Violation("C8", f"{name}: the disk was not full: {row}")


def _matched(job: Json, rows: list[Row], executions: list[Execution]) -> Iterator[Violation]:
    """Each row with the outcome ``fired`` has one execution, and there are no others."""
    recorded = Counter(row.execution for row in rows if row.outcome == "fired")
    there = {each.id: each for each in executions}
    for row in rows:
        if row.outcome == "fired":
            execution = there.get(row.execution or "")
            if row.count != 1 or execution is None or execution.fire_at != row.first:
                yield Violation("C3", f"{job['name']}: {row} has no such execution: {execution}")
    for execution_id, times in recorded.items():
        if times > 1:
            yield Violation("C3", f"{job['name']}: {execution_id} was fired {times} times")
    times_of = Counter(each.fire_at for each in executions)
    if twice := sorted(time for time, times in times_of.items() if times > 1):
        yield Violation("C3", f"{job['name']} has two executions for {twice[:5]}")
    # An execution of a stand-in alone may belong to a fire with another outcome in the ledger.
    ours = {each.id for each in executions if not each.stand_in}
    if extra := sorted(ours - set(recorded)):
        yield Violation("C3", f"{job['name']}: no row of the ledger fired {extra[:5]}")
