"""Is it alive, is it ready, how does it do, what is it."""

import platform

from aiohttp import web

import rota
from rota.core.errors import Kind, Refused
from rota.node.api.requests.operations import TEXT, Operations, Success
from rota.node.api.requests.parameters import choice
from rota.node.api.requests.request_reader import CONTEXT, document
from rota.wire.documents import VersionView

operations = Operations("Health")
CLUSTER = "cluster"
EXCLUDE = choice("exclude", "`cluster`: leave out what no other node could do better.", [CLUSTER])
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@operations.declare("GET", "/livez", Success(200, "It turns.", media_types=(TEXT,)), query=None)
async def livez(request: web.Request) -> web.Response:
    """Say that the process lives.

    Restart the node if it does not answer.
    """
    del request
    return web.Response(text="ok\n")


@operations.declare(
    "GET",
    "/readyz",
    Success(200, "It takes requests.", media_types=(TEXT,)),
    query=(EXCLUDE,),
    problems=("not_ready", "disk_full"),
)
async def readyz(request: web.Request) -> web.Response:
    """Say whether requests are taken, and if not, why.

    They are not while the node is starting or stopping, or its disk is nearly full, or while it
    hands its shards over because it is slow or its calendar is wrong. Send them elsewhere then.
    Nor is a node ready while etcd, restored from a backup perhaps, knows less of some shards than
    the node does: they work on, but somebody has to put it right.

    With `exclude=cluster` only what is wrong with this node counts, and not that another one is
    lost: a balancer that leaves out whoever is not ready would else leave out all.
    """
    excluded = EXCLUDE.of(request)
    reason = request.app[CONTEXT].unready(exclude_cluster=excluded == CLUSTER)
    if reason is not None:
        raise Refused(Kind.UNAVAILABLE, "not_ready", reason, retry_after_s=5)
    return web.Response(text="ok\n")


@operations.declare(
    "GET", "/metrics", Success(200, "The metrics.", media_types=(METRICS_TYPE,)), query=None
)
async def metrics(request: web.Request) -> web.Response:
    """Show the metrics in Prometheus' text format."""
    text = request.app[CONTEXT].metrics.text()
    return web.Response(body=text, headers={"Content-Type": METRICS_TYPE})


@operations.declare("GET", "/version", Success(200, "What runs here.", VersionView), query=None)
async def version(request: web.Request) -> web.Response:
    """Show what runs here."""
    context = request.app[CONTEXT]
    return document(
        VersionView(
            version=rota.__version__,
            node_id=context.config.node_id,
            cluster=context.config.cluster,
            shards=len(context.shards),
            python=platform.python_version(),
        )
    )
