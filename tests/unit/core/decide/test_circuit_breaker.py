"""The circuit breaker: failures in a row pause a job, a success resumes it."""

from msgspec.structs import replace

from rota.core.model.job import Job, Pause
from rota.core.timing.instants import MINUTE, Duration
from rota.core.vocabulary.changes import Table
from rota.core.vocabulary.commands import PauseJob, ResumeJob, SaveJob
from unit.core.shard import Shard, every


class Breaking:
    """A job that runs each minute, and is paused after failures."""

    def __init__(self, limit: int = 2) -> None:
        self.shard = Shard()
        self.job = self.shard.save(schedules=every("* * * * *"), pause_after_failures=limit)

    def run(self, *outcomes: bool) -> None:
        """Trigger executions, one after the other, and end them with success or failure."""
        for is_success in outcomes:
            execution = self.shard.trigger(self.job)
            if is_success:
                self.shard.finish(execution)
            else:
                self.shard.fail(execution)

    @property
    def pause(self) -> Pause | None:
        """The pause of the job, as a new primary has it."""
        self.shard.state = self.shard.reloaded()
        return self.shard.state.jobs[self.job].pause

    @property
    def failures(self) -> int:
        """The failures that count."""
        return self.shard.state.plans[self.job].failures


def test_failures_in_a_row_pause_the_job_and_say_why() -> None:
    job = Breaking(limit=2)

    job.run(False)
    before = job.pause
    job.run(False)

    assert before is None
    assert job.pause is not None
    assert (job.pause.by, job.pause.is_automatic) == ("rota", True)
    assert job.pause.reason.startswith("failures in a row: 2, the last one of execution ")


def test_fire_times_of_the_pause_are_recorded_as_paused() -> None:
    job = Breaking(limit=1)
    job.run(False)

    job.shard.pass_time(Duration(2 * MINUTE))

    assert {outcome for *_, outcome in job.shard.outcomes()} == {"paused"}


def test_a_success_between_failures_begins_the_count_again() -> None:
    job = Breaking(limit=2)

    job.run(False, True, False)

    assert (job.pause, job.failures) == (None, 1)


def test_a_probe_that_succeeds_resumes_the_job_and_one_that_fails_does_not() -> None:
    job = Breaking(limit=2)
    job.run(False, False, False)
    paused = job.pause

    job.run(True)

    assert paused is not None
    assert (job.pause, job.failures) == (None, 0)


def test_a_success_does_not_end_the_pause_of_a_user() -> None:
    job = Breaking()
    job.shard.do(PauseJob(job_id=job.job, by="ann"))

    job.run(True)

    assert job.pause is not None


def test_a_user_may_pause_a_job_that_failures_have_paused_so_that_no_success_resumes_it() -> None:
    job = Breaking(limit=1)
    job.run(False)
    job.shard.do(PauseJob(job_id=job.job, by="ann"))

    job.run(True)

    assert job.pause is not None
    assert (job.pause.by, job.pause.is_automatic) == ("ann", False)


def test_a_job_that_a_user_resumes_may_fail_as_often_again() -> None:
    job = Breaking(limit=2)
    job.run(False, False)

    job.shard.do(ResumeJob(job_id=job.job))
    job.run(False)

    assert (job.pause, job.failures) == (None, 1)


def test_cancelled_executions_and_those_of_backfills_do_not_count() -> None:
    job = Breaking(limit=1)
    execution = job.shard.trigger(job.job)
    job.shard.cancel(execution)
    job.shard.fail(execution)

    assert job.pause is None


def test_a_job_without_a_limit_is_never_paused_and_counts_nothing() -> None:
    job = Breaking(limit=0)

    job.run(*[False] * 20)

    assert (job.pause, job.failures) == (None, 0)


def test_a_replaced_job_stays_paused_and_counts_from_0() -> None:
    job = Breaking(limit=1)
    job.run(False)
    stored = job.shard.read(Table.JOB, job.job, Job)

    changed = replace(stored.spec, priority=1)
    job.shard.do(SaveJob(spec=changed, may_replace=True))

    assert job.pause is not None
    assert job.failures == 0
