"""The API's description for programs and for people, as served by the node."""

import asyncio
from collections.abc import Callable
from threading import Lock
from typing import NamedTuple

from aiohttp import web

from rota.node.api.reference.html_page import POLICY
from rota.node.api.requests.operations import JSON, Operations, Success
from rota.node.api.requests.permissions import PUBLIC
from rota.node.api.requests.request_context import RequestContext

operations = Operations("Description")
HTML = "text/html; charset=utf-8"


class Documents(NamedTuple):
    """The two forms of the description."""

    openapi: bytes
    page: str


class Description:
    """The description of the API, made on the first request for it.

    It is made in a thread, since this takes 60 ms, a tenth of the time that a node needs to start.

    Args:
        make: Makes the documents.
    """

    def __init__(self, make: Callable[[], Documents]) -> None:
        self._make = make
        self._lock = Lock()
        self._documents: Documents | None = None

    async def documents(self) -> Documents:
        """Return the documents; they are made once, even if the first request is cancelled."""
        if self._documents is None:
            return await asyncio.to_thread(self._made)
        return self._documents

    def _made(self) -> Documents:
        with self._lock:
            documents = self._documents = self._documents or self._make()
            return documents


DESCRIPTION: web.AppKey[Description] = web.AppKey("description", Description)


@operations.declare(
    "GET",
    "/openapi.json",
    Success(200, "The document.", media_types=(JSON,)),
    permission=PUBLIC,
    query=None,
)
async def openapi(request: RequestContext) -> web.Response:
    """Describe the API for programs, in OpenAPI 3.1."""
    documents = await request.http.app[DESCRIPTION].documents()
    return web.Response(body=documents.openapi, content_type=JSON)


@operations.declare(
    "GET",
    "/docs",
    Success(200, "The page.", media_types=(HTML,)),
    permission=PUBLIC,
    query=None,
)
async def docs(request: RequestContext) -> web.Response:
    """Describe the API for people, on one page without external resources."""
    documents = await request.http.app[DESCRIPTION].documents()
    headers = {
        "Content-Type": HTML,
        "Content-Security-Policy": POLICY,
        "Referrer-Policy": "no-referrer",
    }
    return web.Response(text=documents.page, headers=headers)
