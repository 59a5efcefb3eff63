"""Wiring of the tokens of tasks: their issue with an attempt, and the facts that verify them."""

from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from rota.core.errors import Refused
from rota.core.model.attempt import Order
from rota.core.model.fallback_ids import is_of_fallback
from rota.core.model.ids import NodeId
from rota.core.timing.instants import DAY, MINUTE, Duration, Instant, later
from rota.executor.secret_values import SecretUnavailable, SecretValues
from rota.node.access.attempt_identity import AttemptIdentity, issue
from rota.node.access.task_tokens import AttemptFacts
from rota.node.attempts.local_attempts import LocalAttempts, SecretsOf
from rota.node.cluster.membership import Membership
from rota.node.runtime.foundation import NodeFoundation
from rota.node.shards.local_shards import Shards

UNLIMITED = Duration(DAY)
"""The life of the token of a task without a timeout."""
START_ALLOWANCE = Duration(10 * MINUTE)
"""The time for the start of an attempt, such as the pull of an image, before its timeout counts."""
AUTHORITY_BYTES_MAX = 256 << 10


def with_identity(base: NodeFoundation, membership: Membership, secrets_of: SecretsOf) -> SecretsOf:
    """Return *secrets_of* with the token of each attempt that has an identity."""
    node_id, authority = base.config.node_id, base.config.api_authority
    cluster, key_of = _cluster(base), _key_of(membership)

    def values_of(order: Order) -> SecretValues:
        values = secrets_of(order)
        if not order.work.has_identity:
            return values
        key = key_of(node_id)
        if not key:
            raise SecretUnavailable("identity_unavailable: this node has no record at etcd now")
        identity = identity_of(order, node_id, now=base.clock.now())
        token = issue(identity, key, cluster).encode()
        return replace(values, token=token, authority=_content_of(authority))

    return values_of


def identity_of(order: Order, node_id: NodeId, *, now: Instant) -> AttemptIdentity:
    """Return the statement of the token of an attempt that starts *now* on this node."""
    work = order.work
    lasting = Duration(work.timeout + work.stop_grace) if work.timeout else UNLIMITED
    return AttemptIdentity(
        node_id=node_id,
        job=order.job,
        execution_id=order.key.execution_id,
        task=order.key.task,
        attempt=order.key.number,
        fence=str(order.token),
        expires_at=later(later(now, lasting), START_ALLOWANCE),
    )


def attempt_facts(
    base: NodeFoundation, membership: Membership, local: LocalAttempts, shards: Shards
) -> AttemptFacts:
    """Return the facts with which this node verifies tokens of tasks."""
    own = base.config.node_id

    def is_running(identity: AttemptIdentity) -> bool | None:
        return runs_here(identity, local) if identity.node_id == own else runs(identity, shards)

    return AttemptFacts(cluster=_cluster(base), key_of=_key_of(membership), is_running=is_running)


def runs_here(identity: AttemptIdentity, local: LocalAttempts) -> bool:
    """Return True if an attempt of this node runs."""
    order = local.orders.get(identity.key)
    is_known = order is not None and str(order.token) == identity.fence
    return is_known and local.ending(identity.key) is None


def runs(identity: AttemptIdentity, shards: Shards) -> bool | None:
    """Return True if an attempt of another node runs; None if its shard has another primary.

    The shard does not have the attempts of stand-ins, either.
    """
    shard = shards.of_id(identity.execution_id)
    if not shard.is_open or is_of_fallback(identity.key):
        return None
    try:
        task = shard.state.tasks.get(identity.execution_id, {}).get(identity.task)
    except Refused:
        return None
    return task is not None and any(
        each.number == identity.attempt and str(each.token) == identity.fence and not each.ending
        for each in task.attempts
    )


def _key_of(membership: Membership) -> Callable[[NodeId], bytes | None]:
    def key_of(node_id: NodeId) -> bytes | None:
        members = membership.members
        found = members.get(node_id)
        return None if not members else found.task_key if found else b""

    return key_of


def _cluster(base: NodeFoundation) -> str:
    """Return the id of the cluster; of a node alone, whose key no other node has, an empty one."""
    return base.environment.cluster_id or ""


def _content_of(authority: Path | None) -> bytes:
    """Return the certificates of the authority of the API.

    Raises:
        SecretUnavailable: The file cannot be read.
    """
    if authority is None:
        return b""
    try:
        with authority.open("rb") as file:
            return file.read(AUTHORITY_BYTES_MAX)
    except OSError as error:
        raise SecretUnavailable(
            f"identity_unavailable: {authority}, the file of the authority of the API, cannot be "
            f"read: {error.strerror}"
        ) from error
