"""Conversion between the bodies of tasks and the parts of a flow: loops, waits and conditions."""

from collections.abc import Mapping
from typing import Any, TypedDict

import msgspec

from rota.core.errors import Problem
from rota.core.model.expressions import has_template, problem_of_expression
from rota.core.model.flow import (
    Approval,
    Case,
    Foreach,
    Loop,
    Repeat,
    RunJob,
    Sleep,
    Switch,
    Wait,
    WaitForEvent,
    texts_of,
)
from rota.core.model.job import TaskSpec
from rota.core.model.work import Work
from rota.core.timing.instants import format_duration
from rota.wire.bodies.field_reader import Reader
from rota.wire.bodies.parameter_schema import problems_of_schema
from rota.wire.documents import (
    ApprovalBody,
    CaseBody,
    ForeachBody,
    Json,
    RepeatBody,
    RunJobBody,
    SleepBody,
    TaskBody,
    Timespan,
    WaitForEventBody,
)


class Flow(TypedDict):
    """The fields of `TaskSpec` that make a flow."""

    when: str
    loop: Loop | None
    wait: Wait | None
    skip_exit_codes: tuple[int, ...]
    handles_failure: bool
    allows_failure: bool
    is_teardown: bool
    is_templated: bool


def flow_of(task: TaskBody, work: Work, namespace: str, reader: Reader, pointer: str) -> Flow:
    """Return the flow of *task*, whose work is *work*, of a job in *namespace*."""
    if task.foreach is not None and task.repeat is not None:
        detail = "a task has foreach or repeat, not both; put one of them into a task of its own"
        reader.problems.append(Problem(f"{pointer}/repeat", detail))
    return Flow(
        when=task.when,
        loop=_foreach(task.foreach, reader, pointer) or _repeat(task.repeat, reader, pointer),
        wait=(
            _sleep(task.sleep, reader, pointer)
            or _approval(task.approval, reader, pointer)
            or _switch(task.switch)
            or _call(task.run_job, namespace, reader, pointer)
            or _event(task.wait_for_event, reader, pointer)
        ),
        skip_exit_codes=tuple(task.skip_exit_codes),
        handles_failure=task.handles_failure,
        allows_failure=task.allow_failure,
        is_teardown=task.teardown,
        is_templated=any(has_template(each.text) for each in texts_of(work)),
    )


def _foreach(
    body: str | list[Json] | ForeachBody | None, reader: Reader, pointer: str
) -> Foreach | None:
    if body is None:
        return None
    if not isinstance(body, ForeachBody):
        body = ForeachBody(items=body)
    if (body.items is None) == (body.matrix is None):
        detail = "give items or a matrix, one of the two"
        reader.problems.append(Problem(f"{pointer}/foreach", detail))
        return None
    items, matrix = body.items, body.matrix
    return Foreach(
        items=reader.json(items, f"{pointer}/foreach") if isinstance(items, list) else "",
        expression=items if isinstance(items, str) else "",
        matrix="" if matrix is None else reader.json(matrix, f"{pointer}/foreach/matrix"),
        max_parallel=body.max_parallel,
        tolerated=body.tolerated_failures,
        is_skipped_if_empty=body.on_empty == "skip",
    )


def _repeat(body: RepeatBody | None, reader: Reader, pointer: str) -> Repeat | None:
    if body is None:
        return None
    delay = reader.timespan(body.delay, f"{pointer}/repeat/delay")
    return Repeat(until=body.until, limit=body.limit, delay=delay)


def _sleep(body: Timespan | SleepBody | None, reader: Reader, pointer: str) -> Sleep | None:
    if body is None:
        return None
    if isinstance(body, SleepBody):
        if detail := problem_of_expression(body.until):
            reader.problems.append(Problem(f"{pointer}/sleep/until", detail))
        return Sleep(until=body.until)
    return Sleep(duration=reader.timespan(body, f"{pointer}/sleep"))


