"""A rehearsal: what jobs would do in a range of time, counted."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from rota.client.rehearsal.virtual_shard import VirtualShard, succeeded
from rota.core.model.attempt import Ending, Order
from rota.core.model.job import JobSpec
from rota.core.timing.instants import (
    MICROSECOND,
    MINUTE,
    SECOND,
    Duration,
    Instant,
    later,
    to_datetime,
)
from rota.core.vocabulary.commands import SaveJob
from rota.core.vocabulary.effects import Consequence, Launch, PublishFires
from rota.core.vocabulary.facts import Facts

HERD = 10
"""The number of jobs that begin in the same minute from which on they are a herd."""


@dataclass(slots=True)
class Tally:
    """What one job did.

    Attributes:
        outcomes: Its fire times by outcome.
        starts: The attempts that began.
        longest_wait: The longest time from when an execution was due to the begin of its first
            attempt.
    """

    outcomes: Counter[str] = field(default_factory=Counter[str])
    starts: int = 0
    longest_wait: Duration = Duration(0)


@dataclass(slots=True)
class Rehearsal:
    """What all jobs did.

    Attributes:
        begin: The begin of the range.
        end: The end of the range.
        tallies: What each job did, by full name.
        hours: The attempts that began, by hour of the day in UTC.
        minutes: The names of the jobs that began an attempt, by minute.
        running: The most attempts that ran at a time.
        running_at: When as many ran for the first time.
        unfinished: The executions that had not ended in the end, by job.
    """

    begin: Instant
    end: Instant
    tallies: dict[str, Tally] = field(default_factory=dict[str, Tally])
    hours: Counter[int] = field(default_factory=Counter[int])
    minutes: dict[Instant, Counter[str]] = field(
        default_factory=lambda: defaultdict[Instant, Counter[str]](Counter)
    )
    running: int = 0
    running_at: Instant = Instant(0)
    unfinished: Counter[str] = field(default_factory=Counter[str])

    @property
    def busiest(self) -> tuple[Instant, int]:
        """The minute in which the most attempts began, and their number; 0 if none did."""
        found = max(self.minutes, key=lambda each: self.minutes[each].total(), default=self.begin)
        return found, self.minutes[found].total() if self.minutes else 0

    @property
    def herd(self) -> Sequence[str]:
        """The jobs that begin together in the fullest minute, if these are `HERD` or more."""
        fullest = max(self.minutes.values(), key=len, default=Counter[str]())
        return sorted(fullest) if len(fullest) >= HERD else ()


def rehearse(
    jobs: Sequence[JobSpec],
    *,
    begin: Instant,
    end: Instant,
    slots: int,
    facts: Facts,
    duration_of: Callable[[str], Duration],
) -> Iterator[tuple[Instant, Rehearsal]]:
    """Let time pass for jobs, and yield how far it is, with what they have done until then.

    Args:
        jobs: The jobs, each after those that it depends on.
        begin: The begin of the range.
        end: Its end, which is not part of it.
        slots: The number of attempts that run at the same time.
        facts: The calendars.
        duration_of: Returns the duration of each attempt of a job, by its full name.

    Raises:
        Refused: A job cannot be saved.
    """
    found = Rehearsal(begin, end)

    def watch(effect: Consequence, at: Instant) -> None:
        if isinstance(effect, PublishFires) and effect.fire_at >= begin:
            found.tallies[effect.job].outcomes[effect.outcome.value] += effect.count
        elif isinstance(effect, Launch) and at >= begin:
            _count_start(found, shard, effect, at)

    def play(order: Order, at: Instant) -> Ending:
        return succeeded(at, later(at, duration_of(order.job)))

    # Jobs are saved before the range, since a fire time at its begin belongs to it.
    before = Instant(begin - SECOND)
    shard = VirtualShard(before, slots=slots, facts=facts, play=play, watch=watch)
    for job in jobs:
        found.tallies[job.full_name] = Tally()
        shard.do(SaveJob(spec=job))
    for at in shard.pass_time(Instant(end - MICROSECOND)):
        yield at, found
    found.unfinished = Counter(each.job_name for each in shard.state.executions.values())
    yield end, found


def _count_start(found: Rehearsal, shard: VirtualShard, launch: Launch, at: Instant) -> None:
    order = launch.order
    tally = found.tallies[order.job]
    tally.starts += 1
    execution = shard.state.executions[order.key.execution_id]
    tally.longest_wait = max(tally.longest_wait, Duration(execution.started_at - execution.due_at))
    found.hours[to_datetime(at).hour] += 1
    found.minutes[Instant(at - at % MINUTE)][order.job] += 1
    if shard.running > found.running:
        found.running, found.running_at = shard.running, at
