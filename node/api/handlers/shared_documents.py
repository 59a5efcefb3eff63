"""Operations on shared documents: for each kind, list, read, write, delete, and changes."""

from bisect import bisect_right
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from aiohttp import web

from rota.core.model.shared_document import Definition, SharedDocument
from rota.core.timing.instants import format_instant
from rota.node.api.handlers.calendar_users import check_unused
from rota.node.api.handlers.coordinator_refusals import coordinator_refusals
from rota.node.api.kinds.bindings import BINDINGS
from rota.node.api.kinds.calendars import CALENDARS
from rota.node.api.kinds.document_kind import B, DocumentKind
from rota.node.api.kinds.issuers import ISSUERS
from rota.node.api.kinds.job_types import JOB_TYPES
from rota.node.api.kinds.keys import KEYS
from rota.node.api.kinds.namespaces import NAMESPACES
from rota.node.api.kinds.roles import ROLES
from rota.node.api.kinds.webhooks import WEBHOOKS
from rota.node.api.requests.authors import author_of
from rota.node.api.requests.operations import (
    ETAG,
    IF_MATCH,
    IF_NONE_MATCH,
    Body,
    Operations,
    Success,
)
from rota.node.api.requests.parameters import DRY_RUN, LIMIT, text
from rota.node.api.requests.request_context import RequestContext
from rota.node.api.requests.request_reader import (
    document,
    expected_version,
    read_body,
    written_version,
)
from rota.wire import operations as api
from rota.wire.documents import (
    DocumentChangesView,
    DocumentChangeView,
    DocumentPage,
    DocumentView,
)

CURSOR = text("cursor", "The `nextCursor` of the previous page.")
READ_AGAIN = "read the document before you repeat it"
CHANGING = (
    "version_mismatch",
    "invalid_if_match",
    "contention",
    "coordination_lost",
    "coordinator_unavailable",
    "outcome_unknown",
)


class CheckedDeletion(NamedTuple):
    """The check of the deletion of a document.

    Attributes:
        check: Raises a refusal if something needs the document of a name.
        code: The code of the refusal.
    """

    check: Callable[[RequestContext, str], Awaitable[None]]
    code: str


CHECKED_DELETIONS = {CALENDARS.plural: CheckedDeletion(check_unused, "calendar_in_use")}
"""For each kind whose documents are not deleted while something needs them, the check."""


def operations_of(kind: DocumentKind[B]) -> Operations:
    """Return the operations on the documents of *kind*."""
    operations = Operations(kind.title)
    _declare_reads(operations, kind)
    _declare_changes(operations, kind)
    return operations


def _declare_reads(operations: Operations, kind: DocumentKind[B]) -> None:
    async def list_documents(request: RequestContext) -> web.Response:
        found = _visible(request, kind)
        after, limit = CURSOR.of(request), LIMIT.of(request)
        first = bisect_right(found, after, key=lambda each: each.name) if after else 0
        page = found[first : first + limit]
        is_last = first + limit >= len(found)
        return document(
            DocumentPage(
                items=[view_of(kind, each) for each in page],
                next_cursor=None if is_last else page[-1].name,
            )
        )

    async def get_document(request: RequestContext) -> web.Response:
        name = request.http.match_info["document"]
        found = request.node.documents.get(kind.key(name))
        _authorize_read(request, kind, name, found)
        if found is None:
            raise kind.missing(name)
        return _answer(kind, found)

    async def list_changes(request: RequestContext) -> web.Response:
        name = request.http.match_info["document"]
        record = request.node.documents.record(kind.key(name))
        _authorize_read(request, kind, name, record)
        if record is None:
            raise kind.missing(name)
        changes = [
            DocumentChangeView(
                version=each.version,
                at=format_instant(each.at),
                by=each.by,
                action=each.action.value,
            )
            for each in record.changes
        ]
        return document(DocumentChangesView(items=changes))

    list_documents.__name__ = f"list_{kind.plural}"
    list_documents.__doc__ = f"""List the {kind.about}s, by name.

    Each node responds from its own memory, which has a change within a second, usually within
    milliseconds. The documents remain available while etcd does not respond.
    """
    operations.declare(
        api.LIST_DOCUMENTS.of(kind.plural),
        Success(200, f"A page of {kind.about}s."),
        permission=kind.listing or kind.reading,
        query=(LIMIT, CURSOR),
    )(list_documents)
    get_document.__name__ = f"get_{kind.singular}"
    get_document.__doc__ = f"Show {kind.one}."
    operations.declare(
        api.GET_DOCUMENT.of(kind.plural),
        Success(200, f"The {kind.about}.", headers=(ETAG,)),
        permission=kind.reading,
        problems=(kind.not_found_code,),
    )(get_document)
    list_changes.__name__ = f"list_{kind.singular}_changes"
    list_changes.__doc__ = f"""Show the changes of {kind.one}.

    The changes are kept for 30 days after a deletion.
    """
    operations.declare(
        api.DOCUMENT_CHANGES.of(kind.plural),
        Success(200, "The changes, the newest first."),
        permission=kind.reading,
        problems=(kind.not_found_code,),
    )(list_changes)


