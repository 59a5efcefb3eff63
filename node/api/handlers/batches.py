"""Batches: jobs that are created or triggered by one request, each independently of the others.

Items are decoded one by one, so that a malformed item gets an error of its own. All valid items are
decided in one turn, with one journal entry for each of their shards and one sync.
"""

from collections.abc import Awaitable, Callable

import msgspec
from aiohttp import web
from msgspec.structs import replace

from rota.core.errors import Problem, Refused, invalid, not_found, summary_of
from rota.core.model.ids import JobId
from rota.core.vocabulary.commands import Command
from rota.core.vocabulary.decision import JobSaved, Triggered
from rota.node.access.verbs import Verb
from rota.node.api.forwarding.batch_splitting import Item, read_split, results_of
from rota.node.api.handlers.jobs import creation_of, saved_view, trigger_of
from rota.node.api.requests.error_codes import DECIDING
from rota.node.api.requests.job_decoding import decoded_job
from rota.node.api.requests.operations import IDEMPOTENCY_KEY, Body, Operations, Success
from rota.node.api.requests.parameters import DRY_RUN, flag
from rota.node.api.requests.permissions import on_each
from rota.node.api.requests.problems import problem_of
from rota.node.api.requests.request_context import RequestContext
from rota.node.api.requests.request_reader import checked_key, document, idempotency_key
from rota.node.api.requests.targets import JobName, shard_named
from rota.node.api.requests.tracing import TRACEPARENT
from rota.node.api.requests.writes import Written, write_all
from rota.node.shards.shard import Answer, Shard
from rota.node.system.pacing import Pace, paced
from rota.wire import operations as api
from rota.wire.bodies.field_reader import Hints
from rota.wire.bodies.json_decoding import decode
from rota.wire.documents import (
    BATCH_SCHEDULES_MAX,
    CreatedItem,
    CreatedManyView,
    CreateManyBody,
    ProblemView,
    TriggeredItem,
    TriggeredManyView,
    TriggerItem,
    TriggerManyBody,
)

operations = Operations("Batches")
VIEWS = flag("views", "Return each job as saved, too.")


class _TriggerName(msgspec.Struct):
    """The field of a trigger that determines its shard."""

    job: str


@operations.declare(
    api.CREATE_JOBS,
    Success(200, "One result for each item, in the order of the items."),
    permission=on_each(Verb.WRITE),
    query=(DRY_RUN,),
    headers=(IDEMPOTENCY_KEY,),
    body=Body(CreateManyBody),
    problems=("no_items", "too_many_items", "invalid_idempotency_key", *DECIDING),
)
async def create_many(request: RequestContext) -> web.Response:
    """Create up to 1,000 jobs; each item succeeds or fails independently of the others.

    The jobs may have at most 2,000 schedules in total. The `status` of a result is the status that
    `POST /api/v1/jobs` has for the same body, and `error` its error document, with pointers such as
    `/items/3/schedule`. The jobs that an item depends on must exist before the request. With
    `Idempotency-Key: K`, item number *i*, counted from 0, has the key `K/i`.
    """
    return await _save_many(request, may_replace=False, has_views=False)


@operations.declare(
    api.PUT_JOBS,
    Success(200, "One result for each item, in the order of the items."),
    permission=on_each(Verb.WRITE),
    query=(DRY_RUN, VIEWS),
    body=Body(CreateManyBody),
    problems=("no_items", "too_many_items", *DECIDING),
)
async def put_many(request: RequestContext) -> web.Response:
    """Create or replace up to 1,000 jobs; each item succeeds or fails independently of the others.

    An item is what `PUT /api/v1/jobs/{job}` has as its body, with its name. `change` says what was
    done with the job; a definition that is the same changes nothing, so a repetition is harmless.
    The other rules are those of `POST /api/v1/jobs:batch`.
    """
    return await _save_many(request, may_replace=True, has_views=VIEWS.of(request))


async def _save_many(
    request: RequestContext, *, may_replace: bool, has_views: bool
) -> web.Response:
    key = "" if may_replace else idempotency_key(request.http)

    def shard_of(raw: msgspec.Raw) -> Shard:
        named = msgspec.json.decode(raw, type=JobName)
        return request.node.shards.of_name(named.namespace, named.name)

    schedules_left = BATCH_SCHEDULES_MAX
    hints = Hints()

    async def command_of(raw: msgspec.Raw, number: int) -> tuple[Shard, Command]:
        nonlocal schedules_left
        body = await paced(decoded_job(raw))
        # Schedules are counted before they are parsed, since an invalid one costs as much.
        schedules_left -= len(body.schedules) + (body.schedule is not None)
        if schedules_left < 0:
            detail = (
                f"the batch has more than {BATCH_SCHEDULES_MAX:,} schedules, the limit; send this "
                "job in another batch"
            )
            raise invalid("invalid_job", detail, Problem("/schedules", detail))
        shard, command = await creation_of(request, body, _key_of(key, number), hints)
        return shard, replace(command, may_replace=may_replace)

    async def create(items: list[Item]) -> list[CreatedItem]:
        answers, written = await _write_each(request, items, command_of)
        created = [_created(request, written, answer) for answer in answers]
        if has_views:
            created = [await _with_view(request, written, each) for each in created]
        # A job's version, or the reason of a refusal, may be ahead of the commit.
        await request.wait_committed()
        return created

    items = await results_of(
        request,
        await read_split(request, shard_of),
        create,
        CreatedManyView,
        lambda refusal: _not_created(request, refusal),
    )
    return document(CreatedManyView(items=items))


