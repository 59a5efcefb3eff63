"""The table of kinds of steps. A new kind is a module of this package, and a row."""

from collections.abc import Callable
from typing import NamedTuple, NoReturn

from rota.core.decide.steps import attempts, calls, events, loops, waits
from rota.core.model.execution import Task
from rota.core.model.flow import Approval, Foreach, Repeat, RunJob, Sleep, Switch, WaitForEvent
from rota.core.model.ids import ExecutionId
from rota.core.model.job import TaskSpec
from rota.core.state.draft import Draft

Move = Callable[[Draft, ExecutionId, Task], None]


def _never(_draft: Draft, execution_id: ExecutionId, task: Task) -> NoReturn:
    raise AssertionError(f"{execution_id} sets no timer for {task}")


def _nothing(_draft: Draft, _execution_id: ExecutionId, _task: Task) -> None:
    """Do nothing: the step has begun nothing elsewhere."""


class StepKind(NamedTuple):
    """One kind of steps.

    Attributes:
        start: Starts a step that is blocked, or whose delay is over.
        wake: Continues with a waiting step whose timer rings.
        abandon: Ends what a waiting step that is cancelled has begun elsewhere.
    """

    start: Move
    wake: Move = _never
    abandon: Move = _nothing


ATTEMPT = StepKind(attempts.start)

KINDS: dict[type, StepKind] = {
    Foreach: StepKind(loops.start_foreach),
    Repeat: StepKind(loops.start_repeat),
    Sleep: StepKind(waits.start_sleep, waits.end_sleep),
    Approval: StepKind(waits.start_approval, waits.end_approval),
    Switch: StepKind(waits.start_switch),
    WaitForEvent: StepKind(events.start_wait, events.end_wait),
    RunJob: StepKind(calls.start_call, abandon=calls.abandon_call),
}
"""The kinds by the type of the loop, wait or choice of a task; without these it is an attempt."""


def kind_of(spec: TaskSpec, task: Task) -> StepKind:
    """Return the kind of a task, or of a step of a loop: the steps are what the loop repeats."""
    part = spec.wait if spec.loop is None or task.index >= 0 else spec.loop
    return ATTEMPT if part is None else KINDS[type(part)]