def _declare_changes(operations: Operations, kind: DocumentKind[B]) -> None:
    checked = CHECKED_DELETIONS.get(kind.plural)

    async def put_document(request: RequestContext) -> web.Response:
        name = request.http.match_info["document"]
        body = await read_body(request, kind.body)
        before = request.node.documents.get(kind.key(name))
        if kind.completed is not None and before is not None:
            body = kind.completed(body, _definition(before))
        kept = _definition(before) if before else None
        if kind.rules is not None:
            kind.rules.authorize_change(request, kept, body, kind.missing(name))
        definition = kind.checked_to_save(request, name, body, kept)
        with coordinator_refusals(READ_AGAIN):
            saved = await request.node.documents.change(
                kind.key(name),
                definition,
                by=author_of(request),
                if_version=_version(kind, before, written_version(request.http)),
                is_dry=request.is_dry_run,
            )
        return _answer(kind, saved, status=200 if before else 201)

    async def delete_document(request: RequestContext) -> web.Response:
        name = request.http.match_info["document"]
        before = request.node.documents.get(kind.key(name))
        if before is None:
            raise kind.missing(name)
        if kind.rules is not None:
            kind.rules.authorize_change(request, _definition(before), None, kind.missing(name))
        if checked is not None:
            await checked.check(request, name)
        with coordinator_refusals(READ_AGAIN):
            await request.node.documents.change(
                kind.key(name),
                None,
                by=author_of(request),
                if_version=_version(kind, before, expected_version(request.http)),
                is_dry=request.is_dry_run,
            )
        return web.Response(status=204)

    put_document.__name__ = f"put_{kind.singular}"
    put_document.__doc__ = f"""Create or replace {kind.one}.

    A replacement is the next version; sending the same definition changes nothing.
    """
    operations.declare(
        api.PUT_DOCUMENT.of(kind.plural),
        Success(200, f"The {kind.about}, replaced or unchanged.", headers=(ETAG,)),
        Success(201, f"The {kind.about}, created.", headers=(ETAG,)),
        permission=kind.writing,
        query=(DRY_RUN,),
        headers=(IF_MATCH, IF_NONE_MATCH),
        body=Body(kind.body),
        problems=(
            kind.invalid_code,
            "document_too_large",
            "too_many_documents",
            "invalid_if_none_match",
            "no_such_path",  # The path of a name with a colon is that of an action.
            *CHANGING,
        ),
    )(put_document)
    delete_document.__name__ = f"delete_{kind.singular}"
    delete_document.__doc__ = f"Delete {kind.one}."
    operations.declare(
        api.DELETE_DOCUMENT.of(kind.plural),
        Success(204, f"The {kind.about} is deleted."),
        permission=kind.writing,
        query=(DRY_RUN,),
        headers=(IF_MATCH,),
        problems=(kind.not_found_code, *((checked.code,) if checked else ()), *CHANGING),
    )(delete_document)


def _visible(request: RequestContext, kind: DocumentKind[B]) -> list[SharedDocument]:
    """Return the documents of a kind that the caller may see, by name."""
    found, rules = request.node.documents.of_kind(kind.plural), kind.rules
    if rules is None:
        return found
    return [each for each in found if rules.may_see(request, each.name, _definition(each))]


def _authorize_read(
    request: RequestContext, kind: DocumentKind[B], name: str, found: SharedDocument | None
) -> None:
    if kind.rules is not None:
        definition = found.definition if found else None
        kind.rules.authorize_read(request, name, definition, kind.missing(name))


def _version(
    kind: DocumentKind[B], before: SharedDocument | None, expected: int | None
) -> int | None:
    """Return the version that a changed document must have; None for any version."""
    if expected is None and kind.needs_version:
        return before.version if before else 0
    return expected


def _definition(found: SharedDocument) -> Definition:
    assert found.definition is not None, found
    return found.definition


def view_of(kind: DocumentKind[B], found: SharedDocument) -> DocumentView:
    """Return the view of a document that is not deleted."""
    definition, change = _definition(found), found.changes[0]
    return DocumentView(
        kind=found.kind,
        name=found.name,
        version=found.version,
        definition=dict(kind.shown(definition) if kind.shown else definition),
        changed_at=format_instant(change.at),
        changed_by=change.by,
    )


def _answer(kind: DocumentKind[B], found: SharedDocument, *, status: int = 200) -> web.Response:
    return document(view_of(kind, found), status=status, headers={"ETag": f'"{found.version}"'})


OF_ALL_KINDS = (
    operations_of(JOB_TYPES),
    operations_of(CALENDARS),
    operations_of(WEBHOOKS),
    operations_of(KEYS),
    operations_of(ROLES),
    operations_of(ISSUERS),
    operations_of(NAMESPACES),
    operations_of(BINDINGS),
)
"""The operations on the documents of all kinds."""
