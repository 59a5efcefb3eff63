"""The test of a job's webhooks: a sample of each is sent at once, and once."""

import asyncio

import msgspec
from aiohttp import web

from rota.core.model.hook import (
    HOOKS_MAX,
    Hook,
    JobEventDocument,
    Notification,
    notification_key,
    origin_of,
    text_of,
)
from rota.core.model.ids import fire_execution_id
from rota.core.model.job import Job
from rota.core.timing.instants import Instant
from rota.node.access.verbs import Verb
from rota.node.api.requests.error_codes import READING
from rota.node.api.requests.operations import Operations, Success
from rota.node.api.requests.parameters import text, whole_number
from rota.node.api.requests.permissions import on_object
from rota.node.api.requests.request_context import RequestContext
from rota.node.api.requests.request_reader import document
from rota.node.api.requests.targets import find_job, shard_of_job
from rota.wire import operations as api
from rota.wire.documents import HookTests, HookTestView

operations = Operations("Jobs")
NAMESPACE = text(
    "namespace", "The namespace of a job that is given by its name alone; `default` if omitted."
)
HOOK = whole_number("hook", "The number of one hook; all webhooks if omitted.", most=HOOKS_MAX)


@operations.declare(
    api.TEST_HOOKS,
    Success(200, "The answers of the receivers."),
    permission=on_object(Verb.RUN),
    target=shard_of_job,
    query=(NAMESPACE, HOOK),
    problems=("job_not_found", *READING),
)
async def check_hooks(request: RequestContext) -> web.Response:
    """Send a sample of each webhook of a job, once.

    The samples are signed and limited like other webhooks; their reason says that they are a test.
    Hooks are numbered from 1, in the order of `onFailure`, `onSuccess`, `onRecovery` and `onLate`;
    those that trigger a job are left out.
    """
    _, job = find_job(request, request.http.match_info["job"])
    wanted, now = HOOK.of(request), request.node.clock.now()
    tests = [
        _tested(request, number, _sample(job, hook, number, now))
        for number, hook in enumerate(job.spec.hooks, 1)
        if hook.webhook and wanted in (None, number)
    ]
    return document(HookTests(items=await asyncio.gather(*tests)))


async def _tested(request: RequestContext, number: int, notification: Notification) -> HookTestView:
    reason = await request.node.try_webhook(notification)
    return HookTestView(
        hook=number,
        event=notification.event.value,
        receiver=origin_of(notification.url),
        is_accepted=not reason,
        reason=reason,
    )


def _sample(job: Job, hook: Hook, number: int, now: Instant) -> Notification:
    """Return the notification of an execution that does not exist."""
    execution_id = fire_execution_id(job.id, now, 0)
    event = JobEventDocument(
        event=hook.event.value,
        job=job.spec.full_name,
        job_id=job.id,
        execution_id=execution_id,
        status="test",
        trigger="manual",
        fire_time=text_of(now),
        reason="this is a test of the webhook; no execution has ended",
    )
    return Notification(
        key=notification_key(execution_id, hook.event, number - 1),
        job_id=job.id,
        job=job.spec.full_name,
        execution_id=execution_id,
        event=hook.event,
        at=now,
        url=hook.webhook,
        document=msgspec.json.encode(event).decode(),
        format=hook.format,
    )
