"""The record of what users changed."""

from rota.wire.documents.document import InstantText, View


class AuthorView(View, frozen=True):
    """The caller of a request.

    Attributes:
        principal: The name of the principal.
        key: The id of the key that proved the identity, of the execution if the caller is one of
            its tasks, or the subject of the token of an identity provider; null without one.
        request_id: The id of the request, as in the node's log.
        address: The network address of the client; null for a unix socket, and in executions.
    """

    principal: str
    key: str | None = None
    request_id: str = ""
    address: str | None = None


class ChangeView(View, frozen=True):
    """A change that a user made.

    Attributes:
        shard: The shard of the job or the document.
        number: The number of the change in its shard, from 1, without gaps.
        at: When it was made; for a shared document, when it was recorded (see *madeAt*).
        action: ``job.created``, ``job.replaced``, ``job.deleted``, ``job.paused``, ``job.resumed``,
            ``execution.cancelled``, ``execution.rerun``, ``document.created``,
            ``document.replaced`` or ``document.deleted``; ``broken`` if its record cannot be
            decoded: only *shard*, *number* and *at* are known then.
        by: The caller of the request; null if unknown.
        job: The ``namespace/name`` of the job; empty for a shared document.
        job_id: The id of the job; empty for a shared document.
        execution_id: The execution that was cancelled, or that a rerun created; null for a change
            of a job.
        before: The version of the definition before the change; null if there was none.
        after: The version of the definition after the change; null if it is deleted.
        detail: The reason of a pause; that a job resumed without a pause counts its schedules from
            now; the execution that a rerun runs again; which versions of a
            shared document before this one are not in the record.
        kind: The kind of the shared document, such as ``types``; null for a job or an execution.
        document: The name of the shared document; null for a job or an execution.
        fields: The fields that a replacement of a shared document changed, never their values.
        made_at: When the shared document was changed, by the clock of the node that changed it;
            null for a job or an execution.
        hash: SHA-256 over the hash of the change before and the record, in hexadecimal.
        broken: Why the record cannot be shown; empty for a valid record.
    """

    shard: int
    number: int
    at: InstantText
    action: str
    by: AuthorView | None = None
    job: str = ""
    job_id: str = ""
    execution_id: str | None = None
    before: int | None = None
    after: int | None = None
    detail: str = ""
    kind: str | None = None
    document: str | None = None
    fields: list[str] = []
    made_at: InstantText | None = None
    hash: str = ""
    broken: str = ""


class ChangePage(View, frozen=True):
    """A page of changes.

    Attributes:
        items: The changes, in the order of the request.
        next_cursor: The cursor of the next page; null for the last page.
    """

    items: list[ChangeView]
    next_cursor: str | None = None


class ChainView(View, frozen=True):
    """The check of the changes of one shard.

    Attributes:
        shard: The number of the shard.
        first: The number of the oldest change that is kept.
        last: The number of the newest change; 0 if there was none.
        hash: The hash of the newest change, in hexadecimal.
        checked: The number of changes that are intact, up to the fault if there is one.
        fault: The first change that is missing, changed or inserted, in a sentence; empty if the
            changes are intact.
        changed_at: When the newest change was recorded; null if no change is kept.
    """

    shard: int
    first: int
    last: int
    hash: str
    checked: int
    fault: str = ""
    changed_at: InstantText | None = None


class ChainList(View, frozen=True):
    """The check of the changes of all shards.

    Attributes:
        items: The check of each shard, by number.
    """

    items: list[ChainView]
