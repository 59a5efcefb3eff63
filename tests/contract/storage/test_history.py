"""Order of the history: by end, not by fire time."""

from collections.abc import Callable

import pytest

from rota.core.model.execution import Execution, ExecutionStatus, Origin
from rota.core.model.ids import ExecutionId, JobId, ShardId, fire_execution_id
from rota.core.model.ledger import FireOutcome, LedgerEntry, ledger_key
from rota.core.timing.instants import DAY, Duration, Instant, later
from rota.core.vocabulary.changes import Pointer, Record, Table, past_key
from rota.core.vocabulary.codec import encode_record
from rota.core.vocabulary.commands import Past
from rota.storage.history import NEWEST, History, KeptPosition, past_before
from rota.storage.memory import MemoryStore
from rota.storage.shards import shard_prefix
from rota.storage.store import Family

SHARD = ShardId(0)
JOB = JobId("3f2a9c0011223344")
NOW = Instant(1_800_000_000_000_000)
LONG_AGO = later(NOW, Duration(-300 * DAY))
KEPT_SINCE = later(NOW, Duration(-7 * DAY))


def execution(fire_at: Instant, finished_at: Instant, *, job_id: JobId = JOB) -> Execution:
    return Execution(
        id=fire_execution_id(job_id, fire_at, 0),
        job_id=job_id,
        job_name="default/job",
        job_version=1,
        status=ExecutionStatus.SUCCESS,
        origin=Origin.SCHEDULE,
        fire_at=fire_at,
        queued_at=finished_at,
        open_count=0,
        finished_at=finished_at,
    )


def missed(fire_at: Instant, recorded_at: Instant) -> LedgerEntry:
    return LedgerEntry(
        job_id=JOB,
        schedule=0,
        fire_at=fire_at,
        until=fire_at,
        count=1,
        outcome=FireOutcome.MISSED,
        recorded_at=recorded_at,
    )


def history_of(*records: Execution | LedgerEntry) -> History:
    return History(store_of(*records), range(1))


def store_of(*records: Execution | LedgerEntry) -> MemoryStore:
    store = MemoryStore()
    batch = store.batch()

    def put(table: Table, key: str, record: Record) -> None:
        place = shard_prefix(SHARD) + bytes((table,)) + key.encode()
        batch.put(Family.HIST, place, encode_record(record))

    for record in records:
        if isinstance(record, Execution):
            pointer = Pointer(Table.PAST_EXECUTION, record.id)
        else:
            pointer = Pointer(Table.LEDGER, ledger_key(JOB, record.fire_at, 0))
        put(Table(pointer.table), pointer.key, record)
        put(Table.PAST, past_key(record.fire_at, pointer), pointer)
    store.write(batch)
    return store


@pytest.mark.parametrize("make", [execution, missed], ids=["execution", "ledger entry"])
def test_what_was_due_long_ago_and_is_over_only_now_stays(
    make: Callable[[Instant, Instant], Execution | LedgerEntry],
) -> None:
    fresh, old = make(LONG_AGO, NOW), make(later(LONG_AGO, DAY), later(LONG_AGO, DAY))

    found = history_of(fresh, old).older_than(SHARD, KEPT_SINCE, 10)

    assert [past.instant for past in found] == [old.fire_at]


@pytest.mark.parametrize("table", [Table.PAST_EXECUTION, Table.PAST_TASK, Table.PAST])
def test_what_cannot_be_decoded_goes_by_its_fire_time(table: Table) -> None:
    ended = execution(LONG_AGO, LONG_AGO)
    pointer = Pointer(Table.PAST_EXECUTION, ended.id)
    keys = {
        Table.PAST_EXECUTION: ended.id,
        Table.PAST_TASK: f"{ended.id}/main",
        Table.PAST: past_key(LONG_AGO, pointer),
    }
    store = store_of(ended)
    batch = store.batch()
    for damaged in {table, Table.PAST_TASK}:
        place = shard_prefix(SHARD) + bytes((damaged,)) + keys[damaged].encode()
        batch.put(Family.HIST, place, b"\x01\xc1")
    store.write(batch)
    history = History(store, range(1))

    found = history.older_than(SHARD, KEPT_SINCE, 10)

    assert found == (Past(instant=LONG_AGO, pointer=pointer, tasks=("main",)),)
    assert [each.id for each in history.executions(NEWEST)] == [ended.id]


def test_a_page_holds_no_more_than_is_asked_for() -> None:
    days = [later(LONG_AGO, Duration(number * DAY)) for number in range(20)]
    history = history_of(*(execution(day, day) for day in days))

    found = history.older_than(SHARD, KEPT_SINCE, 5)

    assert [past.instant for past in found] == days[:5]
    assert found[0].pointer.key == ExecutionId(fire_execution_id(JOB, days[0], 0))


def test_the_newest_of_a_job_are_those_with_the_latest_fire_times() -> None:
    days = [later(LONG_AGO, Duration(number * DAY)) for number in range(5)]
    others = (JobId(f"3f2a9c00112233{last}") for last in ("43", "45"))
    mine = [execution(day, NOW) for day in days]
    theirs = [execution(NOW, NOW, job_id=other) for other in others]
    history = history_of(*mine, *theirs)

    found = [history.newest_of(SHARD, JOB, count) for count in (0, 2, 9)]

    ids = [each.id for each in mine]
    assert found == [set(), set(ids[-2:]), set(ids)]


def test_an_execution_that_was_kept_is_found_again_after_another_period() -> None:
    store, kept = with_kept_execution()
    history = History(store, range(1))

    before = history.older_than(SHARD, KEPT_SINCE, 10)
    after = history.older_than(SHARD, later(NOW, DAY), 10)

    pointer = Pointer(Table.PAST_EXECUTION, kept.id)
    assert before == ()
    assert Past(instant=later(NOW, Duration(-DAY)), pointer=pointer) in after


def test_the_list_of_all_jobs_has_the_position_of_a_kept_execution_and_that_of_its_job_has_it() -> (
    None
):
    store, kept = with_kept_execution()
    history = History(store, range(1))

    of_all = list(history.executions(NEWEST))
    of_job = list(history.executions_of(SHARD, JOB, None))

    newest, position, older = of_all
    assert isinstance(position, KeptPosition)
    assert position.id == fire_execution_id(JOB, later(NOW, Duration(-DAY)), 0)
    assert [each.id for each in of_job] == [newest.id, older.id, kept.id]
    # As a cursor, the position is found again itself; what follows it is not lost.
    assert list(history.executions(past_before(position.id))) == [position, older]


def with_kept_execution() -> tuple[MemoryStore, Execution]:
    """Return the history of three executions; the oldest one was kept yesterday."""
    kept = execution(LONG_AGO, LONG_AGO)
    store = store_of(execution(NOW, NOW), execution(later(NOW, Duration(-2 * DAY)), NOW), kept)
    pointer = Pointer(Table.PAST_EXECUTION, kept.id)
    prefix = shard_prefix(SHARD) + bytes((Table.PAST,))
    batch = store.batch()
    batch.delete(Family.HIST, prefix + past_key(LONG_AGO, pointer).encode())
    moved = past_key(later(NOW, Duration(-DAY)), pointer)
    batch.put(Family.HIST, prefix + moved.encode(), encode_record(pointer))
    store.write(batch)
    return store, kept
