"""The context of one request: the node, the caller, the options, and the shards that were read."""

from collections.abc import Awaitable
from time import perf_counter

from aiohttp import web

from rota.core.errors import Kind, Refused
from rota.core.model.ids import ExecutionId, NodeId
from rota.core.model.job import Job
from rota.core.state.shard_state import State
from rota.node.access.access_control import ObservedRefusals
from rota.node.access.principal import ANONYMOUS, Principal, forbidden
from rota.node.access.refused_access import HIDDEN, Refusal
from rota.node.access.verbs import EVERY, Verb
from rota.node.api.requests.body_memory import Reserved
from rota.node.api.requests.permissions import PUBLIC, Permission, Scope
from rota.node.context import NodeContext
from rota.node.shards.shard import NotCommitted, OutcomeUnknown, Shard
from rota.storage.history import History


class RequestContext:
    """One request, as its handler receives it.

    A handler reads shards through `state` and `history` only. Before its response is sent, `settle`
    waits for the commit of everything that was read (PROTOCOL R15).

    Args:
        http: The request of aiohttp: its path, query, headers and connection.
        node: The parts of this node.
        request_id: The id of the request in logs and error documents.
        principal: The caller; `ANONYMOUS` until the caller is authenticated.

    Attributes:
        began_at: When the request arrived, by `perf_counter`; the clock of the event loop has a
            resolution of 1 ms.
        is_dry_run: Whether the request only checks what it would do (``?dryRun=true``).
        has_written: Whether a command of the request was decided here. If so, no other node may
            handle the request again.
        permission: The permission that the request's operation requires.
        minted_name: The name that this node generated for a job whose body has none; empty
            otherwise.
        content: The bytes of the body; None before it was read.
        reserved_body: The memory reserved for the body, from the first read until the response.
        refusals: What was refused for reasons of access, for the audit log; a batch may have
            several.
        sender: The node that has forwarded the request, once this is proven; None for a request of
            a client.
    """

    __slots__ = (
        "_is_authorized",
        "_observed",
        "_shard",
        "_unsettled",
        "began_at",
        "content",
        "has_written",
        "http",
        "id",
        "is_dry_run",
        "minted_name",
        "node",
        "permission",
        "principal",
        "refusals",
        "reserved_body",
        "sender",
    )

    def __init__(
        self,
        http: web.Request,
        node: NodeContext,
        *,
        request_id: str,
        principal: Principal = ANONYMOUS,
    ) -> None:
        self.http = http
        self.node = node
        self.id = request_id
        self.principal = principal
        self.permission: Permission = PUBLIC
        self.began_at = perf_counter()
        self.is_dry_run = False
        self.minted_name = ""
        self.has_written = False
        self.refusals: list[Refusal] = []
        self.content: bytes | None = None
        self.reserved_body: Reserved | None = None
        self.sender: NodeId | None = None
        self._is_authorized = False
        self._observed: ObservedRefusals | None = None
        self._shard: Shard | None = None
        self._unsettled: set[Shard] = set()

    @property
    def is_forwarded(self) -> bool:
        """Whether another node sent the request, which is then not forwarded again."""
        return self.sender is not None

    @property
    def is_read(self) -> bool:
        """Whether the request changes nothing, so that it may be sent to a node again."""
        return self.http.method in ("GET", "HEAD")

    @property
    def shard(self) -> Shard:
        """The shard that the operation is about; this node was its primary when it was resolved."""
        assert self._shard is not None, f"{self.http.path} declares no shard"
        return self._shard

    def resolve(self, shard: Shard | None) -> None:
        """Set the shard that the operation is about.

        Raises:
            NotPrimary: Another node is the primary of *shard*, or none is.
            Unreadable: This node is the primary of *shard* and cannot read its state.
        """
        if shard is not None:
            shard.check_open()
        self._shard = shard

    # -- permissions ----------------------------------------------------------------------------

    def admit(
        self,
        principal: Principal,
        permission: Permission,
        *,
        observed: ObservedRefusals | None = None,
    ) -> None:
        """Set the caller and the required permission, before the handler runs.

        Args:
            principal: The caller.
            permission: The permission that the operation requires.
            observed: Notes refusals, none of which is then made; None if they are made.

        Raises:
            Refused: The permission concerns the whole cluster, and the caller lacks it.
        """
        self.principal = principal
        self.permission = permission
        self._observed = observed
        if permission.scope is Scope.CLUSTER:
            verbs = (self._verb, *permission.alternatives)
            if not any(principal.may(verb, EVERY) for verb in verbs):
                self._refuse(forbidden(principal.name, self._verb, EVERY), self._verb, EVERY)

    def authorize(self, namespace: str, *, missing: Refused | None = None, of: str = "") -> None:
        """Check that the caller has the operation's verb in the namespace of an object.

        Args:
            namespace: The namespace of the object; `EVERY` if it is unknown.
            missing: The refusal for an object that does not exist. A caller that may not even read
                the object gets this refusal. None if the request names the namespace.
            of: The object, for the audit log; empty for the one in the path.

        Raises:
            Refused: The caller lacks the verb.
        """
        is_readable = self.principal.may(Verb.READ, namespace)
        self._authorize(namespace, missing, of, is_readable=is_readable)

    def authorize_execution(
        self, execution_id: ExecutionId, namespace: str, *, missing: Refused, of: str = ""
    ) -> None:
        """Check that the caller has the operation's verb for an execution.

        A task may read the execution of which it is a part, without any grant.

        Args:
            execution_id: The execution.
            namespace: The namespace of its job; `EVERY` if it is unknown.
            missing: The refusal for an execution that does not exist.
            of: The execution, for the audit log; empty for the one in the path.

        Raises:
            Refused: The caller lacks the verb.
        """
        is_own = self.principal.is_part_of(execution_id)
        if is_own and self._verb is Verb.READ:
            self._is_authorized = True
            return
        is_readable = is_own or self.principal.may(Verb.READ, namespace)
        self._authorize(namespace, missing, of, is_readable=is_readable)

    def authorize_state(self, job: Job, *, missing: Refused) -> None:
        """Check that the caller has the operation's verb for the state of a job.

        A task may use the state of its own job, without any grant.

        Args:
            job: The job.
            missing: The refusal for a job that does not exist.

        Raises:
            Refused: The caller lacks the verb.
        """
        if self.principal.is_task_of(job.id):
            self._is_authorized = True
        else:
            self.authorize(job.spec.namespace, missing=missing, of=job.spec.full_name)

    def _authorize(
        self, namespace: str, missing: Refused | None, of: str, *, is_readable: bool
    ) -> None:
        if not self.principal.may(self._verb, namespace):
            refusal = forbidden(self.principal.name, self._verb, namespace)
            if missing is not None and not is_readable:
                refusal = missing
            self._refuse(refusal, self._verb, namespace, of)
        self._is_authorized = True

    def authorize_unless(self, refusal: Refused | None) -> None:
        """Count the request as authorized, unless a rule of its object gives a *refusal*.

        Raises:
            Refused: *refusal*.
        """
        if refusal is not None:
            self._refuse(refusal, self._verb, EVERY)
        self._is_authorized = True

    def require(self, verb: Verb, namespace: str, *, of: str = "") -> None:
        """Check that the caller has *verb*, beside that of the operation, in *namespace*.

        Raises:
            Refused: The caller lacks it.
        """
        if not self.principal.may(verb, namespace):
            self._refuse(forbidden(self.principal.name, verb, namespace), verb, namespace, of)

    def note_authorized(self) -> None:
        """Count the request as authorized without a namespace.

        Its response was given to the same caller before, or the sending node has authorized it.
        """
        self._is_authorized = True

    def may(self, verb: Verb, namespace: str) -> bool:
        """Return True if the caller has *verb*, beside that of the operation, in *namespace*."""
        return self.principal.may(verb, namespace) or self._is_observed(verb, namespace)

    def may_see(self, namespace: str) -> bool:
        """Return True if the caller has the operation's verb in *namespace*."""
        return self.may(self._verb, namespace)

    def may_see_if(self, is_visible: bool) -> bool:
        """Return *is_visible*, the result of a rule about an object of a list."""
        return is_visible or self._is_observed(self._verb, EVERY)

    def _refuse(self, refusal: Refused, verb: Verb, namespace: str, of: str = "") -> None:
        """Refuse the request, or note that it would be refused.

        Raises:
            Refused: *refusal*.
        """
        if self._is_observed(verb, namespace):
            return
        reason = refusal.code if refusal.kind is Kind.FORBIDDEN else HIDDEN
        self.refusals.append(Refusal(reason=reason, verb=verb, namespace=namespace, of=of))
        raise refusal

    def _is_observed(self, verb: Verb, namespace: str) -> bool:
        """Return False if refusals are made; otherwise note one, and return True."""
        if self._observed is None:
            return False
        self._observed.note(self.principal.name, verb, namespace, self.http.path)
        return True

    def check_authorized(self) -> None:
        """Check, before the response is sent, that the handler has authorized the request."""
        is_needed = self.permission.scope is Scope.OBJECT
        assert self._is_authorized or not is_needed, f"{self.http.path}: not authorized"

    @property
    def _verb(self) -> Verb:
        verb = self.permission.verb
        assert verb is not None, f"{self.http.path} requires no verb"
        return verb

    # -- reads ----------------------------------------------------------------------------------

    def state(self, shard: Shard) -> State:
        """Return the state of *shard* in memory, which may be ahead of the commit.

        Raises:
            NotPrimary: This node is not the primary of *shard*.
            Unreadable: This node is the primary of *shard* and cannot read its state.
        """
        state = shard.state
        self._unsettled.add(shard)
        return state

    async def history(self, *shards: Shard) -> History:
        """Return the history, with everything that *shards* have decided so far.

        An execution that has just ended is no longer in memory, and is in the history only after
        the commit of its end.

        Raises:
            Refused: As for `settle`.
        """
        await self.settle(*shards)
        return self.node.history

    async def settle(self, *shards: Shard) -> None:
        """Wait until everything read so far is committed and applied.

        Args:
            shards: Further shards that count as read.

        Raises:
            Refused: The commit fails: the storage failed, or a shard has another primary.
            NotPrimary: This node may no longer answer for one of the shards (PROTOCOL R15).
        """
        unsettled = self._unsettled.union(shards)
        if unsettled:
            await self._waited(self.node.shards.settled(*unsettled))
            self._unsettled -= unsettled

    def note_committed(self, shard: Shard) -> None:
        """Count earlier reads of *shard* as settled, because a later command is committed.

        The entries of a shard are committed in order, and only by its primary.
        """
        self._unsettled.discard(shard)

    def note_read(self, shard: Shard) -> None:
        """Count *shard* as read, because a decision about it is part of the response."""
        self._unsettled.add(shard)

    def forget_reads(self) -> None:
        """Count nothing as read, because the request is handled again, or by another node."""
        self._unsettled.clear()

    async def wait_committed(self) -> None:
        """Wait for the commit of everything read so far, without a check of this node's authority.

        This is for batches: each decided item is committed, and an uncertain read for one item must
        not replace the results of all others.

        Raises:
            Refused: The commit fails: the storage failed, or a shard has another primary.
        """
        read = tuple(self._unsettled)
        self._unsettled.clear()
        await self._waited(self.node.shards.committed(*read))

    async def _waited(self, wait: Awaitable[None]) -> None:
        """Wait for a commit.

        Raises:
            OutcomeUnknown: It did not happen in time, and the request has written something, which
                may have taken effect.
            Refused: The commit fails, or did not happen in time.
        """
        try:
            await wait
        except NotCommitted as refusal:
            if self.has_written:
                raise OutcomeUnknown(refusal.shard) from refusal
            raise

    async def start(self, response: web.StreamResponse) -> None:
        """Send the head of a streamed *response*, once everything read so far is committed.

        Raises:
            Refused: As for `settle`.
        """
        await self.settle()
        await response.prepare(self.http)


REQUEST: web.RequestKey[RequestContext] = web.RequestKey("request", RequestContext)
"""The context of a request, for the hooks of aiohttp (headers, access log), which receive only
aiohttp's own request."""
