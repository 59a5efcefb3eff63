"""The fire times that a job would have, from its document and the calendars of files."""

import pytest
from msgspec.structs import replace

from rota.client.cli.documents.given_documents import Given
from rota.client.cli.files.planned_fires import calendars_with, new_fires
from rota.core.timing.instants import parse_instant
from rota.wire.documents import DocumentView, JobView, ScheduleView

HOURLY = ScheduleView(schedule="0 * * * *", timezone="UTC")
NOW = parse_instant("2027-01-01T00:30:00Z")


def job(schedule: ScheduleView = HOURLY, only: list[str] | None = None) -> JobView:
    """Return a job with one schedule."""
    return JobView(
        job_id="1",
        name="a",
        namespace="default",
        status="scheduled",
        version=1,
        description="",
        schedules=[schedule],
        tasks=[],
        dependencies=[],
        misfire="latest",
        grace="10s",
        overlap="skip",
        labels={},
        created_at="2027-01-01T00:00:00Z",
        updated_at="2027-01-01T00:00:00Z",
        definition={"onlyCalendars": only or []},
    )


def hours(*numbers: int) -> list[str]:
    """Return hours of the first day."""
    return [f"2027-01-01T{number:02}:00:00.000000Z" for number in numbers]


@pytest.mark.parametrize(
    ("schedule", "times"),
    [
        (HOURLY, hours(1, 2, 3)),
        (replace(HOURLY, start_at="2027-01-01T05:00:00Z"), hours(5, 6, 7)),
        (replace(HOURLY, end_at="2027-01-01T01:30:00Z"), hours(1)),
    ],
)
def test_a_schedule_is_evaluated_whole(schedule: ScheduleView, times: list[str]) -> None:
    assert new_fires(None, job(schedule), {}, NOW) == times


def test_hashed_times_are_those_of_the_job() -> None:
    first = new_fires(None, job(replace(HOURLY, schedule="H H * * *")), {}, NOW)

    assert len({each[11:] for each in first}) == 1


def test_calendars_of_files_take_the_place_of_those_of_the_node() -> None:
    window = {"windows": [{"start": "04:00", "end": "06:00"}]}
    present = DocumentView(
        kind="calendars",
        name="office",
        version=1,
        definition={"blackoutOf": ["default"], "weekdays": ["MON-SUN"]},
        changed_at="2027-01-01T00:00:00Z",
        changed_by="ann",
    )
    given = Given("calendars", "office", window, "file")

    stopped = new_fires(None, job(), calendars_with([], [present]), NOW)
    limited = new_fires(None, job(only=["office"]), calendars_with([given], [present]), NOW)

    assert stopped == []
    assert limited[:2] == hours(4, 5)


def test_a_job_with_the_same_rules_has_no_new_times() -> None:
    assert new_fires(job(), job(), {}, NOW) == []
    assert new_fires(job(), job(only=["missing"]), {}, NOW) == []
    assert new_fires(job(only=["missing"]), job(), {}, NOW) == hours(1, 2, 3)
