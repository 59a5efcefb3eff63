"""Encoding of records and entry bodies: round trips, and refusal of later formats."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import asdict, replace

from rota.core.model.attempt import Attempt, Ending, Outcome, Raised, Token, Usage
from rota.core.model.author import Author
from rota.core.model.backfill import (
    Backfill,
    BackfillStatus,
    BackfillTimes,
    FireOrder,
    Reprocess,
)
from rota.core.model.event_trigger import EventTrigger
from rota.core.model.execution import (
    Caller,
    Execution,
    ExecutionStatus,
    Hold,
    LoopState,
    Origin,
    Task,
    TaskStatus,
)
from rota.core.model.flow import (
    Approval,
    Case,
    Foreach,
    Repeat,
    RunJob,
    Sleep,
    Switch,
    WaitForEvent,
)
from rota.core.model.hook import Hook, HookEvent, Notification
from rota.core.model.ids import Epoch, ExecutionId, Index, JobId, NodeId, Session
from rota.core.model.job import (
    Consistency,
    Job,
    JobPlan,
    Misfire,
    Overlap,
    Pause,
    SchedulePolicy,
    TaskSpec,
    Upstream,
)
from rota.core.model.job_state import StateEntry
from rota.core.model.ledger import FireOutcome, LedgerEntry
from rota.core.model.retry import Explicit, Exponential, Fixed, Linear, RetryPolicy
from rota.core.model.trigger_rules import TriggerRule
from rota.core.model.work import Bind, Call, Image, ResourceLimits, Sandbox, Work
from rota.core.state.shard_state import State
from rota.core.timing.instants import SECOND, Duration, Instant
from rota.core.vocabulary.change_chain import ChangeChain, SealedChange
from rota.core.vocabulary.changes import (
    Answered,
    Available,
    Called,
    Change,
    Checkpoint,
    Dependent,
    Hooked,
    LastReceived,
    Name,
    Occurred,
    OutboxItem,
    Pointer,
    PostedEvent,
    Recalled,
    Record,
    RecordedDocument,
    RecordedReply,
    Retired,
    StandInExecution,
    StandInRun,
    Subscribe,
    Succeeded,
    Table,
    Unsubscribe,
)
from rota.core.vocabulary.codec import (
    TYPES,
    RawChange,
    Undecodable,
    decode_body,
    decode_change,
    decode_end,
    decode_record,
    decode_timer_command,
    encode_body,
    encode_change,
    encode_record,
    encode_timer_command,
)
from rota.core.vocabulary.commands import Fire, TimerCommand, Wake
from unit.core.shard import at, every, job, task
from unit.core.vocabulary.golden_records import GOLDEN

NOON = at("12:00")
JOB = JobId("740e000000000001")
EXECUTION = ExecutionId("740e000000000001-06643d3aa5f000-0000")

AUTHOR = Author(principal="alice", key="3fGh81Qz", request="018f6a0e", address="10.12.7.31")

SPEC = job(
    task("plain"),
    task("fixed", "plain", retry=RetryPolicy(limit=1, backoff=Fixed(delay=SECOND))),
    task("growing", retry=RetryPolicy(limit=2, backoff=Exponential(factor=1.5), jitter=0.1)),
    task(
        "listed",
        "fixed",
        "growing",
        rule=TriggerRule.ALL_DONE,
        retry=RetryPolicy(
            limit=3,
            backoff=Explicit(delays=(SECOND, SECOND)),
            on_exit_codes=(1, 2),
            never_on_exit_codes=(3,),
        ),
    ),
    namespace="team-a",
    schedules=every("0 12 * * *", "Europe/Berlin"),
    dependencies=("default/upstream",),
    misfire=Misfire.SKIP,
    overlap=Overlap.QUEUE_ONE,
    parameters='{"a": 1}',
)

CONFINED = job(
    TaskSpec(
        name="kept",
        work=Work(
            shell="make",
            sandbox=Sandbox(
                profile="strict", has_network=False, binds=(Bind("/srv", "/data", True),)
            ),
            limits=ResourceLimits(cpu=0.5, memory=1 << 29, pids=100),
        ),
        retry=RetryPolicy(limit=1, on_exceptions=("OSError",), never_on_exceptions=("a.B",)),
    ),
    TaskSpec(
        name="called",
        work=Work(
            executor="python",
            call=Call(
                function="a.b:c",
                arguments='{"args":[1],"kwargs":{}}',
                interpreter="/opt/venv/bin/python",
                path=("/opt/lib",),
            ),
        ),
    ),
    TaskSpec(
        name="shipped",
        work=Work(
            executor="container",
            image=Image(
                name="alpine:3.20",
                pull="never",
                network="none",
                binds=(Bind("/srv", "/data"),),
                user="1000:1000",
            ),
        ),
    ),
)
FINISHED_TASK = Task(
    name="main",
    status=TaskStatus.SUCCESS,
    attempts=(
        Attempt(
            number=1,
            token=Token(Epoch(1), Index(2)),
            node_id=NodeId("node-a"),
            session=Session("s"),
            placed_at=NOON,
            ending=Ending(
                outcome=Outcome.FAILED,
                started_at=NOON,
                finished_at=NOON,
                raised=Raised(
                    type="a.B", bases=("ValueError", "Exception"), message="no", traceback="…"
                ),
                usage=Usage(cpu=Duration(1_500_000), memory_peak=1 << 20),
                is_out_of_memory=True,
                unenforced=("no cgroup for memory",),
            ),
            percent=50,
        ),
        Attempt(
            number=2,
            token=Token(Epoch(2), Index(9)),
            node_id=NodeId("node-a"),
            session=Session("s"),
            placed_at=NOON,
            ending=Ending(
                outcome=Outcome.SUCCEEDED, started_at=NOON, finished_at=NOON, result=b'{"rows":3}'
            ),
            percent=100,
        ),
    ),
    failures=1,
)

STOOD_IN_FOR = Execution(
    id=EXECUTION,
    job_id=JOB,
    job_name="default/job",
    job_version=1,
    status=ExecutionStatus.SUCCESS,
    origin=Origin.SCHEDULE,
    fire_at=NOON,
    queued_at=NOON,
    open_count=0,
    finished_at=NOON,
    stand_in=NodeId("node-a"),
)

CALL_MESSAGES = (
    Called(upstream="a/b", dependent="a/c", execution_id=EXECUTION, task="call", parameters="{}"),
    Recalled(upstream="a/b", dependent="a/c", execution_id=EXECUTION, task="call"),
    Answered(
        upstream="a/b",
        dependent="a/c",
        execution_id=EXECUTION,
        task="call",
        status=ExecutionStatus.SUCCESS,
        called=EXECUTION,
        result=b"7",
    ),
)
RECORDS: tuple[tuple[Table, Record], ...] = (
    (Table.JOB, Job(id=JOB, version=3, spec=SPEC, created_at=NOON, updated_at=NOON)),
    (Table.NAME, Name(JOB)),
    (Table.VERSION, SPEC),
    (
        Table.PLAN,
        JobPlan(
            next_fires=(NOON, None),
            upstreams=(Upstream(seen=Index(7), is_met=True), Upstream()),
        ),
    ),
    (
        Table.EXECUTION,
        Execution(
            id=EXECUTION,
            job_id=JOB,
            job_name="default/job",
            job_version=1,
            status=ExecutionStatus.RUNNING,
            origin=Origin.MANUAL,
            fire_at=NOON,
            queued_at=NOON,
            open_count=2,
            started_at=NOON,
            hold=Hold.OVERLAP,
            reason="because",
            parameters="{}",
        ),
    ),
    (
        Table.TASK,
        Task(
            name="main",
            status=TaskStatus.RUNNING,
            attempts=(
                Attempt(
                    number=1,
                    token=Token(Epoch(1), Index(2)),
                    node_id=NodeId("node-a"),
                    session=Session("s"),
                    placed_at=NOON,
                    ending=Ending(
                        outcome=Outcome.FAILED,
                        started_at=NOON,
                        finished_at=NOON,
                        exit_code=1,
                        output=b"\x00\xff not text",
                        output_bytes=12_000,
                    ),
                ),
                Attempt(
                    number=2,
                    token=Token(Epoch(2), Index(9)),
                    node_id=NodeId("node-a"),
                    session=Session("s"),
                    placed_at=NOON,
                ),
            ),
            failures=1,
            retry_at=NOON,
        ),
    ),
    (Table.REQUEST, RecordedReply(digest="d1", result_id=JOB, expires_at=NOON)),
    (
        Table.OUTBOX,
        OutboxItem(
            key="k", to="a/b", message=Succeeded(upstream="c/d", dependent="a/b", index=Index(3))
        ),
    ),
    (
        Table.OUTBOX,
        OutboxItem(key="k", to="c/d", message=Subscribe(upstream="c/d", dependent="a/b")),
    ),
    (
        Table.OUTBOX,
        OutboxItem(key="k", to="c/d", message=Unsubscribe(upstream="c/d", dependent="a/b")),
    ),
    (Table.DEPENDENT, Dependent(upstream="a/b", name="c/d")),
    (Table.PAST_TASK, Task(name="main", status=TaskStatus.SKIPPED, reason="upstream_failed")),
    (Table.TASK, Task(name="third", status=TaskStatus.READY, ready_at=NOON, position=2)),
    (Table.VERSION, job(priority=-7)),
    (
        Table.PAST_EXECUTION,
        Execution(
            id=EXECUTION,
            job_id=JOB,
            job_name="default/job",
            job_version=1,
            status=ExecutionStatus.SUCCESS,
            origin=Origin.MANUAL,
            fire_at=NOON,
            queued_at=NOON,
            open_count=0,
            traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        ),
    ),
    (
        Table.LEDGER,
        LedgerEntry(
            job_id=JOB,
            schedule=1,
            fire_at=NOON,
            until=Instant(NOON + SECOND),
            count=2,
            outcome=FireOutcome.COALESCED,
            recorded_at=NOON,
            execution_id=EXECUTION,
            reason="late",
        ),
    ),
    (Table.PAST, Pointer(Table.LEDGER, "key")),
    (Table.RECEIVED, LastReceived("place")),
    (Table.CHECKPOINT, Checkpoint(b"\x00 row 7")),
    (Table.VERSION, CONFINED),
    (Table.PAST_TASK, FINISHED_TASK),
    (
        Table.REQUEST,
        RecordedReply(digest="d2", result_id=JOB, expires_at=NOON, version=3, is_new=True),
    ),
    (Table.AVAILABLE, Available()),
    (Table.STAND_IN, StandInRun(NodeId("node-a"))),
    (
        Table.DUPLICATE,
        StandInExecution(node_id=NodeId("node-a"), execution=STOOD_IN_FOR, tasks=(FINISHED_TASK,)),
    ),
    (Table.VERSION, job(consistency=Consistency.AVAILABLE)),
    (Table.PLAN, JobPlan(is_failing=True)),
    (Table.EXECUTION, replace(STOOD_IN_FOR, origin=Origin.HOOK, late_at=NOON)),
    (
        Table.VERSION,
        job(
            hooks=(
                Hook(event=HookEvent.FAILURE, webhook="https://hooks.example.com/1"),
                Hook(event=HookEvent.LATE, job="default/notify"),
            ),
            late_after=SECOND,
        ),
    ),
    (
        Table.OUTBOX,
        OutboxItem(
            key="k",
            to="a/b",
            message=Hooked(
                upstream="c/d",
                dependent="a/b",
                job_id=JOB,
                execution_id=EXECUTION,
                event=HookEvent.RECOVERY,
                parameters="{}",
            ),
        ),
    ),
    (
        Table.NOTIFICATION,
        Notification(
            key=f"{EXECUTION}.success.2",
            job_id=JOB,
            job="default/job",
            execution_id=EXECUTION,
            event=HookEvent.SUCCESS,
            at=NOON,
            url="https://hooks.example.com/1",
            document="{}",
        ),
    ),
    (Table.PAST_EXECUTION, replace(STOOD_IN_FOR, triggered_by=AUTHOR)),
    (Table.CHANGE_CHAIN, ChangeChain(last=3, hash=b"\x01" * 32, first=2, anchor=b"\x02" * 32)),
    (Table.USER_CHANGE, SealedChange(b"body", b"\x03" * 32)),
    (Table.RECORDED_DOCUMENT, RecordedDocument(7, NOON)),
    (
        Table.TASK,
        Task(
            name="load",
            status=TaskStatus.WAITING,
            loop=LoopState(most=9, begun=3, open=2, failed=1, skipped=1),
        ),
    ),
    (Table.TASK, Task(name="load[3]", status=TaskStatus.READY, index=3, item='"a"')),
    (
        Table.PAST_TASK,
        Task(name="ask", status=TaskStatus.SUCCESS, result=b"7", answered_by=AUTHOR),
    ),
    (
        Table.VERSION,
        job(
            replace(
                task("each"),
                when="params.x",
                loop=Foreach(items="[1]", max_parallel=2, tolerated=1),
                skip_exit_codes=(99,),
                handles_failure=True,
                is_templated=True,
            ),
            replace(task("again"), loop=Repeat(until="last", limit=3, delay=SECOND)),
            replace(task("nap"), wait=Sleep(duration=SECOND)),
            replace(task("ask"), wait=Approval(message="ok?", form="{}", timeout=SECOND)),
        ),
    ),
    (
        Table.VERSION,
        job(
            replace(task("pick"), wait=Switch(cases=(Case("params.x", ("end",)), Case("", ())))),
            replace(task("grid"), loop=Foreach(matrix='{"os": ["a", "b"]}')),
            replace(task("end", "pick"), is_teardown=True),
            fail_fast=True,
        ),
    ),
    (Table.VERSION, job(task("checked"), parameters_schema='{"type":"object"}')),
    (
        Table.VERSION,
        job(
            task(
                "again",
                retry=RetryPolicy(
                    limit=1,
                    backoff=Linear(step=SECOND, delay_max=SECOND),
                    on_causes=("timeout",),
                    never_on_causes=("SIGKILL",),
                    elapsed_max=SECOND,
                ),
            )
        ),
    ),
    (
        Table.VERSION,
        job(
            replace(task("call"), wait=RunJob(job="default/other", parameters='{"n":"{{ item }}"}'))
        ),
    ),
    (
        Table.EXECUTION,
        replace(STOOD_IN_FOR, origin=Origin.TASK, caller=Caller("a/b", EXECUTION, "call[3]")),
    ),
    (Table.TASK, Task(name="call", status=TaskStatus.WAITING, called=EXECUTION)),
    *((Table.OUTBOX, OutboxItem(key="k", to="a/b", message=message)) for message in CALL_MESSAGES),
    (
        Table.BACKFILL,
        Backfill(
            id="b1",
            job_id=JOB,
            since=NOON,
            until=NOON,
            reprocess=Reprocess.FAILED,
            order=FireOrder.NEWEST_FIRST,
            parallel=2,
            total=9,
            created_at=NOON,
            parameters="{}",
            author=AUTHOR,
            status=BackfillStatus.PAUSED,
            begun=5,
            open=2,
            failed=1,
        ),
    ),
    (Table.BACKFILL_TIMES, BackfillTimes((NOON, NOON))),
    (Table.EXECUTION, replace(STOOD_IN_FOR, origin=Origin.BACKFILL, backfill="b1")),
    (Table.VERSION, job(only_calendars=("shop",), except_calendars=("days",))),
    (
        Table.EVENT,
        PostedEvent(name="paid", at=NOON, data=b"7", author=AUTHOR, waiting=("a", "b[1]")),
    ),
    (
        Table.STATE,
        StateEntry(
            job_id=JOB,
            key="cursor",
            value=b'"2026-11-01"',
            revision=3,
            changed_at=NOON,
            author=AUTHOR,
            holder=EXECUTION,
            holding_task="load[3]",
        ),
    ),
    (
        Table.VERSION,
        job(
            replace(
                task("pay"),
                wait=WaitForEvent(
                    event="paid-{{ item }}", timeout=Duration(SECOND), is_skipped_after=True
                ),
            )
        ),
    ),
    (
        Table.VERSION,
        job(replace(task("lint"), allows_failure=True), pause_after_failures=10),
    ),
    (Table.PLAN, JobPlan(is_failing=True, failures=10)),
    (Table.TASK, Task(name="lint", status=TaskStatus.FAILED, is_failure_allowed=True)),
    (
        Table.JOB,
        Job(
            id=JOB,
            version=1,
            spec=job(),
            created_at=NOON,
            updated_at=NOON,
            pause=Pause(at=NOON, by="rota", reason="10", is_automatic=True),
        ),
    ),
    (Table.PLAN, JobPlan(paused_until=NOON)),
    (
        Table.JOB,
        Job(
            id=JOB,
            version=1,
            spec=job(overlap=Overlap.QUEUE_ALL, max_parallel=3),
            created_at=NOON,
            updated_at=NOON,
            pause=Pause(at=NOON, until=NOON),
        ),
    ),
    (Table.VERSION, job(replace(task("ask"), wait=Approval(by=("group:sso/release",))))),
    (
        Table.OUTBOX,
        OutboxItem(
            key="k",
            to="a/b",
            message=Occurred(
                upstream="@a/paid", dependent="a/b", event='{"id":"1"}', author=AUTHOR
            ),
        ),
    ),
    (
        Table.JOB,
        Job(
            id=JOB,
            version=1,
            spec=job(
                triggers=(EventTrigger(event="paid", when="event.data.sum > 1"),),
                schedules=every("0 12 * * *"),
                policies=(SchedulePolicy(overlap=Overlap.QUEUE_ALL),),
            ),
            created_at=NOON,
            updated_at=NOON,
        ),
    ),
    (
        Table.REQUEST,
        RecordedReply(digest="d3", result_id=JOB, expires_at=NOON, version=4, replaced=3),
    ),
)


@pytest.mark.parametrize(("table", "record"), RECORDS, ids=lambda value: type(value).__name__)
def test_a_record_is_read_as_it_was_written(table: Table, record: Record) -> None:
    assert decode_record(table, encode_record(record)) == record


def test_every_table_with_records_has_an_example_here() -> None:
    kinds = {type(record) for _, record in RECORDS}

    assert kinds == set(TYPES.values()) - {Retired}
    assert set(TYPES) == set(Table) - {Table.HISTORY}


with_forms = pytest.mark.parametrize(
    ("table", "record", "forms"),
    [(*pair, forms) for pair, forms in zip(RECORDS, GOLDEN, strict=True)],
    ids=lambda value: type(value).__name__,
)


@with_forms
def test_a_record_of_every_rota_before_is_read(
    table: Table, record: Record, forms: tuple[str, ...]
) -> None:
    assert [decode_record(table, bytes.fromhex(form)) for form in forms] == [record] * len(forms)


@with_forms
def test_a_record_is_written_in_the_newest_known_form(
    table: Table, record: Record, forms: tuple[str, ...]
) -> None:
    """A failure means that a format has changed; `golden_records` has the allowed changes."""
    assert encode_record(record).hex() == forms[-1], table


def test_a_record_without_its_newest_fields_gets_their_defaults() -> None:
    short = msgspec.msgpack.encode(("main", "ready"))

    record = decode_record(Table.TASK, b"\x01" + short)

    assert record == Task(name="main", status=TaskStatus.READY)


def test_the_end_of_an_execution_has_the_first_fields_of_its_record() -> None:
    end = decode_end(encode_record(STOOD_IN_FOR))

    assert Execution.__struct_fields__[: len(end.__struct_fields__)] == end.__struct_fields__
    assert {name: getattr(STOOD_IN_FOR, name) for name in end.__struct_fields__} == asdict(end)


def test_the_end_of_a_damaged_execution_is_refused() -> None:
    for damaged in (b"", b"\x07\x90", b"\x01\xc1", b"\x01\x93\x01\x02\x03"):
        with pytest.raises(Undecodable, match="PAST_EXECUTION"):
            decode_end(damaged)


def test_a_record_of_a_future_version_is_refused_and_says_so() -> None:
    with pytest.raises(
        Undecodable, match=r"table NAME has format 2; this version of rota reads format 1"
    ):
        decode_record(Table.NAME, b"\x02" + encode_record(Name(JOB))[1:])


@pytest.mark.parametrize("value", [b"", b"\x01", b"\x01\xc1", b"\x01\x90", b"\x01\x91\x07"])
def test_a_damaged_record_is_refused(value: bytes) -> None:
    with pytest.raises(Undecodable):
        decode_record(Table.NAME, value)


@pytest.mark.parametrize("number", [0, 23, 32, 99])
def test_a_change_of_a_table_that_has_no_records_is_refused(number: int) -> None:
    with pytest.raises(Undecodable, match=f"table {number}"):
        decode_change((number, "key", encode_record(Name(JOB))))


@pytest.mark.parametrize(("table", "record"), RECORDS, ids=lambda value: type(value).__name__)
def test_a_change_is_read_as_it_was_written(table: Table, record: Record) -> None:
    put, drop = Change(table, "key", record), Change(table, "key", None)

    assert decode_change(encode_change(put)) == put
    assert decode_change(encode_change(drop)) == drop


raw_changes = st.lists(
    st.tuples(st.integers(0, 255), st.text(max_size=20), st.none() | st.binary(max_size=20)),
    max_size=5,
)


@given(causes=st.lists(st.text(max_size=20), max_size=5), changes=raw_changes)
@settings(max_examples=50, deadline=None)
def test_a_body_is_read_as_it_was_written(causes: list[str], changes: list[RawChange]) -> None:
    assert decode_body(encode_body(causes, changes)) == (tuple(causes), tuple(changes))


@given(st.binary(max_size=40))
@settings(max_examples=100, deadline=None)
def test_bytes_that_are_no_body_are_refused_and_do_no_harm(value: bytes) -> None:
    try:
        causes, changes = decode_body(value)
    except Undecodable:
        return

    assert decode_body(encode_body(causes, changes)) == (causes, changes)


@pytest.mark.parametrize(
    "command",
    [Fire(job_id=JOB), Wake(execution_id=EXECUTION, task="main", number=2)],
    ids=["fire", "wake"],
)
def test_a_timers_command_is_read_as_it_was_written(command: TimerCommand) -> None:
    assert decode_timer_command(encode_timer_command(command)) == command


def test_bytes_that_are_no_timers_command_are_refused() -> None:
    with pytest.raises(Undecodable):
        decode_timer_command(b"\x81\xa4type\xa4boom")


@pytest.mark.parametrize(
    ("table", "stored"),
    [
        (Table.EXPORTED, "0191bb30363634336433616135663030302f303030303030303030303033"),
        (Table.SIGNED_HEAD, "0195a131c4020101cf0006643d3aa5f000a96b3166326533643463c4020404"),
    ],
)
def test_a_record_that_only_earlier_versions_wrote_is_ignored(table: Table, stored: str) -> None:
    record = decode_record(table, bytes.fromhex(stored))
    state = State()

    state.apply(Change(table, "x", record))
    state.apply(Change(table, "x", None))

    assert record == Retired()
    assert state == State()
