"""History that the bench writes into a store: a node accepts it."""

from pathlib import Path

import pytest
from bench.fleet import Fleet
from bench.preload import preload

from rota.client.client import Client

JOBS = ("a", "b")
NUMBERS = 1_500
"""More than one batch."""


def _listed(fleet: Fleet, job: str) -> list[str]:
    with Client(*fleet.urls) as client:
        found = [each.execution_id for each in client.executions(job=job, limit=NUMBERS)]
        oldest = client.execution(found[-1])
    assert oldest.status == "success"
    assert oldest.tasks is not None
    assert [task.status for task in oldest.tasks.values()] == ["success"]
    return found


@pytest.mark.timeout(120)
def test_executions_that_were_put_are_listed_beside_those_that_were_run(tmp_path: Path) -> None:
    with Fleet(tmp_path / "fleet", 1) as fleet:
        with Client(*fleet.urls) as client:
            for job in JOBS:
                client.create_job({"name": job, "type": "scripted"})
                client.wait_many([client.trigger(job).execution_id])
        run = {job: _listed(fleet, job) for job in JOBS}

        for numbers in (range(NUMBERS), range(NUMBERS, NUMBERS + 10)):
            with fleet.stopped() as [folder]:
                preload(folder, [f"default/{job}" for job in JOBS], numbers)

        for job in JOBS:
            listed = _listed(fleet, job)
            assert len(set(listed)) == len(listed) == 1 + (NUMBERS + 10) // len(JOBS)
            assert listed[0] == run[job][0], "what was put began before it"
        with Client(*fleet.urls) as client:
            by_age = [each.execution_id for each in client.executions(limit=2 * NUMBERS)]
        assert len(by_age) == len(JOBS) + NUMBERS + 10


@pytest.mark.timeout(120)
def test_a_job_that_has_finished_nothing_has_no_model(tmp_path: Path) -> None:
    with (
        Fleet(tmp_path / "fleet", 1) as fleet,
        pytest.raises(AssertionError, match="0 of 1 jobs have a finished execution"),
        fleet.stopped() as [folder],
    ):
        preload(folder, ["default/never"], range(10))
