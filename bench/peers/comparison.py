"""Comparison with other systems: the ratios of their figures to those of rota in one round."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median

from bench.machine import Machine
from bench.peers.systems import STARTS_PER_S, SYSTEMS, System
from bench.peers.turns import Seen
from bench.report import figure, heading
from rota.client.slo.percentiles import percentile

Read = Callable[[Seen], float]

COLUMNS: dict[str, tuple[str, Read]] = {
    "started a second, all at once": ("throughput", lambda seen: seen.per_s),
    "request to start, p50 ms": ("start", lambda seen: _at(seen, 0.5)),
    "request to start, p99 ms": ("start", lambda seen: _at(seen, 0.99)),
    "1,000 timers, lateness p50 ms": ("timers", lambda seen: _at(seen, 0.5)),
    "1,000 timers, lateness p99 ms": ("timers", lambda seen: _at(seen, 0.99)),
    "500 in one instant, last ms": ("timers-at-once", lambda seen: _at(seen, 1.0)),
    "chain, a hop, p50 ms": ("chain", lambda seen: _at(seen, 0.5)),
    "processes a second, all at once": ("processes", lambda seen: seen.per_s),
    "all killed and started again, to a start, p50 ms": (
        "restart",
        lambda seen: _at(seen, 0.5),
    ),
}
REFERENCE = "rota-3"
ROTA = {
    "rota-1": "one node, defaults, a Python function in warm workers. Durable: on its disk, synced "
    "before the answer",
    "rota-3": "three nodes and etcd, defaults. Durable: on three disks, synced before the answer",
}
_METHOD = (
    "All systems ran the same Python function, which writes a line to a file, or the same shell "
    "command, in a process for each run, and took turns in each round. For the restart, all "
    "processes of a system except etcd are killed and started again; the time includes the start "
    "of the process that makes the requests. Each cell has the median of the rounds, and in "
    f"parentheses the ratio to rota on three nodes (`{REFERENCE}`) in the same round, minimum to "
    "maximum. CPU is that of all processes, including Redis, PostgreSQL and etcd, but without the "
    "process that makes the requests, which for APScheduler does all other work."
)
Values = Mapping[str, Mapping[int, float]]
"""Figures by system and round."""


def _at(seen: Seen, share: float) -> float:
    return percentile(sorted(seen.ms), share)


def about(system: System, version: str) -> str:
    """Return a system's configuration, its durability, and the loads that were reduced for it."""
    counts = [f"{count} of `{scenario}`" for scenario, count in system.at_most.items()]
    fewer = [f"at most {', '.join(counts)}"] if counts else []
    if system.starts_per_s != STARTS_PER_S:
        fewer += [f"{system.starts_per_s:g} requests per second in `start`, not {STARTS_PER_S:g}"]
    spared = f". Reduced, as more would only have queued: {'; '.join(fewer)}" if fewer else ""
    return f"{version}; {system.configuration}. Durable: {system.durability}{spared}"


def write_comparison(
    machine: Machine,
    seen: Sequence[Seen],
    versions: Mapping[str, str],
    folder: Path,
    *,
    troubles: Mapping[str, str] | None = None,
) -> Path:
    """Write ``peers.md`` into *folder*; return its path.

    Args:
        machine: The machine of the run.
        seen: The results of all rounds of all systems.
        versions: The installed versions of each system other than rota.
        folder: The folder of the report.
        troubles: For requested systems that were not measured, or only in part, the reason.
    """
    parts = [
        "# rota and other schedulers",
        heading(machine),
        _METHOD,
    ]
    names = [*ROTA, *versions]
    rows = [f"| | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    for title, (scenario, read) in COLUMNS.items():
        values = _values(seen, scenario, read)
        rows += [f"| {title} | {' | '.join(_cell(values, name) for name in names)} |"]
    cpu = _values(seen, "throughput", lambda each: each.cpu_ms)
    rows += [f"| CPU ms of one | {' | '.join(_cell(cpu, name) for name in names)} |"]
    parts += ["\n".join(rows), "The configurations, and the data after a loss of power:"]
    lines = [f"- `{name}`: {text}." for name, text in ROTA.items()]
    for name, version in versions.items():
        lines += [f"- `{name}`: {about(SYSTEMS[name], version)}."]
    lines += [f"- `{name}` {trouble}." for name, trouble in (troubles or {}).items()]
    parts += ["\n".join(lines)]
    path = folder / "peers.md"
    path.write_text("\n\n".join(parts) + "\n")
    return path


def _values(seen: Sequence[Seen], scenario: str, read: Read) -> Values:
    found: defaultdict[str, dict[int, float]] = defaultdict(dict)
    for each in seen:
        if each.scenario == scenario:
            found[each.system][each.round] = read(each)
    return found


def _cell(values: Values, name: str) -> str:
    """Return a system's figure and its ratios to the reference; ``-`` if there is no figure."""
    mine, theirs = values.get(name, {}), values.get(REFERENCE, {})
    if not any(mine.values()):
        return "-"
    ratios = sorted(mine[each] / theirs[each] for each in mine if theirs.get(each))
    shown = figure(median(mine.values()))
    if name == REFERENCE or not ratios:
        return shown
    return f"{shown} ({figure(ratios[0])} to {figure(ratios[-1])})"