def _approval(body: str | ApprovalBody | None, reader: Reader, pointer: str) -> Approval | None:
    if body is None:
        return None
    if isinstance(body, str):
        body = ApprovalBody(message=body)
    if body.form is not None:
        reader.problems += problems_of_schema(body.form, f"{pointer}/approval/form")
    return Approval(
        message=body.message,
        form="" if body.form is None else reader.json(body.form, f"{pointer}/approval/form"),
        timeout=reader.timespan(body.timeout, f"{pointer}/approval/timeout"),
        is_skipped_if_rejected=body.on_reject == "skip",
        by=tuple(body.by),
    )


def _switch(body: list[CaseBody] | None) -> Switch | None:
    if body is None:
        return None
    return Switch(cases=tuple(Case(case.when, tuple(case.to)) for case in body))


def _call(
    body: str | RunJobBody | None, namespace: str, reader: Reader, pointer: str
) -> RunJob | None:
    if body is None:
        return None
    if isinstance(body, str):
        body = RunJobBody(job=body)
    parameters = body.parameters
    return RunJob(
        job=full_name_of(body.job, namespace),
        parameters=reader.json(parameters, f"{pointer}/runJob/parameters"),
    )


def _event(
    body: str | WaitForEventBody | None, reader: Reader, pointer: str
) -> WaitForEvent | None:
    if body is None:
        return None
    if isinstance(body, str):
        body = WaitForEventBody(event=body)
    return WaitForEvent(
        event=body.event,
        timeout=reader.timespan(body.timeout, f"{pointer}/waitForEvent/timeout"),
        is_skipped_after=body.on_timeout == "skip",
    )


def full_name_of(name: str, namespace: str) -> str:
    """Return the full name of the job *name*, which a job in *namespace* refers to."""
    return name if "/" in name else f"{namespace}/{name}"


def flow_fields(task: TaskSpec) -> Mapping[str, Any]:
    """Return the fields of `TaskBody` that define the flow of *task*; Any: of several types."""
    return {
        **shown_flow(task),
        "skip_exit_codes": list(task.skip_exit_codes),
    }


def shown_flow(task: TaskSpec) -> Mapping[str, Any]:
    """Return the fields of `TaskSpecView` that show the flow of *task*; Any: of several types."""
    fields: dict[str, Any] = {
        "when": task.when,
        "handles_failure": task.handles_failure,
        "allow_failure": task.allows_failure,
        "teardown": task.is_teardown,
    }
    match task.loop:
        case Foreach() as loop:
            fields["foreach"] = ForeachBody(
                items=loop.expression or _decoded(loop.items),
                matrix=_decoded(loop.matrix),
                max_parallel=loop.max_parallel,
                tolerated_failures=loop.tolerated,
                on_empty="skip" if loop.is_skipped_if_empty else "success",
            )
        case Repeat() as loop:
            delay = format_duration(loop.delay)
            fields["repeat"] = RepeatBody(until=loop.until, limit=loop.limit, delay=delay)
        case None:
            pass
    match task.wait:
        case Sleep() as sleep:
            duration = format_duration(sleep.duration)
            fields["sleep"] = SleepBody(until=sleep.until) if sleep.until else duration
        case Approval() as approval:
            fields["approval"] = ApprovalBody(
                message=approval.message,
                form=_decoded(approval.form),
                timeout=format_duration(approval.timeout),
                on_reject="skip" if approval.is_skipped_if_rejected else "fail",
                by=list(approval.by),
            )
        case Switch() as switch:
            fields["switch"] = [CaseBody(when=case.when, to=list(case.to)) for case in switch.cases]
        case RunJob() as call:
            fields["run_job"] = RunJobBody(
                job=call.job.partition("/")[2], parameters=_decoded(call.parameters)
            )
        case WaitForEvent() as wait:
            fields["wait_for_event"] = WaitForEventBody(
                event=wait.event,
                timeout=format_duration(wait.timeout),
                on_timeout="skip" if wait.is_skipped_after else "fail",
            )
        case None:
            pass
    return fields


def _decoded(text: str) -> Any:
    """Return the value of JSON text, which may be any; None for empty text."""
    return msgspec.json.decode(text) if text else None
