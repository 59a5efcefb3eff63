"""Why a job ran, did not run, will run or will not run at a time."""

from collections.abc import Sequence
from itertools import islice

from aiohttp import web

from rota.core.errors import Kind, Refused
from rota.core.model.ids import ExecutionId
from rota.core.model.job import Job, JobPlan
from rota.core.timing.instants import (
    LATEST_INSTANT,
    MICROSECOND,
    Duration,
    Instant,
    format_instant,
    later,
    parse_instant,
)
from rota.node.access.verbs import Verb
from rota.node.api.documents.causes import Known, causes_of
from rota.node.api.documents.record_views import ledger_entry_view, view_of
from rota.node.api.handlers.executions import complete_view, executions_at
from rota.node.api.handlers.job_versions import version_at
from rota.node.api.handlers.jobs import NAMESPACE, fires_after
from rota.node.api.requests.error_codes import READING
from rota.node.api.requests.operations import Operations, Success
from rota.node.api.requests.parameters import instant
from rota.node.api.requests.permissions import on_object
from rota.node.api.requests.request_context import RequestContext
from rota.node.api.requests.request_reader import document
from rota.node.api.requests.targets import find_job, shard_of_job
from rota.node.shards.shard import Shard
from rota.wire import operations as api
from rota.wire.documents import ExecutionView, ExplanationView, LedgerEntryView, NextFireView

operations = Operations("Jobs")
AT = instant("at", "The time, past or future; now if omitted.")
ENTRIES_MAX = 50
"""The most entries before a time that are searched for those that have it."""
FILLS_MAX = 20
"""The most executions with one fire time that are shown."""


@operations.declare(
    api.EXPLAIN,
    Success(200, "The chain of causes."),
    permission=on_object(Verb.READ),
    target=shard_of_job,
    query=(NAMESPACE, AT),
    problems=("job_not_found", *READING),
)
async def explain_job(request: RequestContext) -> web.Response:
    """Explain why a job ran, did not run, will run or will not run at a time.

    A future time is explained as things are at present. Which earlier version of the job decided is
    in the record of changes, and therefore shown to callers with the verb ``audit`` alone. A reason
    ends before the message of an exception for a caller without the verb ``logs``.
    """
    shard, job = find_job(request, request.http.match_info["job"])
    given, now = AT.of(request), request.node.clock.now()
    at = now if given is None else given
    known = await _known(request, shard, job, at, now)
    request.note_read(shard)  # The primary may have changed in a pause.
    return document(
        ExplanationView(
            job=known.name, job_id=job.id, at=format_instant(at), causes=causes_of(known)
        )
    )


async def _known(
    request: RequestContext, shard: Shard, job: Job, at: Instant, now: Instant
) -> Known:
    view = view_of(request.state(shard), job, request.node.facts.present())
    fire = await _fire_from(request, shard, job, at)
    after = later(at, MICROSECOND)
    earlier = await _ledger(request, shard, job, Instant(0), after, ENTRIES_MAX, newest_first=True)
    entries = [each for each in earlier if _has(each, at)]
    following = await _ledger(request, shard, job, after, LATEST_INSTANT, 1)
    return Known(
        job=view,
        schedules=job.spec.schedules,
        at=at,
        now=now,
        version=await version_at(request, shard, job, at),
        entries=entries[::-1],
        before=next((each for each in earlier if each not in entries), None),
        after=fire,
        later=next(iter(following), None),
        executions=await _executions(request, entries),
        fills=await executions_at(request, shard, job.id, at, FILLS_MAX),
        ended=_ended(job, request.state(shard).plans[job.id]),
    )


def _ended(job: Job, plan: JobPlan) -> dict[int, int]:
    """Return the most executions of each schedule that has begun them, by its number."""
    limits = [(n, job.spec.policy_of(n).max_executions) for n in range(len(plan.begun))]
    return {n: most for n, most in limits if most and plan.begun[n] >= most}


async def _fire_from(
    request: RequestContext, shard: Shard, job: Job, at: Instant
) -> NextFireView | None:
    """Return the next fire time from *at* on; of several at one time, one that is not excluded."""
    before, plan = later(at, Duration(-MICROSECOND)), request.state(shard).plans[job.id]
    fires = await fires_after(request, job, plan, before, max(1, len(job.spec.schedules)))
    first = [each for each in fires if each.at == fires[0].at]
    return next((each for each in first if not each.excluded), next(iter(first), None))


async def _ledger(
    request: RequestContext,
    shard: Shard,
    job: Job,
    since: Instant,
    until: Instant,
    limit: int,
    *,
    newest_first: bool = False,
) -> list[LedgerEntryView]:
    history = await request.history(shard)
    entries = history.ledger(shard.id, job.id, since, until, newest_first=newest_first)
    return [ledger_entry_view(each, job.id, job.spec.full_name) for each in islice(entries, limit)]


def _has(entry: LedgerEntryView, at: Instant) -> bool:
    return parse_instant(entry.fire_time) <= at <= parse_instant(entry.until)


async def _executions(
    request: RequestContext, entries: Sequence[LedgerEntryView]
) -> list[ExecutionView]:
    """Return the executions that *entries* name."""
    found: list[ExecutionView] = []
    for execution_id in dict.fromkeys(each.execution_id for each in entries):
        if execution_id is None:
            continue
        try:
            found.append(await complete_view(request, ExecutionId(execution_id)))
        except Refused as refusal:
            # It has expired, or its record is still on a stand-in.
            if refusal.kind is not Kind.NOT_FOUND:
                raise
    return found
