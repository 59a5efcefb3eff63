"""A shard under random commands: invariants that hold after each of them.

The invariants are those of docs/explanation/protocol.md that one shard can break (I9, I13, I14),
and liveness: every unfinished execution waits for an event that will come.
"""

import json
import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace

from rota.core.decide.backfills import STATUS_AFTER
from rota.core.decide.dependencies import is_met
from rota.core.decide.dispatch import pending
from rota.core.decide.fire import first_fire
from rota.core.decide.job_state import present
from rota.core.decide.steps.step import is_stopped
from rota.core.errors import Refused
from rota.core.model.attempt import AttemptKey, Outcome
from rota.core.model.author import Author
from rota.core.model.backfill import (
    ACTIVE,
    Backfill,
    BackfillStatus,
    FireOrder,
    Reprocess,
    backfill_key,
)
from rota.core.model.event_trigger import EventTrigger, channel_of
from rota.core.model.execution import (
    FINAL_TASK_STATES,
    UPSTREAM_FAILED,
    UPSTREAM_SKIPPED,
    Caller,
    Execution,
    Hold,
    Task,
    TaskStatus,
    in_place,
    standing,
    task_key,
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
from rota.core.model.hook import Hook, HookEvent, HookOutcome
from rota.core.model.ids import Epoch, ExecutionId, JobId, job_of, task_of_step
from rota.core.model.job import Job, JobSpec, Misfire, Overlap, SchedulePolicy, TaskSpec
from rota.core.model.retry import Fixed, RetryPolicy
from rota.core.model.trigger_rules import TriggerRule, TriggerVerdict, census_of, verdict
from rota.core.state.shard_state import State, version_key
from rota.core.timing.instants import DAY, MINUTE, SECOND, Duration, Instant
from rota.core.vocabulary.change_chain import Action
from rota.core.vocabulary.changes import Answered, Called, Recalled, Table
from rota.core.vocabulary.commands import (
    AnswerTask,
    BackfillAction,
    Cancel,
    Command,
    ContinueBackfill,
    ControlBackfill,
    DeleteJob,
    DeleteState,
    EndNotification,
    EndPause,
    Expire,
    FinishAttempt,
    Fire,
    FireAtStartup,
    Forget,
    ForgetChanges,
    Idempotency,
    NoteLate,
    PauseJob,
    PostEvent,
    PutState,
    ReceiveEvent,
    Rerun,
    RerunScope,
    ResumeJob,
    SaveJob,
    StartBackfill,
    StartTask,
    Trigger,
    Wake,
)
from rota.core.vocabulary.decision import Done, JobSaved, Limits, Reply, Triggered
from rota.core.vocabulary.effects import (
    Consequence,
    Deliver,
    Launch,
    PostponedEffects,
    SendWebhook,
    SetTimer,
    Stop,
    Timescale,
    WaitForSlot,
)
from unit.core.shard import Shard, Timer, copy_from, every, job, task

AUTHOR = Author(principal="alice", address="10.12.7.31")
NAMES = ("a", "b", "c")
BACKFILL_ACTIONS = {
    BackfillAction.PAUSE: Action.BACKFILL_PAUSED,
    BackfillAction.RESUME: Action.BACKFILL_RESUMED,
    BackfillAction.CANCEL: Action.BACKFILL_CANCELLED,
}
ENDINGS = (Outcome.FAILED, Outcome.TIMED_OUT, Outcome.CANCELLED)
RETRIES = (RetryPolicy(), RetryPolicy(limit=2, backoff=Fixed(delay=Duration(20 * SECOND))))
DEADLINES = (Duration(0), Duration(0), Duration(20 * SECOND))
CONDITIONS = ("", "", "", "", "params.x is defined", "states|length < 2", "results.nothing.at.all")
LOOPS = (
    *[None] * 6,
    Foreach(items='[1,"b",{"c":null}]', max_parallel=2),
    Foreach(expression="range(4)", tolerated=1),
    Foreach(items="[]"),
    Foreach(matrix='{"a": [1, 2], "b": "range(2)"}', max_parallel=3),
    Foreach(expression="params.x"),
    Repeat(until="index > 1", limit=2, delay=Duration(20 * SECOND)),
    Repeat(until="last == 7", limit=2),
)
WAITS = (
    *[None] * 6,
    Sleep(duration=Duration(20 * SECOND)),
    Approval(message="all well?"),
    Approval(timeout=Duration(20 * SECOND), is_skipped_if_rejected=True),
    WaitForEvent(event="paid"),
    WaitForEvent(event="{{ index | default(7) }}", timeout=Duration(20 * SECOND)),
)
EVENTS = ("paid", "0", "1", "7")
TRIGGER = EventTrigger(event="sold", when="event.data > 3")
SCHEDULES = ((), every("* * * * *"), every("*/15 * * * * *") + every("@startup"))

POLICIES = (
    SchedulePolicy(),
    SchedulePolicy(parameters='{"key": 1}', misfire=Misfire.ALL),
    SchedulePolicy(parameters='{"other": 1}', misfire=Misfire.SKIP),
    SchedulePolicy(jitter=Duration(20 * SECOND), max_executions=3),
    *(SchedulePolicy(overlap=overlap) for overlap in Overlap),
)


@dataclass(slots=True)
class WatchedShard(Shard):
    """A shard that records its effects."""

    launched: Counter[AttemptKey] = field(default_factory=Counter[AttemptKey])
    waiting: set[tuple[ExecutionId, str]] = field(default_factory=set[tuple[ExecutionId, str]])
    stopped: set[AttemptKey] = field(default_factory=set[AttemptKey])
    sending: set[str] = field(default_factory=set[str])

    def note(self, effect: Consequence) -> None:
        """Record *effect*."""
        # With the class's name, because `super()` alone fails in a dataclass with slots.
        super(WatchedShard, self).note(effect)
        match effect:
            case Launch(order):
                self.launched[order.key] += 1
                key = task_key(order.key.execution_id, order.key.task)
                assert order.checkpoint == self.state.checkpoints.get(key, b"")
                assert order.job == self.state.executions[order.key.execution_id].job_name
                assert json.loads(order.results or b"{}") == self._needed_results(order.key)
            case WaitForSlot(execution_id, name):
                self.waiting.add((execution_id, name))
            case Stop(key):
                self.stopped.add(key)
            case SendWebhook(notification):
                self.sending.add(notification.key)
            case PostponedEffects(due, _, effects):
                assert due > self.clock, "it could have been done at once"
                for each in effects:
                    self.note(each)
            case _:
                pass

    def do_together(self, *commands: Command) -> list[Reply | Refused]:
        """Decide *commands*, and check that each change of a user has one row, and nothing else."""
        jobs, executions = self._jobs(), dict(self.state.executions)
        plans = dict(self.state.plans)
        backfills = {each: dict(found) for each, found in self.state.backfills.items()}
        rows = len(self.change_rows())
        replies = super(WatchedShard, self).do_together(*commands)
        resumed = {each.job_id for each in commands if isinstance(each, ResumeJob)}
        ended = {each.job_id for each in commands if isinstance(each, EndPause)}
        expected = _job_changes(jobs, self._jobs(), resumed, ended)
        for command, reply in zip(commands, replies, strict=True):
            match command, reply:
                case Cancel(execution_id=each, is_forced=is_forced), Done() if not executions[
                    each
                ].cancelled_at or (is_forced and not executions[each].has_lost_teardown):
                    expected.append((job_of(each), Action.EXECUTION_CANCELLED))
                case AnswerTask(execution_id=each, is_approved=is_approved), Done():
                    action = Action.TASK_APPROVED if is_approved else Action.TASK_REJECTED
                    expected.append((job_of(each), action))
                case Rerun(past=past), Triggered():
                    expected.append((past.job_id, Action.EXECUTION_RERUN))
                case ResumeJob(job_id=each), JobSaved() if (
                    each in jobs
                    and jobs[each].pause is None
                    and self.state.plans.get(each) != plans[each]
                ):
                    # The job counts from now, because the clock was ahead.
                    expected.append((each, Action.JOB_RESUMED))
                case StartBackfill(backfill=each), Done():
                    expected.append((each.job_id, Action.BACKFILL_STARTED))
                case ControlBackfill(job_id=each, backfill_id=name, action=action), Done() if (
                    STATUS_AFTER[action] is not backfills[each][name].status
                ):
                    expected.append((each, BACKFILL_ACTIONS[action]))
                case ForgetChanges(keys=keys), _:
                    rows -= len(keys)
                case _:
                    pass
        made = self.user_changes()[rows:]
        assert sorted([(each.job_id, each.action) for each in made], key=str) == sorted(
            expected, key=str
        )
        assert all(each.author == AUTHOR for each in made)
        return replies

    def _jobs(self) -> dict[JobId, Job]:
        return {each.id: each for each in self.read_all(Table.JOB, Job)}

    def _needed_results(self, key: AttemptKey) -> dict[str, object]:
        execution = self.state.executions[key.execution_id]
        spec = self.state.graph(execution.job_id, execution.job_version).spec_of(key.task)
        tasks = self.state.tasks[key.execution_id]
        return {name: _expected_result(tasks, name) for name in spec.needs}


def _job_changes(
    before: dict[JobId, Job],
    after: dict[JobId, Job],
    resumed: set[JobId],
    ended: set[JobId],
) -> list[tuple[JobId, Action]]:
    """Return the changes of users between the jobs *before* and *after*.

    The pauses of circuit breakers are none, nor are those that *ended* by themselves; but a user
    may have *resumed* such a job.
    """
    changes = [(each, Action.JOB_CREATED) for each in after.keys() - before.keys()]
    changes += [(each, Action.JOB_DELETED) for each in before.keys() - after.keys()]
    for job_id in after.keys() & before.keys():
        one, other = before[job_id], after[job_id]
        if one.version != other.version:
            changes.append((job_id, Action.JOB_REPLACED))
        if other.pause and other.pause != one.pause and not other.pause.is_automatic:
            changes.append((job_id, Action.JOB_PAUSED))
        is_by_itself = job_id in ended or (one.pause is not None and one.pause.is_automatic)
        if one.pause and not other.pause and (job_id in resumed or not is_by_itself):
            changes.append((job_id, Action.JOB_RESUMED))
    return changes


def _result(task_name: str) -> bytes:
    """Return the result of every successful attempt of a task; that of ``t1`` is none."""
    return b"null" if task_name == "t1" else b'{"from": "%s"}' % task_name.encode()


def _expected_result(tasks: dict[str, Task], name: str) -> object:
    """Return the result of a task: of a loop that of its steps, of an approval the answer."""
    one = tasks[name]
    items = [tasks[f"{name}[{n}]"] for n in range(99) if f"{name}[{n}]" in tasks]
    rounds = [tasks[f"{name}#{n}"] for n in range(99) if f"{name}#{n}" in tasks]
    if items:
        return [_expected_result(tasks, each.name) for each in items]
    if rounds:
        return _expected_result(tasks, rounds[-1].name)
    if one.answered_by is not None:
        return 7
    if one.reason == "it has no items":
        return []
    if one.called:
        return json.loads(one.own_result or b"null")
    if one.reason.startswith("chose "):
        return re.findall(r"t\d", one.reason)
    is_success = one.status is TaskStatus.SUCCESS and one.attempts
    return json.loads(_result(name)) if is_success else None


def _with_teardowns_and_switches(
    tasks: list[TaskSpec], teardowns: int, has_switches: bool
) -> list[TaskSpec]:
    """Return tasks of which the last are teardowns, and some choose between those after them."""
    first = max(1, len(tasks) - teardowns)
    made = [replace(one, is_teardown=number >= first) for number, one in enumerate(tasks)]
    for number, one in enumerate(made):
        after = tuple(other.name for other in made if one.name in other.needs)
        if has_switches and after and one.loop is None:
            cases = (Case("params.x is defined", after), Case("", after[:1]))
            made[number] = replace(one, wait=Switch(cases=cases))
    return made


@st.composite
def specs(draw: st.DrawFn) -> JobSpec:
    """Draw a job: a graph of up to four tasks, which may wait for another job."""
    name = draw(st.sampled_from(NAMES))
    # Circles are refused before: in one with two calls, the executions of each turn double.
    calls = [RunJob(job=f"default/{other}") for other in NAMES if other > name]
    tasks = [
        replace(
            task(
                f"t{number}",
                *draw(st.sets(st.sampled_from([f"t{n}" for n in range(number)]))) if number else (),
                rule=draw(st.sampled_from(TriggerRule)),
                retry=draw(st.sampled_from(RETRIES)),
            ),
            when=draw(st.sampled_from(CONDITIONS)),
            loop=draw(st.sampled_from(LOOPS)),
            wait=draw(st.sampled_from((*WAITS, *calls))),
            handles_failure=draw(st.booleans()),
        )
        for number in range(draw(st.integers(1, 4)))
    ]
    tasks = _with_teardowns_and_switches(tasks, draw(st.integers(0, 2)), draw(st.booleans()))
    others = [f"default/{other}" for other in NAMES if other != name]
    hooks = [Hook(event=event, webhook="https://hooks.example.com") for event in HookEvent]
    hooks += [Hook(event=HookEvent.FAILURE, job=other) for other in others]
    overlap = draw(st.sampled_from(Overlap))
    schedules = draw(st.sampled_from(SCHEDULES))
    policies = tuple(draw(st.sampled_from(POLICIES)) for _ in schedules)
    return job(
        *tasks,
        name=name,
        schedules=schedules,
        policies=draw(st.sampled_from(((), policies))),
        concurrency_key=draw(st.sampled_from(("", "params.key"))),
        misfire_window=draw(st.sampled_from((Duration(0), Duration(15 * SECOND)))),
        misfire_max=draw(st.sampled_from((0, 2))),
        dependencies=tuple(draw(st.lists(st.sampled_from(others), unique=True))),
        fail_fast=draw(st.booleans()),
        misfire=draw(st.sampled_from(Misfire)),
        overlap=overlap,
        max_parallel=1 if overlap is Overlap.ALLOW else draw(st.integers(1, 2)),
        pause_after_failures=draw(st.sampled_from((0, 0, 2))),
        start_deadline=draw(st.sampled_from(DEADLINES)),
        execution_timeout=draw(st.sampled_from(DEADLINES)),
        hooks=tuple(draw(st.lists(st.sampled_from(hooks), max_size=3))),
        late_after=draw(st.sampled_from(DEADLINES)),
        triggers=draw(st.sampled_from(((), (TRIGGER,)))),
    )


def alike(state: State) -> dict[tuple[JobId, str], list[Execution]]:
    """Return the unfinished executions by job and concurrency key."""
    found = defaultdict[tuple[JobId, str], list[Execution]](list)
    for execution in state.executions.values():
        found[execution.job_id, execution.concurrency_key].append(execution)
    return found


class _ShardUnderFire(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.shard = WatchedShard(slots=2, limits=Limits(executions=12))
        self.stale: list[FinishAttempt] = []
        self.past: dict[tuple[Table, str], bytes] = {}

    # -- requests and disturbances -----------------------------------------------------------
    #
    # Each event that advances executions is a rule of its own; the events that end or disturb them
    # share two rules, so that enough executions exist to be disturbed.

    @initialize(
        jobs=st.lists(specs(), min_size=2, max_size=4),
        ahead=st.sampled_from((Duration(0), Duration(2 * SECOND))),
    )
    def begin(self, jobs: list[JobSpec], ahead: Duration) -> None:
        self.shard.ahead = ahead
        for spec in jobs:
            self.attempt(SaveJob(spec=spec, author=AUTHOR))
        self.shard.deliver()

    @rule(spec=specs())
    def save(self, spec: JobSpec) -> None:
        self.attempt(SaveJob(spec=spec, author=AUTHOR))

    @precondition(lambda self: self.shard.state.jobs)
    @rule(data=st.data(), lasts=st.sampled_from((None, 0, 25)))
    def pause_or_resume(self, data: st.DataObject, lasts: int | None) -> None:
        """Resume a job, or pause it, for some seconds or without an end."""
        job_id = data.draw(st.sampled_from(sorted(self.shard.state.jobs)))
        if lasts is None:
            self.attempt(ResumeJob(job_id=job_id, author=AUTHOR))
            return
        until = Instant(self.shard.clock + lasts * SECOND) if lasts else Instant(0)
        self.attempt(PauseJob(job_id=job_id, until=until, author=AUTHOR))

    @precondition(lambda self: self.shard.state.jobs)
    @rule(data=st.data())
    def trigger(self, data: st.DataObject) -> None:
        job_id = data.draw(st.sampled_from(sorted(self.shard.state.jobs)))
        parameters = data.draw(st.sampled_from(("", '{"key": 1}', '{"key": 2}')))
        self.attempt(Trigger(job_id=job_id, parameters=parameters))

    @precondition(lambda self: self.finished())
    @rule(data=st.data(), scope=st.sampled_from(RerunScope), is_newest=st.booleans())
    def rerun(self, data: st.DataObject, scope: RerunScope, is_newest: bool) -> None:
        past = data.draw(st.sampled_from(self.finished()))
        tasks = in_place(
            self.shard.read(table, key, Task)
            for table, key in self.shard.rows
            if table is Table.PAST_TASK and key.startswith(past.id)
        )
        key = version_key(past.job_id, past.job_version)
        is_kept = (Table.PAST_VERSION, key) in self.shard.rows and not is_newest
        self.attempt(
            Rerun(
                past=past,
                tasks=tuple(tasks.values()),
                scope=scope,
                first=data.draw(st.sampled_from(sorted(tasks))),
                definition=self.shard.read(Table.PAST_VERSION, key, JobSpec) if is_kept else None,
                author=AUTHOR,
            )
        )

    @precondition(lambda self: self.shard.state.jobs)
    @rule(data=st.data(), count=st.integers(0, 3), parallel=st.integers(1, 2))
    def backfill(self, data: st.DataObject, count: int, parallel: int) -> None:
        """Start a backfill, or change one."""
        job_id = data.draw(st.sampled_from(sorted(self.shard.state.jobs)))
        known = tuple(self.shard.state.backfills.get(job_id, ()))
        action = data.draw(st.sampled_from((None, *BackfillAction)))
        if known and action is not None:
            name = data.draw(st.sampled_from(known))
            self.attempt(
                ControlBackfill(job_id=job_id, backfill_id=name, action=action, author=AUTHOR)
            )
            return
        started = Backfill(
            id=f"b{self.shard.decision_count}",
            job_id=job_id,
            since=Instant(DAY),
            until=Instant(2 * DAY),
            reprocess=Reprocess.ALL,
            order=FireOrder.OLDEST_FIRST,
            parallel=parallel,
            total=0,
            created_at=Instant(0),
        )
        times = tuple(Instant(DAY + number) for number in range(count))
        self.attempt(StartBackfill(backfill=started, times=times, known=known, author=AUTHOR))

    @precondition(lambda self: self.reports())
    @rule(data=st.data(), outcome=st.sampled_from((*([Outcome.SUCCEEDED] * 6), *ENDINGS)))
    def finish(self, data: st.DataObject, outcome: Outcome) -> None:
        report = data.draw(st.sampled_from(self.reports(outcome)))
        self.shard.do(report)
        self.stale.append(report)

    @precondition(lambda self: self.reports())
    @rule(outcome=st.sampled_from((*([Outcome.SUCCEEDED] * 6), *ENDINGS)))
    def finish_everything_in_one_entry(self, outcome: Outcome) -> None:
        reports = self.reports(outcome)
        self.shard.do_together(*reports)
        self.stale += reports

    @precondition(lambda self: self.reports())
    @rule(
        data=st.data(),
        percent=st.none() | st.integers(0, 100),
        checkpoint=st.none() | st.binary(max_size=2),
    )
    def tell(self, data: st.DataObject, percent: int | None, checkpoint: bytes | None) -> None:
        key = data.draw(st.sampled_from(self.reports())).attempt
        self.shard.report_progress(
            key.execution_id, key.task, percent=percent, checkpoint=checkpoint
        )

    @rule(duration=st.sampled_from((SECOND, Duration(25 * SECOND), MINUTE)))
    def pass_time(self, duration: Duration) -> None:
        self.shard.pass_time(duration)

    @precondition(lambda self: self.shard.waiting)
    @rule()
    def offer_places(self) -> None:
        for execution_id, name in sorted(self.shard.waiting):
            self.shard.waiting.discard((execution_id, name))
            self.attempt(StartTask(execution_id=execution_id, task=name))

    @rule()
    def deliver(self) -> None:
        # Jobs in a circle send messages until a thousand executions follow from each other.
        self.shard.deliver(most=100)

    @precondition(lambda self: self.shard.sending)
    @rule(data=st.data(), outcome=st.sampled_from(HookOutcome))
    def end_webhook(self, data: st.DataObject, outcome: HookOutcome) -> None:
        key = data.draw(st.sampled_from(sorted(self.shard.sending)))
        self.shard.sending.discard(key)
        self.shard.do(EndNotification(key=key, outcome=outcome))

    @precondition(lambda self: self.unanswered())
    @rule(data=st.data(), is_approved=st.booleans())
    def answer(self, data: st.DataObject, is_approved: bool) -> None:
        execution_id, name = data.draw(st.sampled_from(self.unanswered()))
        answer = AnswerTask(
            execution_id=execution_id,
            task=name,
            is_approved=is_approved,
            result=b"7",
            author=AUTHOR,
        )
        self.attempt(answer)

    @precondition(lambda self: self.shard.state.executions)
    @rule(data=st.data(), name=st.sampled_from(EVENTS))
    def post_event(self, data: st.DataObject, name: str) -> None:
        execution_id = data.draw(st.sampled_from(sorted(self.shard.state.executions)))
        event = PostEvent(execution_id=execution_id, name=name, data=b"7", author=AUTHOR)
        assert self.attempt(event)

    @rule(number=st.integers(1, 9))
    def receive_event(self, number: int) -> None:
        event = {"id": str(number), "source": "/", "type": TRIGGER.event, "data": number}
        identity = Idempotency(key=str(number), caller="@", digest="")
        channel = channel_of("default", TRIGGER.event)
        text = json.dumps(event)
        self.attempt(ReceiveEvent(channel=channel, event=text, idempotency=identity))

    @precondition(lambda self: self.shard.state.jobs)
    @rule(data=st.data(), key=st.sampled_from(NAMES), is_new=st.booleans())
    def set_state(self, data: st.DataObject, key: str, is_new: bool) -> None:
        """Set or delete a value, or get a lock."""
        state = self.shard.state
        job_id = data.draw(st.sampled_from(sorted(state.jobs)))
        holder = data.draw(st.sampled_from(("", *sorted(state.live_of(job_id)))))
        if data.draw(st.integers(0, 5)) == 0:
            self.attempt(DeleteState(job_id=job_id, key=key))
            return
        before = present(state, job_id).get(key)
        is_refused = before is not None and before.holder != holder and (is_new or before.holder)
        put = PutState(
            job_id=job_id,
            key=key,
            value=b"7",
            if_revision=0 if is_new else None,
            holder=ExecutionId(holder),
        )
        assert self.attempt(put) or is_refused or (before and is_new and not holder)

    @rule(slots=st.integers(0, 5))
    def change_slots(self, slots: int) -> None:
        self.shard.slots = slots

    @precondition(lambda self: self.shard.state.jobs)
    @rule(data=st.data())
    def cancel_or_delete(self, data: st.DataObject) -> None:
        """Cancel an execution, delete a job, or save it again just after its deletion."""
        state = self.shard.state
        job_id = data.draw(st.sampled_from(sorted(state.jobs)))
        deletion = DeleteJob(job_id=job_id, author=AUTHOR)
        made_again = deletion, SaveJob(spec=state.jobs[job_id].spec, author=AUTHOR)
        live = sorted(state.executions)
        match data.draw(st.sampled_from(("cancel", "delete", "make again", "make again, finish"))):
            case "cancel":
                if live:
                    execution_id = data.draw(st.sampled_from(live))
                    is_forced = data.draw(st.booleans())
                    self.attempt(
                        Cancel(execution_id=execution_id, author=AUTHOR, is_forced=is_forced)
                    )
            case "delete":
                self.attempt(deletion)
            case "make again":
                self.shard.do_together(*made_again)
            case _:
                reports = self.reports()
                self.shard.do_together(*reports, *made_again, *reports)
                self.stale += reports

    @rule(data=st.data())
    def disturb(self, data: st.DataObject) -> None:
        """Disturb the shard: losses, takeovers, clock changes, stray timers, old reports."""
        shard = self.shard
        happenings = ("lose node", "take over", "start", "set clock", "ring", "report", "forget")
        match data.draw(st.sampled_from((*happenings, "forget changes"))):
            case "lose node":
                self.stale += self.reports()
                shard.lose_node()
            case "take over":
                self.take_over(is_start=False)
            case "start":
                self.take_over(is_start=True)
            case "set clock":
                shard.set_clock(Instant(shard.clock + data.draw(st.integers(-MINUTE, MINUTE))))
            case "ring":
                for job_id in sorted(shard.state.jobs):
                    shard.fire(job_id)
            case "report":
                for report in self.stale[-5:]:
                    with pytest.raises(Refused, match="stale_attempt"):
                        shard.do(report)
            case "forget changes":
                self.forget_changes(data.draw(st.integers(0, len(shard.change_rows()))))
            case _:
                pasts = shard.pasts()
                count = data.draw(st.integers(0, len(pasts)))
                shard.do(Forget(pasts=pasts[count:], kept=pasts[:count]))
                self.past.clear()

    def forget_changes(self, count: int) -> None:
        """Delete the oldest *count* changes of users."""
        rows = self.shard.change_rows()[:count]
        if rows:
            last = self.shard.state.chain.first + count - 1
            keys = tuple(key for key, _ in rows)
            self.shard.do(ForgetChanges(keys=keys, last=last, hash=rows[-1][1].hash))

    def take_over(self, *, is_start: bool) -> None:
        shard = self.shard
        shard.state = shard.reloaded()
        shard.copy = copy_from(shard.copy.tip, Epoch(shard.copy.epoch + 1))
        for forgotten in (
            shard.timers,
            shard.waiting,
            shard.stopped,
            shard.messages,
            shard.sending,
        ):
            forgotten.clear()
        if is_start:
            shard.do(FireAtStartup(epoch=shard.copy.epoch))
        for effect in pending(shard.state, shard.ahead):
            shard.note(effect)

    def attempt(self, command: Command) -> bool:
        """Send a command that may be refused, and return True if it is not."""
        before = dict(self.shard.rows)
        try:
            self.shard.do(command)
        except Refused:
            assert self.shard.rows == before
            return False
        return True

    def reports(self, outcome: Outcome = Outcome.SUCCEEDED) -> list[FinishAttempt]:
        """Return a report for each attempt that runs."""
        return [
            self.shard.report(execution_id, one.name, outcome, result=_result(one.name))
            for execution_id, tasks in sorted(self.shard.state.tasks.items())
            for one in tasks.values()
            if one.status is TaskStatus.RUNNING
        ]

    def unanswered(self) -> list[tuple[ExecutionId, str]]:
        """Return the tasks that wait for a person."""
        return [
            (execution_id, one.name)
            for execution_id, one in sorted(_tasks(self.shard.state), key=str)
            if one.status is TaskStatus.WAITING
            and one.loop is None
            and isinstance(self.spec_of(execution_id, one).wait, Approval)
        ]

    def spec_of(self, execution_id: ExecutionId, one: Task) -> TaskSpec:
        """Return the definition of a task or a step."""
        execution = self.shard.state.executions[execution_id]
        graph = self.shard.state.graph(execution.job_id, execution.job_version)
        return graph.spec_of(one.name)

    def is_called(self, execution: Execution, one: Task) -> bool:
        """Return True if an execution that a task waits for runs, or a message is on its way."""
        messages = (item.message for item in self.shard.state.outbox.values())
        callers = [each.caller for each in self.shard.state.executions.values()]
        return Caller(execution.job_name, execution.id, one.name) in callers or any(
            isinstance(message, Called | Answered)
            and (message.execution_id, message.task) == (execution.id, one.name)
            for message in messages
        )

    def is_recalled(self, caller: Caller) -> bool:
        """Return True if the cancellation of an execution that a task began is on its way."""
        messages = (item.message for item in self.shard.state.outbox.values())
        return any(
            isinstance(message, Recalled)
            and (message.execution_id, message.task) == (caller.execution_id, caller.task)
            for message in messages
        )

    def finished(self) -> list[Execution]:
        """Return the finished executions."""
        return self.shard.read_all(Table.PAST_EXECUTION, Execution)

    # -- invariants --------------------------------------------------------------------------

    @invariant()
    def attempts_follow_each_other(self) -> None:
        """Check I9, and that every attempt was launched exactly once."""
        for execution_id, one in _tasks(self.shard.state):
            if one.kept_from:
                continue
            assert [attempt.number for attempt in one.attempts] == _count(len(one.attempts))
            tokens = [attempt.token for attempt in one.attempts]
            assert tokens == sorted(set(tokens))
            assert all(attempt.ending for attempt in one.attempts[:-1])
            is_unended = bool(one.attempts) and one.attempts[-1].ending is None
            assert is_unended is (one.status is TaskStatus.RUNNING)
            for attempt in one.attempts:
                assert self.shard.launched[AttemptKey(execution_id, one.name, attempt.number)] == 1

    @invariant()
    def tasks_keep_the_order_of_their_graph(self) -> None:
        """Check I13: a task was started, left blocked or skipped by its trigger rule."""
        state = self.shard.state
        for execution in state.executions.values():
            tasks = state.tasks[execution.id]
            for spec in state.graph(execution.job_id, execution.job_version).spec.tasks:
                if not spec.needs:
                    continue
                needs = census_of(standing(tasks[name]) for name in spec.needs)
                expected = verdict(spec.rule, needs)
                one = tasks[spec.name]
                if one.status is TaskStatus.BLOCKED:
                    assert state.census(execution.id, spec) == needs
                    if spec.is_teardown and not execution.has_begun_teardown:
                        continue
                if one.kept_from:
                    assert one.status in FINAL_TASK_STATES
                elif one.attempts or one.status in (TaskStatus.READY, TaskStatus.WAITING):
                    assert expected is TriggerVerdict.START
                elif one.status is TaskStatus.BLOCKED:
                    may_be_held = bool(execution.rerun_of) or spec.rule is TriggerRule.ALWAYS
                    is_held = may_be_held and execution.hold is not Hold.NONE
                    allowed = {TriggerVerdict.START} if is_held else set[TriggerVerdict]()
                    assert expected in {TriggerVerdict.WAIT, *allowed}
                elif one.status is TaskStatus.SKIPPED:
                    is_own = one.reason not in (UPSTREAM_FAILED, UPSTREAM_SKIPPED)
                    assert is_own == (expected is TriggerVerdict.START)

    @invariant()
    def executions_keep_the_overlap_policy(self) -> None:
        """Check the rest of I13."""
        state = self.shard.state
        assert len(state.executions) <= self.shard.limits.executions + len(NAMES)
        for (job_id, _), live in alike(state).items():
            spec = state.jobs[job_id].spec if job_id in state.jobs else None
            has_own = spec is not None and any(each.overlap for each in spec.policies)
            if spec is not None and spec.overlap is not Overlap.ALLOW and not has_own:
                held = [one.hold for one in live]
                most = spec.max_parallel
                assert held.count(Hold.NONE) <= most
                begun = [each for each in held if each is not Hold.DEPENDENCIES]
                # As many may wait for those that are cancelled, or for a backfill, as may run.
                is_double = spec.overlap in (Overlap.CANCEL_RUNNING, Overlap.SKIP)
                most_begun = 2 * most if is_double else most + 1
                # One that waited for other jobs waits then, too.
                most_begun += bool(spec.dependencies)
                is_few = len(begun) <= most_begun or spec.overlap is Overlap.QUEUE_ALL
                assert is_few, (spec.overlap, most, live)

    @invariant()
    def what_is_final_stays(self) -> None:
        """Check I14."""
        rows = self.shard.rows
        past = {key: rows[key] for key in rows if key[0] in {Table.PAST_EXECUTION, Table.PAST_TASK}}
        assert self.past.items() <= past.items()
        self.past = past
        for table, key in past:
            if table is Table.PAST_TASK:
                assert self.shard.read(table, key, Task).status in FINAL_TASK_STATES
            else:
                assert self.shard.read(table, key, Execution).finished_at
                assert key not in self.shard.state.executions

    @invariant()
    def the_chain_of_changes_is_intact(self) -> None:
        check, chain = self.shard.chain_check(), self.shard.state.chain
        assert check.fault == ""
        assert check.count == chain.last - chain.first + 1 == len(self.shard.change_rows())

    @invariant()
    def checkpoints_are_those_of_open_tasks(self) -> None:
        state = self.shard.state
        is_open = {
            task_key(execution_id, one.name): one.status not in FINAL_TASK_STATES
            for execution_id, one in _tasks(state)
        }
        assert all(data and is_open[key] for key, data in state.checkpoints.items())

    @invariant()
    def counts_are_right(self) -> None:
        state = self.shard.state
        assert state.tasks.keys() == state.executions.keys()
        for execution in state.executions.values():
            states = [one.status for one in state.tasks[execution.id].values()]
            assert execution.open_count == sum(one not in FINAL_TASK_STATES for one in states) > 0
            assert execution.failed_count == states.count(TaskStatus.FAILED)

    @invariant()
    def backfills_count_their_executions(self) -> None:
        state = self.shard.state
        live = Counter(each.backfill for each in state.executions.values() if each.backfill)
        for job_id, found in state.backfills.items():
            assert sum(each.status in ACTIVE for each in found.values()) <= 1
            for each in found.values():
                assert each.open == live[each.id] <= each.parallel
                is_active = each.status in ACTIVE
                assert (backfill_key(job_id, each.id) in state.backfill_times) == is_active
                is_over = each.begun == each.total and not each.open
                assert is_over <= (each.status is not BackfillStatus.RUNNING)
                if each.status is BackfillStatus.RUNNING and not each.open:
                    timers = [timer.command for timer in self.shard.timers]
                    assert ContinueBackfill(job_id=job_id) in timers

    @invariant()
    def events_and_values_belong_to_something(self) -> None:
        state = self.shard.state
        assert state.events.keys() <= state.executions.keys()
        assert state.entries.keys() <= state.jobs.keys()

    @invariant()
    def nothing_is_stuck(self) -> None:
        """Check that every unfinished execution waits for an event that will come."""
        shard = self.shard
        for execution in shard.state.executions.values():
            tasks = shard.state.tasks[execution.id].values()
            for one in tasks:
                if one.status is TaskStatus.READY:
                    assert (execution.id, one.name) in shard.waiting
                elif one.retry_at:
                    wake = Wake(execution_id=execution.id, task=one.name, number=_next(one))
                    assert Timer(one.retry_at, wake, Timescale.ELAPSED) in shard.timers
                elif one.status is TaskStatus.WAITING and one.loop is not None:
                    assert one.loop.open == sum(_is_open_step(each, one) for each in tasks) > 0
                elif one.status is TaskStatus.WAITING:
                    is_asked = (execution.id, one.name) in self.unanswered()
                    events = shard.state.events.get(execution.id, {}).values()
                    is_expected = any(not e.at and one.name in e.waiting for e in events)
                    assert is_asked or is_expected or self.is_called(execution, one)
            unfinished = {
                TaskStatus.READY,
                TaskStatus.RUNNING,
                TaskStatus.BACKING_OFF,
                TaskStatus.WAITING,
            }
            if caller := execution.caller:
                waiting = shard.state.tasks.get(caller.execution_id, {}).get(caller.task)
                is_waiting = waiting is not None and waiting.status is TaskStatus.WAITING
                assert is_waiting or execution.cancelled_at or self.is_recalled(caller)
            if execution.hold is Hold.NONE:
                assert any(one.status in unfinished for one in tasks)
            else:
                closed = FINAL_TASK_STATES if execution.rerun_of else set[TaskStatus]()
                assert all(one.status in {TaskStatus.BLOCKED, *closed} for one in tasks)
                assert _comes_to_an_end(shard.state, execution)

    @invariant()
    def every_deadline_has_its_timer(self) -> None:
        timers = {(timer.command, timer.timescale) for timer in self.shard.timers}
        for execution in self.shard.state.executions.values():
            if execution.expires_at and not execution.cancelled_at:
                expire = Expire(execution_id=execution.id, deadline=execution.expires_at)
                assert (expire, Timescale.ELAPSED) in timers

    @invariant()
    def every_execution_that_may_be_late_has_its_timer(self) -> None:
        timers = {(timer.command, timer.timescale) for timer in self.shard.timers}
        for execution in self.shard.state.executions.values():
            if execution.late_at:
                late = NoteLate(execution_id=execution.id, deadline=execution.late_at)
                assert (late, Timescale.ELAPSED) in timers

    @invariant()
    def every_notification_is_being_sent(self) -> None:
        state = self.shard.state
        assert state.notifications.keys() == self.shard.sending
        jobs = Counter(each.job_id for each in state.notifications.values())
        assert state.notification_counts == jobs

    @invariant()
    def every_fire_has_its_timer(self) -> None:
        set_for = {timer.command: timer.due for timer in self.shard.timers}
        for job_id, plan in self.shard.state.plans.items():
            due = first_fire(plan)
            if due is not None:
                latest = max(due, self.shard.decided_at + MINUTE)
                assert set_for[Fire(job_id=job_id)] <= latest

    @invariant()
    def what_is_cancelled_is_being_stopped(self) -> None:
        state = self.shard.state
        for execution_id, one in _tasks(state):
            is_over = is_stopped(state.executions[execution_id], self.spec_of(execution_id, one))
            if is_over and one.status is TaskStatus.RUNNING:
                key = AttemptKey(execution_id, one.name, len(one.attempts))
                assert key in self.shard.stopped

    @invariant()
    def jobs_that_wait_are_known_where_they_wait(self) -> None:
        state = self.shard.state
        assert state.outbox.keys() == self.shard.messages.keys()
        if state.outbox:
            return
        waits = {
            (upstream, found.spec.full_name)
            for found in state.jobs.values()
            for upstream in found.spec.upstreams
        }
        known = {(one, other) for one, others in state.dependents.items() for other in others}
        assert known == waits

    @invariant()
    def no_unused_record_is_kept(self) -> None:
        state = self.shard.state
        run = {
            f"{one.job_id}/{one.job_version}"
            for one in state.executions.values()
            if one.job_id not in state.jobs
        }
        assert state.versions.keys() == run
        assert state.names == {found.spec.full_name: found.id for found in state.jobs.values()}
        assert state.plans.keys() == state.jobs.keys()
        # Private, because no public attribute shows graphs that are kept for too long.
        assert state._graphs.keys() <= state.live.keys()  # pyright: ignore[reportPrivateUsage]

    @invariant()
    def another_primary_would_find_the_same(self) -> None:
        state, loaded = self.shard.state, self.shard.reloaded()
        for name in State.__dataclass_fields__:
            if name not in ("_graphs", "_censuses"):
                assert getattr(loaded, name) == getattr(state, name), name
        found = list(pending(loaded))
        assert {(one.execution_id, one.task) for one in found if isinstance(one, WaitForSlot)} == {
            (execution_id, one.name)
            for execution_id, one in _tasks(state)
            if one.status is TaskStatus.READY
        }
        assert [one.item.key for one in found if isinstance(one, Deliver)] == sorted(state.outbox)
        timers = {one.command for one in found if isinstance(one, SetTimer)}
        assert timers <= {timer.command for timer in self.shard.timers}


def _tasks(state: State) -> list[tuple[ExecutionId, Task]]:
    return [
        (execution_id, one) for execution_id, tasks in state.tasks.items() for one in tasks.values()
    ]


def _is_open_step(one: Task, of: Task) -> bool:
    is_step = one.index >= 0 and task_of_step(one.name) == of.name
    return is_step and one.status not in FINAL_TASK_STATES


def _count(most: int) -> list[int]:
    return list(range(1, most + 1))


def _next(one: Task) -> int:
    return len(one.attempts) + 1


def _comes_to_an_end(state: State, execution: Execution) -> bool:
    """Return True if the event that ends an execution's hold is still to come."""
    if execution.hold is Hold.DEPENDENCIES:
        return not is_met(state.plans[execution.job_id])
    others = [state.executions[one] for one in state.live_of(execution.job_id)]
    return any(other.hold is Hold.NONE for other in others)


TestShardUnderFire = _ShardUnderFire.TestCase
TestShardUnderFire.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
