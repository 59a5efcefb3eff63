"""C10: stand-ins fire available jobs alone, where the shard cannot, and their runs are on record.

A stand-in's attempts are numbered from a million, so the lines of a task show whether a stand-in
started it. Attempts of a stand-in have to be on record with their execution, and the same rules
apply to them as to those of primaries.
"""

from collections.abc import Iterator

from chaos.judge.attempts import losses, numbered, one_at_a_time, said
from chaos.judge.records import OWN_MAX, Fault, Json, Line, Records, Violation

TAKES_A_DISK = {"wipe", "old-copy", "flip"}
"""The records of a stand-in are on its own disk alone until they are delivered."""
BEGINS_S = 3.0
"""A stand-in waits 2 s for other candidates before it begins."""
AFTER_A_DUE_S = 2.0
"""Jobs fire once a second, and a task takes some time until its first line."""
SEEN_S = 3.0
"""Least length of the period in which every job has to run."""


def violations(records: Records) -> Iterator[Violation]:
    """Yield attempts of stand-ins that are not on record, and missing runs of stand-ins."""
    for node, execution_id, task in sorted(set(_stand_in_tasks(records))):
        lines = records.lines_by[node].get((execution_id, task), [])
        yield from _recorded(records, node, execution_id, task, lines)
    yield from _continued(records)


def _stand_in_tasks(records: Records) -> Iterator[tuple[str, str, str]]:
    """Yield node, execution and task of stand-ins' lines and records, perhaps twice."""
    for node, tasks in records.lines_by.items():
        yield from ((node, execution_id, task) for execution_id, task in tasks)
    for execution in records.executions.values():
        for double in execution.doubles:
            yield from ((double.node, execution.id, task) for task in double.tasks)
        if execution.stand_in:
            yield from ((execution.stand_in, execution.id, task) for task in execution.tasks)


def _recorded(
    records: Records, node: str, execution_id: str, task: str, lines: list[Line]
) -> Iterator[Violation]:
    place = f"{execution_id}/{task} by {node}"
    execution = records.executions.get(execution_id)
    definition = execution and records.definition_of(execution)
    seen_at = lines[0].at if lines else None
    if definition and not _is_available(definition):
        yield Violation("C10", f"{place} is of a strict job, and ran in its shard's place", seen_at)
    attempts = execution.by_stand_in(node, task) if execution else ()
    if attempts:
        yield from numbered(place, attempts, base=OWN_MAX)
        yield from losses(records, place, attempts, lines)
        yield from said(place, attempts, lines)
    elif lines and not _lost_its_disk(records, node, lines[0]):
        yield Violation("C10", f"{place} ran, and is not on record: {lines[0]}", seen_at)
    if lines:
        yield from one_at_a_time(records, lines)


def _lost_its_disk(records: Records, node: str, line: Line) -> bool:
    return any(
        fault.kind in TAKES_A_DISK and node in fault.hosts and fault.ended_at >= line.at
        for fault in records.faults
    )


def _continued(records: Records) -> Iterator[Violation]:
    """A node that was isolated for long enough has fired the jobs of its counted copies."""
    available = {
        job_id: job["name"]
        for job_id, job in records.jobs.items()
        if _is_available(records.definitions_by_name.get(job["name"]))
    }
    for fault in records.faults:
        since = fault.began_at + records.run["standInAfterS"] + BEGINS_S + AFTER_A_DUE_S
        if (
            fault.kind != "isolate"
            or fault.ended_at - since < SEEN_S
            or _stood_still(records, fault)
        ):
            continue
        [node] = fault.hosts
        ran = [
            execution_id
            for (execution_id, _), lines in records.lines_by[node].items()
            if any(since <= line.at <= fault.ended_at for line in lines)
        ]
        for job_id, name in available.items():
            is_fired = any(each.startswith(job_id) for each in ran)  # An id begins with its job's.
            if not is_fired and _counts(records, node, job_id, fault):
                alone_s = fault.ended_at - fault.began_at
                text = f"{name} did not fire on {node}, which was isolated for {alone_s:.1f} s"
                yield Violation("C10", text, fault.ended_at)


def _is_available(definition: Json) -> bool:
    return bool(definition) and definition.get("consistency") == "available"


def _stood_still(records: Records, fault: Fault) -> bool:
    return any(
        stall.began_at <= fault.ended_at and stall.ended_at >= fault.began_at
        for stall in records.stalls
    )


def _counts(records: Records, node: str, job_id: str, fault: Fault) -> bool:
    """Return True if a node had a counted copy of a job's shard when a fault began."""
    if fault.revision is None:
        return False
    known = records.configuration_at(records.shard_of(job_id), fault.revision)
    return known is not None and node in {name for name, _ in known.sync}
