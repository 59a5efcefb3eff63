"""The parts in which the jobs of files are sent."""

from typing import Any

from rota.client.cli.jobs.job_batches import parts_of
from rota.wire.documents import BATCH_SCHEDULES_MAX, ITEMS_MAX


def sizes(jobs: list[dict[str, Any]], *, is_dry: bool = False) -> list[int]:
    return [len(part) for part in parts_of(jobs, is_dry=is_dry)]


def test_a_part_has_as_many_jobs_and_schedules_as_a_request_may_have() -> None:
    jobs = [{"name": f"job-{number}", "schedule": "@daily"} for number in range(2 * ITEMS_MAX + 1)]
    of_three = [{"name": each["name"], "schedules": ["@daily"] * 3} for each in jobs[:ITEMS_MAX]]

    assert sizes(jobs) == [ITEMS_MAX, ITEMS_MAX, 1]
    most = BATCH_SCHEDULES_MAX // 3
    assert sizes(of_three) == [most, ITEMS_MAX - most]


def test_a_job_is_sent_after_the_part_with_the_jobs_that_it_depends_on() -> None:
    jobs: list[dict[str, Any]] = [
        {"name": "first"},
        {"name": "second", "dependencies": ["first"]},
        {"name": "third", "dependencies": ["first"]},
        {"name": "fourth", "namespace": "other", "dependencies": ["third"]},
    ]

    assert sizes(jobs) == [1, 3]
    assert sizes(jobs, is_dry=True) == [4]
    assert sizes([]) == []