@operations.declare(
    api.TRIGGER_JOBS,
    Success(200, "One result for each item, in the order of the items."),
    permission=on_each(Verb.RUN),
    query=(DRY_RUN,),
    headers=(IDEMPOTENCY_KEY, TRACEPARENT),
    body=Body(TriggerManyBody),
    problems=("no_items", "too_many_items", "invalid_idempotency_key", *DECIDING),
)
async def trigger_many(request: RequestContext) -> web.Response:
    """Trigger up to 1,000 jobs; each item succeeds or fails independently of the others.

    An item has a `job` (its id, its name in `default`, or `namespace/name`), and optionally
    `parameters` and an `idempotencyKey`. A result has an `executionId`, or an error document in
    `error`, with pointers such as `/items/3/parameters`. With `Idempotency-Key: K`, item number
    *i*, counted from 0, has the key `K/i` unless it has its own.
    """
    key = idempotency_key(request.http)

    def shard_of(raw: msgspec.Raw) -> Shard:
        return shard_named(request, msgspec.json.decode(raw, type=_TriggerName).job)

    async def command_of(raw: msgspec.Raw, number: int) -> tuple[Shard, Command]:
        item = decode(raw, TriggerItem)
        own_key = checked_key(item.idempotency_key or "") or _key_of(key, number)
        return await trigger_of(request, item.job, item, own_key)

    async def trigger(items: list[Item]) -> list[TriggeredItem]:
        answers, _ = await _write_each(request, items, command_of)
        triggered = [_triggered(request, answer) for answer in answers]
        await request.wait_committed()
        return triggered

    items = await results_of(
        request,
        await read_split(request, shard_of),
        trigger,
        TriggeredManyView,
        lambda refusal: _triggered(request, refusal),
    )
    return document(TriggeredManyView(items=items))


async def _write_each(
    request: RequestContext,
    items: list[Item],
    command_of: Callable[[msgspec.Raw, int], Awaitable[tuple[Shard, Command]]],
) -> tuple[list[Answer], Written]:
    """Decide the items of this node, and return the replies in the order of the items.

    Args:
        request: The batch.
        items: The items of this node.
        command_of: Makes the command of an item, given the item and its number; may raise Refused.
    """
    commands: dict[int, tuple[Shard, Command]] = {}
    answers: dict[int, Answer] = {}
    pace = Pace()
    for number, raw in items:
        await pace.rest()
        try:
            commands[number] = await command_of(raw, number)
        except Refused as refusal:
            answers[number] = _at(refusal, f"/items/{number}")
    written = await write_all(request, commands.values())
    answers.update(zip(commands, written.answers, strict=True))
    return [answers[item.number] for item in items], written


def _at(refusal: Refused, place: str) -> Refused:
    """Return the refusal of the item at *place*, with pointers from the root of the request."""
    problems = [Problem(place + each.pointer, each.detail) for each in refusal.problems]
    return Refused(
        refusal.kind,
        refusal.code,
        summary_of(problems) if problems else refusal.detail,
        problems=tuple(problems),
        retry_after_s=refusal.retry_after_s,
    )


def _key_of(key: str, number: int) -> str:
    return f"{key}/{number}" if key else ""


def _created(request: RequestContext, written: Written, answer: Answer) -> CreatedItem:
    if isinstance(answer, JobSaved):
        state = written.state(request.node.shards.of_id(answer.job_id))
        job = state.jobs.get(answer.job_id)
        if job is not None:
            return CreatedItem(
                status=201 if answer.is_new else 200,
                job_id=job.id,
                job=job.spec.full_name,
                version=answer.version or job.version,
                change=_change_of(answer),
            )
        # The request repeats an earlier one, the job of which has been deleted since.
        answer = not_found("job", answer.job_id)
    assert isinstance(answer, Refused), answer
    return _not_created(request, answer)


def _change_of(saved: JobSaved) -> str:
    return "created" if saved.is_new else "replaced" if saved.replaced else "unchanged"


async def _with_view(
    request: RequestContext, written: Written, created: CreatedItem
) -> CreatedItem:
    if created.job_id is None or created.version is None:
        return created
    view = await saved_view(request, JobId(created.job_id), created.version, written)
    return replace(created, view=view)


def _not_created(request: RequestContext, refusal: Refused) -> CreatedItem:
    error = _error_of(request, refusal)
    return CreatedItem(status=error.status, error=error)


def _triggered(request: RequestContext, answer: Answer) -> TriggeredItem:
    if isinstance(answer, Triggered):
        return TriggeredItem(execution_id=answer.execution_id)
    assert isinstance(answer, Refused), answer
    return TriggeredItem(error=_error_of(request, answer))


def _error_of(request: RequestContext, refusal: Refused) -> ProblemView:
    return replace(problem_of(refusal), request_id=request.id)
