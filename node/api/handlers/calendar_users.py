"""What names a calendar: other calendars, job types, defaults of namespaces, and jobs."""

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, cast
from urllib.parse import urlencode

from rota.core.errors import Kind, Refused
from rota.core.model.ids import NodeId, namespace_of
from rota.core.model.shared_document import NAMESPACES, Definition
from rota.core.quoting import in_quotes
from rota.node.access.verbs import Verb
from rota.node.api.forwarding.peer_requests import ask_peer, owners_of, peer_headers, shard_bits
from rota.node.api.kinds.job_types import JOB_TYPES
from rota.node.api.requests.node_headers import OF_SHARDS
from rota.node.api.requests.request_context import RequestContext
from rota.node.peers.peer_apis import PeerRequest
from rota.node.shards.shard import Shard
from rota.node.system.pacing import Pace
from rota.wire.documents import JobList

NAMED_MAX = 5
"""The most users of a calendar that a refusal names."""
FIELDS = ("onlyCalendars", "exceptCalendars")
"""The fields of a job that name calendars."""


async def check_unused(request: RequestContext, name: str) -> None:
    """Check that nothing names a calendar, so that its deletion does not change fire times.

    Jobs are examined on all nodes, up to the first ones found. What is saved at the same time, and
    jobs that the caller may not read, are not seen.

    Raises:
        Refused: Code ``calendar_in_use``: it is named; or the primary of a shard cannot be reached.
    """
    found = list(_documents(request, name))
    async for job in _jobs(request, name):
        if len(found) > NAMED_MAX:
            break
        found.append(f"job {job}")
    if found:
        more = " and others" if len(found) > NAMED_MAX else ""
        verb = "names" if len(found) == 1 else "name"
        detail = (
            f"{', '.join(found[:NAMED_MAX])}{more} {verb} the calendar {in_quotes(name)}; "
            "change or delete them first"
        )
        raise Refused(Kind.CONFLICT, "calendar_in_use", detail)


def _documents(request: RequestContext, name: str) -> Iterator[str]:
    """Yield the shared documents that name a calendar."""
    for calendar in request.node.facts.present().calendars.values():
        if name in (*calendar.includes, *calendar.excludes) and calendar.name != name:
            yield f"calendar {calendar.name}"
    for kind, one, field in (
        (JOB_TYPES.plural, JOB_TYPES.singular, "template"),
        (NAMESPACES, "namespace", "defaults"),
    ):
        for document in request.node.documents.of_kind(kind):
            if name in _named_in(document.definition, field):
                yield f"{one} {document.name}"


def _named_in(definition: Definition | None, field: str) -> set[object]:
    fields: Mapping[str, Any] = (definition or {}).get(field) or {}  # Any: JSON, which was checked.
    return {each for one in FIELDS for each in cast("list[object]", fields.get(one) or [])}


async def _jobs(request: RequestContext, name: str) -> AsyncIterator[str]:
    """Yield the full names of jobs that name a calendar, of this node's shards first."""
    owners, pace = owners_of(request, request.node.shards), Pace()
    for shard in owners.local:
        for full_name in list(request.state(shard).sorted_names):
            # The state is read after each pause: the job, or the primary, may have changed.
            state = request.state(shard)
            job_id = state.names.get(full_name)
            if (
                job_id is not None
                and name in state.jobs[job_id].spec.calendars
                and request.may(Verb.READ, namespace_of(full_name))
            ):
                yield full_name
            await pace.rest()
    for node_id, shards in owners.remote.items():
        async for full_name in _jobs_of(request, name, node_id, shards):
            yield full_name


async def _jobs_of(
    request: RequestContext, name: str, node_id: NodeId, shards: list[Shard]
) -> AsyncIterator[str]:
    """Yield the full names of jobs in shards of another node that name a calendar."""
    headers = {**peer_headers(request), OF_SHARDS: shard_bits(shards)}
    query = {"calendar": name, "limit": str(NAMED_MAX + 1)}
    while True:
        sent = PeerRequest(method="GET", target=f"/api/v1/jobs?{urlencode(query)}", headers=headers)
        page = await ask_peer(request, node_id, sent, JobList)
        for job in page.items:
            yield f"{job.namespace}/{job.name}"
        if page.next_cursor is None:
            return
        query["cursor"] = page.next_cursor
