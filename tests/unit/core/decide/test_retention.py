"""Old history goes, and takes with it only what is its own."""

from msgspec.structs import replace

from rota.core.model.job import Misfire, Overlap
from rota.core.timing.instants import HOUR, MINUTE, Duration
from rota.core.vocabulary.changes import Table
from rota.core.vocabulary.commands import DeleteJob, Forget
from unit.core.shard import Shard, every, job, task


def test_forgetting_everything_leaves_no_history() -> None:
    shard = Shard()
    shard.save(task("a"), task("b", "a"), schedules=every("* * * * *"), overlap=Overlap.SKIP)
    shard.pass_time(MINUTE)
    shard.pass_time(MINUTE)
    (execution_id,) = shard.live()
    shard.fail(execution_id, "a")

    shard.do(Forget(pasts=shard.pasts()))

    assert shard.history_keys() == []


def test_the_ledger_entry_of_a_fire_goes_with_its_execution() -> None:
    shard = Shard()
    shard.save(schedules=every("* * * * *"))
    shard.pass_time(MINUTE)
    shard.finish(shard.live()[0])
    shard.pass_time(MINUTE)
    shard.finish(shard.live()[0])

    shard.do(Forget(pasts=shard.pasts()[:1]))

    assert shard.outcomes() == [("12:02:00", 1, "fired")]
    assert len(shard.executions()) == 1
    assert len(shard.keys(Table.PAST_TASK)) == 1


def test_the_ledger_entry_of_what_did_not_run_goes_by_itself() -> None:
    shard = Shard()
    shard.save(schedules=every("* * * * *"), misfire=Misfire.SKIP)
    shard.pass_time(HOUR)
    shard.pass_time(Duration(30 * MINUTE))

    shard.do(Forget(pasts=shard.pasts()[:1]))

    assert [count for _, count, _ in shard.outcomes()] == [1, 29, 1]


def test_forgetting_a_trigger_leaves_the_ledger_alone() -> None:
    shard = Shard()
    job_id = shard.save(schedules=every("* * * * *"))
    asked = shard.trigger(job_id)
    shard.finish(asked)
    shard.pass_time(MINUTE)

    shard.do(Forget(pasts=shard.pasts()))

    assert shard.fired() == ["12:01:00"]
    assert [one.id for one in shard.executions()] == shard.live()


def test_history_comes_in_the_order_of_its_age() -> None:
    shard = Shard()
    late, early = shard.save(name="late"), shard.save(name="early")
    first, second = shard.trigger(early), shard.trigger(late)
    shard.finish(second)
    shard.finish(first)

    found = [past.pointer.key for past in shard.pasts()]

    assert found == [first, second]


def test_forgetting_touches_nothing_that_is_not_finished() -> None:
    shard = Shard()
    job_id = shard.save()
    done, live = shard.trigger(job_id), shard.trigger(job_id)
    shard.finish(done)

    shard.do(Forget(pasts=shard.pasts()))

    assert shard.live() == [live]
    assert shard.status(live) == "running"
    assert job_id in shard.state.jobs


def test_what_is_kept_gets_the_age_of_the_decision_and_stays_as_it_is() -> None:
    shard = Shard()
    shard.save(schedules=every("* * * * *"))
    shard.pass_time(MINUTE)
    (execution_id,) = shard.live()
    shard.finish(execution_id)
    shard.pass_time(HOUR)
    before = {key: row for key, row in shard.rows.items() if key[0] is not Table.PAST}
    (first,) = (past for past in shard.pasts() if past.pointer.key == execution_id)

    shard.do(Forget(pasts=(), kept=(first,)))

    assert {key: row for key, row in shard.rows.items() if key[0] is not Table.PAST} == before
    (moved,) = (past for past in shard.pasts() if past.pointer.key == execution_id)
    assert moved == replace(first, instant=moved.instant)
    assert moved.instant >= shard.clock


def test_what_was_kept_can_be_deleted_later_with_its_ledger_entry() -> None:
    shard = Shard()
    shard.save(schedules=every("* * * * *"))
    shard.pass_time(MINUTE)
    (execution_id,) = shard.live()
    shard.finish(execution_id)
    shard.do(Forget(pasts=(), kept=shard.pasts()))
    shard.pass_time(Duration(30))

    shard.do(Forget(pasts=shard.pasts()))

    assert shard.history_keys() == []


def test_nothing_is_kept_of_a_job_that_is_gone() -> None:
    shard = Shard()
    job_id = shard.save(schedules=every("* * * * *"))
    shard.pass_time(MINUTE)
    shard.finish(shard.live()[0])
    shard.do(Forget(pasts=(), kept=shard.pasts()))
    shard.do(DeleteJob(job_id=job_id))

    shard.do(Forget(pasts=(), kept=shard.pasts()))

    assert shard.history_keys() == []


def test_a_one_off_job_goes_with_what_would_be_kept_of_it() -> None:
    shard = Shard()
    shard.finish(shard.trigger(shard.save_spec(replace(job(), is_one_off=True))))

    shard.do(Forget(pasts=(), kept=shard.pasts()))

    assert shard.state.jobs == {}
    assert shard.history_keys() == []


def test_keeping_twice_leaves_one_pointer_if_it_is_found_in_between() -> None:
    shard = Shard()
    shard.finish(shard.run())
    for _ in range(2):
        shard.pass_time(MINUTE)
        shard.do(Forget(pasts=(), kept=shard.pasts()))

    (moved,) = shard.pasts()
    assert moved.instant >= shard.clock


def test_forgetting_twice_does_no_harm() -> None:
    shard = Shard()
    shard.finish(shard.run())
    pasts = shard.pasts()
    shard.do(Forget(pasts=pasts))
    rows = dict(shard.rows)

    shard.do(Forget(pasts=pasts))

    assert shard.rows == rows
