"""Operations for monitoring: liveness, readiness, metrics, version."""

import platform

from aiohttp import web

import rota
from rota.core.errors import Kind, Refused
from rota.node.access.access_control import AuthMode
from rota.node.access.principal import ANONYMOUS
from rota.node.access.verbs import Verb
from rota.node.api.requests.local_socket import is_from_here
from rota.node.api.requests.operations import TEXT, Operations, Success
from rota.node.api.requests.parameters import choice
from rota.node.api.requests.permissions import ANYONE, PUBLIC, in_cluster
from rota.node.api.requests.request_context import RequestContext
from rota.node.api.requests.request_reader import document
from rota.wire import operations as api
from rota.wire.documents import VersionView

operations = Operations("Health")
CLUSTER = "cluster"
EXCLUDE = choice("exclude", "`cluster`: ignore conditions that affect all nodes.", [CLUSTER])
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@operations.declare(
    api.LIVE,
    Success(200, "The process is alive.", media_types=(TEXT,)),
    permission=PUBLIC,
    query=None,
)
async def livez(request: RequestContext) -> web.Response:
    """Check that the process is alive.

    Restart the node if it does not respond.
    """
    del request
    return web.Response(text="ok\n")


@operations.declare(
    api.READY,
    Success(200, "The node is ready.", media_types=(TEXT,)),
    permission=PUBLIC,
    query=(EXCLUDE,),
    problems=("not_ready", "disk_full"),
)
async def readyz(request: RequestContext) -> web.Response:
    """Check whether the node is ready for requests; if it is not, the error states the reason.

    A node is not ready

    - while it starts or stops;
    - while its disk is nearly full, or its storage has failed;
    - while it hands over its shards, because it is slow or its clock is wrong;
    - while it replaces its warden, which runs the tasks;
    - while a shard has no primary, or one that this node cannot reach, or while copies of a shard
      of this node are missing;
    - while etcd has older configurations of some shards than the node, for example after a restore
      from a backup, or lacks epochs that this node promised. The shards continue to work, but an
      operator must recover them;
    - while shards of this node stay closed, because their records cannot be read.

    With `exclude=cluster` only conditions of this node count, and not the loss of another node: a
    shard without a reachable primary counts only if another node may be able to serve it, and the
    last two conditions do not count. Load balancers should use this parameter: without it, one lost
    node makes them remove all nodes.

    The reason is shown to callers with a valid credential, and to those on the node's machine.
    """
    excluded = EXCLUDE.of(request)
    reason = request.node.unready(exclude_cluster=excluded == CLUSTER)
    if reason is not None and not _may_know(request):
        reason = "the node is not ready; the reason is shown to authenticated callers, and locally"
    if reason is not None:
        raise Refused(Kind.UNAVAILABLE, "not_ready", reason, retry_after_s=5)
    return web.Response(text="ok\n")


def _may_know(request: RequestContext) -> bool:
    """Return True if the caller may know the reason, which names nodes and directories."""
    is_open = request.node.access.mode is not AuthMode.KEYS
    return is_open or request.principal is not ANONYMOUS or is_from_here(request.http)


@operations.declare(
    api.METRICS,
    Success(200, "The metrics.", media_types=(METRICS_TYPE,)),
    permission=in_cluster(Verb.METRICS),
    query=None,
)
async def metrics(request: RequestContext) -> web.Response:
    """Show the metrics in the text format of Prometheus."""
    text = request.node.metrics.text()
    return web.Response(body=text, headers={"Content-Type": METRICS_TYPE})


@operations.declare(api.VERSION, Success(200, "The version."), permission=ANYONE, query=None)
async def version(request: RequestContext) -> web.Response:
    """Show the version of the node."""
    context = request.node
    return document(
        VersionView(
            version=rota.__version__,
            node_id=context.config.node_id,
            cluster=context.config.cluster,
            shards=len(context.shards),
            python=platform.python_version(),
        )
    )
