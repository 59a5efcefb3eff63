"""The record of what users changed: a list over all shards, and the check of the hash chains."""

import re
from collections.abc import Callable, Sequence

from aiohttp import web

from rota.core.errors import Kind, Refused
from rota.core.model.ids import ShardId
from rota.core.model.shared_document import SECRETS
from rota.core.quoting import in_quotes
from rota.core.timing.instants import Instant, parse_instant
from rota.core.vocabulary.change_chain import Action, ChainCheck
from rota.node.access.verbs import Verb
from rota.node.api.documents.change_views import chain_view, change_view
from rota.node.api.forwarding.peer_requests import owners_of, requested_shards
from rota.node.api.forwarding.scatter_gather import Page, merged, pages_of
from rota.node.api.kinds.namespaces import NAMESPACES
from rota.node.api.requests.error_codes import READING
from rota.node.api.requests.operations import Operations, Success
from rota.node.api.requests.parameters import FROM as ANY_FROM
from rota.node.api.requests.parameters import (
    LIMIT,
    Parameter,
    choice,
    instant_or,
    text,
)
from rota.node.api.requests.parameters import TO as ANY_TO
from rota.node.api.requests.permissions import in_cluster
from rota.node.api.requests.request_context import RequestContext
from rota.node.api.requests.request_reader import document
from rota.node.shards.shard import Shard
from rota.node.system.pacing import Pace
from rota.storage.user_changes import ChangePosition
from rota.wire import operations as api
from rota.wire.documents import ChainList, ChainView, ChangePage, ChangeView

operations = Operations("Changes")
NAMESPACE = text(
    "namespace", "Only changes of this namespace, and of jobs and secrets in this namespace."
)
BY = text("by", "Only changes of this principal.")
OBJECT = text(
    "object",
    "Only changes of this job (its id, or `namespace/name`), of this execution (its id), or of "
    "this shared document (`kind:name`, such as `types:image.render`).",
)
ACTION = choice("action", "Only changes of this kind.", [each.value for each in Action])
FROM = instant_or(ANY_FROM.default, "from", "Only changes at or after this instant.")
TO = instant_or(ANY_TO.default, "to", "Only changes before this instant.")
ORDER = choice(
    "order", "Newest first (`desc`, the default) or oldest first (`asc`).", ["asc", "desc"]
)
EXAMINED_MAX = 10_000
"""The most changes that are examined for one page."""
ROWS_PER_SLICE = 200
"""The number of rows that are read and checked without a pause."""
CHECKS_MAX = 5
"""How often the check of a shard begins again because changes have expired meanwhile."""
_CURSOR = re.compile(r"([0-9a-f]{14})-([0-9a-f]{4})-([0-9a-f]{12})", re.ASCII)


def _read_cursor(given: str) -> ChangePosition:
    found = _CURSOR.fullmatch(given)
    if found is None:
        raise ValueError(
            f"{in_quotes(given)} is not a cursor; send the nextCursor of the previous page"
        )
    return ChangePosition(Instant(int(found[1], 16)), ShardId(int(found[2], 16)), int(found[3], 16))


def _cursor_of(view: ChangeView) -> str:
    return f"{parse_instant(view.at):014x}-{view.shard:04x}-{view.number:012x}"


CURSOR: Parameter[ChangePosition | None] = Parameter(
    "cursor", "The `nextCursor` of the previous page.", _read_cursor, None, {"type": "string"}
)


@operations.declare(
    api.CHANGES,
    Success(200, "A page of changes."),
    permission=in_cluster(Verb.AUDIT),
    query=(NAMESPACE, BY, OBJECT, ACTION, FROM, TO, ORDER, LIMIT, CURSOR),
    problems=READING,
)
async def list_changes(request: RequestContext) -> web.Response:
    """List what users changed: jobs, executions that were cancelled or run again, and documents.

    Each change of a job is part of the journal entry that made it, with the caller of the request.
    A change of a shared document is recorded by the primary of its shard within seconds. A change
    is kept for the time in `audit_retention`, also after a deletion. An execution that a user
    triggered has its caller in ``triggeredBy``, and is not listed. At most 10,000 changes are
    examined for one page. With a filter, a page may therefore have fewer than ``limit`` changes, or
    none, and still a ``nextCursor``.
    """
    owners = owners_of(request, requested_shards(request))
    local = await _page(request, owners.local)
    if not owners.remote:
        return document(local)
    pages = [local, *await pages_of(request, owners, ChangePage)]
    page = merged(
        [Page(each.items, each.next_cursor) for each in pages],
        LIMIT.of(request),
        cursor_of=_cursor_of,
        position=_read_cursor,
        is_descending=_is_descending(request),
    )
    return document(ChangePage(items=list(page.items), next_cursor=page.next_cursor))


