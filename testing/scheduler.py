"""A scheduler on virtual time, for tests of jobs.

One shard decides as on a node; a month passes as fast as its decisions are made. Nothing runs
unless a test asks for the calls of Python functions: each attempt ends as the test says.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from rota.client.given_times import GivenDuration, GivenInstant, duration_of, instant_of
from rota.client.rehearsal.job_specs import NEXT_STEP, spec_of
from rota.client.rehearsal.virtual_shard import VirtualShard
from rota.core.errors import Kind, Refused, not_found
from rota.core.model.attempt import Ending, Order, Report
from rota.core.model.execution import Execution, Task
from rota.core.model.ids import ExecutionId, JobId, task_of_step
from rota.core.model.job import Job, JobSpec
from rota.core.model.ledger import LedgerEntry
from rota.core.near_names import did_you_mean
from rota.core.timing.instants import Instant, later, to_datetime
from rota.core.vocabulary.changes import Change
from rota.core.vocabulary.commands import (
    AnswerTask,
    Cancel,
    DeleteJob,
    PauseJob,
    PostEvent,
    ResumeJob,
    SaveJob,
    Trigger,
)
from rota.core.vocabulary.decision import Triggered
from rota.core.vocabulary.effects import Consequence
from rota.core.vocabulary.facts import NO_FACTS
from rota.testing.attempts import AttemptEnd, Behaviour, Json, start_of
from rota.testing.calls import call
from rota.testing.records import PastExecution, PastFire, past_execution, past_fire
from rota.wire.bodies.parameter_schema import own_parameters

if TYPE_CHECKING:  # For speed, not to avoid a cycle: an app loads the HTTP library.
    from rota.client.app.app import App

START = "2027-01-01T00:00:00Z"
"""Where time begins unless a test says otherwise: a Friday."""


@dataclass(frozen=True, slots=True)
class _Rule:
    """How the attempts of a job or a task end.

    Attributes:
        behaviour: Returns the end; None if the function is called.
        duration: How long a call takes; None for the duration of the scheduler.
    """

    behaviour: Behaviour | None
    duration: GivenDuration | None = None


class VirtualScheduler:
    """Jobs on virtual time, by the rules of a node.

    It has one node. Time passes only in `advance` and `run_until`. An attempt ends as the newest
    rule of `on` or `call_functions` for its task says, else as that for its job; without a rule it
    succeeds. A job is named ``name`` or ``namespace/name``.

    Args:
        start: Where time begins, as text such as ``2027-03-27T00:00:00Z`` or with a time zone.
        duration: How long an attempt takes without a rule, as text such as ``5m``.
        slots: The number of attempts that run at the same time.

    Raises:
        ValueError: *start* or *duration* is malformed, or there is no slot.
    """

    def __init__(
        self,
        start: GivenInstant = START,
        *,
        duration: GivenDuration = "1s",
        slots: int = 1_000,
    ) -> None:
        if slots < 1:
            raise ValueError(f"slots is {slots}, but no attempt would run; give 1 or more")
        self._duration = duration_of(duration)
        self._rules: dict[tuple[str, str], _Rule] = {}
        self._executions: dict[ExecutionId, Execution] = {}
        self._tasks: dict[ExecutionId, dict[str, Task]] = defaultdict(dict)
        self._of_job: dict[str, list[ExecutionId]] = defaultdict(list)
        self._ledger: dict[JobId, dict[str, LedgerEntry]] = defaultdict(dict)
        self._shard = VirtualShard(
            instant_of(start),
            slots=slots,
            facts=NO_FACTS,
            play=self._play,
            watch=_ignore,
            record=self._record,
        )

    @property
    def now(self) -> datetime:
        """The virtual time, in UTC."""
        return to_datetime(self._shard.clock)

    # -- jobs --------------------------------------------------------------------------------------

    def save(self, job: Mapping[str, Json] | JobSpec) -> None:
        """Save a job, given as in a file of jobs; a job with the same name is replaced.

        Raises:
            InvalidFile: It is no valid definition.
            Refused: It cannot be saved.
        """
        spec = job if isinstance(job, JobSpec) else spec_of(job)
        self._shard.do(SaveJob(spec=spec, may_replace=True))

    def load(self, *paths: str | Path) -> None:
        """Save the jobs of files or folders, with their calendars.

        Calendars of an earlier call are replaced. Documents of other kinds have no effect.

        Raises:
            InvalidFile: A file cannot be read or parsed, or a definition is invalid.
            Refused: A job cannot be saved.
        """
        # The reader of the commands, which a test without files need not load.
        from rota.client.cli.files.given_files import read_files
        from rota.client.cli.files.planned_fires import facts_of

        given = read_files(map(str, paths), None)
        specs = [spec_of(each, NEXT_STEP) for each in given.jobs]
        self._shard.facts = facts_of(given.documents)
        for spec in specs:
            self.save(spec)

    def deploy(self, app: "App", *, calls_functions: bool = False) -> None:
        """Save the jobs of the tasks of an app that have a schedule, as `rota deploy` does.

        Args:
            app: The app.
            calls_functions: Whether attempts call the functions, as after `call_functions`.

        Raises:
            InvalidTask: A node cannot import one of the functions.
            Refused: A job cannot be saved.
        """
        for body in app.jobs():
            spec = spec_of(body)
            self.save(spec)
            if calls_functions:
                self.call_functions(spec.full_name)

    def delete(self, job: str) -> None:
        """Delete a job and cancel its executions; what it did is kept.

        Raises:
            Refused: There is no such job.
        """
        self._shard.do(DeleteJob(job_id=self._job(job).id))

    # -- the ends of attempts ----------------------------------------------------------------------

    def on(
        self,
        job: str,
        behaviour: Behaviour | None = None,
        *,
        task: str = "",
        outcome: str = "success",
        duration: GivenDuration | None = None,
        result: Json = None,
        exit_code: int | None = None,
        reason: str = "",
    ) -> None:
        """Set how the attempts end that begin from now.

        Args:
            job: The job.
            behaviour: Is called with each `AttemptStart`, and returns an `AttemptEnd`; None for one
                with the values below.
            task: The task, or the step of a loop; empty for all tasks of the job.
            outcome: As in `AttemptEnd`.
            duration: As in `AttemptEnd`.
            result: As in `AttemptEnd`.
            exit_code: As in `AttemptEnd`.
            reason: As in `AttemptEnd`.

        Raises:
            Refused: There is no such job or task.
            ValueError: A value is invalid.
        """
        end = AttemptEnd(
            outcome=outcome, duration=duration, result=result, exit_code=exit_code, reason=reason
        )
        if behaviour is not None and end != AttemptEnd():
            raise ValueError("give a function or the values of an end, not both")
        self._set(job, task, _Rule(behaviour or (lambda _: end)))

    def call_functions(
        self, job: str, *, task: str = "", duration: GivenDuration | None = None
    ) -> None:
        """Make the attempts that begin from now call their Python functions, in this process.

        A function gets its arguments, the results of other tasks, ``ctx`` and the variables of the
        attempt as on a node; its result, its exception and its checkpoint have the same effects.
        The call is made when the attempt begins. The clock of the machine stays real.

        Args:
            job: The job, whose tasks are Python functions.
            task: The task, or the step of a loop; empty for all tasks of the job.
            duration: How long each attempt takes on virtual time; None for that of the scheduler.

        Raises:
            Refused: There is no such job or task, or a task is no Python function.
            ValueError: *duration* is malformed.
        """
        if duration is not None:
            duration_of(duration)
        spec = self._job(job).spec
        others = [
            each.name
            for each in spec.tasks
            if each.work.call is None and (not task or task_of_step(task) == each.name)
        ]
        if task and others:
            detail = f"the task {task} of {spec.full_name} is no Python function"
            raise Refused(Kind.INVALID, "no_function", f"{detail}; use on() for it")
        if len(others) == len(spec.tasks):
            detail = f"no task of {spec.full_name} is a Python function; use on() for it"
            raise Refused(Kind.INVALID, "no_function", detail)
        self._set(job, task, _Rule(None, duration))

    def lose_running(self) -> int:
        """Lose all attempts that run, as when their node fails, and return their number.

        Each ends as ``lost`` and starts again at once: a loss costs no retry. A cluster needs some
        seconds to detect the failure of a node; here none pass.
        """
        return self._shard.lose_running()

    # -- what users do -----------------------------------------------------------------------------

    def trigger(self, job: str, /, **parameters: Json) -> str:
        """Start an execution of a job now, and return its id.

        Args:
            job: The job.
            parameters: The parameters of the execution; without any, those of the job.

        Raises:
            Refused: There is no such job, its policy forbids an execution now, or the parameters do
                not match its schema.
        """
        found = self._job(job)
        given = own_parameters(found.spec, parameters or None)
        text = "" if given is None else msgspec.json.encode(given).decode()
        reply = self._shard.do(Trigger(job_id=found.id, parameters=text))
        assert isinstance(reply, Triggered), reply
        return reply.execution_id

    def pause(self, job: str, *, until: GivenInstant | None = None) -> None:
        """Pause a job, until *until* if it is given.

        Raises:
            Refused: There is no such job.
            ValueError: *until* is malformed.
        """
        end = Instant(0) if until is None else instant_of(until)
        self._shard.do(PauseJob(job_id=self._job(job).id, until=end))

    def resume(self, job: str) -> None:
        """Resume a paused job.

        Raises:
            Refused: There is no such job.
        """
        self._shard.do(ResumeJob(job_id=self._job(job).id))

    def cancel(self, execution_id: str) -> None:
        """Cancel an execution.

        Raises:
            Refused: There is no such unfinished execution.
        """
        self._shard.do(Cancel(execution_id=ExecutionId(execution_id)))

    def answer(
        self,
        execution_id: str,
        task: str,
        *,
        is_approved: bool = True,
        reason: str = "",
        result: Json = None,
    ) -> None:
        """Approve or reject a task that waits for a person.

        Raises:
            Refused: There is no such execution or task, or it does not wait for a person.
        """
        encoded = b"" if result is None else msgspec.json.encode(result)
        self._shard.do(
            AnswerTask(
                execution_id=ExecutionId(execution_id),
                task=task,
                is_approved=is_approved,
                reason=reason,
                result=encoded,
            )
        )

    def post_event(self, execution_id: str, name: str, data: Json = None) -> None:
        """Post an event to an execution, for the tasks of it that wait for one.

        Raises:
            Refused: There is no such unfinished execution, or the event was posted before.
        """
        encoded = b"" if data is None else msgspec.json.encode(data)
        self._shard.do(PostEvent(execution_id=ExecutionId(execution_id), name=name, data=encoded))

    # -- time --------------------------------------------------------------------------------------

    def advance(self, duration: GivenDuration) -> None:
        """Let time pass: ``advance("30d")``, or a `timedelta`.

        Raises:
            ValueError: *duration* is malformed or negative.
        """
        self._pass_time(later(self._shard.clock, duration_of(duration)))

    def run_until(self, moment: GivenInstant) -> None:
        """Let time pass until *moment*; what is due at that instant has happened, too.

        Raises:
            ValueError: *moment* is malformed, or before `now`.
        """
        end = instant_of(moment)
        if end < self._shard.clock:
            raise ValueError(f"{to_datetime(end)} is before {self.now}; time only passes forwards")
        self._pass_time(end)

    # -- what has happened -------------------------------------------------------------------------

    def executions(self, job: str) -> list[PastExecution]:
        """Return the executions of a job, oldest first, also those that have not ended.

        Raises:
            Refused: There is no such job, and there was none.
        """
        return [self.execution(each) for each in self._of_job[self._known_name(job)]]

    def execution(self, execution_id: str) -> PastExecution:
        """Return an execution as it is now.

        Raises:
            Refused: There is no such execution.
        """
        found = self._executions.get(ExecutionId(execution_id))
        if found is None:
            raise not_found("execution", execution_id, "executions(job) lists those of a job")
        return past_execution(found, self._tasks[found.id].values())

    def ledger(self, job: str) -> list[PastFire]:
        """Return the outcomes of the fire times of a job, oldest first.

        Raises:
            Refused: There is no such job.
        """
        entries = self._ledger[self._job(job).id]
        return [past_fire(entry) for _, entry in sorted(entries.items())]

    # -- private -----------------------------------------------------------------------------------

    def _pass_time(self, end: Instant) -> None:
        for _ in self._shard.pass_time(end):
            pass

    def _set(self, job: str, task: str, rule: _Rule) -> None:
        spec = self._job(job).spec
        names = [each.name for each in spec.tasks]
        if task and task_of_step(task) not in names:
            hint = did_you_mean(task, names) or f"{spec.full_name} has {', '.join(names[:10])}"
            raise not_found("task", task, hint)
        self._rules[spec.full_name, task] = rule

    def _play(self, order: Order, at: Instant) -> Ending:
        rule = self._rule_of(order)
        if rule is not None and rule.behaviour is None and order.work.call is not None:
            duration = self._duration if rule.duration is None else duration_of(rule.duration)
            return call(order, at, duration, lambda report: self._report(order, report))
        behaviour = rule.behaviour if rule is not None else None
        end = behaviour(start_of(order, at)) if behaviour is not None else None
        return (end or AttemptEnd()).ending(order, at, self._duration)

    def _rule_of(self, order: Order) -> _Rule | None:
        step = order.key.task
        for task in (step, task_of_step(step), ""):
            if (rule := self._rules.get((order.job, task))) is not None:
                return rule
        return None

    def _report(self, order: Order, report: Report) -> None:
        self._shard.report(order, report)

    def _record(self, change: Change) -> None:
        match change.record:
            case Execution() as execution:
                if execution.id not in self._executions:
                    self._of_job[execution.job_name].append(execution.id)
                self._executions[execution.id] = execution
            case Task() as task:
                self._tasks[ExecutionId(change.key.partition("/")[0])][task.name] = task
            case LedgerEntry() as entry:
                self._ledger[entry.job_id][change.key] = entry
            case _:
                pass

    def _job(self, name: str) -> Job:
        names = self._shard.state.names
        full_name = _full_name(name)
        if full_name not in names:
            raise _no_job(full_name, list(names))
        return self._shard.state.jobs[names[full_name]]

    def _known_name(self, name: str) -> str:
        full_name = _full_name(name)
        if full_name not in self._of_job and full_name not in self._shard.state.names:
            raise _no_job(full_name, sorted({*self._shard.state.names, *self._of_job}))
        return full_name


def _full_name(name: str) -> str:
    return name if "/" in name else f"default/{name}"


def _no_job(full_name: str, known: Sequence[str]) -> Refused:
    saved = ", ".join(known[:10]) or "none"
    return not_found("job", full_name, did_you_mean(full_name, known) or f"saved are: {saved}")


def _ignore(effect: Consequence, at: Instant) -> None:
    del effect, at
