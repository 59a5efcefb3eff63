"""The jobs of a shard in memory: like a dict, and few of them as objects."""

from rota.core.model.ids import JobId
from rota.core.model.job import Job, JobSpec
from rota.core.state.stored_jobs import DECODED_MAX, Jobs
from rota.core.timing.instants import Instant
from unit.core.shard import task


def _job(number: int) -> Job:
    spec = JobSpec(name=f"job-{number}", tasks=(task("main"),))
    id_ = JobId(f"{number}")
    return Job(id=id_, version=1, spec=spec, created_at=Instant(0), updated_at=Instant(0))


def _some(count: int) -> Jobs:
    jobs = Jobs()
    for number in range(count):
        jobs[JobId(f"{number}")] = _job(number)
    return jobs


def test_jobs_are_found_whether_or_not_they_are_ready() -> None:
    count = 3 * DECODED_MAX
    jobs = _some(count)

    assert len(jobs) == count
    assert list(jobs) == [f"{number}" for number in range(count)]
    assert list(jobs.values()) == [_job(number) for number in range(count)]
    assert all(JobId(f"{number}") in jobs for number in range(count))


def test_a_job_that_is_not_there_is_not_found() -> None:
    jobs = _some(2)
    del jobs[JobId("0")]

    assert JobId("0") not in jobs
    assert jobs.get(JobId("0")) is None
    assert jobs.pop(JobId("0"), None) is None
    assert list(jobs) == ["1"]


def test_a_job_is_what_it_was_saved_as_last() -> None:
    jobs = _some(1)
    second = Job(
        id=JobId("0"),
        version=2,
        spec=JobSpec(name="renamed", tasks=(task("main"),)),
        created_at=Instant(0),
        updated_at=Instant(1),
    )

    jobs[JobId("0")] = second

    assert jobs[JobId("0")] == second
    assert len(jobs) == 1


def test_only_those_saved_or_decoded_last_stay_objects() -> None:
    jobs = _some(DECODED_MAX + 1)
    early, late = JobId("1"), JobId(f"{DECODED_MAX}")
    kept, kept_late = jobs[early], jobs[late]

    for number in range(DECODED_MAX + 1, 2 * DECODED_MAX):
        jobs[JobId(f"{number}")] = _job(number)

    assert jobs[late] is kept_late, "it is not decoded each time"
    assert jobs[early] == kept
    assert jobs[early] is not kept, "a million of them would fill the memory"


def test_a_copy_goes_its_own_way() -> None:
    jobs = _some(2)
    copy = jobs.copy()

    del copy[JobId("0")]
    copy[JobId("2")] = _job(2)

    assert list(jobs) == ["0", "1"]
    assert list(copy) == ["1", "2"]
