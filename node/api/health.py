"""Is it alive, is it ready, how does it do, what is it."""

import platform

from aiohttp import web

import rota
from rota.client.wire import VersionView
from rota.core.errors import Kind, Refused
from rota.node.api.requests import PARTS, document

routes = web.RouteTableDef()
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@routes.get("/livez")
async def livez(request: web.Request) -> web.Response:
    """Say that the loop turns."""
    del request
    return web.Response(text="ok\n")


@routes.get("/readyz")
async def readyz(request: web.Request) -> web.Response:
    """Say whether requests are taken, and if not, why."""
    reason = request.app[PARTS].unready()
    if reason is not None:
        raise Refused(Kind.UNAVAILABLE, "not_ready", reason, retry_after_s=5)
    return web.Response(text="ok\n")


@routes.get("/metrics")
async def metrics(request: web.Request) -> web.Response:
    """Show the metrics in Prometheus' text format."""
    text = request.app[PARTS].metrics.text()
    return web.Response(body=text, headers={"Content-Type": METRICS_TYPE})


@routes.get("/version")
async def version(request: web.Request) -> web.Response:
    """Show what runs here."""
    parts = request.app[PARTS]
    return document(
        VersionView(
            version=rota.__version__,
            node_id=parts.config.node_id,
            cluster=parts.config.cluster,
            shards=len(parts.shards),
            python=platform.python_version(),
        )
    )
