"""A request that comes again with its idempotency key changes nothing, however late it comes."""

import pytest

from rota.core.errors import Refused
from rota.core.model.ids import JobId
from rota.core.model.job import Overlap
from rota.core.timing.instants import DAY, HOUR, SECOND, Duration, later
from rota.core.vocabulary.changes import Change, RecordedReply, Table
from rota.core.vocabulary.commands import (
    DeleteJob,
    ForgetRequests,
    Idempotency,
    IdempotentCommand,
    PauseJob,
    ResumeJob,
    SaveJob,
    Trigger,
)
from rota.core.vocabulary.decision import Done, JobSaved, Limits, Reply, Triggered
from unit.core.shard import Shard, job

ASK = Idempotency(key="k1", digest="body 1")
OTHER = Idempotency(key="k2", digest="body 2")


# --- a first copy that comes after what followed it ----------------------------------------------


def test_a_late_put_does_not_bring_back_a_job_that_was_deleted() -> None:
    shard = Shard()
    put = SaveJob(spec=job(), may_replace=True, idempotency=ASK)
    first = saved(shard.do(put))
    shard.do(DeleteJob(job_id=first.job_id, idempotency=OTHER))

    late = shard.do(put)

    assert late == first
    assert shard.state.jobs == {}


def test_a_late_put_does_not_undo_another() -> None:
    shard = Shard()
    first = shard.do(SaveJob(spec=job(description="one"), may_replace=True, idempotency=ASK))
    job_id = saved(shard.do(SaveJob(spec=job(description="two"), may_replace=True))).job_id

    late = shard.do(SaveJob(spec=job(description="one"), may_replace=True, idempotency=ASK))

    assert late == first
    assert shard.state.jobs[job_id].spec.description == "two"


def test_a_late_put_that_changed_nothing_changes_nothing_either() -> None:
    """It left no trace but its key."""
    shard = Shard()
    job_id = shard.save(description="one")
    put = SaveJob(spec=job(description="one"), may_replace=True, idempotency=ASK)
    shard.do(put)
    shard.delete(job_id)

    late = shard.do(put)

    assert late == JobSaved(job_id, version=1, is_new=False)
    assert shard.state.jobs == {}


def test_a_late_pause_does_not_stop_a_job_that_was_resumed() -> None:
    shard = Shard()
    job_id = shard.save()
    shard.do(PauseJob(job_id=job_id, idempotency=ASK))
    shard.do(ResumeJob(job_id=job_id, idempotency=OTHER))

    late = shard.do(PauseJob(job_id=job_id, idempotency=ASK))

    assert late == JobSaved(job_id, version=1, is_new=False)
    assert shard.state.jobs[job_id].pause is None


def test_a_late_resume_does_not_start_a_job_that_was_paused() -> None:
    shard = Shard()
    job_id = shard.save()
    shard.do(PauseJob(job_id=job_id))
    shard.do(ResumeJob(job_id=job_id, idempotency=ASK))
    shard.do(PauseJob(job_id=job_id))

    shard.do(ResumeJob(job_id=job_id, idempotency=ASK))

    assert shard.state.jobs[job_id].pause is not None


def test_a_late_delete_does_not_take_the_job_that_was_made_since() -> None:
    """By then its name stands for another job."""
    shard = Shard()
    first = shard.save()
    shard.do(DeleteJob(job_id=first, idempotency=ASK))
    second = shard.save()

    late = shard.do(DeleteJob(job_id=second, idempotency=ASK))

    assert late == Done()
    assert list(shard.state.jobs) == [second]


def test_both_copies_in_one_entry_take_effect_once() -> None:
    shard = Shard()
    job_id = shard.save()
    pause, resume = (
        PauseJob(job_id=job_id, idempotency=ASK),
        ResumeJob(job_id=job_id, idempotency=OTHER),
    )

    shard.do_together(pause, resume, pause, resume, pause)

    assert shard.state.jobs[job_id].pause is None


def test_a_new_primary_recognises_late_copies_too() -> None:
    shard = Shard()
    put = SaveJob(spec=job(), may_replace=True, idempotency=ASK)
    first = saved(shard.do(put))
    shard.delete(first.job_id)
    shard.state = shard.reloaded()

    late = shard.do(put)

    assert late == first
    assert shard.state.jobs == {}


# --- the first answer ----------------------------------------------------------------------------


def test_every_repetition_gets_the_first_answer_and_leaves_no_trace() -> None:
    shard = Shard()
    job_id = shard.save(name="old")
    commands: list[IdempotentCommand] = [
        SaveJob(spec=job(name="new"), idempotency=Idempotency(key="create", digest="")),
        SaveJob(
            spec=job(name="old", priority=1),
            may_replace=True,
            idempotency=Idempotency(key="put", digest=""),
        ),
        PauseJob(job_id=job_id, idempotency=Idempotency(key="pause", digest="")),
        ResumeJob(job_id=job_id, idempotency=Idempotency(key="resume", digest="")),
        Trigger(job_id=job_id, idempotency=Idempotency(key="trigger", digest="")),
        DeleteJob(job_id=job_id, idempotency=Idempotency(key="delete", digest="")),
    ]
    first = [shard.do(command) for command in commands]
    rows = dict(shard.rows)

    again = [shard.do(command) for command in commands]

    assert again == first
    assert shard.rows == rows
    assert shard.effects == []


