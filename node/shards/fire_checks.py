"""Checks of the next fire times of jobs: new rules, other calendars, a clock that was ahead.

    opened      each job once, the next ones to fire first: if its fire times differ by the present
                rules of time zones, `RecountFires` is submitted
    other facts the calendars may have changed: the jobs with a fire that is deferred decide again
                when it starts
    ahead       while the shard's time is ahead of the wall clock, every `LOOK_EVERY`: the jobs
                that skip fire times are counted (`Shard.silent`) and the first ones are logged

A running node keeps the rules with which it started.
"""

import logging
from collections.abc import Callable, Iterator
from time import perf_counter

from rota.core.decide.fire import first_fire
from rota.core.decide.recount_fires import LEAD_MAX, has_new_rules, silent_until
from rota.core.model.ids import Epoch, JobId, ShardId
from rota.core.timing.instants import SECOND, Duration, Instant, format_duration, later
from rota.core.vocabulary.commands import Fire, RecountFires
from rota.core.vocabulary.facts import Facts
from rota.node.shards.local_shards import Shards
from rota.node.shards.shard import Shard, SilentJobs
from rota.node.system.clock import Clock

log = logging.getLogger(__name__)

LOOK_EVERY = Duration(10 * SECOND)
SLICE_S = 0.002
"""The time that one call may take; the next call continues."""
NAMES_MAX = 10
"""The number of silent jobs of a shard that are named."""


class FireChecks:
    """The checks of all shards of a node.

    Args:
        shards: The shards; commands are submitted to them.
        ahead: The time by which a fire may be decided before its fire time.
        clock: The clock of this node.
        facts: Returns the present facts.
    """

    def __init__(
        self, shards: Shards, ahead: Duration, clock: Clock, facts: Callable[[], Facts]
    ) -> None:
        self._shards = shards
        self._facts = facts
        self._versions: dict[ShardId, int] = {}
        self._ahead = ahead
        self._clock = clock
        self._epochs: dict[ShardId, Epoch] = {}
        self._scans: dict[ShardId, Iterator[None]] = {}
        self._next_looks: dict[ShardId, Instant] = {}

    def look(self, shard: Shard) -> None:
        """Continue the checks of an open shard for `SLICE_S` at most; called every second."""
        if self._epochs.get(shard.id) != shard.epoch:
            self._epochs[shard.id] = shard.epoch
            self._scans[shard.id] = self._renew(shard)
            self._next_looks[shard.id] = Instant(0)
            shard.silent = None
        version = self._facts().version
        if self._versions.get(shard.id) != version:
            self._versions[shard.id] = version
            for job_id in tuple(shard.state.deferred):
                self._shards.submit(shard, Fire(job_id=job_id))
        now = self._clock.elapsed()
        if shard.id not in self._scans and self._next_looks[shard.id] <= now:
            if self._lead(shard) > LEAD_MAX:
                self._next_looks[shard.id] = later(now, LOOK_EVERY)
                self._scans[shard.id] = self._count_silent(shard)
            else:
                shard.silent = None
        end = perf_counter() + SLICE_S
        for _ in self._scans.get(shard.id, ()):
            if perf_counter() >= end:
                return
        self._scans.pop(shard.id, None)

    def _lead(self, shard: Shard) -> Duration:
        return Duration(shard.time(self._clock) - self._clock.now())

    def _renew(self, shard: Shard) -> Iterator[None]:
        """Submit the recount of each job whose next fire times differ by the present rules."""
        zoned: list[tuple[Instant, JobId]] = []
        for job_id, plan in list(shard.state.plans.items()):
            due = first_fire(plan)
            job = shard.state.jobs.get(job_id)
            if due is not None and job and any(s.timezone != "UTC" for s in job.spec.schedules):
                zoned.append((due, job_id))
            yield
        for _, job_id in sorted(zoned):
            job, current = shard.state.jobs.get(job_id), shard.state.plans.get(job_id)
            after = later(shard.time(self._clock), self._ahead)
            if job and current is not None and has_new_rules(job, current, after):
                self._shards.submit(shard, RecountFires(job_id=job_id))
            yield

    def _count_silent(self, shard: Shard) -> Iterator[None]:
        count, names, until = 0, list[str](), Instant(0)
        for job_id, plan in list(shard.state.plans.items()):
            job = shard.state.jobs.get(job_id)
            at = silent_until(job, plan, self._clock.now()) if job else None
            if job and at is not None:
                count, until = count + 1, max(until, at)
                if len(names) < NAMES_MAX:
                    names.append(job.spec.full_name)
            yield
        before, silent = shard.silent, SilentJobs(count, tuple(names), until) if count else None
        shard.silent = silent
        if silent is not None and (before is None or before.count != silent.count):
            lead = format_duration(Duration(self._lead(shard) // SECOND * SECOND))
            log.warning(
                "jobs are silent: the clock was ahead, and their next fire times are decided",
                extra={"shard": shard.id, "ahead": lead, "jobs": count, "first": ", ".join(names)},
            )
