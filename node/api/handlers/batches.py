"""Many at once: jobs created, or triggered, by one request, each item as if it were alone.

Items are decoded one by one, so that a bad one says what is wrong with it and harms no other. All
that are sound are decided in one turn: one journal entry for each shard concerned, one sync.
"""

from collections.abc import Awaitable, Callable

import msgspec
from aiohttp import web

from rota.core.errors import Problem, Refused, invalid, not_found
from rota.core.vocabulary.commands import Command
from rota.core.vocabulary.decision import JobSaved, Triggered
from rota.node.api.documents.field_reader import Hints
from rota.node.api.handlers.jobs import creation_of, trigger_of
from rota.node.api.requests.error_codes import DECIDING
from rota.node.api.requests.job_decoding import decoded_job
from rota.node.api.requests.json_decoding import decode
from rota.node.api.requests.operations import IDEMPOTENCY_KEY, Body, Operations, Success
from rota.node.api.requests.pacing import Pace, paced
from rota.node.api.requests.parameters import DRY_RUN
from rota.node.api.requests.problems import problem_of
from rota.node.api.requests.request_reader import (
    CONTEXT,
    REQUEST_ID,
    checked_key,
    document,
    idempotency_key,
    shard_named,
)
from rota.node.api.requests.tracing import TRACEPARENT
from rota.node.api.routing.batch_routing import Item, each_answered, read_split
from rota.node.api.routing.writes import Written, write_all
from rota.node.shards.shard import Answer, Shard
from rota.wire.documents import (
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
SCHEDULES_MAX = 2_000
"""Schedules of all jobs of a batch: their first fire times are found in one turn, 50 us each."""


class _NamedJob(msgspec.Struct):
    """As much of a job's body as says where it belongs."""

    name: str
    namespace: str = "default"


class _NamedTrigger(msgspec.Struct):
    """As much of a trigger as says where it belongs."""

    job: str


@operations.declare(
    "POST",
    "/api/v1/jobs:batch",
    Success(200, "A result for each item, in its place.", CreatedManyView),
    query=(DRY_RUN,),
    headers=(IDEMPOTENCY_KEY,),
    body=Body(CreateManyBody),
    problems=("no_items", "too_many_items", "invalid_idempotency_key", *DECIDING),
)
async def create_many(request: web.Request) -> web.Response:
    """Create up to 1,000 jobs with 2,000 schedules in all; each item succeeds or fails alone.

    The `status` of a result is that of the answer to `POST /api/v1/jobs` with the same body, and
    `error` its problem document, with pointers such as `/items/3/schedule`. The jobs that an item
    depends on have to exist before the request. With `Idempotency-Key: K` the item number *i*, from
    0, has the key `K/i`.
    """
    key = idempotency_key(request)

    def shard_of(raw: msgspec.Raw) -> Shard:
        named = msgspec.json.decode(raw, type=_NamedJob)
        return request.app[CONTEXT].shards.of_name(named.namespace, named.name)

    room = SCHEDULES_MAX
    hints = Hints()

    async def command_of(raw: msgspec.Raw, number: int) -> tuple[Shard, Command]:
        nonlocal room
        body = await paced(decoded_job(raw))
        # Before they are read: a schedule that is refused may cost as much as its first fire time.
        room -= len(body.schedules) + (body.schedule is not None)
        if room < 0:
            detail = (
                f"the batch has more than {SCHEDULES_MAX:,} schedules; send this job in another"
            )
            raise invalid("invalid_job", detail, Problem("/schedules", detail))
        return await creation_of(request, body, _key_of(key, number), hints)

    async def create(items: list[Item]) -> list[CreatedItem]:
        answers, written = await _write_each(request, items, command_of)
        created = [_created(request, written, answer) for answer in answers]
        # A job's version may be ahead of what is committed, as may be what one was refused for.
        await request.app[CONTEXT].shards.settled()
        return created

    items = await each_answered(
        request,
        await read_split(request, shard_of),
        create,
        CreatedManyView,
        lambda refusal: _not_created(request, refusal),
    )
    return document(CreatedManyView(items=items))


@operations.declare(
    "POST",
    "/api/v1/executions:batch",
    Success(200, "A result for each item, in its place.", TriggeredManyView),
    query=(DRY_RUN,),
    headers=(IDEMPOTENCY_KEY, TRACEPARENT),
    body=Body(TriggerManyBody),
    problems=("no_items", "too_many_items", "invalid_idempotency_key", *DECIDING),
)
async def trigger_many(request: web.Request) -> web.Response:
    """Trigger up to 1,000 jobs at once; each item succeeds or fails alone.

    `items` have a `job` (its id, its name in `default`, or `namespace/name`), and may have
    `parameters` and an `idempotencyKey`. A result has an `executionId`, or the problem document in
    `error`, with pointers such as `/items/3/parameters`. With `Idempotency-Key: K` the item number
    *i*, from 0, has the key `K/i` if it has none of its own.
    """
    key = idempotency_key(request)

    def shard_of(raw: msgspec.Raw) -> Shard:
        return shard_named(request, msgspec.json.decode(raw, type=_NamedTrigger).job)

    async def command_of(raw: msgspec.Raw, number: int) -> tuple[Shard, Command]:
        item = decode(raw, TriggerItem)
        own_key = checked_key(item.idempotency_key or "") or _key_of(key, number)
        return trigger_of(request, item.job, item.parameters, own_key)

    async def trigger(items: list[Item]) -> list[TriggeredItem]:
        answers, _ = await _write_each(request, items, command_of)
        triggered = [_triggered(request, answer) for answer in answers]
        await request.app[CONTEXT].shards.settled()
        return triggered

    items = await each_answered(
        request,
        await read_split(request, shard_of),
        trigger,
        TriggeredManyView,
        lambda refusal: _triggered(request, refusal),
    )
    return document(TriggeredManyView(items=items))


async def _write_each(
    request: web.Request,
    items: list[Item],
    command_of: Callable[[msgspec.Raw, int], Awaitable[tuple[Shard, Command]]],
) -> tuple[list[Answer], Written]:
    """Have each item decided, and return what came of each in their order.

    Args:
        request: With the batch.
        items: Those of this node.
        command_of: Makes the command of an item, given its number; may refuse it.
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
    """Return the refusal of the item at *place*, its pointers beginning at the request's root."""
    problems = [Problem(place + each.pointer, each.detail) for each in refusal.problems]
    return Refused(
        refusal.kind,
        refusal.code,
        "; ".join(map(str, problems)) or refusal.detail,
        problems=tuple(problems),
        retry_after_s=refusal.retry_after_s,
    )


def _key_of(key: str, number: int) -> str:
    return f"{key}/{number}" if key else ""


def _created(request: web.Request, written: Written, answer: Answer) -> CreatedItem:
    if isinstance(answer, JobSaved):
        state = written.state(request.app[CONTEXT].shards.of_id(answer.job_id))
        job = state.jobs.get(answer.job_id)
        if job is not None:
            return CreatedItem(
                status=201 if answer.is_new else 200,
                job_id=job.id,
                job=job.spec.full_name,
                version=answer.version or job.version,
            )
        # The answer to a repetition, and meanwhile the job was deleted.
        answer = not_found("job", answer.job_id)
    assert isinstance(answer, Refused), answer
    return _not_created(request, answer)


def _not_created(request: web.Request, refusal: Refused) -> CreatedItem:
    error = _told(request, refusal)
    return CreatedItem(status=error.status, error=error)


def _triggered(request: web.Request, answer: Answer) -> TriggeredItem:
    if isinstance(answer, Triggered):
        return TriggeredItem(execution_id=answer.execution_id)
    assert isinstance(answer, Refused), answer
    return TriggeredItem(error=_told(request, answer))


def _told(request: web.Request, refusal: Refused) -> ProblemView:
    return msgspec.structs.replace(problem_of(refusal), request_id=request[REQUEST_ID])
