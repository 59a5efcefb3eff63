"""The node that handles a request, and the forwarding of requests to other nodes.

An operation declares the shard that a request is about. A request whose shard has another primary
is forwarded there before any handler runs, and the response is relayed unchanged. A forwarded
request is not forwarded again: there is one hop and no loop. See docs/explanation/forwarding.md.

While the shard has no primary that can be reached, during a takeover, the request waits. Most
takeovers appear to clients as a pause, the longer ones as 503 with Retry-After.

The primary may change while a handler runs. The handler then fails with `NotPrimary`, and if no
command was decided the request is routed again.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext

import aiohttp
from aiohttp import web
from multidict import CIMultiDict

from rota.core.errors import Kind, Refused
from rota.core.model.ids import NodeId
from rota.node.api.forwarding.peer_requests import (
    NOT_PRIMARY,
    UNKNOWN,
    NoPrimaryReachable,
    end_to_end,
    forwarded_headers,
    problem_in,
)
from rota.node.api.requests.authentication import admit
from rota.node.api.requests.operations import Operation
from rota.node.api.requests.request_context import RequestContext
from rota.node.api.requests.request_reader import read_content, target_of
from rota.node.api.requests.stopping import STOPPING, NodeStopping
from rota.node.peers.peer_apis import PeerApis, PeerRequest, Unreached
from rota.node.shards.shard import NotPrimary, Shard
from rota.wire.headers import PRIMARY

NOTHING_DONE = (NOT_PRIMARY, "stopping")
"""Codes with which a node that cannot handle the request responds after having changed nothing;
another node can soon handle the request."""
PRIMARY_WAIT_S = 2.0
"""How long a request waits for its shard to have a primary that can be reached."""
PRIMARY_LOOK_S = 0.02


async def respond(request: RequestContext, operation: Operation) -> web.StreamResponse:
    """Return the response to *request*, made here or by the primary of its shard.

    Raises:
        Refused: The operation refuses the request, or no primary could be reached in time.
    """
    await admit(request, operation)
    operation.check(request)
    others = request.node.others
    if others is None or request.is_forwarded:
        return await _handled(request, operation)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + PRIMARY_WAIT_S
    refused: Refused
    while True:
        began_at = loop.time()
        request.forget_reads()
        try:
            return await _handled(request, operation)
        except NotPrimary as refusal:
            request.forget_reads()
            response = await _forwarded(request, others, request.node.shards[refusal.shard])
            if response is not None:
                return response
            refused = refusal
        except NoPrimaryReachable as refusal:
            refused = refusal
        if loop.time() - began_at > PRIMARY_WAIT_S:
            # The handler ran for longer than the wait; its time does not count.
            deadline = loop.time() + PRIMARY_WAIT_S
        if loop.time() > deadline:
            raise refused
        await asyncio.sleep(PRIMARY_LOOK_S)


async def _handled(request: RequestContext, operation: Operation) -> web.StreamResponse:
    """Return the handler's response, once everything that it is based on is committed.

    Raises:
        NotPrimary: This node is not the primary of the request's shard, or no longer, and has
            decided nothing for the request.
        Refused: The handler refuses the request; what the refusal is based on is committed too,
            such as the deletion of a job that does not exist. Or this node has decided something
            for the request and is no longer the primary, so that the outcome is not known.
    """
    try:
        return await _settled(request, operation)
    except Refused as refusal:
        # This applies to forwarded requests, too: the sender repeats them after `NOTHING_DONE`.
        if not request.has_written or refusal.code not in NOTHING_DONE:
            raise
        if isinstance(refusal, NotPrimary):
            raise request.node.shards[refusal.shard].interrupted() from refusal
        raise _stopped() from refusal


def _stopped() -> Refused:
    return Refused(
        Kind.UNAVAILABLE,
        "primary_lost",
        f"this node stopped during the request; {UNKNOWN}",
        retry_after_s=1,
    )


async def _settled(request: RequestContext, operation: Operation) -> web.StreamResponse:
    if operation.target is not None:
        request.resolve(await operation.target(request))
    try:
        response = await operation.handler(request)
        request.check_authorized()
    except Refused as refusal:
        if refusal.kind is not Kind.UNAVAILABLE:
            await request.settle()
        raise
    await request.settle()
    return response


async def _forwarded(
    request: RequestContext, others: PeerApis, shard: Shard
) -> web.StreamResponse | None:
    """Return the response of a shard's primary.

    Returns:
        None if the primary cannot be reached, or responds with a code of `NOTHING_DONE`.

    Raises:
        Refused: The primary was lost, and may have carried out the request.
    """
    primary = shard.primary_node
    if primary is None or primary not in others.reached:
        return None
    try:
        relay = Relay(request, primary=primary)
        return await _relayed(relay, primary, forwarded_headers(request), _has_changed_nothing)
    except Unreached as error:
        if error.is_certain or request.is_read:
            return None
        raise shard.interrupted() from error


async def forward_to(
    request: RequestContext, node_id: NodeId, **more: str
) -> web.StreamResponse | None:
    """Return another node's response to *request*, which is a read.

    Args:
        request: The request.
        node_id: The node.
        more: Further headers; underscores in their names stand for hyphens.

    Returns:
        None if the node cannot be reached or responds with an error.
    """
    if request.node.others is None:
        return None
    try:
        headers = forwarded_headers(request, **more)
        return await _relayed(Relay(request), node_id, headers, _is_error)
    except Unreached:
        return None


async def _relayed(
    relay: "Relay",
    node_id: NodeId,
    headers: CIMultiDict[str],
    is_ignored: Callable[[aiohttp.ClientResponse], Awaitable[bool]],
) -> web.StreamResponse | None:
    """Return another node's response; None if *is_ignored* returns True for it.

    Raises:
        Unreached: The node does not respond, or its response is cut off before the first bytes
            were relayed.
        NodeStopping: This node stops before the first bytes of the response to a read were relayed.
    """
    request = relay.request
    others = request.node.others
    assert others is not None
    sent = PeerRequest(
        method=request.http.method,
        target=target_of(request.http),
        headers=headers,
        body=await read_content(request) if request.http.body_exists else None,
    )
    try:
        async with _until_stop(request), others.ask(node_id, sent) as response:
            return None if await is_ignored(response) else await relay.pass_on(response)
    except (Unreached, NodeStopping):
        if relay.started is None:
            raise
        return relay.abort()


def _until_stop(request: RequestContext) -> AbstractAsyncContextManager[None]:
    """Interrupt a read when this node stops; writes are short and are completed."""
    return request.http.app[STOPPING].interrupting() if request.is_read else nullcontext()


async def _has_changed_nothing(response: aiohttp.ClientResponse) -> bool:
    return response.status == 503 and problem_in(await response.read()).code in NOTHING_DONE


async def _is_error(response: aiohttp.ClientResponse) -> bool:
    return response.status != 200


class Relay:
    """The relay of another node's response to the client.

    Args:
        request: The client's request.
        primary: The other node, if it handles the request as the primary of a shard.

    Attributes:
        request: The client's request.
        started: The response, once its first bytes were sent.
    """

    def __init__(self, request: RequestContext, *, primary: NodeId | None = None) -> None:
        self.request = request
        self._primary = primary
        self.started: web.StreamResponse | None = None

    async def pass_on(self, response: aiohttp.ClientResponse) -> web.StreamResponse:
        """Return the response for the client; one of unknown length is sent while it arrives."""
        headers = end_to_end(response.headers)
        if self._primary is not None:
            headers[PRIMARY] = self._primary
        if response.content_length is not None or self.request.http.method == "HEAD":
            body = await response.read()
            return web.Response(status=response.status, headers=headers, body=body)
        stream = web.StreamResponse(status=response.status, headers=headers)
        await self.request.start(stream)
        self.started = stream
        async for part in response.content.iter_any():
            # A slow client delays this loop, and through it the other node.
            await stream.write(part)
        await stream.write_eof()
        return stream

    def abort(self) -> web.StreamResponse:
        """Cut off a response that stays incomplete, so that the client can detect this."""
        assert self.started is not None
        self.started.force_close()
        if self.request.http.transport is not None:
            self.request.http.transport.abort()
        return self.started
