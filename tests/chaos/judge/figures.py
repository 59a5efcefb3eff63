"""Figures of a run: lateness, latency and counts, by the fault under way."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from itertools import pairwise
from statistics import median

from chaos.judge.outages import outages
from chaos.judge.records import Fault, Json, Records

QUIET = "no fault"
AFTERMATH_S = 8.0
"""Lateness until then after a fault's end is attributed to the fault."""
CALLS = ("create", "trigger", "cancel", "put", "delete", "get", "pause")


def figures(records: Records) -> Json:
    """Return lateness, latency and unavailability by kind of fault, and how much there was."""
    phase_of = _phases(records.faults)
    return {
        "run": records.run,
        "counts": _counts(records),
        "lateness_ms": _by_phase(_lateness(records), phase_of),
        "calls_ms": _by_phase(_latencies(records), phase_of),
        "faults": _faults(records),
        "outages_ms": _outages(records),
    }


def table(figures: Json) -> str:
    """Return the figures as text."""
    lines = [f"{'':24}{'count':>8}{'p50':>9}{'p99':>9}{'max':>9}"]
    for title, key in (("start after due, ms", "lateness_ms"), ("client calls, ms", "calls_ms")):
        lines.append(title)
        for phase, each in figures[key].items():
            cells = "".join(f"{each[name]:>9.1f}" for name in ("p50", "p99", "max"))
            lines.append(f"  {phase:22}{each['count']:>8}{cells}")
    lines.append("faults: count, latest start (median, max) and slowest call (median, max), ms")
    for kind, each in figures["faults"].items():
        late, slow = each["latest_start_ms"], each["slowest_call_ms"]
        cells = "".join(f"{value:>9.0f}" for value in (*late, *slow))
        lines.append(f"  {kind:22}{each['count']:>8}{cells}")
    lines.append(
        "fires due in the second after a fault began: until they started, were decided, ms"
    )
    for kind, each in figures["outages_ms"].items():
        for whose, fires in each.items():
            for what, found in fires.items():
                cells = "".join(f"{found[name]:>9.1f}" for name in ("p50", "p99", "max"))
                lines.append(f"  {kind + ' ' + whose:34}{what:10}{found['count']:>8}{cells}")
    for name, value in figures["counts"].items():
        lines.append(f"{name:24}{value}")
    return "\n".join(lines)


def _counts(records: Records) -> Json:
    submissions = [each for each in records.operations if each.what in ("create", "trigger")]
    attempts = [
        attempt.outcome
        for execution in records.executions.values()
        for tries in execution.tasks.values()
        for attempt in tries
    ]
    outcomes: Counter[str] = Counter()
    for rows in records.ledger.values():
        for row in rows:
            outcomes[row.outcome] += row.count
    pairs = [pair for history in records.configurations.values() for pair in pairwise(history)]
    return {
        "fires": dict(outcomes),
        "executions": dict(Counter(each.status for each in records.executions.values())),
        "attempts": dict(Counter(map(str, attempts))),
        "submissions": dict(Counter(each.outcome for each in submissions)),
        "calls that failed": dict(
            Counter(
                str(each.answer.get("code"))
                for each in records.operations
                if each.outcome != "ok" and each.what in CALLS
            )
        ),
        "faults": dict(Counter(each.kind for each in records.faults)),
        "stood in": {
            "for a primary": sum(bool(each.stand_in) for each in records.executions.values()),
            "possible duplicates": sum(len(each.doubles) for each in records.executions.values()),
        },
        "configurations changed": len(pairs),
        "primaries changed": sum(before.primary != after.primary for before, after in pairs),
        "whole after s": records.end["wholeAfterS"],
    }


def _lateness(records: Records) -> list[tuple[float, float]]:
    """Return when fires were due, and how many ms after that their tasks said that they start."""
    found: list[tuple[float, float]] = []
    seen: set[str] = set()
    for line in records.lines:
        execution = records.executions.get(line.execution)
        if line.word == "start" and execution and execution.trigger == "schedule":
            if line.execution not in seen:
                due = records.boottime(execution.fire_at)
                found.append((due, (line.at - due) * 1e3))
            seen.add(line.execution)
    return found


def _latencies(records: Records) -> list[tuple[float, float]]:
    return [
        (each.began_at, (each.ended_at - each.began_at) * 1e3)
        for each in records.operations
        if each.what in CALLS and each.ended_at < float("inf")
    ]


def _phases(faults: list[Fault]) -> Callable[[float], str]:
    def phase(moment: float) -> str:
        for fault in reversed(faults):
            if fault.began_at <= moment < fault.ended_at + AFTERMATH_S:
                return fault.kind
        return QUIET

    return phase


def _by_phase(
    moments: Iterable[tuple[float, float]], phase_of: Callable[[float], str]
) -> dict[str, Json]:
    phases: dict[str, list[float]] = defaultdict(list)
    for moment, value in moments:
        phases[phase_of(moment)].append(value)
    return {name: _quantiles(values) for name, values in sorted(phases.items())}


def _quantiles(values: list[float]) -> Json:
    values.sort()
    at = {"p50": 0.5, "p99": 0.99, "max": 1.0}
    last = len(values) - 1
    return {"count": len(values)} | {
        name: round(values[round(share * last)], 1) for name, share in at.items()
    }


def _outages(records: Records) -> Json:
    return {
        kind: {
            whose: {
                what: _quantiles(values)
                for what, values in (("started", fires.started), ("decided", fires.decided))
                if values
            }
            for whose, fires in sorted(each.items())
        }
        for kind, each in outages(records).items()
    }


def _faults(records: Records) -> dict[str, Json]:
    """Return what the latest start and the slowest call were, of each fault."""
    lateness, latencies = _lateness(records), _latencies(records)
    late: dict[str, list[float]] = defaultdict(list)
    slow: dict[str, list[float]] = defaultdict(list)
    for number, fault in enumerate(records.faults):
        later = records.faults[number + 1 :]
        until = min(
            [fault.ended_at + AFTERMATH_S, *(each.began_at for each in later[:1])],
        )
        for moments, worst in ((lateness, late), (latencies, slow)):
            within = [value for at, value in moments if fault.began_at - 1 <= at < until]
            worst[fault.kind].append(max(within, default=0.0))
    return {
        kind: {
            "count": len(late[kind]),
            "latest_start_ms": (round(median(late[kind])), round(max(late[kind]))),
            "slowest_call_ms": (round(median(slow[kind])), round(max(slow[kind]))),
        }
        for kind in late
    }