def test_a_repetition_with_a_version_gets_the_first_answer_and_no_mismatch() -> None:
    shard = Shard()
    shard.save(description="one")
    put = SaveJob(spec=job(description="two"), may_replace=True, if_version=1, idempotency=ASK)
    first = shard.do(put)
    shard.do(SaveJob(spec=job(description="three"), may_replace=True))

    again = shard.do(put)

    assert again == first
    assert saved(again).version == 2


def test_an_answer_that_an_older_rota_kept_is_one_without_a_version() -> None:
    shard = Shard()
    expires_at = later(shard.clock, HOUR)
    kept = RecordedReply(digest=ASK.digest, result_id="740e000000000000", expires_at=expires_at)
    shard.state.apply(Change(Table.REQUEST, ASK.scoped_key, kept))

    again = shard.do(SaveJob(spec=job(), idempotency=ASK))

    assert again == JobSaved(JobId("740e000000000000"), version=0, is_new=False)


# --- keys ----------------------------------------------------------------------------------------


def test_a_repeated_request_gets_the_first_answer() -> None:
    shard = Shard()
    job_id = shard.save()
    first = shard.trigger(job_id, idempotency=ASK)

    second = shard.do(Trigger(job_id=job_id, idempotency=ASK))

    assert second == Triggered(first)
    assert len(shard.executions()) == 1


def test_a_repeated_save_gets_the_first_answer_even_if_the_job_is_gone() -> None:
    shard = Shard()
    job_id = shard.save(idempotency=ASK)
    shard.delete(job_id)

    again = shard.do(SaveJob(spec=job(), idempotency=ASK))

    assert again == JobSaved(job_id, version=1, is_new=True)
    assert shard.state.jobs == {}


def test_a_key_for_another_request_is_refused() -> None:
    shard = Shard()
    job_id = shard.save()
    shard.trigger(job_id, idempotency=ASK)

    with pytest.raises(Refused, match="idempotency_key_reused"):
        shard.do(Trigger(job_id=job_id, idempotency=Idempotency(key=ASK.key, digest="body 2")))


def test_a_refused_request_leaves_its_key_unused() -> None:
    shard = Shard()
    job_id = shard.save(overlap=Overlap.SKIP)
    running = shard.trigger(job_id)
    with pytest.raises(Refused, match="overlap"):
        shard.trigger(job_id, idempotency=ASK)
    shard.finish(running)

    execution_id = shard.trigger(job_id, idempotency=ASK)

    assert execution_id != running


def test_a_key_is_remembered_for_a_day() -> None:
    shard = Shard()
    job_id = shard.save()
    first = shard.trigger(job_id, idempotency=ASK)
    shard.pass_time(Duration(DAY - SECOND))

    within = shard.do(Trigger(job_id=job_id, idempotency=ASK))
    shard.pass_time(Duration(2 * SECOND))
    after = shard.do(Trigger(job_id=job_id, idempotency=ASK))

    assert within == Triggered(first)
    assert after != within
    assert len(shard.executions()) == 2


def test_old_keys_are_forgotten_and_young_ones_kept() -> None:
    shard = Shard()
    job_id = shard.save()
    shard.trigger(job_id, idempotency=Idempotency(key="old", digest=""))
    shard.pass_time(HOUR)
    shard.trigger(job_id, idempotency=Idempotency(key="young", digest=""))
    shard.pass_time(Duration(23 * HOUR + SECOND))

    shard.do(ForgetRequests())

    assert shard.keys(Table.REQUEST) == ["young"]


def test_the_oldest_key_makes_room_for_a_new_one() -> None:
    shard = Shard(limits=Limits(requests=2))
    job_id = shard.save()
    for key in ("c", "b", "a"):
        shard.trigger(job_id, idempotency=Idempotency(key=key, digest=""))

    assert shard.keys(Table.REQUEST) == ["a", "b"]


def test_the_oldest_key_is_known_to_a_new_primary_too() -> None:
    """Stored keys come in alphabetical order."""
    shard = Shard(limits=Limits(requests=3))
    job_id = shard.save()
    for key in ("c", "b", "a"):
        shard.trigger(job_id, idempotency=Idempotency(key=key, digest=""))
    shard.state = shard.reloaded()

    shard.trigger(job_id, idempotency=Idempotency(key="d", digest=""))

    assert shard.keys(Table.REQUEST) == ["a", "b", "d"]


def test_a_key_used_again_after_its_time_is_young_again() -> None:
    shard = Shard()
    job_id = shard.save()
    shard.trigger(job_id, idempotency=Idempotency(key="again", digest=""))
    shard.trigger(job_id, idempotency=Idempotency(key="old", digest=""))
    shard.pass_time(Duration(DAY + SECOND))
    shard.trigger(job_id, idempotency=Idempotency(key="again", digest=""))

    shard.do(ForgetRequests())

    assert shard.keys(Table.REQUEST) == ["again"]
    assert shard.read(Table.REQUEST, "again", RecordedReply).expires_at > shard.clock


def saved(reply: Reply) -> JobSaved:
    """Return the reply of a command that saved a job."""
    assert isinstance(reply, JobSaved)
    return reply
