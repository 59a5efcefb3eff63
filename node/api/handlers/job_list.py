"""The list of jobs: ordered by name, in pages, with filters.

The cost of a page without a filter does not depend on the number of jobs, since every shard keeps
the names of its jobs in order. With a filter, jobs are examined until the page is full.
"""

import heapq
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from aiohttp import web

from rota.core.model.ids import is_full_name, namespace_of
from rota.core.model.job import Job
from rota.core.quoting import in_quotes
from rota.core.state.shard_state import State
from rota.node.access.verbs import Verb
from rota.node.api.documents.record_views import JOB_STATUSES, status_of, view_of, with_pause
from rota.node.api.forwarding.peer_requests import owners_of, requested_shards
from rota.node.api.forwarding.scatter_gather import Page, merged, pages_of
from rota.node.api.handlers.last_executions import last_execution, with_last_execution
from rota.node.api.requests.error_codes import READING
from rota.node.api.requests.operations import Operations, Success
from rota.node.api.requests.parameters import (
    LIMIT,
    Parameter,
    Repeatable,
    choice,
    choice_of_status,
    text,
)
from rota.node.api.requests.permissions import on_each
from rota.node.api.requests.request_context import RequestContext
from rota.node.api.requests.request_reader import document
from rota.node.shards.shard import Shard
from rota.node.system.pacing import Pace
from rota.wire import operations as api
from rota.wire.documents import JobList, JobView

operations = Operations("Jobs")
EXAMINED_MAX = 10_000
"""The most jobs that are examined for one page, so that a filter without matches cannot stall the
node."""
SLICE = 100
"""The number of jobs that are examined without a pause; each takes 60 us with its latest finished
execution."""
_AFTER_NAMES = chr(ord("/") + 1)
"""After a namespace, this sorts after all of its full names, and before those of the next one."""
WITHIN = text("namespace", "Only jobs in this namespace.")
WORD = text("q", "Only jobs whose `namespace/name` contains this text.")
CALENDAR = text("calendar", "Only jobs that name this calendar.")
STATUS = choice(
    "status",
    "Only jobs with this status; one-off jobs that have ended are `finished`.",
    JOB_STATUSES,
)
ONE_OFF = choice(
    "oneOff",
    "With `true` only one-off jobs, which run once without a name of their own; with `false` only "
    "others.",
    ["true", "false"],
)
LAST_STATUS = choice_of_status(
    "lastStatus",
    "Only jobs whose `lastExecution` has this status.",
    ["success", "failed", "cancelled"],
)


def _read_label(given: str) -> tuple[str, str | None]:
    name, has_value, value = given.partition("=")
    if not name:
        raise ValueError(
            f"{in_quotes(given)} is not a label; write key=value, or key for any value"
        )
    return name, value if has_value else None


LABEL: Repeatable[tuple[str, str | None]] = Repeatable(
    "label",
    "Only jobs with this label: `key=value`, or `key` for any value. If it is repeated, jobs must "
    "have all of the labels.",
    _read_label,
    ("", None),
    {"type": "string"},
)


def _read_cursor(given: str) -> str:
    if not is_full_name(given):
        raise ValueError(
            f"{in_quotes(given)} is not a cursor; send the nextCursor of the previous page"
        )
    return given


CURSOR = Parameter(
    "cursor", "The `nextCursor` of the previous page.", _read_cursor, "", {"type": "string"}
)


@operations.declare(
    api.LIST_JOBS,
    Success(200, "A page of jobs, by `namespace/name`."),
    permission=on_each(Verb.READ),
    query=(WITHIN, STATUS, ONE_OFF, LAST_STATUS, LABEL, CALENDAR, WORD, LIMIT, CURSOR),
    problems=READING,
)
async def list_jobs(request: RequestContext) -> web.Response:
    """List jobs, ordered by name.

    At most 10,000 jobs are examined for one page. With a filter, a page may therefore have fewer
    than `limit` jobs, or none, and still a `nextCursor`.
    """
    owners = owners_of(request, requested_shards(request))
    local = await _page(request, owners.local)
    if not owners.remote:
        return document(local)
    pages = [local, *await pages_of(request, owners, JobList)]
    page = merged(
        [Page(each.items, each.next_cursor) for each in pages],
        LIMIT.of(request),
        cursor_of=lambda job: f"{job.namespace}/{job.name}",
        position=lambda name: (name,),
    )
    return document(JobList(items=list(page.items), next_cursor=page.next_cursor))


