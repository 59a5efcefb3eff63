"""The audit of a job: the ledger of the core passes it, and each altered record is found."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from rota.client.cli.audit.calendar_times import CalendarTimes
from rota.client.cli.audit.job_audit import JobAudit, Version
from rota.core.model.job import Misfire, Overlap
from rota.core.timing.calendars import Calendar, Window
from rota.core.timing.instants import (
    HOUR,
    MINUTE,
    SECOND,
    Duration,
    Instant,
    format_instant,
    parse_instant,
)
from rota.core.timing.schedule import parse_schedule
from rota.core.vocabulary.commands import PauseJob, ResumeJob, SaveJob
from rota.core.vocabulary.facts import Facts
from rota.node.api.documents.record_views import ledger_entry_view
from rota.wire.documents import DocumentView, LedgerEntryView, ScheduleView
from unit.client.audit.test_calendar_times import document
from unit.client.audit.test_comparison import entry
from unit.core.shard import Shard, at, job

NO_CALENDARS = CalendarTimes([])
TEXTS = (
    *("* * * * *", "*/7 12-13 * * *", "@every 90s", "@every 5m phase 30s", "@hourly"),
    *("15,45 * * * MON", "0 */2 * * *", "@at 2027-01-04T13:10:00Z", "30 12 L * *"),
)


def view(text: str) -> ScheduleView:
    """Return the document of a schedule."""
    return ScheduleView(schedule=text, timezone="UTC")


def entries_of(shard: Shard) -> list[LedgerEntryView]:
    """Return the ledger of a shard with one job, as the API shows it."""
    entries = sorted(shard.ledger(), key=lambda entry: (entry.fire_at, entry.schedule))
    return [ledger_entry_view(entry, entry.job_id, "default/job") for entry in entries]


def faults(
    versions: Sequence[Version],
    entries: Sequence[LedgerEntryView],
    until: Instant,
    calendars: CalendarTimes = NO_CALENDARS,
    since: str = "12:00",
) -> Any:
    """Return kind, fire time and reason of each fault."""
    audit = JobAudit("default/job", versions, calendars)
    return [
        (each.kind, each.fire_time[11:16], each.reason)
        for each in audit.faults(entries, at(since), until)
    ]


def excluding(window: tuple[int, int]) -> tuple[Facts, CalendarTimes]:
    """Return a calendar of one window, as the core has it and as the API shows it."""
    start, end = window
    shown = {
        "windows": [
            {"start": f"{start // 60:02}:{start % 60:02}", "end": f"{end // 60:02}:{end % 60:02}"}
        ]
    }
    calendar = Calendar(name="drawn", windows=(Window(start=start, end=end),))
    body: DocumentView = replace(document("drawn", shown), changed_at="2026-01-01T00:00:00Z")
    return Facts(calendars={"drawn": calendar}), CalendarTimes([body])


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_the_ledger_of_the_core_passes_the_audit(data: st.DataObject) -> None:
    facts, calendars = excluding(data.draw(st.tuples(st.integers(715, 800), st.integers(715, 800))))
    named = data.draw(st.sampled_from(["only", "unless", ""]))
    shard = Shard(facts=facts, ahead=Duration(data.draw(st.sampled_from([0, SECOND // 2]))))
    versions: list[Version] = []
    policies: dict[str, Any] = {
        "misfire": data.draw(st.sampled_from(Misfire)),
        "overlap": data.draw(st.sampled_from(Overlap)),
        "grace": data.draw(st.sampled_from((SECOND, Duration(5 * MINUTE)))),
        "only_calendars": ("drawn",) if named == "only" else (),
        "except_calendars": ("drawn",) if named == "unless" else (),
    }

    for minutes in data.draw(st.lists(st.integers(1, 40), min_size=2, max_size=6)):
        texts = data.draw(st.lists(st.sampled_from(TEXTS), min_size=1, max_size=2, unique=True))
        if not versions or data.draw(st.booleans()):
            schedules = tuple(map(parse_schedule, texts))
            spec = job(schedules=schedules, description=str(len(versions)), **policies)
            shard.do(SaveJob(spec=spec, may_replace=True))
            (saved,) = shard.state.jobs.values()
            begin = saved.updated_at
            shown = list(map(view, texts))
            only, unless = policies["only_calendars"], policies["except_calendars"]
            versions.append(Version(len(versions) + 1, begin, shown, only, unless))
        if data.draw(st.booleans()):
            shard.set_clock(Instant(shard.clock + minutes * MINUTE))
        if data.draw(st.integers(0, 4)) == 0:
            shard.do(PauseJob(job_id=next(iter(shard.state.jobs))))
            shard.pass_time(Duration(3 * MINUTE))
            shard.do(ResumeJob(job_id=next(iter(shard.state.jobs))))
        for _ in range(3):
            shard.pass_time(Duration(minutes * 20 * SECOND))

    entries = entries_of(shard)
    until = Instant(shard.clock)
    assert faults(versions, entries, until, calendars) == []
    if entries:
        removed = data.draw(st.sampled_from(entries))
        removed_at = parse_instant(removed.fire_time)
        rest = [each for each in entries if each is not removed]
        if versions[-1].begin < removed_at and parse_instant(removed.until) < until:
            (first, *_) = faults(versions, rest, until, calendars)
            assert first[:2] == ("missing", removed.fire_time[11:16])


def hourly(first: str, last: str, **fields: Any) -> list[LedgerEntryView]:
    """Return the entries of a job that fired at each full hour."""
    hours = range(at(first), at(last) + 1, HOUR)
    return [entry(format_instant(Instant(time)), **fields) for time in hours]


HOURLY = view("0 * * * *")
HALF = view("30 * * * *")


def test_each_version_is_audited_for_its_own_time() -> None:
    versions = [
        Version(1, at("08:10"), [HOURLY]),
        Version(2, at("10:10"), [HOURLY]),
        Version(3, at("12:10"), [HALF]),
    ]
    half = [
        replace(
            each,
            fire_time=each.fire_time.replace(":00:00.", ":30:00."),
            until=each.until.replace(":00:00.", ":30:00."),
        )
        for each in hourly("12:00", "13:00")
    ]

    whole = faults(versions, [*hourly("09:00", "12:00"), *half], at("14:00"), since="08:00")
    old_rule = faults(versions, hourly("09:00", "13:00"), at("14:00"), since="08:00")

    assert whole == []
    assert [each[:2] for each in old_rule] == [("extra", "13:00"), ("missing", "12:30")]


def test_a_schedule_that_cannot_be_computed_is_listed_with_its_entries_unjudged() -> None:
    versions = [Version(1, at("08:10"), [view("H * * * *"), HOURLY])]
    audit = JobAudit("default/job", versions, NO_CALENDARS)
    of_hash = hourly("09:00", "10:00", schedule=0)
    entries = sorted(
        [*of_hash, *hourly("09:00", "11:00", schedule=1)], key=lambda each: each.fire_time
    )

    found = list(audit.faults(entries, at("09:00"), at("12:00")))

    assert found == []
    assert [(each.schedule, each.reason) for each in audit.unaudited] == [
        (0, "H * * * *: hashed fields (H) are computed by no other engine")
    ]
    assert audit.fire_count == 3


@pytest.mark.parametrize(
    ("outcome", "reason", "expected"),
    [
        ("fired", "", ["fired, but the calendar drawn excludes it"]),
        ("excluded", "in calendar drawn (version 1)", []),
        ("paused", "", []),
        ("missed", "disk_full: the disk of node n1", []),
    ],
)
def test_an_outcome_that_a_calendar_contradicts_is_named(
    outcome: str, reason: str, expected: list[str]
) -> None:
    _, calendars = excluding((12 * 60, 13 * 60))
    versions = [Version(1, at("08:10"), [HOURLY], unless=["drawn"])]
    entries = hourly("12:00", "12:00", outcome=outcome, reason=reason)

    found = faults(versions, entries, at("13:00"), calendars, since="12:00")

    assert [why for _, _, why in found] == expected


def test_an_excluded_fire_time_that_no_calendar_excludes_is_named() -> None:
    _, calendars = excluding((13 * 60, 14 * 60))
    versions = [Version(1, at("08:10"), [HOURLY], unless=["drawn"])]
    reason = "in calendar drawn (version {})"

    now, before = (
        faults(
            versions,
            hourly("12:00", "12:00", outcome="excluded", reason=reason.format(number)),
            at("13:00"),
            calendars,
        )
        for number in (1, 7)
    )

    assert now == [
        ("outcome", "12:00", f"excluded ({reason.format(1)}), but no calendar excludes it")
    ]
    assert before == []


def test_outcomes_before_a_change_of_the_calendar_are_not_judged() -> None:
    changed, later = format_instant(at("12:30")), format_instant(at("12:31"))
    times = CalendarTimes(
        [replace(document("drawn", {"weekdays": ["MON-SUN"]}), changed_at=changed)]
    )
    audit = JobAudit("default/job", [Version(1, at("08:10"), [HOURLY], unless=["drawn"])], times)

    found = list(audit.faults(hourly("12:00", "13:00"), at("12:00"), at("14:00")))

    assert [each.fire_time[11:16] for each in found] == ["13:00"]
    assert [each.reason for each in audit.unaudited] == [
        f"exclusions before {later}: the calendar drawn was changed at {changed}"
    ]


def test_an_excluded_fire_time_of_a_job_that_defers_may_have_fired_or_may_wait() -> None:
    noon = document("noon", {"windows": [{"start": "12:02", "end": "12:04"}]})
    calendars = CalendarTimes([noon])
    version = Version(1, at("11:00"), [view("*/2 12 * * *")], unless=["noon"], defers=True)
    fired = [entry("12:00"), entry("12:02"), entry("12:04")]

    assert faults([version], fired, at("12:05"), calendars) == []
    assert faults([version], [fired[0], fired[2]], at("12:05"), calendars) == []
    assert faults([dataclasses.replace(version, defers=False)], fired, at("12:05"), calendars)
    assert faults([version], fired[1:], at("12:05"), calendars)


def test_a_fire_time_within_the_jitter_before_the_end_may_have_no_outcome_yet() -> None:
    version = Version(1, at("11:00"), [view("* 12 * * *")], jitter=MINUTE)

    assert faults([version], [entry("12:00"), entry("12:01")], at("12:02:30"), NO_CALENDARS) == []
    assert faults([version], [entry("12:00")], at("12:02:30"), NO_CALENDARS)


def test_a_schedule_with_a_number_of_executions_is_not_audited() -> None:
    version = Version(1, at("11:00"), [view("* 12 * * *")], limited=[0])
    audit = JobAudit("default/job", [version], NO_CALENDARS)

    assert list(audit.faults([entry("12:00")], at("12:00"), at("12:05"))) == []
    assert "maxExecutions" in audit.unaudited[0].reason
