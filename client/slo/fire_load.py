"""A load of evenly spread fire times, and their outcomes.

The load consists of schedules, so it does not depend on a client's speed. Lateness counts from the
fire time, independent of earlier fires. A stall of one second thus counts for every fire that was
due during the stall.
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
"""The period of each job: a shorter period means fewer jobs, a longer one a longer measurement."""
SETTLE = Duration(2 * SECOND)
"""The minimum time from the creation of the last job to the first counted fire time."""
PATIENCE_S = 10.0
"""The number of seconds after the last fire time in which starts still count."""
DELETES_AT_ONCE = 16
SHORTEST: Mapping[str, Json] = {"command": ["true"]}
"""The body of a job with the shortest process; production nodes have no task type without one."""


@dataclass(frozen=True, kw_only=True)
class Window:
    """The fire times from *since* on and before *until*: a whole number of periods of all jobs.

    Attributes:
        since: The beginning of the window.
        until: The end of the window, which is not part of it.
        expected_count: The number of fire times.
    """

    since: Instant
    until: Instant
    expected_count: int


class Start(NamedTuple):
    """The first start of an execution; there may be a million of these in memory.

    Attributes:
        job: The name of the job.
        fire_at: The fire time.
        lateness_ms: The lateness of the start, in milliseconds.
        slot: The hash slot of the job.
    """

    job: str
    fire_at: Instant
    lateness_ms: float
    slot: Slot


@dataclass(frozen=True, kw_only=True)
class Fires:
    """The outcome of the fire times of a window.

    Attributes:
        expected_count: The number of fire times.
        missed: Job and fire time of each fire time without a started execution.
        doubled_count: The number of executions beside the first of their fire time.
        starts: All starts, latest fire time first.
        lateness_ms: The latenesses of the starts in milliseconds, ascending.
    """

    expected_count: int
    missed: Sequence[tuple[str, Instant]]
    doubled_count: int
    starts: Sequence[Start]
    lateness_ms: Sequence[float]

    def lateness_ms_at(self, share: float) -> float:
        """Return a percentile of the lateness of all expected starts, in milliseconds.

        Missed starts count as infinitely late.

        Args:
            share: The percentile as a fraction; 0.99 for the 99th.
        """
        count = len(self.lateness_ms)
        wanted = share * max(self.expected_count, count)
        return percentile(self.lateness_ms, wanted / count) if 0 < wanted <= count else float("inf")


class FireLoad:
    """Jobs that together fire *rate* times a second, in a namespace of their own.

    Args:
        client: A client of the cluster.
        namespace: A namespace without other jobs.
        rate: The wanted number of fires per second; `rate` is the nearest possible value.
        period: The period of each job.
        body: The fields of each job besides name, namespace and schedule.
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
        """The number of fires per second."""
        return self.job_count * SECOND / self._period

    @property
    def _phases(self) -> dict[str, int]:
        return {f"fire-{k}": k * self._period // self.job_count for k in range(self.job_count)}

    async def create(self) -> None:
        """Create the jobs.

        Raises:
            RequestFailed: One of the jobs could not be created.
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
        """Delete the jobs of the load; their history stays until it expires."""
        # Repeated, because a request that creates jobs may still run after an interrupt.
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
        """Return the outcome of a past window; wait `PATIENCE_S` if a start is missing."""
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
