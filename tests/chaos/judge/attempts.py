"""C4, C5, C6, I9, I13: attempts that ran are on record; none ran twice at a time; tokens grow.

Tasks themselves record when they start, that they still run, and when they end, all in one file.
The order of its lines is the order of events, so two attempts of a task overlap when one writes a
line after the other has started. That does not depend on clocks.
"""

from collections import defaultdict
from collections.abc import Iterator
from itertools import chain, pairwise

from chaos.judge.records import Attempt, Execution, Fault, Json, Line, Records, Violation

BETWEEN_NODES = {
    "partition", "one-way", "isolate", "refuse", "ring", "zone", "swizzle", "loss", "slow-link",
    "stale-link",
}  # fmt: skip
"""Faults of the network between nodes, which also affect other nodes."""
ENDS_ATTEMPTS = {
    "kill-warden", "kill-host", "wipe", "old-copy", "flip", "pause", "pause-both", *BETWEEN_NODES,
}  # fmt: skip
"""Faults after which a running attempt may be lost: its warden is gone, or cannot report it."""
LOST, FENCED = "lost", "cancelled"
ENDED_BY_ITS_NODE = (LOST, FENCED)
"""No report of it arrived; or its warden killed it, because its node's right to run it expired."""
STALL = "stall"
"""It ends no running attempt: all observed stalls were too short for that."""
TO_ALL = {"rolling", "upgrade", "grow", STALL}
"""Faults that are done to every node."""
STOPS_FENCING = "pause-both"
"""Nothing is left to end the attempts of such a node: overlaps are possible until it resumes."""
LEASED = 0.9
"""Least part of an attempt's lease that is left when its node fails: it counts from before the
request, runs out early, and is renewed about every second."""
AFTERMATH_S = 40.0
"""Limit after a fault until its losses are found: leases of attempts, and time to kill."""


def violations(records: Records) -> Iterator[Violation]:
    """Yield attempts that ran and are not on record, the other way round, and overlaps."""
    for execution in records.executions.values():
        definition = records.definition_of(execution)
        for task in execution.tasks:
            attempts = execution.own(task)
            lines = records.lines_of.get((execution.id, task), [])
            place = f"{execution.id}/{task}"
            yield from numbered(place, attempts)
            yield from _outcomes(place, attempts)
            yield from losses(records, place, attempts, lines)
            if definition is not None and _says(definition, task):
                yield from said(place, attempts, lines)
        yield from _order(records, execution, definition)
    for (execution_id, task), lines in records.lines_of.items():
        known = records.executions.get(execution_id)
        if known is None or task not in known.tasks:
            yield Violation("C4", f"{execution_id}/{task} ran, and is not on record: {lines[0]}")
        yield from one_at_a_time(records, lines)
    yield from _jobs_one_at_a_time(records)


def numbered(place: str, attempts: tuple[Attempt, ...], base: int = 0) -> Iterator[Violation]:
    """Attempts are numbered without a gap, from *base* + 1, and their tokens grow."""
    numbers = [each.number for each in attempts]
    if numbers != list(range(base + 1, base + len(numbers) + 1)):
        yield Violation("I9", f"{place} has attempts {numbers}")
    for before, after in pairwise(attempts):
        if before.token >= after.token:
            yield Violation("C6", f"{place} has tokens {before.token}, {after.token}")


def _outcomes(place: str, attempts: tuple[Attempt, ...]) -> Iterator[Violation]:
    for before in attempts[:-1]:
        if before.outcome not in ("failed", *ENDED_BY_ITS_NODE):
            yield Violation("C4", f"{place} was tried again after the outcome {before.outcome}")


def losses(
    records: Records, place: str, attempts: tuple[Attempt, ...], lines: list[Line]
) -> Iterator[Violation]:
    """An attempt that ran is lost only by a fault of its node.

    An attempt without any line may also be lost by a stall of the machine, in which sessions ended;
    or by a change of primary: its start was recorded, and before the node launched it another
    primary decided. Then the next attempt's token has a higher epoch, its first half.
    """
    started = {line.attempt for line in lines if line.word == "start"}
    for each, after in zip(attempts, (*attempts[1:], None), strict=False):
        is_fenced = each.outcome == FENCED and after is not None
        if each.outcome != LOST and not is_fenced:
            continue
        faults = list(_done_to(records, each))
        if each.number in started:
            is_explained = any(
                _ends(records, fault, each) for fault in faults if fault.kind != STALL
            )
        else:
            is_explained = bool(faults) or after is None or _epoch(after) > _epoch(each)
        if not is_explained:
            done = sorted({fault.kind for fault in faults})
            ran = "ran" if each.number in started else "never ran"
            text = f"{place}: {each} {ran}, and is {each.outcome}; to its node: {done}"
            yield Violation("C4", text, records.boottime(each.finished_at or each.started_at))