@operations.declare(
    api.VERIFY_CHANGES,
    Success(200, "The check of the changes of each shard."),
    permission=in_cluster(Verb.AUDIT),
    problems=("busy", *READING),
)
async def verify_changes(request: RequestContext) -> web.Response:
    """Check that no change was altered, removed or inserted after it was recorded.

    Each change has a hash over itself and the hash of the change before in its shard; the hash of
    the newest change is in the state of the shard. The primary of each shard reads all of its
    changes, which takes some seconds for a million. With a key ring, the newest change is signed
    once a minute, so that a person who can write to the disks of all copies, and does not have the
    key ring, cannot rewrite what was signed. To detect the return of an earlier state of a shard,
    save the heads, and compare them (``rota changes verify --heads``).
    """
    owners = owners_of(request, requested_shards(request))
    items = [await _checked(request, shard) for shard in owners.local]
    if owners.remote:
        for page in await pages_of(request, owners, ChainList):
            items += page.items
    return document(ChainList(items=sorted(items, key=lambda each: each.shard)))


async def _page(request: RequestContext, shards: Sequence[Shard]) -> ChangePage:
    """Return a page of the changes of *shards*."""
    limit, matches = LIMIT.of(request), _filter_of(request)
    await request.settle(*shards)
    items: list[ChangeView] = []
    next_cursor: str | None = None
    last: ChangeView | None = None
    pace = Pace()
    found = request.node.history.user_changes.listed(
        [shard.id for shard in shards],
        FROM.of(request),
        TO.of(request),
        beyond=CURSOR.of(request),
        newest_first=_is_descending(request),
    )
    for examined, each in enumerate(found):
        await pace.rest()
        if last is not None and (len(items) >= limit or examined >= EXAMINED_MAX):
            next_cursor = _cursor_of(last)
            break
        last = change_view(each)
        if matches(last):
            items.append(last)
    for shard in shards:
        # The primary may have changed in a pause, so the authority is checked before the response.
        request.note_read(shard)
    return ChangePage(items=items, next_cursor=next_cursor)


def _is_descending(request: RequestContext) -> bool:
    return ORDER.of(request) != "asc"


def _filter_of(request: RequestContext) -> Callable[[ChangeView], bool]:
    namespace, principal, action = NAMESPACE.of(request), BY.of(request), ACTION.of(request)
    named = OBJECT.of(request)

    def matches(view: ChangeView) -> bool:
        return (
            (namespace is None or _namespace_of(view) == namespace)
            and (principal is None or (view.by is not None and view.by.principal == principal))
            and (action is None or view.action == action)
            and (named is None or named in _names_of(view))
        )

    return matches


def _namespace_of(view: ChangeView) -> str | None:
    """Return the namespace that a change concerns; None for a document of the whole cluster."""
    if view.kind is None:
        return view.job.partition("/")[0]
    assert view.document is not None, view
    if view.kind == SECRETS:
        return view.document.partition("/")[0]
    return view.document if view.kind == NAMESPACES.plural else None


def _names_of(view: ChangeView) -> tuple[str | None, ...]:
    if view.kind is not None:
        return (f"{view.kind}:{view.document}",)
    return view.job, view.job_id, view.execution_id


async def _checked(request: RequestContext, shard: Shard) -> ChainView:
    """Return the check of the changes of a shard, none of which has expired meanwhile.

    Raises:
        Refused: Changes expired during each of several checks.
    """
    for _ in range(CHECKS_MAX):
        chain = request.state(shard).chain
        check = await _check(request, shard, ChainCheck(chain))
        if request.state(shard).chain.first == chain.first:
            return chain_view(shard.id, chain, check)
    detail = f"changes of shard {shard.id} expired during the check; try again"
    raise Refused(Kind.UNAVAILABLE, "busy", detail, retry_after_s=1)


async def _check(request: RequestContext, shard: Shard, check: ChainCheck) -> ChainCheck:
    await request.settle(shard)  # The rows up to the ends of the chain are in the history then.
    pace, key = Pace(), ""
    while rows := request.node.history.user_changes.chain(shard.id, key, ROWS_PER_SLICE):
        for key, row in rows:
            check.add(key, row)
        await pace.rest()
    check.finish(request.state(shard).chain.last)
    return check
