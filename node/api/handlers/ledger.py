"""The ledger of all jobs: the fire times that started no execution of their own."""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from aiohttp import web

from rota.core.model.ids import JobId, namespace_of
from rota.core.model.ledger import FireOutcome, ledger_key
from rota.core.timing.instants import Instant, parse_instant
from rota.core.vocabulary.changes import Pointer, Table, past_key
from rota.node.access.verbs import EVERY, Verb
from rota.node.api.documents.record_views import ledger_entry_view
from rota.node.api.forwarding.peer_requests import owners_of, requested_shards
from rota.node.api.forwarding.scatter_gather import Page, merged, pages_of
from rota.node.api.requests.error_codes import READING
from rota.node.api.requests.operations import Operations, Success
from rota.node.api.requests.parameters import FROM, LIMIT, TO, Parameter, choice, text
from rota.node.api.requests.permissions import on_each
from rota.node.api.requests.request_context import RequestContext
from rota.node.api.requests.request_reader import document
from rota.node.shards.shard import Shard
from rota.node.system.pacing import Pace
from rota.storage.history import NEWEST, UnfiredTimes
from rota.wire import operations as api
from rota.wire.documents import LedgerEntryView, LedgerPage

operations = Operations("Jobs")
NAMESPACE = text(
    "namespace",
    "Only jobs in this namespace; entries of deleted jobs are then left out.",
)
OUTCOME = choice(
    "outcome",
    "Only fire times with this outcome; all but `fired` if omitted.",
    [each.value for each in FireOutcome if each is not FireOutcome.FIRED],
)
EXAMINED_MAX = 10_000
"""The most entries that are examined for one page."""
_CURSOR = re.compile(r"([0-9a-f]{14})-([0-9a-f]{16})-([0-9a-f]{4})", re.ASCII)


class Position(NamedTuple):
    """The place of an entry in the list."""

    fire_at: Instant
    job_id: JobId
    schedule: int

    def __str__(self) -> str:
        return f"{self.fire_at:014x}-{self.job_id}-{self.schedule:04x}"

    @property
    def past_key(self) -> str:
        """The key of the entry in the history by age."""
        key = ledger_key(self.job_id, self.fire_at, self.schedule)
        return past_key(self.fire_at, Pointer(Table.LEDGER, key))


def _read_cursor(given: str) -> Position:
    found = _CURSOR.fullmatch(given)
    if found is None:
        raise ValueError(f"{given!r} is not a cursor; send the nextCursor of the previous page")
    return Position(Instant(int(found[1], 16)), JobId(found[2]), int(found[3], 16))


CURSOR: Parameter[Position | None] = Parameter(
    "cursor", "The `nextCursor` of the previous page.", _read_cursor, None, {"type": "string"}
)


@operations.declare(
    api.UNFIRED,
    Success(200, "A page of the ledger, latest fire time first."),
    permission=on_each(Verb.READ),
    query=(NAMESPACE, OUTCOME, FROM, TO, LIMIT, CURSOR),
    problems=READING,
)
async def list_unfired(request: RequestContext) -> web.Response:
    """List the fire times of all jobs that started no execution, with the reasons.

    These fire times were skipped, missed, coalesced into another fire time, or passed while the job
    was paused. `GET /api/v1/executions` lists the executions of the others. At most 10,000 entries
    are examined for one page. With a filter, a page may therefore have fewer than ``limit``
    entries, or none, and still a ``nextCursor``.
    """
    owners = owners_of(request, requested_shards(request))
    local = await _page(request, owners.local)
    if not owners.remote:
        return document(local)
    pages = [local, *await pages_of(request, owners, LedgerPage)]
    page = merged(
        [Page(each.items, each.next_cursor) for each in pages],
        LIMIT.of(request),
        cursor_of=lambda entry: str(_position_of(entry)),
        position=_read_cursor,
        is_descending=True,
    )
    return document(LedgerPage(items=list(page.items), next_cursor=page.next_cursor))


async def _page(request: RequestContext, shards: Sequence[Shard]) -> LedgerPage:
    """Return a page of the entries of *shards*."""
    cursor, limit, since = CURSOR.of(request), LIMIT.of(request), FROM.of(request)
    matches = _filter_of(request)
    await request.settle(*shards)
    items: list[LedgerEntryView] = []
    next_cursor: str | None = None
    last: LedgerEntryView | None = None
    pace = Pace()
    found = request.node.history.unfired(
        cursor.past_key if cursor else NEWEST, [shard.id for shard in shards]
    )
    for examined, each in enumerate(found):
        await pace.rest()
        if last is not None and (len(items) >= limit or examined >= EXAMINED_MAX):
            next_cursor = str(_position_of(last))
            break
        last = _view_of(request, each)
        if parse_instant(last.fire_time) < since:
            break  # All others are older.
        if matches(last):
            items.append(last)
    for shard in shards:
        # The primary may have changed in a pause, so the authority is checked before the response.
        request.note_read(shard)
    return LedgerPage(items=items, next_cursor=next_cursor)


def _view_of(request: RequestContext, found: UnfiredTimes) -> LedgerEntryView:
    job = request.state(request.node.shards.of_id(found.job_id)).jobs.get(found.job_id)
    return ledger_entry_view(found.entry, found.job_id, job.spec.full_name if job else None)


def _filter_of(request: RequestContext) -> Callable[[LedgerEntryView], bool]:
    namespace, outcome, until = NAMESPACE.of(request), OUTCOME.of(request), TO.of(request)

    def matches(view: LedgerEntryView) -> bool:
        return (
            view.outcome != FireOutcome.FIRED.value
            and (outcome is None or view.outcome == outcome)
            and parse_instant(view.fire_time) < until
            and (namespace is None or (view.job or "").startswith(f"{namespace}/"))
            # The namespace of a deleted job is unknown.
            and request.may_see(namespace_of(view.job) if view.job else EVERY)
        )

    return matches


def _position_of(view: LedgerEntryView) -> Position:
    assert view.job_id is not None
    return Position(parse_instant(view.fire_time), JobId(view.job_id), view.schedule)