async def _page(request: RequestContext, shards: Sequence[Shard]) -> JobList:
    """Return a page of the jobs of *shards*; a long search pauses for other work."""
    namespace, wanted, limit = WITHIN.of(request), _filter(request), LIMIT.of(request)
    last_status = LAST_STATUS.of(request)
    prefix = f"{namespace}/" if namespace is not None else ""
    items: list[JobView] = []
    examined, position, pace = 0, max(CURSOR.of(request), prefix), Pace()
    visible: str | None = None
    await pace.next_slice()
    while True:
        # States are read after each pause: they, or the primaries of shards, may have changed.
        states = [request.state(shard) for shard in shards]
        is_end = True
        for name, state in islice(_names(states, position), SLICE):
            if not name.startswith(prefix):
                break
            is_end = False
            if not request.may_see(within := namespace_of(name)):
                # Its jobs are passed over together, so that no cursor has the name of one.
                position = f"{within}{_AFTER_NAMES}"
                break
            if len(items) >= limit or examined >= EXAMINED_MAX:
                return JobList(items=items, next_cursor=visible)
            position, visible, examined = name, name, examined + 1
            facts = request.node.facts.present()
            job = with_pause(state.jobs[state.names[name]], facts.pauses)
            if not wanted.matches(state, job):
                continue
            last = last_execution(request, job.id)
            if last_status is None or (last is not None and last.status == last_status):
                view = view_of(state, job, facts)
                items.append(with_last_execution(request, view, job, last))
        if is_end:
            return JobList(items=items, next_cursor=None)
        await pace.rest()


@dataclass(frozen=True, slots=True)
class _Filter:
    """The filter of a request for a list of jobs.

    Attributes:
        word: Text that the full name must contain; empty for any name.
        status: The required status; None for any.
        one_off: ``true`` for one-off jobs, ``false`` for others; None for all.
        labels: The required labels; a value of None stands for any value.
        calendar: A calendar that the job must name; empty for none.
    """

    word: str
    status: str | None
    one_off: str | None
    labels: list[tuple[str, str | None]]
    calendar: str

    def matches(self, state: State, job: Job) -> bool:
        if self.word not in job.spec.full_name:
            return False
        if self.calendar and self.calendar not in job.spec.calendars:
            return False
        if self.one_off is not None and job.spec.is_one_off != (self.one_off == "true"):
            return False
        labels = dict(job.spec.labels) if self.labels else {}
        for name, value in self.labels:
            if name not in labels or value not in (None, labels[name]):
                return False
        return self.status is None or status_of(state, job) == self.status


def _filter(request: RequestContext) -> _Filter:
    return _Filter(
        WORD.of(request) or "",
        STATUS.of(request),
        ONE_OFF.of(request),
        labels_of(request),
        CALENDAR.of(request) or "",
    )


def labels_of(request: RequestContext) -> list[tuple[str, str | None]]:
    """Return the labels that jobs must have, without duplicates: a query can have a thousand."""
    return list(dict.fromkeys(LABEL.all_of(request)))


def _names(states: Iterable[State], after: str) -> Iterator[tuple[str, State]]:
    """Yield the full names of jobs after *after*, in order, each with the state that has the job.

    The first name costs O(states). The iterator must not be used after an await.
    """
    return heapq.merge(*(_names_of(each, after) for each in states), key=lambda pair: pair[0])


def _names_of(state: State, after: str) -> Iterator[tuple[str, State]]:
    names = state.sorted_names
    for index in range(bisect_right(names, after), len(names)):
        yield names[index], state
