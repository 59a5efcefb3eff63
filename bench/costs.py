"""The costs of an execution: processor time of every process, syncs, entries, bytes."""

import time
from collections import defaultdict
from collections.abc import Mapping

import msgspec

from bench.api import Api
from bench.fleet import Fleet
from bench.processes import cpu_of_ended_children_s, cpu_s, rss_mib, written_bytes

COUNTED = {
    "decisions": "rota_decisions_total",
    "entries": "rota_journal_entries_total",
    "syncs": "rota_journal_syncs_total",
    "frames": 'rota_peer_frames_total{direction="sent"}',
    "frame_bytes": 'rota_peer_bytes_total{direction="sent"}',
}
"""The metrics, all nodes together, by their names in a report."""


class Costs(msgspec.Struct, frozen=True, kw_only=True):
    """The resources that a load used; processor time and counts are per execution.

    Attributes:
        executions: The number of executions.
        seconds: The time from the first request to the last recorded end.
        cpu_ms: The processor time by kind of process, see `Fleet.processes`, and of the
            ``generator``. ``tasks`` are the processes that wardens started, including ended ones.
        counts: The counts by the names of `COUNTED`, and the ``disk_bytes`` that nodes wrote.
    """

    executions: int
    seconds: float
    cpu_ms: dict[str, float]
    counts: dict[str, float]

    @property
    def rate(self) -> float:
        """The number of executions per second."""
        return self.executions / self.seconds


class Meter:
    """The resources that a fleet uses between the start of the measurement and `read`.

    No process of the fleet may be started or killed in between.
    """

    def __init__(self, fleet: Fleet, counters: Mapping[str, float]) -> None:
        self._fleet = fleet
        self._counters_before = counters
        self._usage_before = _usage(fleet)
        self._began = time.perf_counter()

    @classmethod
    async def begin(cls, fleet: Fleet, api: Api) -> "Meter":
        """Return a meter whose measurement starts now."""
        return cls(fleet, await api.counters())

    async def read(self, api: Api, executions: int) -> Costs:
        """Return the costs of each of *executions* executions."""
        seconds = time.perf_counter() - self._began
        used = _difference(_usage(self._fleet), self._usage_before)
        disk_bytes = used.pop("disk_bytes")
        counted = _difference(await api.counters(), self._counters_before)
        counts = {name: counted.get(metric, 0.0) for name, metric in COUNTED.items()}
        return Costs(
            executions=executions,
            seconds=seconds,
            cpu_ms={kind: 1e3 * spent / executions for kind, spent in used.items()},
            counts={
                name: count / executions
                for name, count in (counts | {"disk_bytes": disk_bytes}).items()
            },
        )


def _usage(fleet: Fleet) -> dict[str, float]:
    """Return the seconds of processor time by kind of process, and the bytes written."""
    used: defaultdict[str, float] = defaultdict(float, generator=time.process_time())
    for kind, pid in fleet.processes():
        used[kind] += cpu_s(pid)
        if kind == "warden":
            used["tasks"] += cpu_of_ended_children_s(pid)
        if kind == "node":
            used["disk_bytes"] += written_bytes(pid)
    return used


def _difference(after: Mapping[str, float], before: Mapping[str, float]) -> dict[str, float]:
    return {name: value - before.get(name, 0.0) for name, value in after.items()}


def memory_mib(fleet: Fleet) -> dict[str, float]:
    """Return the resident memory of the largest process of each kind."""
    found: dict[str, float] = {}
    for kind, pid in fleet.processes():
        found[kind] = max(found.get(kind, 0.0), rss_mib(pid))
    return found
