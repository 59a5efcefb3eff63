"""The cluster: what there is, and which nodes are to hold something."""

import asyncio
import logging
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import TypeVar

from aiohttp import web

from rota.core.errors import Kind, Refused, not_found
from rota.core.model.ids import NodeId, ShardId
from rota.node.api.documents import cluster_status
from rota.node.api.requests.access import Verb, check
from rota.node.api.requests.operations import Operations, Success
from rota.node.api.requests.parameters import DRY_RUN, IS_DRY_RUN
from rota.node.api.requests.request_reader import CONTEXT, document
from rota.node.api.routing.forwarding import (
    READS_NO_SHARD,
    ask_part,
    is_forwarded,
    question_headers,
)
from rota.node.cluster.node_admin import forget, hold_again, hold_nothing
from rota.node.context import NodeContext
from rota.node.coordination.coordinator import (
    CoordinatorError,
    CoordinatorRefused,
    CoordinatorUnavailable,
    OutcomeUnknown,
)
from rota.node.peers.peer_apis import PeerRequest
from rota.node.recovery.shard_repair import promise_of, repair
from rota.node.shards.shard import Shard
from rota.wire.documents import ClusterView, NodeView, PromiseView, RepairView

log = logging.getLogger(__name__)

T = TypeVar("T")

operations = Operations("Cluster")
CLUSTER = "/api/v1/cluster"
DIGITS_MAX = 6
"""Of a shard's number; more make no number that a shard has."""
ANSWER_S = 1.0
"""How long the other nodes have to answer; what those who do not would tell is unknown."""
AGREEING = ("coordinator_unavailable", "outcome_unknown")
"""Of an operation that changes what all nodes agree on."""


@operations.declare("GET", CLUSTER, Success(200, "The cluster.", ClusterView))
async def show_cluster(request: web.Request) -> web.Response:
    """Show the nodes, the shards and who holds them, and what is to move.

    Any node tells this, also one that takes no other requests. It asks the others for what only
    they know, for a second at most: what a node runs, and how far the copies of its shards have
    come. Of a node that does not answer that is null.
    """
    check(request, Verb.READ, "*")
    context = request.app[CONTEXT]
    if is_forwarded(request):
        return document(cluster_status.told_by(context))
    return document(
        cluster_status.whole(context, await told_by_others(request, CLUSTER, ClusterView))
    )


@operations.declare(
    "POST",
    "/api/v1/nodes/{node}:drain",
    Success(200, "The node.", NodeView),
    query=(DRY_RUN,),
    problems=("node_not_found", "last_node", *AGREEING),
)
async def drain_node(request: web.Request) -> web.Response:
    """Have a node hold nothing: its shards go to other nodes, one after the other.

    It goes on answering requests and running what it runs; no execution is interrupted. Copies for
    which there is no other node stay. `GET /api/v1/cluster` tells how far it is: it is done when no
    move has the node as its `source`. It holds until the opposite is asked for, also when the node
    is started again.
    """
    with agreeing(request) as context:
        member = await hold_nothing(
            context.coordinator, _node_in(request), is_dry=request[IS_DRY_RUN]
        )
    return document(cluster_status.node_as(context, member))


@operations.declare(
    "POST",
    "/api/v1/nodes/{node}:undrain",
    Success(200, "The node.", NodeView),
    query=(DRY_RUN,),
    problems=("node_not_found", *AGREEING),
)
async def undrain_node(request: web.Request) -> web.Response:
    """Have a node hold again what is its part."""
    with agreeing(request) as context:
        member = await hold_again(
            context.coordinator, _node_in(request), is_dry=request[IS_DRY_RUN]
        )
    return document(cluster_status.node_as(context, member))


@operations.declare(
    "DELETE",
    "/api/v1/nodes/{node}",
    Success(204, "It is forgotten.", media_types=()),
    query=(DRY_RUN,),
    problems=("node_not_found", "node_alive", "node_in_use", *AGREEING),
)
async def forget_node(request: web.Request) -> web.Response:
    """Forget a node that will not come back: the ring then counts on it no more.

    It is refused while the node lives, or while copies on it count.
    """
    with agreeing(request) as context:
        await forget(context.coordinator, _node_in(request), is_dry=request[IS_DRY_RUN])
    return web.Response(status=204)


