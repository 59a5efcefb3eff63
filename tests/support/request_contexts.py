"""Contexts of requests for tests of what a handler reads from a request."""

from typing import cast

from aiohttp import web

from rota.node.api.requests.access import OPERATOR, Principal
from rota.node.api.requests.request_context import RequestContext
from rota.node.context import NodeContext


def without_node(http: web.Request, principal: Principal = OPERATOR) -> RequestContext:
    """Return the context of a request whose handler uses nothing of its node."""
    return RequestContext(
        http, cast("NodeContext", None), request_id="request", principal=principal
    )
