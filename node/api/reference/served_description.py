"""The description of the API, for machines and for people, as the node serves it."""

import asyncio
from collections.abc import Callable
from threading import Lock
from typing import NamedTuple

from aiohttp import web

from rota.node.api.reference.html_page import POLICY
from rota.node.api.requests.operations import JSON, Operations, Success

operations = Operations("Description")
HTML = "text/html; charset=utf-8"


class Documents(NamedTuple):
    """The two forms of the description."""

    openapi: bytes
    page: str


class Description:
    """The description of the API, made when it is asked for first.

    That takes 60 ms, as much as a tenth of a node's start; a thread does so, beside the loop.

    Args:
        make: Makes the documents.
    """

    def __init__(self, make: Callable[[], Documents]) -> None:
        self._make = make
        self._lock = Lock()
        self._documents: Documents | None = None

    async def documents(self) -> Documents:
        """Return the documents; they are made once, even if who asks for them does not wait."""
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
    query=None,
)
async def openapi(request: web.Request) -> web.Response:
    """Describe the API for machines: OpenAPI 3.1."""
    documents = await request.app[DESCRIPTION].documents()
    return web.Response(body=documents.openapi, content_type=JSON)


@operations.declare(
    "GET",
    "/docs",
    Success(200, "The page.", media_types=(HTML,)),
    query=None,
)
async def docs(request: web.Request) -> web.Response:
    """Describe the API for people: one page, which fetches nothing."""
    documents = await request.app[DESCRIPTION].documents()
    headers = {
        "Content-Type": HTML,
        "Content-Security-Policy": POLICY,
        "Referrer-Policy": "no-referrer",
    }
    return web.Response(text=documents.page, headers=headers)
