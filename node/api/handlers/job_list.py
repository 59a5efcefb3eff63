"""The list of jobs: by name, a page at a time, and only those that are asked for.

A page without a filter costs what it shows, however many jobs there are: every shard keeps its
names in order. A filter looks at jobs until the page is full.
"""

import heapq
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from aiohttp import web

from rota.core.model.ids import is_full_name
from rota.core.model.job import Job
from rota.core.quoting import in_quotes
from rota.node.api.documents.views import JOB_STATUSES, status_of, view_of
from rota.node.api.requests.access import Verb, check
from rota.node.api.requests.error_codes import READING
from rota.node.api.requests.operations import Operations, Success
from rota.node.api.requests.parameters import LIMIT, Parameter, Repeatable, choice, text
from rota.node.api.requests.request_reader import CONTEXT, document
from rota.node.api.routing.forwarding import owners_of, shards_meant
from rota.node.api.routing.scatter_gather import Page, merged, pages_of
from rota.node.shards.shard import Shard
from rota.wire.documents import JobList, JobView

operations = Operations("Jobs")
LOOKED_AT_MAX = 10_000
"""Jobs that one page looks at: a filter that matches nothing must not stall the node."""
WITHIN = text("namespace", "Only jobs in it.")
WORD = text("q", "Only jobs with this text in `namespace/name`.")
STATUS = choice("status", "Only jobs in it.", JOB_STATUSES)


def _read_label(given: str) -> tuple[str, str | None]:
    name, has_value, value = given.partition("=")
    if not name:
        raise ValueError(
            f"{in_quotes(given)} is not a label; write it as key=value, or key for any value"
        )
    return name, value if has_value else None


LABEL: Repeatable[tuple[str, str | None]] = Repeatable(
    "label",
    "Only jobs with this label: `key=value`, or `key` for any value; of several, all must hold.",
    _read_label,
    ("", None),
    {"type": "string"},
)


def _read_cursor(given: str) -> str:
    if not is_full_name(given):
        raise ValueError(f"{in_quotes(given)} is not the nextCursor of a page")
    return given


CURSOR = Parameter(
    "cursor", "The `nextCursor` of the page before.", _read_cursor, "", {"type": "string"}
)


@operations.declare(
    "GET",
    "/api/v1/jobs",
    Success(200, "A page of jobs, by `namespace/name`.", JobList),
    query=(WITHIN, STATUS, LABEL, WORD, LIMIT, CURSOR),
    problems=READING,
)
async def list_jobs(request: web.Request) -> web.Response:
    """List jobs by name.

    One page looks at 10,000 jobs at most: with a filter it may hold fewer than `limit`, or none,
    and still have a `nextCursor`.
    """
    check(request, Verb.READ, WITHIN.of(request) or "*")
    owners = owners_of(request, shards_meant(request))
    here = _page(request, owners.here)
    # Memory may be ahead of what is committed.
    await request.app[CONTEXT].shards.settled(*owners.here)
    if not owners.there:
        return document(here)
    pages = [here, *await pages_of(request, owners, JobList)]
    page = merged(
        [Page(each.items, each.next_cursor) for each in pages],
        LIMIT.of(request),
        cursor_of=lambda job: f"{job.namespace}/{job.name}",
        place=lambda name: (name,),
    )
    return document(JobList(items=list(page.items), next_cursor=page.next_cursor))


def _page(request: web.Request, shards: Sequence[Shard]) -> JobList:
    """Return a page of the jobs of *shards*."""
    namespace, wanted, limit = WITHIN.of(request), _wanted(request), LIMIT.of(request)
    items: list[JobView] = []
    next_cursor = last = None
    after, prefix = CURSOR.of(request), f"{namespace}/" if namespace is not None else ""
    for looked_at, (name, shard) in enumerate(_names(shards, max(after, prefix))):
        if not name.startswith(prefix):
            break
        if len(items) >= limit or looked_at >= LOOKED_AT_MAX:
            next_cursor = last
            break
        last = name
        job = shard.state.jobs[shard.state.names[name]]
        if wanted.holds(shard, job):
            items.append(view_of(shard.state, job))
    return JobList(items=items, next_cursor=next_cursor)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Which jobs are asked for."""

    word: str
    status: str | None
    labels: list[tuple[str, str | None]]

    def holds(self, shard: Shard, job: Job) -> bool:
        if self.word not in job.spec.full_name:
            return False
        labels = dict(job.spec.labels) if self.labels else {}
        for name, value in self.labels:
            if name not in labels or value not in (None, labels[name]):
                return False
        return self.status is None or status_of(shard.state, job) == self.status


def _wanted(request: web.Request) -> _Wanted:
    return _Wanted(WORD.of(request) or "", STATUS.of(request), LABEL.all_of(request))


def _names(shards: Sequence[Shard], after: str) -> Iterator[tuple[str, Shard]]:
    """Yield the full names of jobs after *after*, in order, each with its shard.

    Costs O(shards) to begin with; it is not kept across an await.
    """
    return heapq.merge(*(_names_of(shard, after) for shard in shards), key=lambda pair: pair[0])


def _names_of(shard: Shard, after: str) -> Iterator[tuple[str, Shard]]:
    names = shard.state.sorted_names
    for place in range(bisect_right(names, after), len(names)):
        yield names[place], shard
