"""The cluster: what there is, and which nodes are to hold something."""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager, suppress

from aiohttp import web

from rota.client.wire import ClusterView, NodeView
from rota.core.errors import Kind, Refused
from rota.core.ids import NodeId
from rota.node import inspection
from rota.node.api.access import Verb, check
from rota.node.api.forwarding import ask_part, is_forwarded, question_headers
from rota.node.api.operations import Operations, Success
from rota.node.api.parameters import DRY_RUN, IS_DRY_RUN
from rota.node.api.requests import PARTS, document
from rota.node.coordination.coordinator import CoordinatorError, OutcomeUnknown
from rota.node.operating import forget, hold_again, hold_nothing
from rota.node.others import Asked
from rota.node.parts import Parts

operations = Operations("Cluster")
CLUSTER = "/api/v1/cluster"
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
    parts = request.app[PARTS]
    if is_forwarded(request):
        return document(inspection.told_by(parts))
    return document(inspection.whole(parts, await _told_by_others(request)))


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
    with _agreeing(request) as parts:
        member = await hold_nothing(
            parts.coordinator, _node_in(request), is_dry=request[IS_DRY_RUN]
        )
    return document(inspection.node_as(parts, member))


@operations.declare(
    "POST",
    "/api/v1/nodes/{node}:undrain",
    Success(200, "The node.", NodeView),
    query=(DRY_RUN,),
    problems=("node_not_found", *AGREEING),
)
async def undrain_node(request: web.Request) -> web.Response:
    """Have a node hold again what is its part."""
    with _agreeing(request) as parts:
        member = await hold_again(parts.coordinator, _node_in(request), is_dry=request[IS_DRY_RUN])
    return document(inspection.node_as(parts, member))


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
    with _agreeing(request) as parts:
        await forget(parts.coordinator, _node_in(request), is_dry=request[IS_DRY_RUN])
    return web.Response(status=204)


@contextmanager
def _agreeing(request: web.Request) -> Generator[Parts]:
    """Let whoever may ask the coordinator for something do so; what it does not do is refused."""
    check(request, Verb.OPERATE, "*")
    try:
        yield request.app[PARTS]
    except OutcomeUnknown as error:
        raise Refused(Kind.UNAVAILABLE, "outcome_unknown", str(error), retry_after_s=1) from error
    except CoordinatorError as error:
        code = "coordinator_unavailable"
        raise Refused(Kind.UNAVAILABLE, code, str(error), retry_after_s=1) from error


def _node_in(request: web.Request) -> NodeId:
    return NodeId(request.match_info["node"])


async def _told_by_others(request: web.Request) -> dict[NodeId, ClusterView]:
    """Return what each node tells that answers in time."""
    told: dict[NodeId, ClusterView] = {}
    others = request.app[PARTS].others

    async def ask(node_id: NodeId) -> None:
        asked = Asked(method="GET", target=CLUSTER, headers=question_headers(request))
        with suppress(Refused, TimeoutError):
            async with asyncio.timeout(ANSWER_S):
                told[node_id] = await ask_part(request, node_id, asked, ClusterView)

    async with asyncio.TaskGroup() as group:
        for node_id in others.reached if others else ():
            group.create_task(ask(node_id))
    return told
