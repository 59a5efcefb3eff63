"""Documents of changes and of their authors."""

from rota.core.model.author import Author
from rota.core.model.ids import ShardId
from rota.core.timing.instants import format_instant
from rota.core.vocabulary.change_chain import ChainCheck, ChangeChain
from rota.storage.user_changes import StoredChange, UnreadableChange
from rota.wire.documents import AuthorView, ChainView, ChangeView


def author_view(author: Author, *, has_address: bool) -> AuthorView:
    """Return the document of *author*, with or without the address."""
    return AuthorView(
        principal=author.principal,
        key=author.key or None,
        request_id=author.request,
        address=author.address or None if has_address else None,
    )


def change_view(stored: StoredChange) -> ChangeView:
    """Return the document of a change."""
    at, shard, number = stored.position
    change = stored.change
    if isinstance(change, UnreadableChange):
        return ChangeView(
            shard=shard,
            number=number,
            at=format_instant(at),
            action="broken",
            broken=change.why,
        )
    document = change.document
    return ChangeView(
        shard=shard,
        number=number,
        at=format_instant(at),
        action=change.action.value,
        by=author_view(change.author, has_address=True) if change.author else None,
        job=change.job,
        job_id=change.job_id,
        execution_id=change.execution_id or None,
        before=change.before or None,
        after=change.after or None,
        detail=change.detail,
        kind=document.kind if document else None,
        document=document.name if document else None,
        fields=list(document.fields) if document else [],
        made_at=format_instant(document.made_at) if document else None,
        hash=stored.hash.hex(),
    )


def chain_view(shard: ShardId, chain: ChangeChain, check: ChainCheck) -> ChainView:
    """Return the document of the check of a shard's changes."""
    return ChainView(
        shard=shard,
        first=chain.first,
        last=chain.last,
        hash=chain.hash.hex(),
        checked=check.count,
        fault=check.fault,
        changed_at=None if check.newest_at is None else format_instant(check.newest_at),
    )
