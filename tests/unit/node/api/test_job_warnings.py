"""Warnings about jobs that never start in a cluster."""

import pytest

from rota.node.api.documents.job_warnings import startup_warnings
from rota.wire.bodies.job_bodies import job_spec
from rota.wire.documents import JobBody, ScheduleBody


@pytest.mark.parametrize(("schedule", "count"), [("@startup", 1), ("@hourly", 0)])
def test_only_a_startup_schedule_is_warned_of(schedule: str, count: int) -> None:
    body = JobBody(name="job", command="true", schedules=[ScheduleBody(schedule=schedule)])

    assert len(startup_warnings(job_spec(body))) == count
