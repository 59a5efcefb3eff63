"""The description of the API, for machines and for people, as the node serves it."""

from aiohttp import web

from rota.node.api.operations import JSON, Operations, Success
from rota.node.api.page import POLICY

operations = Operations("Description")
OPENAPI: web.AppKey[bytes] = web.AppKey("openapi", bytes)
PAGE: web.AppKey[str] = web.AppKey("page", str)
HTML = "text/html; charset=utf-8"


@operations.declare(
    "GET",
    "/openapi.json",
    Success(200, "The document.", media_types=(JSON,)),
    query=None,
)
async def openapi(request: web.Request) -> web.Response:
    """Describe the API for machines: OpenAPI 3.1."""
    return web.Response(body=request.app[OPENAPI], content_type=JSON)


@operations.declare(
    "GET",
    "/docs",
    Success(200, "The page.", media_types=(HTML,)),
    query=None,
)
async def docs(request: web.Request) -> web.Response:
    """Describe the API for people: one page, which fetches nothing."""
    headers = {
        "Content-Type": HTML,
        "Content-Security-Policy": POLICY,
        "Referrer-Policy": "no-referrer",
    }
    return web.Response(text=request.app[PAGE], headers=headers)
