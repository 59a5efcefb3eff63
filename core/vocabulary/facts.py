"""Facts: what shared documents say to decisions."""

from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from types import MappingProxyType
from typing import NamedTuple

import msgspec
from msgspec.structs import asdict, replace

from rota.core.model.job import Job, JobPlan, JobSpec, OnExcluded, Pause
from rota.core.timing.calendars import (
    EVERYWHERE,
    NO_CALENDARS,
    Budget,
    Calendars,
    Deferral,
    Exclusion,
    next_permitted,
    previous_permitted,
)
from rota.core.timing.instants import MICROSECOND, Duration, Instant, later
from rota.core.timing.schedule import FirePreview, Schedule, coming, fault_of, load_zone, next_fire
from rota.core.vocabulary.quotas import Quota

NO_PAUSES: Mapping[str, Pause] = MappingProxyType({})
NO_QUOTAS: Mapping[str, Quota] = MappingProxyType({})
NO_BLACKOUTS: Mapping[str, tuple[str, ...]] = MappingProxyType({})


class ComingFire(NamedTuple):
    """A coming fire time of schedule *number* of a job, and when it starts if it does."""

    number: int
    fire: FirePreview
    start: Instant


class Facts(msgspec.Struct, frozen=True):
    """What the shared documents that a node has received say; replaced as a whole by each change.

    Attributes:
        version: The sum of the versions of the documents, so the number of their changes. It is
            equal on nodes with the same documents; an entry of the journal names it.
        pauses: The pauses of namespaces, by namespace.
        quotas: The quotas of the namespaces that have some, by namespace.
        calendars: The calendars, by name.
        blackouts: The names of the calendars that stop the jobs of a namespace, by namespace.
    """

    version: int = 0
    pauses: Mapping[str, Pause] = NO_PAUSES
    quotas: Mapping[str, Quota] = NO_QUOTAS
    calendars: Calendars = NO_CALENDARS
    blackouts: Mapping[str, tuple[str, ...]] = NO_BLACKOUTS

    def exclusion_of(
        self, spec: JobSpec, schedule: Schedule, *, has_blackouts: bool = True
    ) -> Exclusion | None:
        """Return what excludes fire times of *schedule* of the job *spec*; None for nothing.

        Blackouts count if *has_blackouts*: they stop the clock, not what a user starts.
        """
        blackouts = self.blackouts if has_blackouts else NO_BLACKOUTS
        stopping = blackouts.get(spec.namespace, ()) + blackouts.get(EVERYWHERE, ())
        if not (spec.only_calendars or spec.except_calendars or stopping):
            return None
        exclusion = Exclusion(
            calendars=self.calendars,
            zone=load_zone(schedule.timezone),
            only=spec.only_calendars,
            unless=spec.except_calendars,
            blackouts=stopping,
        )
        if spec.on_excluded is OnExcluded.SKIP:
            return exclusion
        is_next_day = spec.on_excluded is OnExcluded.NEXT
        return Deferral(**asdict(exclusion), schedule=schedule, is_next_day=is_next_day)

    def start_of(self, spec: JobSpec, number: int, at: Instant) -> Instant:
        """Return when the fire of *at* of a schedule starts, if it starts: *at* or later."""
        schedule, jitter = spec.schedules[number], spec.policy_of(number).jitter
        start = at
        if spec.on_excluded is not OnExcluded.SKIP:
            exclusion = self.exclusion_of(spec, schedule)
            if isinstance(exclusion, Deferral):
                start = exclusion.start_of(at) or at
        if jitter:
            following = next_fire(schedule, at)
            start = later(start, _drawn(jitter, spec.full_name, number, at))
            start = start if following is None else min(start, following)
        return start

    def interval_start(self, spec: JobSpec, schedule: Schedule, at: Instant) -> Instant:
        """Return the begin of the interval that ends with *at*, a fire time; 0 for none.

        It is the fire time before it that the job's calendars permit. Blackouts do not count: a
        backfill runs their fire times later, for intervals of their own.
        """
        exclusion = self.exclusion_of(spec, schedule, has_blackouts=False)
        return previous_permitted(schedule, exclusion, at) or Instant(0)

    def interval_start_of(self, spec: JobSpec, at: Instant) -> Instant:
        """Return `interval_start` for the first schedule that fires at *at*; 0 for none."""
        number = schedule_at(spec, at)
        return (
            Instant(0) if number is None else self.interval_start(spec, spec.schedules[number], at)
        )

    def coming(
        self, spec: JobSpec, after: Sequence[Instant], begun: Sequence[int]
    ) -> Iterator[ComingFire]:
        """Yield the fire times of a job, earliest first, as `rota.core.timing.schedule.coming`.

        Args:
            spec: The job.
            after: For each schedule, the instant after which its fire times are given.
            begun: For each schedule, the executions that it has begun; none if none has.
        """
        exclusions = [self.exclusion_of(spec, schedule) for schedule in spec.schedules]
        limits = [spec.policy_of(number).max_executions for number in range(len(spec.schedules))]
        counts = begun or (0,) * len(limits)
        left = [
            max(most - count, 0) if most else None
            for most, count in zip(limits, counts, strict=True)
        ]
        for number, fire in coming(spec.schedules, after, exclusions, left):
            yield ComingFire(number, fire, self.start_of(spec, number, fire.instant))

    def starting(self, job: Job, plan: JobPlan) -> JobPlan:
        """Return the plan of a job with the next times at which its fires start.

        Fire times that are excluded, or before the end of a pause that has one, do not start.
        """
        spec, budget = job.spec, Budget()
        paused_until = job.pause.until if job.pause else Instant(0)
        next_fires = [
            self._next_start(spec, number, at, paused_until, budget)
            for number, at in enumerate(plan.next_fires)
        ]
        starts = plan.starts or (Instant(0),) * len(next_fires)
        deferred = [
            at if at is None else max(at, start)
            for at, start in zip(next_fires, starts, strict=True)
        ]
        return replace(plan, next_fires=tuple(deferred))

    def _next_start(
        self, spec: JobSpec, number: int, at: Instant | None, since: Instant, budget: Budget
    ) -> Instant | None:
        schedule = spec.schedules[number]
        if at is not None and at < since and not fault_of(schedule):
            at = next_fire(schedule, Instant(since - MICROSECOND))
        exclusion = self.exclusion_of(spec, schedule) if at is not None else None
        if at is not None and exclusion is not None and exclusion.why(at):
            return next_permitted(schedule, exclusion, at, budget)
        return at


def _drawn(most: Duration, job: str, number: int, at: Instant) -> Duration:
    """Return a time from 0 to less than *most* that each node draws for the same fire."""
    drawn = blake2b(f"{job} {number} {at}".encode(), digest_size=8).digest()
    return Duration(int.from_bytes(drawn) % most)


NO_FACTS = Facts()


def schedule_at(spec: JobSpec, at: Instant) -> int | None:
    """Return the number of the first schedule of a job that fires at *at*; None for none."""
    for number, schedule in enumerate(spec.schedules):
        if not fault_of(schedule) and next_fire(schedule, Instant(at - MICROSECOND)) == at:
            return number
    return None


def parameters_at(spec: JobSpec, at: Instant) -> str:
    """Return the parameters, as JSON, with which a job runs for the fire time *at*."""
    number = schedule_at(spec, at)
    return spec.parameters if number is None else spec.parameters_of(number)
