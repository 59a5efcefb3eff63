"""The preview of a change of calendars: the fire times that go and come, of jobs on all nodes.

Each node examines the jobs of its own shards. What a node does for one preview has a limit; the
answer says if it was reached.
"""

import heapq
from collections.abc import Iterable, Sequence
from urllib.parse import urlencode

import msgspec
from aiohttp import web

from rota.core.errors import Problem, Refused, invalid_fields
from rota.core.model.ids import namespace_of
from rota.core.model.job import JobSpec, OnExcluded
from rota.core.timing.calendar_changes import (
    Allowance,
    ChangedFires,
    Searched,
    Stretch,
    changed_fires,
    changed_stretches,
)
from rota.core.timing.calendars import EVERYWHERE, Calendar, Calendars, Exclusion
from rota.core.timing.instants import (
    DAY,
    LATEST_INSTANT,
    Duration,
    Instant,
    format_instant,
    later,
)
from rota.core.timing.schedule import Schedule, fault_of
from rota.core.vocabulary.facts import Facts
from rota.node.access.verbs import Verb
from rota.node.api.forwarding.peer_requests import (
    ShardOwners,
    ask_peers,
    forwarded_headers,
    owners_of,
    requested_shards,
    shard_bits,
)
from rota.node.api.kinds.calendars import problems_together
from rota.node.api.requests.error_codes import READING
from rota.node.api.requests.node_headers import OF_SHARDS
from rota.node.api.requests.operations import Body, Operations, Success
from rota.node.api.requests.parameters import instant, whole_number_or
from rota.node.api.requests.permissions import on_each
from rota.node.api.requests.request_context import RequestContext
from rota.node.api.requests.request_reader import document, read_body
from rota.node.facts.shared_facts import with_calendars
from rota.node.peers.peer_apis import PeerRequest
from rota.node.shards.shard import Shard
from rota.node.system.pacing import Pace, paced
from rota.wire import operations as api
from rota.wire.bodies.calendar_bodies import calendar_of
from rota.wire.documents import CalendarPreview, CalendarPreviewBody, ChangedFiresView

operations = Operations("Calendars")
JOBS_MAX = 100
"""The most jobs of a preview."""
FIRES_MAX = 20
"""The most fire times of a job that go, and the most that come."""
EDGES_MAX = 20_000
"""The most edges of calendars that a node examines for a preview: about a second."""
SEARCHES_MAX = 100_000
"""The most fire times that a node computes for a preview: a few seconds."""
WINDOWS_MAX = 100
"""The most windows of the given calendars together: each edge is compared with all of them."""
LATEST = Instant(LATEST_INSTANT - 7 * DAY)
"""The end of the last preview: around it, each zone has a local time."""
DAYS = whole_number_or(30, "days", "The number of days that are examined.", most=366)
AFTER = instant("after", "Only fire times after this instant; now if omitted.")


@operations.declare(
    api.PREVIEW_CALENDARS,
    Success(200, "The jobs whose fire times change, by `namespace/name`."),
    permission=on_each(Verb.READ),
    query=(DAYS, AFTER),
    body=Body(CalendarPreviewBody),
    problems=("invalid_calendar", *READING),
)
async def preview_calendars(request: RequestContext) -> web.Response:
    """Show which fire times go and come if calendars are saved.

    Nothing is saved. Calendars that name them, and blackouts, count; pauses do not. Jobs that the
    caller may not read are left out.
    """
    body = await read_body(request, CalendarPreviewBody)
    facts = request.node.facts.present()
    problems = problems_together(facts.calendars, body.calendars)
    windows = sum(len(each.definition.windows) for each in body.calendars)
    if windows > WINDOWS_MAX:
        detail = f"have {windows} windows together; a preview takes at most {WINDOWS_MAX}"
        problems = [Problem("/calendars", detail)]
    if problems:
        raise invalid_fields("invalid_calendar", problems)
    given = AFTER.of(request)
    since = request.node.clock.now() if given is None else given
    until = min(later(since, Duration(DAYS.of(request) * DAY)), LATEST)
    new = {each.name: calendar_of(each.name, 1, each.definition) for each in body.calendars}
    preview = _Preview(facts, new, since, until)
    owners = owners_of(request, requested_shards(request))
    parts = [await _local(request, owners.local, preview)]
    if owners.remote:
        parts += await _remote(request, owners, body, since)
    return document(_merged(parts, until))


async def _remote(
    request: RequestContext, owners: ShardOwners, body: CalendarPreviewBody, since: Instant
) -> list[CalendarPreview]:
    """Return the previews of the other nodes, for the same range of time.

    Raises:
        Refused: One of these nodes refuses, or cannot be reached.
    """
    query = urlencode({"days": DAYS.of(request), "after": format_instant(since)})
    sent = {
        node_id: PeerRequest(
            method="POST",
            target=f"{api.PREVIEW_CALENDARS.path}?{query}",
            headers=forwarded_headers(request, **{OF_SHARDS: shard_bits(shards)}),
            body=msgspec.json.encode(body),
        )
        for node_id, shards in owners.remote.items()
    }
    parts: list[CalendarPreview] = []
    for answer in (await ask_peers(request, sent, CalendarPreview)).values():
        if isinstance(answer, Refused):
            raise answer
        parts.append(answer)
    return parts


