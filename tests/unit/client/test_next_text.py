"""What `rota jobs` shows as the next fire time of a job."""

import pytest
from msgspec.structs import replace

from rota.client.cli.display.table_columns import next_text
from rota.core.timing.instants import parse_instant
from rota.wire.documents import JobView

NOW = parse_instant("2027-01-01T00:00:00Z")
ONE = "2027-01-01T01:00:00.000000Z"
JOB = JobView(
    job_id="1",
    name="a",
    namespace="default",
    status="scheduled",
    version=1,
    description="",
    schedules=[],
    tasks=[],
    dependencies=[],
    misfire="latest",
    grace="10s",
    overlap="skip",
    labels={},
    created_at=ONE,
    updated_at=ONE,
    next_fire_at=ONE,
)


@pytest.mark.parametrize(
    ("until", "expected"),
    [
        (None, "paused"),
        ("2027-01-01T02:00:00.000000Z", "paused"),
        ("2027-01-01T00:30:00.000000Z", "in 1h"),
    ],
)
def test_a_job_that_is_paused_at_its_next_fire_time_has_none(
    until: str | None, expected: str
) -> None:
    paused = replace(JOB, paused_at="2026-12-31T00:00:00.000000Z", paused_until=until)

    assert next_text(JOB, NOW) == "in 1h"
    assert next_text(paused, NOW) == expected


def test_a_paused_job_without_fire_times_shows_none() -> None:
    paused = replace(JOB, paused_at="2026-12-31T00:00:00.000000Z", next_fire_at=None)

    assert next_text(paused, NOW) == next_text(replace(JOB, next_fire_at=None), NOW)
