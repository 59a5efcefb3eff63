"""The API's description for programs, as served by the node."""

import asyncio
from collections.abc import Callable
from threading import Lock

from aiohttp import web

from rota.node.api.requests.operations import JSON, Operations, Success
from rota.node.api.requests.permissions import PUBLIC
from rota.node.api.requests.request_context import RequestContext
from rota.wire import operations as api

operations = Operations("Description")


class Description:
    """The description of the API, made on the first request for it.

    It is made in a thread, since this takes 60 ms, a tenth of the time that a node needs to start.

    Args:
        make: Makes the document, in JSON.
    """

    def __init__(self, make: Callable[[], bytes]) -> None:
        self._make = make
        self._lock = Lock()
        self._document: bytes | None = None

    async def document(self) -> bytes:
        """Return the document; it is made once, even if the first request is cancelled."""
        if self._document is None:
            return await asyncio.to_thread(self._made)
        return self._document

    def _made(self) -> bytes:
        with self._lock:
            document = self._document = self._document or self._make()
            return document


DESCRIPTION: web.AppKey[Description] = web.AppKey("description", Description)


@operations.declare(
    api.OPENAPI,
    Success(200, "The document.", media_types=(JSON,)),
    permission=PUBLIC,
    query=None,
)
async def openapi(request: RequestContext) -> web.Response:
    """Describe the API for programs, in OpenAPI 3.1."""
    return web.Response(body=await request.http.app[DESCRIPTION].document(), content_type=JSON)
