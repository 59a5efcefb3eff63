"""Operations on shared documents: for each kind, list, read, write, delete, and changes."""

from bisect import bisect_right

from aiohttp import web

from rota.core.model.shared_document import SharedDocument
from rota.core.timing.instants import format_instant
from rota.node.api.handlers.coordinator_refusals import coordinator_refusals
from rota.node.api.kinds.document_kind import B, DocumentKind
from rota.node.api.kinds.job_types import JOB_TYPES
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
    only_creates,
    read_body,
)
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


def operations_of(kind: DocumentKind[B]) -> Operations:
    """Return the operations on the documents of *kind*."""
    operations = Operations(kind.title)
    _declare_reads(operations, kind)
    _declare_changes(operations, kind)
    return operations


def _declare_reads(operations: Operations, kind: DocumentKind[B]) -> None:
    path, one = f"/api/v1/{kind.plural}", f"/api/v1/{kind.plural}/{{document}}"

    async def list_documents(request: RequestContext) -> web.Response:
        found = request.node.documents.of_kind(kind.plural)
        after, limit = CURSOR.of(request), LIMIT.of(request)
        first = bisect_right(found, after, key=lambda each: each.name) if after else 0
        page = found[first : first + limit]
        is_last = first + limit >= len(found)
        return document(
            DocumentPage(
                items=list(map(view_of, page)), next_cursor=None if is_last else page[-1].name
            )
        )

    async def get_document(request: RequestContext) -> web.Response:
        name = request.http.match_info["document"]
        found = request.node.documents.get(kind.key(name))
        if found is None:
            raise kind.missing(name)
        return _answer(found)

    async def list_changes(request: RequestContext) -> web.Response:
        name = request.http.match_info["document"]
        record = request.node.documents.record(kind.key(name))
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
        "GET",
        path,
        Success(200, f"A page of {kind.about}s.", DocumentPage),
        permission=kind.reading,
        query=(LIMIT, CURSOR),
    )(list_documents)
    get_document.__name__ = f"get_{kind.singular}"
    get_document.__doc__ = f"Show a {kind.about}."
    operations.declare(
        "GET",
        one,
        Success(200, f"The {kind.about}.", DocumentView, headers=(ETAG,)),
        permission=kind.reading,
        problems=(kind.not_found_code,),
    )(get_document)
    list_changes.__name__ = f"list_{kind.singular}_changes"
    list_changes.__doc__ = f"""Show the changes of a {kind.about}.

    The changes are kept for 30 days after a deletion.
    """
    operations.declare(
        "GET",
        f"{one}/changes",
        Success(200, "The changes, the newest first.", DocumentChangesView),
        permission=kind.reading,
        problems=(kind.not_found_code,),
    )(list_changes)


def _declare_changes(operations: Operations, kind: DocumentKind[B]) -> None:
    one = f"/api/v1/{kind.plural}/{{document}}"

    async def put_document(request: RequestContext) -> web.Response:
        name = request.http.match_info["document"]
        definition = kind.checked(name, await read_body(request, kind.body))
        before = request.node.documents.get(kind.key(name))
        with coordinator_refusals(READ_AGAIN):
            saved = await request.node.documents.change(
                kind.key(name),
                definition,
                by=request.principal.name,
                if_version=0 if only_creates(request.http) else expected_version(request.http),
                is_dry=request.is_dry_run,
            )
        return _answer(saved, status=200 if before else 201)

    async def delete_document(request: RequestContext) -> web.Response:
        name = request.http.match_info["document"]
        if request.node.documents.get(kind.key(name)) is None:
            raise kind.missing(name)
        with coordinator_refusals(READ_AGAIN):
            await request.node.documents.change(
                kind.key(name),
                None,
                by=request.principal.name,
                if_version=expected_version(request.http),
                is_dry=request.is_dry_run,
            )
        return web.Response(status=204)

    put_document.__name__ = f"put_{kind.singular}"
    put_document.__doc__ = f"""Create or replace a {kind.about}.

    A replacement is the next version; sending the same definition changes nothing.
    """
    operations.declare(
        "PUT",
        one,
        Success(200, f"The {kind.about}, replaced or unchanged.", DocumentView, headers=(ETAG,)),
        Success(201, f"The {kind.about}, created.", DocumentView, headers=(ETAG,)),
        permission=kind.writing,
        query=(DRY_RUN,),
        headers=(IF_MATCH, IF_NONE_MATCH),
        body=Body(kind.body),
        problems=(
            kind.invalid_code,
            "document_too_large",
            "too_many_documents",
            "invalid_if_none_match",
            *CHANGING,
        ),
    )(put_document)
    delete_document.__name__ = f"delete_{kind.singular}"
    delete_document.__doc__ = f"Delete a {kind.about}."
    operations.declare(
        "DELETE",
        one,
        Success(204, f"The {kind.about} is deleted.", media_types=()),
        permission=kind.writing,
        query=(DRY_RUN,),
        headers=(IF_MATCH,),
        problems=(kind.not_found_code, *CHANGING),
    )(delete_document)


def view_of(found: SharedDocument) -> DocumentView:
    """Return the view of a document that is not deleted."""
    assert found.definition is not None, found
    change = found.changes[0]
    return DocumentView(
        kind=found.kind,
        name=found.name,
        version=found.version,
        definition=found.definition,
        changed_at=format_instant(change.at),
        changed_by=change.by,
    )


def _answer(found: SharedDocument, *, status: int = 200) -> web.Response:
    return document(view_of(found), status=status, headers={"ETag": f'"{found.version}"'})


OF_ALL_KINDS = (operations_of(JOB_TYPES),)
"""The operations on the documents of all kinds."""
