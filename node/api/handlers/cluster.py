"""Operations on the cluster: status, drain of nodes, repair of shards."""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import TypeVar

from aiohttp import web

from rota.core.errors import Refused, not_found
from rota.core.model.ids import NodeId, ShardId
from rota.node.access.verbs import Verb
from rota.node.api.documents import cluster_status
from rota.node.api.forwarding.peer_requests import ask_peer, peer_headers
from rota.node.api.handlers.coordinator_refusals import coordinator_refusals
from rota.node.api.requests.operations import Operations, Success
from rota.node.api.requests.parameters import DRY_RUN
from rota.node.api.requests.permissions import in_cluster
from rota.node.api.requests.request_context import RequestContext
from rota.node.api.requests.request_reader import document
from rota.node.cluster.node_admin import forget, hold_again, hold_nothing
from rota.node.context import NodeContext
from rota.node.peers.peer_apis import PeerRequest
from rota.node.recovery.shard_repair import promise_of, repair
from rota.node.shards.shard import Shard
from rota.wire import operations as api
from rota.wire.documents import ClusterView, PromiseView

T = TypeVar("T")

operations = Operations("Cluster")
CLUSTER = "/api/v1/cluster"
DIGITS_MAX = 6
"""The most digits of a shard's number; no shard has a longer number."""
ANSWER_S = 1.0
"""The time within which other nodes must respond; values of nodes that do not are unknown."""
COORDINATING = ("coordinator_unavailable", "outcome_unknown")
"""Codes of an operation that changes etcd."""


@operations.declare(
    api.CLUSTER,
    Success(200, "The cluster."),
    permission=in_cluster(Verb.READ),
)
async def show_cluster(request: RequestContext) -> web.Response:
    """Show the nodes, the shards and their copies, and the pending moves of copies.

    Every node responds, even one that is not ready. It requests from the other nodes the values
    that only they have: the load of a node, and the lag of the copies of its shards. It waits for
    at most one second; the values of a node that does not respond are null.
    """
    context = request.node
    if request.is_forwarded:
        return document(cluster_status.own_status(context))
    responses = await responses_of_others(request, CLUSTER, ClusterView)
    return document(cluster_status.merged_status(context, responses))


@operations.declare(
    api.DRAIN_NODE,
    Success(200, "The node."),
    permission=in_cluster(Verb.OPERATE),
    query=(DRY_RUN,),
    problems=("node_not_found", "last_node", *COORDINATING),
)
async def drain_node(request: RequestContext) -> web.Response:
    """Drain a node: move all copies of shards from it to other nodes, one after the other.

    The node continues to respond to requests and to run its attempts; no execution is interrupted.
    Copies that no other node can take remain. `GET /api/v1/cluster` shows the progress: the drain
    is complete when no move has the node as its `source`. The node stays drained, also after a
    restart, until it is undrained.
    """
    with coordinating(request) as context:
        member = await hold_nothing(
            context.coordinator, _node_in(request), is_dry=request.is_dry_run
        )
    return document(cluster_status.node_view(context, member))


@operations.declare(
    api.UNDRAIN_NODE,
    Success(200, "The node."),
    permission=in_cluster(Verb.OPERATE),
    query=(DRY_RUN,),
    problems=("node_not_found", *COORDINATING),
)
async def undrain_node(request: RequestContext) -> web.Response:
    """Undrain a node: move its share of the shards back to it."""
    with coordinating(request) as context:
        member = await hold_again(context.coordinator, _node_in(request), is_dry=request.is_dry_run)
    return document(cluster_status.node_view(context, member))


@operations.declare(
    api.FORGET_NODE,
    Success(204, "The node is removed."),
    permission=in_cluster(Verb.OPERATE),
    query=(DRY_RUN,),
    problems=("node_not_found", "node_alive", "node_in_use", *COORDINATING),
)
async def forget_node(request: RequestContext) -> web.Response:
    """Remove a node that is lost for good from the cluster.

    The request is refused while the node is alive, and while one of its copies counts.
    """
    with coordinating(request) as context:
        await forget(context.coordinator, _node_in(request), is_dry=request.is_dry_run)
    return web.Response(status=204)


@operations.declare(
    api.SHARD_PROMISE,
    Success(200, "The epochs."),
    permission=in_cluster(Verb.READ),
    problems=("shard_not_found",),
)
async def show_promise(request: RequestContext) -> web.Response:
    """Show the epochs of a shard that this node has promised and seen."""
    context = request.node
    return document(promise_of(shard_in(request), context.config.node_id))


@operations.declare(
    api.REPAIR_SHARD,
    Success(200, "The repair."),
    permission=in_cluster(Verb.OPERATE),
    query=(DRY_RUN,),
    problems=(
        "shard_not_found",
        "shard_sound",
        "coordinator_behind",
        "epochs_exhausted",
        "copies_unreached",
        *COORDINATING,
    ),
)
async def repair_shard(request: RequestContext) -> web.Response:
    """Repair a shard that stays closed because a copy promised an epoch that is too high.

    The epoch of the shard in etcd is raised above every epoch that a node has promised. The request
    is refused if the shard needs no repair, if a copy that counts cannot be reached, and if a node
    has a newer configuration than etcd.
    """
    with coordinating(request) as context:
        shard = shard_in(request)
        path = f"/api/v1/shards/{shard.id}/promise"
        promises = await responses_of_others(request, path, PromiseView)
        promises[context.config.node_id] = promise_of(shard, context.config.node_id)
        view = await repair(
            context.coordinator,
            shard.id,
            promises,
            members=context.membership.members,
            node_id=context.config.node_id,
            is_dry=request.is_dry_run,
        )
    return document(view)


@contextmanager
def coordinating(request: RequestContext) -> Generator[NodeContext]:
    """Turn errors of etcd in the body into refusals.

    Raises:
        Refused: As for `coordinator_refusals`.
    """
    with coordinator_refusals("see `rota cluster status` before you repeat it"):
        yield request.node


def _node_in(request: RequestContext) -> NodeId:
    return NodeId(request.http.match_info["node"])


def shard_in(request: RequestContext) -> Shard:
    """Return this node's copy of the shard in the path.

    Raises:
        Refused: No shard has this number.
    """
    number, shards = request.http.match_info["shard"], request.node.shards
    is_number = number.isascii() and number.isdecimal() and len(number) <= DIGITS_MAX
    if not is_number or int(number) >= len(shards):
        hint = f"the shards are 0 to {len(shards) - 1}; `rota cluster shards` lists them"
        raise not_found("shard", number, hint)
    return shards[ShardId(int(number))]


async def responses_of_others(
    request: RequestContext, target: str, kind: type[T], *, within_s: float = ANSWER_S
) -> dict[NodeId, T]:
    """Return the responses of the other nodes that respond in time, by node.

    Args:
        request: The client's request.
        target: Path and query of the request to the other nodes.
        kind: The document of their responses.
        within_s: The time within which they must respond, in seconds.
    """
    responses: dict[NodeId, T] = {}
    others = request.node.others

    async def ask(node_id: NodeId) -> None:
        sent = PeerRequest(method="GET", target=target, headers=peer_headers(request))
        with suppress(Refused, TimeoutError):
            async with asyncio.timeout(within_s):
                responses[node_id] = await ask_peer(request, node_id, sent, kind)

    async with asyncio.TaskGroup() as group:
        for node_id in others.reached if others else ():
            group.create_task(ask(node_id))
    return responses