def _merged(parts: Sequence[CalendarPreview], until: Instant) -> CalendarPreview:
    items = list(heapq.merge(*(part.items for part in parts), key=lambda each: each.job))
    return CalendarPreview(
        items=items[:JOBS_MAX],
        until=format_instant(until),
        truncated=len(items) > JOBS_MAX or any(part.truncated for part in parts),
    )


async def _local(
    request: RequestContext, shards: Iterable[Shard], preview: "_Preview"
) -> CalendarPreview:
    """Return the preview of the jobs of this node's shards."""
    pace, items = Pace(), list[ChangedFiresView]()
    for shard, name in await _affected(request, shards, preview, pace):
        if len(items) > JOBS_MAX or preview.is_used_up:
            break
        # The state is read after each pause: the job, or the primary, may have changed.
        state = request.state(shard)
        job_id = state.names.get(name)
        if job_id is not None:
            changes = await preview.changes_of(state.jobs[job_id].spec, pace)
            if changes.dropped or changes.added:
                items.append(_view(name, changes))
        await pace.rest()
    return CalendarPreview(
        items=items[:JOBS_MAX],
        until="",
        truncated=len(items) > JOBS_MAX or preview.is_used_up,
    )


async def _affected(
    request: RequestContext, shards: Iterable[Shard], preview: "_Preview", pace: Pace
) -> list[tuple[Shard, str]]:
    """Return the full names of jobs that a changed calendar may affect, in order, with shards."""
    found: list[tuple[Shard, str]] = []
    for shard in shards:
        for name in list(request.state(shard).sorted_names):
            state = request.state(shard)
            job_id = state.names.get(name)
            if (
                job_id is not None
                and preview.may_affect(state.jobs[job_id].spec)
                and request.may_see(namespace_of(name))
            ):
                found.append((shard, name))
            await pace.rest()
    return sorted(found, key=lambda pair: pair[1])


def _view(name: str, changes: ChangedFires) -> ChangedFiresView:
    return ChangedFiresView(
        job=name,
        dropped=list(map(format_instant, changes.dropped)),
        added=list(map(format_instant, changes.added)),
        truncated=not changes.is_whole,
    )


class _Preview:
    """The comparison of the facts before and after a change of calendars, in a range of time.

    Jobs with the same calendars, time zone and blackouts have the same changed stretches, which are
    computed once.
    """

    def __init__(self, facts: Facts, new: Calendars, since: Instant, until: Instant) -> None:
        self._before = facts
        self._after = with_calendars(facts, {**facts.calendars, **new})
        self._since, self._until = since, until
        self._edges, self._searches = Allowance(EDGES_MAX), Allowance(SEARCHES_MAX)
        changed = [each for each in new.values() if _is_other(facts.calendars.get(each.name), each)]
        self._calendars = _users({each.name for each in changed}, facts.calendars, new)
        self._blacked_out = {
            namespace
            for calendars in (facts.calendars, new)
            for name in self._calendars & calendars.keys()
            for namespace in calendars[name].blackout_of
        }
        self._stretches: dict[tuple[object, ...], Sequence[Stretch]] = {}

    @property
    def is_used_up(self) -> bool:
        """Whether the work for it has reached its limit."""
        return self._edges.is_used_up or self._searches.is_used_up

    def may_affect(self, spec: JobSpec) -> bool:
        """Return True if a changed calendar may decide about fire times of a job."""
        return bool(spec.schedules) and (
            not self._calendars.isdisjoint(spec.calendars)
            or not self._blacked_out.isdisjoint((spec.namespace, EVERYWHERE))
        )

    async def changes_of(self, spec: JobSpec, pace: Pace) -> ChangedFires:
        """Return the fire times of a job that go and come."""
        searched = [
            Searched(
                schedule,
                await self._stretches_of(spec, schedule, pace),
                None if spec.on_excluded is OnExcluded.SKIP else self._exclusions(spec, schedule),
            )
            for schedule in spec.schedules
            if not fault_of(schedule)
        ]
        return changed_fires(searched, self._since, FIRES_MAX, self._searches)

    def _exclusions(
        self, spec: JobSpec, schedule: Schedule
    ) -> tuple[Exclusion | None, Exclusion | None]:
        return (
            self._before.exclusion_of(spec, schedule),
            self._after.exclusion_of(spec, schedule),
        )

    async def _stretches_of(
        self, spec: JobSpec, schedule: Schedule, pace: Pace
    ) -> Sequence[Stretch]:
        # What can be made up for depends on the schedule, the stretches do not.
        plain = msgspec.structs.replace(spec, on_excluded=OnExcluded.SKIP)
        before, after = self._exclusions(plain, schedule)
        names = [each and (each.only, each.unless, each.blackouts) for each in (before, after)]
        key = (schedule.timezone, *names)
        if key not in self._stretches:
            steps = changed_stretches(before, after, self._since, self._until, self._edges)
            self._stretches[key] = await paced(steps, pace)
        return self._stretches[key]


def _is_other(before: Calendar | None, after: Calendar) -> bool:
    """Return True if a calendar has other times than before, or other blackouts."""
    return before is None or before != msgspec.structs.replace(after, version=before.version)


def _users(names: set[str], before: Calendars, after: Calendars) -> set[str]:
    """Return *names*, and those of all calendars that include or exclude them on any level."""
    found, size = set(names), -1
    while size < len(found):
        size = len(found)
        for calendars in (before, after):
            for each in calendars.values():
                if not found.isdisjoint((*each.includes, *each.excludes)):
                    found.add(each.name)
    return found
