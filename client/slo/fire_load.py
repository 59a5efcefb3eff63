"""A load of evenly spread fire times, and their outcomes.

The load consists of schedules: it does not depend on a client's speed, and lateness counts from the
fire time, independent of earlier fires. A stall of a second thus counts for every fire that was due
in it.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from rota.client.async_client import AsyncClient
from rota.client.slo.percentiles import percentile
from rota.client.transport.call import Response, failure_of
from rota.core.model.ids import JobId, Slot, slot_of_id
from rota.core.timing.instants import (
    SECOND,
    Duration,
    Instant,
    format_duration,
    format_instant,
    parse_instant,
)
from rota.wire.documents import Json

PERIOD = Duration(5 * SECOND)
"""Period of each job: shorter ones mean few jobs, longer ones a long measurement."""
SETTLE = Duration(2 * SECOND)
"""Minimum time from the creation of the last job to the first counted fire time."""
PATIENCE_S = 10.0
"""Time after the last fire time in which starts still count."""
DELETES_AT_ONCE = 16
SHORTEST: Mapping[str, Json] = {"command": ["true"]}
"""Body of a job with the shortest process; production nodes have no type without a process."""


@dataclass(frozen=True, kw_only=True)
class Window:
    """Fire times from *since* on and before *until*, a whole number of periods of all jobs."""

    since: Instant
    until: Instant
    expected_count: int


class Start(NamedTuple):
    """The first start of an execution; there may be a million of these in memory.

    Attributes:
        job: Name of the job.
        fire_at: Fire time.
        lateness_ms: Lateness of the start.
        slot: Hash slot of the job.
    """

    job: str
    fire_at: Instant
    lateness_ms: float
    slot: Slot


@dataclass(frozen=True, kw_only=True)
class Fires:
    """Outcome of the fire times of a window.

    Attributes:
        expected_count: Number of fire times.
        missed: Job and fire time of those without a started execution.
        doubled_count: Number of executions beside the first of their fire time.
        starts: All starts, latest fire time first.
        lateness_ms: Their latenesses, ascending.
    """

    expected_count: int
    missed: Sequence[tuple[str, Instant]]
    doubled_count: int
    starts: Sequence[Start]
    lateness_ms: Sequence[float]

    def lateness_ms_at(self, share: float) -> float:
        """Return a percentile of all expected starts; missed ones count as the latest."""
        count = len(self.lateness_ms)
        wanted = share * max(self.expected_count, count)
        return percentile(self.lateness_ms, wanted / count) if 0 < wanted <= count else float("inf")


class FireLoad:
    """Jobs that together fire *rate* times a second, in a namespace of their own.

    Args:
        client: Client of the cluster.
        namespace: Namespace without other jobs.
        rate: Fires a second; the nearest possible value is `rate`.
        period: Period of each job.
        body: Fields of a job besides name, namespace and schedule.
    """

    def __init__(
        self,
        client: AsyncClient,
        namespace: str,
        rate: float,
        *,
        period: Duration = PERIOD,
        body: Mapping[str, Json] = SHORTEST,
    ) -> None:
        self.namespace = namespace
        self.job_count = max(1, round(rate * period / SECOND))
        self._client = client
        self._period = period
        self._body = body

    @property
    def rate(self) -> float:
        """Fires a second."""
        return self.job_count * SECOND / self._period

    @property
    def _phases(self) -> dict[str, int]:
        return {f"fire-{k}": k * self._period // self.job_count for k in range(self.job_count)}

    async def create(self) -> None:
        """Create the jobs.

        Raises:
            RequestFailed: One of them could not be created.
        """
        every = format_duration(self._period)
        made = await self._client.create_many(
            {
                "name": name,
                "namespace": self.namespace,
                "schedule": f"@every {every} phase {format_duration(Duration(phase))}",
                **self._body,
            }
            for name, phase in self._phases.items()
        )
        for item in made:
            if item.error is not None:
                raise failure_of(Response(item.status, msgspec.json.encode(item.error)))

    async def delete(self) -> None:
        """Delete the existing jobs; their history stays until it expires."""
        # Repeated, because a request that creates jobs may have been in flight at an interrupt.
        while names := [job.name async for job in self._client.jobs(namespace=self.namespace)]:
            left = iter(names)
            async with asyncio.TaskGroup() as group:
                for _ in range(DELETES_AT_ONCE):
                    group.create_task(self._delete_each(left))

    async def _delete_each(self, names: Iterator[str]) -> None:
        for name in names:
            await self._client.delete_job(name, namespace=self.namespace)

    def window(self, now: Instant, duration: Duration) -> Window:
        """Return the next window of at least *duration*, for jobs created before *now*."""
        since = -(-(now + SETTLE) // self._period) * self._period
        periods = -(-duration // self._period)
        return Window(
            since=Instant(since),
            until=Instant(since + periods * self._period),
            expected_count=periods * self.job_count,
        )

    async def fires(self, window: Window) -> Fires:
        """Return the outcome of a past window, after its starts or their time limit."""
        found = await self._fires(window)
        if found.missed:
            await asyncio.sleep(PATIENCE_S)
            found = await self._fires(window)
        return found

    async def _fires(self, window: Window) -> Fires:
        listed = self._client.executions(
            namespace=self.namespace,
            since=format_instant(window.since),
            until=format_instant(window.until),
        )
        starts = [
            Start(
                job=each.job.partition("/")[2],
                fire_at=parse_instant(each.fire_time),
                lateness_ms=each.lateness_ms,
                slot=slot_of_id(JobId(each.job_id)),
            )
            async for each in listed
            if each.lateness_ms is not None
        ]
        started = Counter((each.job, each.fire_at) for each in starts)
        expected = {
            (name, Instant(at + phase))
            for name, phase in self._phases.items()
            for at in range(window.since, window.until, self._period)
        }
        return Fires(
            expected_count=window.expected_count,
            missed=sorted(expected - started.keys()),
            doubled_count=started.total() - len(started),
            starts=starts,
            lateness_ms=sorted(each.lateness_ms for each in starts),
        )
