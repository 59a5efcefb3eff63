"""Operations on what tasks wait for: answers of people, and events."""

import msgspec
from aiohttp import web

from rota.core.decide.steps.waits import ANSWER_BYTES_MAX, not_waiting
from rota.core.errors import Kind, Problem, Refused, invalid, invalid_fields, not_found
from rota.core.model.execution import Execution, TaskStatus
from rota.core.model.flow import EVENT_BYTES_MAX, Approval, Wait
from rota.core.model.ids import NAME_RULE, is_name
from rota.core.near_names import did_you_mean
from rota.core.quoting import in_quotes
from rota.core.vocabulary.commands import AnswerTask, PostEvent
from rota.node.access.verbs import Verb
from rota.node.api.handlers.executions import after_change, authorize, load_execution
from rota.node.api.requests.authors import author_of
from rota.node.api.requests.error_codes import DECIDING
from rota.node.api.requests.operations import Body, Operations, Success
from rota.node.api.requests.parameters import DRY_RUN
from rota.node.api.requests.permissions import on_object
from rota.node.api.requests.request_context import RequestContext
from rota.node.api.requests.request_reader import document, read_body
from rota.node.api.requests.targets import execution_id_of, shard_of_execution
from rota.node.api.requests.writes import write
from rota.wire import operations as api
from rota.wire.bodies.parameter_schema import problems_of_value
from rota.wire.documents import AnswerBody, Json, PostEventBody

operations = Operations("Executions")


@operations.declare(
    api.ANSWER_TASK,
    Success(200, "The execution, with the answer."),
    permission=on_object(Verb.RUN),
    target=shard_of_execution,
    query=(DRY_RUN,),
    body=Body(AnswerBody),
    problems=(
        "execution_not_found",
        "task_not_found",
        "not_waiting",
        "invalid_answer",
        *DECIDING,
    ),
)
async def answer_task(request: RequestContext) -> web.Response:
    """Approve or reject what a task waits for.

    The caller is recorded with the answer. A repetition of an answer by the same caller changes
    nothing.
    """
    body = await read_body(request, AnswerBody)
    execution_id, shard = execution_id_of(request), request.shard
    name = request.http.match_info["task"]
    found = await load_execution(request, execution_id)
    execution, tasks = found
    authorize(request, execution)
    task = tasks.get(name)
    if task is None:
        raise not_found("task", name, did_you_mean(name, tasks))
    author = author_of(request)
    is_repetition = (
        task.answered_by is not None
        and task.answered_by.principal == author.principal
        and (task.status is TaskStatus.SUCCESS) == body.approve
        and task.result == (b"" if body.form is None else msgspec.json.encode(body.form))
    )
    if execution.finished_at and not is_repetition:
        raise not_waiting(task)
    if not is_repetition:
        check_approver(request, _approval_of(request, execution, name))
        answer = AnswerTask(
            execution_id=execution_id,
            task=name,
            is_approved=body.approve,
            reason=body.reason,
            result=_checked_form(request, execution, name, body),
            author=author,
        )
        _, written = await write(request, shard, answer)
        found = written.execution(shard, execution_id) or await load_execution(
            request, execution_id
        )
    return document(after_change(request, *found))


def _approval_of(request: RequestContext, execution: Execution, task: str) -> Approval | None:
    """Return what a task of an execution waits for; None for one that has ended."""
    state = request.state(request.shard)
    if execution.id not in state.executions:
        return None
    wait = state.graph(execution.job_id, execution.job_version).spec_of(task).wait
    return wait if isinstance(wait, Approval) else None


def check_approver(request: RequestContext, wait: Wait | None) -> None:
    """Check that the caller may answer *wait*, if it is an approval for certain subjects.

    Raises:
        Refused: The approval names subjects, and the caller is none of them.
    """
    if (
        isinstance(wait, Approval)
        and wait.by
        and not set(wait.by) & set(request.principal.subjects)
    ):
        detail = (
            f"{in_quotes(request.principal.name)} may not answer this: it waits for one of "
            f"{', '.join(wait.by)}"
        )
        raise Refused(Kind.FORBIDDEN, "forbidden", detail)


def _checked_form(
    request: RequestContext, execution: Execution, task: str, body: AnswerBody
) -> bytes:
    """Return what a person filled in, as JSON; empty for nothing.

    Raises:
        Refused: Code ``invalid_answer``: it does not match the schema of the task, or is too long.
    """
    form = b"" if body.form is None else msgspec.json.encode(body.form)
    if len(form) > ANSWER_BYTES_MAX:
        detail = f"the form has {len(form):,} bytes; at most {ANSWER_BYTES_MAX:,} are allowed"
        raise invalid("invalid_answer", detail)
    wait = _approval_of(request, execution, task)
    if wait is not None and wait.form and body.approve:
        filled: Json = {} if body.form is None else body.form
        problems = problems_of_value(msgspec.json.decode(wait.form), filled, "/form")
        if problems:
            raise invalid_fields("invalid_answer", problems)
    return form


@operations.declare(
    api.POST_EVENT,
    Success(200, "The execution, after the event."),
    permission=on_object(Verb.RUN),
    target=shard_of_execution,
    query=(DRY_RUN,),
    body=Body(PostEventBody),
    problems=(
        "execution_not_found",
        "not_unfinished",
        "event_posted",
        "too_many_events",
        "invalid_event",
        *DECIDING,
    ),
)
async def post_event(request: RequestContext) -> web.Response:
    """Post an event to an execution, for its tasks with ``waitForEvent``.

    It is kept for tasks that wait for it later, until the execution ends. A repetition with the
    same data changes nothing.
    """
    body = await read_body(request, PostEventBody)
    execution_id, shard = execution_id_of(request), request.shard
    found = await load_execution(request, execution_id)
    execution, _ = found
    if execution.finished_at:
        detail = f"the execution is {execution.status.value}, so no task of it waits for an event"
        raise Refused(Kind.CONFLICT, "not_unfinished", detail)
    event = PostEvent(
        execution_id=execution_id,
        name=_checked_name(body),
        data=_checked_data(body),
        author=author_of(request),
    )
    _, written = await write(request, shard, event)
    found = written.execution(shard, execution_id) or await load_execution(request, execution_id)
    return document(after_change(request, *found))


def _checked_name(body: PostEventBody) -> str:
    if not is_name(body.name):
        detail = f"{in_quotes(body.name)} is not a name: {NAME_RULE}"
        raise invalid_fields("invalid_event", [Problem("/name", detail)])
    return body.name


def _checked_data(body: PostEventBody) -> bytes:
    data = b"" if body.data is None else msgspec.json.encode(body.data)
    if len(data) > EVENT_BYTES_MAX:
        detail = f"has {len(data):,} bytes as JSON; at most {EVENT_BYTES_MAX:,} are allowed"
        raise invalid_fields("invalid_event", [Problem("/data", detail)])
    return data
