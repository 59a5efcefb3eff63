"""Replaced versions of jobs: executions keep those that they run, the history the newest ones."""

from collections.abc import Iterable
from itertools import islice

from msgspec.structs import replace

from rota.core.errors import Kind, Refused
from rota.core.model.job import Job, JobPlan
from rota.core.quoting import in_quotes
from rota.core.state.shard_state import version_key
from rota.core.timing.instants import MICROSECOND, Instant, later
from rota.core.vocabulary.change_chain import Action, UserChange
from rota.core.vocabulary.codec import Undecodable
from rota.node.access.verbs import EVERY, Verb
from rota.node.api.documents.broken_records import broken_job, complete_or_broken
from rota.node.api.documents.record_views import job_view
from rota.node.api.requests.request_context import RequestContext
from rota.node.shards.shard import Shard
from rota.node.system.pacing import Pace
from rota.wire.documents import JobView

MADE = (Action.JOB_CREATED, Action.JOB_REPLACED)
"""The changes that make versions."""
EXAMINED_MAX = 10_000
"""The most changes that are examined for the one that made a version."""
LISTED_MAX = 25
"""The most versions that an error lists: those of the history, and a few of long executions."""


async def replaced_version(
    request: RequestContext, shard: Shard, job: Job, version: int
) -> JobView:
    """Return the document of a replaced version of *job*: its definition, without a present state.

    Raises:
        Refused: The version does not exist, is no longer stored, or cannot be read.
    """
    state = request.state(shard)
    spec = state.versions.get(version_key(job.id, version))
    in_use = {state.executions[each].job_version for each in state.live_of(job.id)}
    history = await request.history(shard)
    try:
        spec = spec or history.version(shard.id, job.id, version)
    except Undecodable as error:
        raise Refused(Kind.UNREADABLE, "record_unreadable", str(error)) from error
    if spec is None:
        raise _not_stored(job, version, {*in_use, *history.versions(shard.id, job.id)})
    return _view(replace(job, spec=spec, version=version, pause=None))


async def version_at(
    request: RequestContext, shard: Shard, job: Job, at: Instant
) -> tuple[int, Instant] | None:
    """Return the version of *job* that was in use at an instant, and when it was saved.

    Only the record of changes has the times of replaced versions.

    Returns:
        None if the record does not have it among its latest `EXAMINED_MAX` changes before *at*, or
        if the caller may not read the record.
    """
    if at >= job.updated_at:
        return job.version, job.updated_at
    if at < job.created_at or not request.may(Verb.AUDIT, EVERY):
        return None
    history, pace = await request.history(shard), Pace()
    until = later(at, MICROSECOND)
    found = history.user_changes.listed([shard.id], Instant(0), until, newest_first=True)
    for position, change, _ in islice(found, EXAMINED_MAX):
        if isinstance(change, UserChange) and change.job_id == job.id and change.action in MADE:
            return change.after, position.at
        await pace.rest()
    return None


def _not_stored(job: Job, version: int, stored: Iterable[int]) -> Refused:
    numbers = [str(each) for each in sorted({*stored, job.version})][-LISTED_MAX:]
    what = "no longer stored" if version < job.version else "not yet defined"
    return Refused(
        Kind.NOT_FOUND,
        "version_not_found",
        f"version {version} of the job {in_quotes(job.spec.full_name)} is {what}; stored are "
        f"{', '.join(numbers)}, of which {job.version} is the present one",
    )


def _view(job: Job) -> JobView:
    plan = JobPlan(next_fires=(None,) * len(job.spec.schedules))
    return complete_or_broken(
        lambda: job_view(job, plan, None, (), status="replaced", is_complete=True),
        lambda why: broken_job(job, why),
    )
