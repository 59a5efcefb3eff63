"""Steps that wait, without a slot, for an event that is posted to their execution.

An event is a fact: it is posted once, before or after steps wait for it, and all of these get its
data. So a program that posts it need not know how far the flow is, and may repeat a request.
"""

from msgspec.structs import replace

from rota.core.decide.steps.flow_values import names_of
from rota.core.decide.steps.step import begin_running, close, close_with, fail, spec_of, unfinished
from rota.core.decide.steps.step import wait as wait_without_slot
from rota.core.errors import Kind, Refused, not_found
from rota.core.model.execution import Task, TaskStatus
from rota.core.model.expressions import ExpressionError, has_template, rendered
from rota.core.model.flow import EVENTS_BYTES_MAX, EVENTS_MAX, WaitForEvent
from rota.core.model.ids import ExecutionId, is_name
from rota.core.quoting import in_quotes
from rota.core.state.draft import Draft
from rota.core.timing.instants import Instant, format_duration, format_instant, later
from rota.core.vocabulary.changes import PostedEvent
from rota.core.vocabulary.commands import PostEvent


def start_wait(draft: Draft, execution_id: ExecutionId, task: Task) -> None:
    """Take the data of an event that has been posted, or wait for it."""
    execution = begin_running(draft, unfinished(draft, execution_id))
    spec = spec_of(draft, execution, task.name)
    wait = spec.wait
    assert isinstance(wait, WaitForEvent), spec
    name = wait.event
    try:
        if has_template(name):
            name = rendered(name, names_of(draft, execution, task, spec, name))
    except ExpressionError as error:
        fail(draft, execution_id, task, f"waitForEvent: {error}")
        return
    events = draft.events.of(execution_id)
    event = events.get(name, PostedEvent(name=name))
    if event.at:
        _end(draft, execution_id, task, event)
    elif not is_name(name):
        fail(draft, execution_id, task, f"waitForEvent: {in_quotes(name)} is not a name")
    elif name not in events and len(events) >= EVENTS_MAX:
        fail(draft, execution_id, task, f"waitForEvent: more than {EVENTS_MAX:,} names of events")
    else:
        waiting = replace(event, waiting=(*event.waiting, task.name))
        draft.events.put(execution_id, name, waiting)
        deadline = later(draft.now, wait.timeout) if wait.timeout else Instant(0)
        task = replace(task, reason=f"waits for the event: {name}", retry_at=deadline)
        wait_without_slot(draft, execution, task, is_timed=bool(deadline))


def end_wait(draft: Draft, execution_id: ExecutionId, task: Task) -> None:
    """End a wait whose event was not posted in time."""
    wait = spec_of(draft, unfinished(draft, execution_id), task.name).wait
    assert isinstance(wait, WaitForEvent), task
    status = TaskStatus.SKIPPED if wait.is_skipped_after else TaskStatus.FAILED
    reason = f"no event within {format_duration(wait.timeout)}"
    close(draft, execution_id, replace(task, status=status, reason=reason))


def post_event(draft: Draft, command: PostEvent) -> None:
    """Record an event, and end the waits for it; a repetition changes nothing.

    Raises:
        Refused: There is no such unfinished execution; code ``event_posted``: the event was posted
            with other data; code ``too_many_events``.
    """
    execution = draft.execution(command.execution_id)
    if execution is None:
        raise not_found("execution", command.execution_id)
    events = draft.events.of(execution.id)
    event = events.get(command.name, PostedEvent(name=command.name))
    if event.at:
        if event.data == command.data:
            return
        at = format_instant(event.at)
        detail = f"the event {in_quotes(event.name)} was posted at {at} with other data"
        raise Refused(Kind.CONFLICT, "event_posted", detail)
    if command.name not in events and len(events) >= EVENTS_MAX:
        detail = f"an execution has at most {EVENTS_MAX:,} events"
        raise Refused(Kind.CONFLICT, "too_many_events", detail)
    if sum(len(each.data) for each in events.values()) + len(command.data) > EVENTS_BYTES_MAX:
        detail = f"the data of the events of an execution have at most {EVENTS_BYTES_MAX:,} bytes"
        raise Refused(Kind.CONFLICT, "too_many_events", detail)
    posted = replace(event, at=draft.now, data=command.data, author=command.author, waiting=())
    draft.events.put(execution.id, event.name, posted)
    for name in event.waiting:
        task = draft.task(execution.id, name)
        if task is not None and task.status is TaskStatus.WAITING:
            _end(draft, execution.id, task, posted)


def _end(draft: Draft, execution_id: ExecutionId, task: Task, event: PostedEvent) -> None:
    ended = replace(task, status=TaskStatus.SUCCESS, reason="", answered_by=event.author)
    close_with(draft, execution_id, ended, event.data)
