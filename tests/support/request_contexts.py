"""Contexts of requests for tests of what a handler reads from a request."""

from collections.abc import Mapping
from typing import cast

from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from rota.core.model.ids import NodeId
from rota.node.access.principal import OPERATOR, Principal
from rota.node.access.verbs import Verb
from rota.node.api.requests.permissions import on_object
from rota.node.api.requests.request_context import RequestContext
from rota.node.context import NodeContext


def request_to(
    context: NodeContext,
    headers: Mapping[str, str] | None = None,
    *,
    sender: NodeId | None = None,
) -> RequestContext:
    """Return the context of a request to a node, as the application gives it to an operation.

    Args:
        context: The parts of the node.
        headers: The headers of the request.
        sender: The node that has forwarded it; None for a client.
    """
    http = make_mocked_request("POST", "/", headers=headers, app=web.Application())
    request = RequestContext(http, context, request_id="request")
    request.sender = sender
    request.admit(OPERATOR, on_object(Verb.READ))
    return request


def without_node(http: web.Request, principal: Principal = OPERATOR) -> RequestContext:
    """Return the context of a request whose handler uses nothing of its node."""
    return RequestContext(
        http, cast("NodeContext", None), request_id="request", principal=principal
    )