@operations.declare(
    "GET",
    "/api/v1/shards/{shard}/promise",
    Success(200, "What it knows.", PromiseView),
    problems=("shard_not_found",),
)
async def show_promise(request: web.Request) -> web.Response:
    """Show what the node that is asked knows of the epochs of a shard."""
    check(request, Verb.READ, "*")
    context = request.app[CONTEXT]
    return document(promise_of(shard_in(request), context.config.node_id))


@operations.declare(
    "POST",
    "/api/v1/shards/{shard}:repair",
    Success(200, "The repair.", RepairView),
    query=(DRY_RUN,),
    problems=(
        "shard_not_found",
        "shard_sound",
        "coordinator_behind",
        "epochs_exhausted",
        "copies_unreached",
        *AGREEING,
    ),
)
async def repair_shard(request: web.Request) -> web.Response:
    """Free a shard that a copy's promise of too high an epoch keeps closed.

    All nodes are asked what they promised, and etcd's epoch of the shard is raised above that. It
    is refused where nothing is wrong, where a copy that counts cannot be asked, and where etcd
    knows less than a node does.
    """
    with agreeing(request) as context:
        shard = shard_in(request)
        promises = await told_by_others(request, f"/api/v1/shards/{shard.id}/promise", PromiseView)
        promises[context.config.node_id] = promise_of(shard, context.config.node_id)
        view = await repair(
            context.coordinator,
            shard.id,
            promises,
            members=context.membership.members,
            node_id=context.config.node_id,
            is_dry=request[IS_DRY_RUN],
        )
    return document(view)


@contextmanager
def agreeing(request: web.Request) -> Generator[NodeContext]:
    """Let whoever may ask the coordinator for something do so; what it does not do is refused.

    A refusal waits for no commit: an operator asks where shards may be unable to commit.
    """
    check(request, Verb.OPERATE, "*")
    request[READS_NO_SHARD] = True
    try:
        yield request.app[CONTEXT]
    except OutcomeUnknown as error:
        raise Refused(Kind.UNAVAILABLE, "outcome_unknown", str(error), retry_after_s=1) from error
    except CoordinatorRefused as error:
        raise _undone(f"etcd refuses this: {error}") from error
    except CoordinatorUnavailable as error:
        log.warning("etcd does not answer", extra={"reason": str(error)})
        detail = (
            "etcd does not answer, so nothing was changed: see that a majority of its members runs "
            "and that this node reaches them, and run the command again"
        )
        raise _undone(detail) from error
    except CoordinatorError as error:
        raise _undone(str(error)) from error


def _undone(detail: str) -> Refused:
    return Refused(Kind.UNAVAILABLE, "coordinator_unavailable", detail, retry_after_s=1)


def _node_in(request: web.Request) -> NodeId:
    return NodeId(request.match_info["node"])


def shard_in(request: web.Request) -> Shard:
    """Return the shard that the path names, as this node has it."""
    number, shards = request.match_info["shard"], request.app[CONTEXT].shards
    is_number = number.isascii() and number.isdecimal() and len(number) <= DIGITS_MAX
    if not is_number or int(number) >= len(shards):
        raise not_found("shard", number)
    return shards[ShardId(int(number))]


async def told_by_others(
    request: web.Request, target: str, kind: type[T], *, within_s: float = ANSWER_S
) -> dict[NodeId, T]:
    """Return what each of the other nodes tells that answers in time.

    Args:
        request: On behalf of which they are asked.
        target: Path and query.
        kind: Of the answers.
        within_s: How long each node has, in seconds.
    """
    told: dict[NodeId, T] = {}
    others = request.app[CONTEXT].others

    async def ask(node_id: NodeId) -> None:
        asked = PeerRequest(method="GET", target=target, headers=question_headers(request))
        with suppress(Refused, TimeoutError):
            async with asyncio.timeout(within_s):
                told[node_id] = await ask_part(request, node_id, asked, kind)

    async with asyncio.TaskGroup() as group:
        for node_id in others.reached if others else ():
            group.create_task(ask(node_id))
    return told
