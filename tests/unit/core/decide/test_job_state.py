"""The state of a job: revisions, cursors, locks, and limits."""

import pytest

from rota.core.decide.job_state import present
from rota.core.errors import Refused
from rota.core.model.ids import ExecutionId, JobId, job_of
from rota.core.model.job_state import STATE_KEYS_MAX, VALUE_BYTES_MAX, StateEntry
from rota.core.vocabulary.changes import Table
from rota.core.vocabulary.commands import Cancel, DeleteJob, DeleteState, PutState
from unit.core.shard import Shard, task


class Stateful:
    """A job with values."""

    def __init__(self) -> None:
        self.shard = Shard()
        self.job: JobId = self.shard.save()

    def put(self, value: bytes = b"1", key: str = "k", **fields: object) -> StateEntry:
        """Set a value, and return it."""
        command = PutState(job_id=self.job, key=key, value=value, **fields)  # type: ignore[arg-type]
        self.shard.do(command)
        return self.values()[key]

    def delete(self, key: str = "k", if_revision: int | None = None) -> None:
        """Delete a value."""
        self.shard.do(DeleteState(job_id=self.job, key=key, if_revision=if_revision))

    def values(self) -> dict[str, StateEntry]:
        """Return the values as a new primary has them."""
        return present(self.shard.reloaded(), self.job)

    def execution(self) -> ExecutionId:
        """Start an execution."""
        return self.shard.trigger(self.job)


def test_each_change_of_a_value_has_a_revision() -> None:
    job = Stateful()

    revisions = [job.put(value).revision for value in (b"1", b"2", b"2")]

    assert revisions == [1, 2, 3]
    assert job.values()["k"].value == b"2"


@pytest.mark.parametrize("revision", [0, 1, 3])
def test_a_change_of_another_revision_is_refused(revision: int) -> None:
    job = Stateful()
    job.put(b"1")
    job.put(b"2")

    with pytest.raises(Refused, match="version_mismatch: 'k' has revision 2, not"):
        job.put(b"3", if_revision=revision)
    if revision:
        with pytest.raises(Refused, match="version_mismatch"):
            job.delete(if_revision=revision)
    assert job.put(b"3", if_revision=2).revision == 3


def test_a_value_that_does_not_exist_has_revision_0() -> None:
    job = Stateful()

    with pytest.raises(Refused, match="'k' does not exist, not 1"):
        job.put(if_revision=1)
    assert job.put(if_revision=0).revision == 1


def test_a_deleted_value_is_gone_and_a_repetition_changes_nothing() -> None:
    job = Stateful()
    job.put()

    job.delete()
    job.delete()

    assert job.values() == {}


@pytest.mark.parametrize(
    ("before", "after"),
    [(b"1", b"1"), (b"1", b"1.5"), (b'"2026-01"', b'"2026-02"'), (b"9", b"10")],
)
def test_a_cursor_moves_forward(before: bytes, after: bytes) -> None:
    job = Stateful()
    job.put(before, is_forward=True)

    assert job.put(after, is_forward=True).value == after


@pytest.mark.parametrize(
    ("before", "after"),
    [(b"2", b"1"), (b'"b"', b'"a"'), (b"1", b'"2"'), (b"true", b"true"), (b"[1]", b"[2]")],
)
def test_a_cursor_never_moves_back_or_to_another_type(before: bytes, after: bytes) -> None:
    job = Stateful()
    job.put(before)

    with pytest.raises(Refused, match="not_forward"):
        job.put(after, is_forward=True)


def test_one_execution_at_a_time_holds_a_lock() -> None:
    job = Stateful()
    first, second = job.execution(), job.execution()
    job.put(if_revision=0, holder=first)

    with pytest.raises(Refused, match=f"state_held: {first} holds 'k' until it ends"):
        job.put(if_revision=0, holder=second)
    with pytest.raises(Refused, match="state_held"):
        job.put(b"2")
    assert job.put(if_revision=0, holder=first).revision == 1  # A repetition.


def test_a_lock_ends_with_its_execution() -> None:
    job = Stateful()
    first, second = job.execution(), job.execution()
    job.put(if_revision=0, holder=first)

    job.shard.finish(first)

    assert job.values() == {}
    assert job.put(if_revision=0, holder=second).holder == second


def test_one_task_at_a_time_holds_a_lock_and_no_longer_than_it_is_unfinished() -> None:
    job = Stateful()
    execution = job.shard.run(task("a"), task("b"), name="two")
    job.job = job_of(execution)
    job.put(if_revision=0, holder=execution, holding_task="a")

    with pytest.raises(Refused, match=f"state_held: a of {execution} holds 'k' until it ends"):
        job.put(if_revision=0, holder=execution, holding_task="b")
    job.shard.finish(execution, "a")
    assert job.values() == {}
    assert job.put(if_revision=0, holder=execution, holding_task="b").holding_task == "b"
    with pytest.raises(Refused, match="task_not_found"):
        job.put(holder=execution, holding_task="a")


def test_a_holder_is_an_unfinished_execution_of_the_job() -> None:
    job = Stateful()
    other = job.shard.trigger(job.shard.save(name="other"))
    ended = job.execution()
    job.shard.finish(ended)

    for holder in (other, ended):
        with pytest.raises(Refused, match="execution_not_found"):
            job.put(holder=holder)


def test_the_state_of_a_deleted_job_is_deleted() -> None:
    job = Stateful()
    job.put()

    job.shard.do(DeleteJob(job_id=job.job))

    assert job.shard.keys(Table.STATE) == []
    with pytest.raises(Refused, match="job_not_found"):
        job.put()


def test_the_keys_and_the_bytes_of_a_job_are_limited() -> None:
    job = Stateful()
    large = b'"%s"' % (b"x" * (VALUE_BYTES_MAX - 2))
    for number in range(15):
        job.put(large, key=f"k{number}")

    with pytest.raises(Refused, match=r"state_full: .* has 1,\d+,\d+ bytes with it"):
        job.put(large, key="more")
    job.put(b"1", key="more")


def test_locks_of_ended_executions_do_not_count_towards_the_limit() -> None:
    job = Stateful()
    execution = job.execution()
    job.put(key="lock", holder=execution)
    for number in range(STATE_KEYS_MAX - 1):
        job.shard.do(PutState(job_id=job.job, key=f"k{number}", value=b"1"))
    with pytest.raises(Refused, match="state_full: the state of a job has at most 1,000 keys"):
        job.put(key="more")

    job.shard.do(Cancel(execution_id=execution))
    job.shard.finish(execution)

    assert job.put(key="more").revision == 1
