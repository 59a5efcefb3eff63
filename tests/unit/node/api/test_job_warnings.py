"""Warnings about the schedules of jobs."""

from typing import Any

import msgspec
import pytest

from rota.core.timing.calendars import Calendar
from rota.core.timing.instants import parse_instant
from rota.core.vocabulary.facts import NO_FACTS, Facts
from rota.node.api.documents.job_warnings import schedule_warnings, startup_warnings
from rota.wire.bodies.job_bodies import job_spec
from rota.wire.documents import JobBody, ScheduleBody


@pytest.mark.parametrize(("schedule", "count"), [("@startup", 1), ("@hourly", 0)])
def test_only_a_startup_schedule_is_warned_of(schedule: str, count: int) -> None:
    body = JobBody(name="job", command="true", schedules=[ScheduleBody(schedule=schedule)])

    assert len(startup_warnings(job_spec(body))) == count


@pytest.mark.parametrize(
    ("fields", "warning"),
    [
        ({"schedule": "0 0 13 * FRI"}, "its day field or its weekday field"),
        ({"schedule": "0 0 13 * FRI", "dayOr": False}, ""),
        ({"schedule": "0 0 */2 * FRI"}, ""),
        ({"schedule": "0 0 0 1 1 * 2020"}, "has no fire time left"),
        ({"schedule": "30 2 * * *", "timezone": "Europe/Berlin"}, "shifted out of a DST gap (2027"),
        ({"schedule": "0 */2 * * *", "timezone": "Europe/Berlin"}, "no fire at 02:00"),
        ({"schedule": "* * * * * *", "timezone": "Europe/Berlin"}, ""),
        ({"schedule": "0 9 * * *", "timezone": "Europe/Berlin"}, ""),
        ({"schedule": "@every 1h", "timezone": "Europe/Berlin"}, ""),
        ({"schedule": "@at 2020-01-01T00:00:00Z"}, ""),
        ({"schedule": "@every 3s", "jitter": "10m"}, "a jitter of 10m, longer than the time"),
        ({"schedule": "@every 10m", "jitter": "10m"}, ""),
    ],
)
def test_fire_times_that_may_surprise_are_warned_of(fields: dict[str, Any], warning: str) -> None:
    body = msgspec.convert({"name": "job", "command": "true", "schedules": [fields]}, JobBody)

    found = list(schedule_warnings(job_spec(body), NO_FACTS, parse_instant("2027-01-04T12:00:00Z")))

    assert [warning in each for each in found] == ([True] if warning else [])


def test_calendars_that_exclude_all_fire_times_are_warned_of() -> None:
    sundays = Calendar(name="sundays", weekdays=0b100_0000)
    body = JobBody(name="job", command="true", schedule="0 9 * * MON", only_calendars=["sundays"])
    facts = Facts(calendars={"sundays": sundays})

    found = list(schedule_warnings(job_spec(body), facts, parse_instant("2027-01-04T12:00:00Z")))

    assert len(found) == 1
    assert "calendars exclude all of its fire times" in found[0]
