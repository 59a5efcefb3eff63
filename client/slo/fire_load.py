"""A load of fire times, spread evenly, and what became of each of them.

The load is in the schedules: no client has to keep up with it, and lateness counts from the fire
time whatever happened to the fires before. So a cluster that stands still for a second is charged
with everything that was due in it.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from rota.client.async_client import AsyncClient
from rota.client.slo.percentiles import percentile
from rota.client.transport.call import Answer, failure_of
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
"""Of each job. Shorter, and there would be few jobs that fire often; longer, and it takes long."""
SETTLE = Duration(2 * SECOND)
"""From the last job made to the first fire time that counts, at least."""
PATIENCE_S = 10.0
"""How long after its last fire time a load may still be starting."""
DELETES_AT_ONCE = 16
NO_OP: Mapping[str, Json] = {"type": "scripted"}
"""Starts no process: what is left is what rota itself takes."""


@dataclass(frozen=True, kw_only=True)
class Window:
    """Fire times from *since* on and before *until*, a whole number of periods of all jobs."""

    since: Instant
    until: Instant
    expected_count: int


class Start(NamedTuple):
    """The first start of an execution; there may be a million of these in memory.

    Attributes:
        job: Its name.
        fire_at: When it was due.
        lateness_ms: How much later it started.
        slot: Of its job.
    """

    job: str
    fire_at: Instant
    lateness_ms: float
    slot: Slot


@dataclass(frozen=True, kw_only=True)
class Fires:
    """What became of the fire times of a window.

    Attributes:
        expected_count: How many there were.
        missed: Job and fire time of those that no execution has started for.
        doubled_count: How many executions there were beside the first of their fire time.
        starts: All there were, latest fire time first.
        lateness_ms: Of those, ascending.
    """

    expected_count: int
    missed: Sequence[tuple[str, Instant]]
    doubled_count: int
    starts: Sequence[Start]
    lateness_ms: Sequence[float]

    def lateness_ms_at(self, share: float) -> float:
        """Return a percentile of all there ought to be; what was missed is later than the rest."""
        count = len(self.lateness_ms)
        wanted = share * max(self.expected_count, count)
        return percentile(self.lateness_ms, wanted / count) if 0 < wanted <= count else float("inf")


class FireLoad:
    """Jobs that together fire so many times a second, in a namespace of their own.

    Args:
        client: Of the cluster they are made in.
        namespace: Nothing else is in it.
        rate: Fires a second; what is possible nearest to it is `rate`.
        period: Of each job.
        body: What a job has besides name, namespace and schedule.
    """

    def __init__(
        self,
        client: AsyncClient,
        namespace: str,
        rate: float,
        *,
        period: Duration = PERIOD,
        body: Mapping[str, Json] = NO_OP,
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
        """Make the jobs.

        Raises:
            RequestFailed: One of them could not be made.
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
                raise failure_of(Answer(item.status, msgspec.json.encode(item.error)))

    async def delete(self) -> None:
        """Delete the jobs that are there; their history stays until it expires."""
        # Again, for a request to create some may have been on its way when this was interrupted.
        while names := [job.name async for job in self._client.jobs(namespace=self.namespace)]:
            left = iter(names)
            async with asyncio.TaskGroup() as group:
                for _ in range(DELETES_AT_ONCE):
                    group.create_task(self._delete_each(left))

    async def _delete_each(self, names: Iterator[str]) -> None:
        for name in names:
            await self._client.delete_job(name, namespace=self.namespace)

    def window(self, now: Instant, duration: Duration) -> Window:
        """Return the next window of at least *duration*, for jobs that have been made by *now*."""
        since = -(-(now + SETTLE) // self._period) * self._period
        periods = -(-duration // self._period)
        return Window(
            since=Instant(since),
            until=Instant(since + periods * self._period),
            expected_count=periods * self.job_count,
        )

    async def fires(self, window: Window) -> Fires:
        """Return what became of a window that is over, once all of it has started if it does."""
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