def _ends(records: Records, fault: Fault, attempt: Attempt) -> bool:
    """Return True if a fault ends running attempts, or lasted longer than the attempt's lease."""
    lost_at = records.boottime(attempt.finished_at or attempt.started_at)
    away_s = lost_at - fault.began_at
    return fault.kind in ENDS_ATTEMPTS or away_s >= LEASED * records.run["attemptLeaseS"]


def _done_to(records: Records, attempt: Attempt) -> Iterator[Fault]:
    began = records.boottime(attempt.started_at) - 1
    ended = records.boottime(attempt.finished_at or attempt.started_at) + 1
    for fault in chain(records.faults, records.stalls):
        is_concerned = attempt.node in fault.hosts or (not fault.hosts and fault.kind in TO_ALL)
        if (is_concerned or fault.kind in BETWEEN_NODES) and (
            fault.began_at <= ended and began <= fault.ended_at + AFTERMATH_S
        ):
            yield fault


def _epoch(attempt: Attempt) -> str:
    return attempt.token[:16]


def _says(definition: Json, task: str) -> bool:
    of_task = next(
        (each for each in definition.get("tasks", ()) if each["name"] == task), definition
    )
    return "python" in of_task or "command" in of_task


def said(place: str, attempts: tuple[Attempt, ...], lines: list[Line]) -> Iterator[Violation]:
    """A task's recorded attempts match the lines that it wrote."""
    recorded = {each.number: each for each in attempts}
    words: dict[int, list[str]] = defaultdict(list)
    for line in lines:
        if line.word != "tick":
            words[line.attempt].append(line.word)
        if line.word == "start" and (
            line.attempt not in recorded or recorded[line.attempt].token != line.token
        ):
            yield Violation("C4", f"{place}: {line} ran, and on record is {attempts}")
    for number, attempt in recorded.items():
        said = words[number]
        if said.count("start") > 1 or said.count("end") > 1:
            yield Violation("C4", f"{place}: attempt {number} said {said}")
        if attempt.outcome in ("success", "failed") and said != ["start", "end"]:
            yield Violation("C4", f"{place}: {attempt} said {said}")


def one_at_a_time(records: Records, lines: list[Line]) -> Iterator[Violation]:
    """No attempt of a task writes a line after another has started; tokens grow."""
    current = lines[0]
    for line in lines[1:]:
        if line.attempt != current.attempt and line.word == "start":
            if line.token <= current.token or line.attempt <= current.attempt:
                yield Violation("C6", f"{line} started after {current}", line.at)
            current = line
        elif line.attempt != current.attempt and not _is_unfenced(records, line):
            yield Violation("C5", f"{line} while another attempt ran: {current}", line.at)


def _is_unfenced(records: Records, line: Line) -> bool:
    return any(
        fault.kind == STOPS_FENCING
        and line.node in fault.hosts
        and fault.began_at <= line.at <= fault.ended_at + 1
        for fault in records.faults
    )


def _jobs_one_at_a_time(records: Records) -> Iterator[Violation]:
    """Executions of a job that forbids it never overlap, and tokens grow from one to the next."""
    current: dict[str, Line] = {}
    for line in records.lines:
        execution = records.executions.get(line.execution)
        definition = execution and records.definition_of(execution)
        if not execution or not definition or definition.get("overlap") != "skip":
            continue
        before = current.get(execution.job_id)
        if before is None or before.execution == line.execution:
            current[execution.job_id] = line
        elif line.word == "start":
            if line.token <= before.token:
                yield Violation("C6", f"{line} started after {before}", line.at)
            current[execution.job_id] = line
        elif not _is_unfenced(records, line):
            yield Violation("C5", f"{line} while another execution ran: {before}", line.at)


def _order(records: Records, execution: Execution, definition: Json) -> Iterator[Violation]:
    """No task starts before the last line of each task that it needs."""
    tasks: list[Json] = definition.get("tasks", []) if definition else []
    for task in tasks:
        own = records.lines_of.get((execution.id, task["name"]), [])
        for needed in task.get("needs", ()) if own else ():
            before = records.lines_of.get((execution.id, needed), [])
            if not before or before[-1].place > own[0].place:
                yield Violation(
                    "I13", f"{own[0]} needs {needed}, of which the last is {before[-1:]}"
                )
