"""Delays of the fires due during a fault: on shards of its nodes, and on others.

Whose a shard was is read from etcd, as of the revision at which the fault began.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from chaos.judge.records import SECOND, Fault, Records, Row

DUE_WITHIN_S = 1.0
"""After the beginning of a fault. The jobs of the load fire once a second, so each is due once."""
OWN, OTHERS = "of its shards", "of others"


@dataclass
class Fires:
    """Delays of fires that were due during a fault of nodes, in milliseconds.

    Attributes:
        started: Until the start of the task, for fires that started.
        decided: Until the recorded outcome, started or not.
    """

    started: list[float] = field(default_factory=list[float])
    decided: list[float] = field(default_factory=list[float])


def outages(records: Records) -> dict[str, dict[str, Fires]]:
    """Return the delays by kind of fault, on shards of its nodes and on others."""
    started_at = {
        line.execution: line.at
        for line in reversed(records.lines)
        if line.word == "start"  # The first of each execution stays.
    }
    found: dict[str, dict[str, Fires]] = {}
    for fault in records.faults:
        if fault.revision is None or not fault.hosts:
            continue
        lost = _led_by(records, fault)
        kinds = found.setdefault(fault.kind, defaultdict(Fires))
        for row, due in _due(records, fault):
            fires = kinds[OWN if records.shard_of(row.job_id) in lost else OTHERS]
            fires.decided.append((records.boottime(row.recorded_at) - due) * 1e3)
            if row.execution in started_at:
                fires.started.append((started_at[row.execution] - due) * 1e3)
    return found


def _due(records: Records, fault: Fault) -> Iterator[tuple[Row, float]]:
    """Yield rows of the ledger, each with its first fire time during the fault."""
    since = records.wall(fault.began_at)
    until = since + round(DUE_WITHIN_S * SECOND)
    for rows in records.ledger.values():
        for row in rows:
            if row.first < until and row.last >= since:
                yield row, records.boottime(max(row.first, since))


def _led_by(records: Records, fault: Fault) -> set[int]:
    """Return the shards whose primary was one of the fault's nodes."""
    assert fault.revision is not None
    led: set[int] = set()
    for shard in records.configurations:
        known = records.configuration_at(shard, fault.revision)
        if known and known.primary in fault.hosts:
            led.add(shard)
    return led
