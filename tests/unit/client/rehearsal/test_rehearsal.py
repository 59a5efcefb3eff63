"""Rehearsals: what jobs would do in a range of time, by the rules of a node."""

from msgspec.structs import replace

from rota.client.rehearsal.rehearsal import Rehearsal, rehearse
from rota.core.model.flow import Approval
from rota.core.model.job import JobSpec, Overlap
from rota.core.timing.calendars import Calendar
from rota.core.timing.instants import DAY, HOUR, MINUTE, Duration, Instant, parse_instant
from rota.core.vocabulary.facts import NO_FACTS, Facts
from unit.core.shard import every, job, task

BEGIN = parse_instant("2026-03-28T00:00:00Z")


def rehearsed(
    *jobs: JobSpec,
    days: int = 1,
    slots: int = 100,
    facts: Facts = NO_FACTS,
    minutes: int = 1,
) -> Rehearsal:
    """Rehearse jobs whose attempts take *minutes*."""
    found = Rehearsal(BEGIN, BEGIN)
    for _, found in rehearse(  # noqa: B007 - the last one counts.
        jobs,
        begin=BEGIN,
        end=Instant(BEGIN + days * DAY),
        slots=slots,
        facts=facts,
        duration_of=lambda _: Duration(minutes * MINUTE),
    ):
        pass
    return found


def test_fires_and_starts_are_counted() -> None:
    found = rehearsed(job(schedules=every("*/10 * * * *")))

    tally = found.tallies["default/job"]
    assert (dict(tally.outcomes), tally.starts) == ({"fired": 144}, 144)
    assert sum(found.hours.values()) == 144


def test_two_rehearsals_are_the_same() -> None:
    jobs = [job(schedules=every("*/7 * * * *")), job(name="b", dependencies=("default/job",))]

    assert rehearsed(*jobs) == rehearsed(*jobs)


def test_overlap_is_that_of_a_node() -> None:
    fields = {"schedules": every("*/10 * * * *"), "overlap": Overlap.SKIP}

    found = rehearsed(job(**fields), minutes=25)  # type: ignore[arg-type]  # of both kinds

    assert dict(found.tallies["default/job"].outcomes) == {"fired": 48, "skipped": 96}


def test_attempts_wait_for_slots() -> None:
    jobs = [job(name=name, schedules=every("0 * * * *")) for name in ("a", "b", "c")]

    found = rehearsed(*jobs, slots=2, minutes=30)

    assert found.running == 2
    waits = sorted(each.longest_wait for each in found.tallies.values())
    assert waits[1] < MINUTE
    assert 30 * MINUTE <= waits[2] < 31 * MINUTE


def test_a_task_finds_a_node_with_its_labels() -> None:
    train = replace(task("train"), selector=(("gpu", "yes"),))

    found = rehearsed(job(train, schedules=every("0 * * * *")))

    assert found.tallies["default/job"].starts == 24


def test_a_job_runs_after_the_one_that_it_depends_on() -> None:
    found = rehearsed(
        job(name="a", schedules=every("0 3 * * *")), job(name="b", dependencies=("default/a",))
    )

    assert found.tallies["default/b"].starts == 1


def test_a_clock_change_is_rehearsed() -> None:
    """In Berlin the clock skips 02:30 on 29 March 2026; the job runs at the end of the gap."""
    schedules = every("30 2 * * *", timezone="Europe/Berlin")

    found = rehearsed(job(schedules=schedules), days=2)

    assert sorted(found.minutes) == [BEGIN + 90 * MINUTE, BEGIN + DAY + HOUR]


def test_calendars_of_files_exclude_fire_times() -> None:
    closed = Calendar(name="closed", version=1, weekdays=1 << 5)
    facts = Facts(calendars={"closed": closed})

    found = rehearsed(
        job(schedules=every("0 * * * *"), except_calendars=("closed",)), days=2, facts=facts
    )

    assert found.tallies["default/job"].starts == 24


def test_what_waits_for_a_person_is_unfinished() -> None:
    ask = replace(task("ask"), wait=Approval())

    found = rehearsed(job(ask, schedules=every("0 * * * *")))

    assert found.unfinished == {"default/job": 24}


def test_many_jobs_of_one_minute_are_a_herd() -> None:
    jobs = [job(name=f"j{number}", schedules=every("0 2 * * *")) for number in range(10)]

    found = rehearsed(*jobs)

    assert found.busiest == (BEGIN + 2 * HOUR, 10)
    assert len(found.herd) == 10
    assert not rehearsed(*jobs[:9]).herd
