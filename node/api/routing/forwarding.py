"""Requests that another node has to answer are forwarded to it; see docs/explanation/forwarding.md.

A handler that needs a shard of another node raises `NotPrimary` before it has changed anything.
The request then goes whole, as it came, to the shard's primary, and its answer goes back as it
comes. What has been forwarded once is not forwarded again, so there is one hop and no loop.

While nobody can be asked, for a shard that is just being taken over, the request waits for a
while. So most takeovers are seen as a pause, and the longer ones as 503 with Retry-After.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from typing import TypeVar

import aiohttp
import msgspec
from aiohttp import web
from multidict import CIMultiDict

from rota.core.decoding import UNDECODABLE
from rota.core.errors import Kind, Refused, invalid
from rota.core.model.ids import NodeId, ShardId
from rota.node.api.requests.problems import problem, refusal_of
from rota.node.api.requests.request_reader import CONTEXT, REQUEST_ID, read_content, target_of
from rota.node.api.requests.stopping import STOPPING, Stops
from rota.node.peers.peer_apis import PeerApis, PeerRequest, Unreached
from rota.node.shards.shard import NotPrimary, Shard
from rota.wire.documents import ProblemView
from rota.wire.headers import PRIMARY

FORWARDED = "Rota-Forwarded"
"""The header of a forwarded request: the node that forwarded it."""
OF_SHARDS = "Rota-Shards"
"""Its header of a part of a request: the shards that are meant, a bit each, the lowest first."""
OF_ITEMS = "Rota-Items"
"""Its header of a part of a batch: the numbers of its items in the whole, joined by commas."""
NOT_PRIMARY = "not_primary"
NOTHING_DONE = (NOT_PRIMARY, "stopping")
"""Codes of a node that will not be the one to answer; another one will, before long."""
OWNER_WAIT_S = 2.0
"""How long a request waits for a shard to have a primary that can be asked."""
OWNER_LOOK_S = 0.02
NAMED_MAX = 10

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
HAS_WRITTEN: web.RequestKey[bool] = web.RequestKey("has_written", bool)
"""Set once something was decided for a request: it must not be decided again elsewhere."""
READS_NO_SHARD: web.RequestKey[bool] = web.RequestKey("reads_no_shard", bool)
"""Set where a refusal rests on nothing that shards decide, so that no commit is waited for."""

_OF_THE_CONNECTION = frozenset(
    {
        "connection", "content-length", "date", "expect", "host", "keep-alive",
        "proxy-connection", "server", "te", "trailer", "transfer-encoding", "upgrade",
        "x-request-id",
    }
)  # fmt: skip
"""Headers that each connection has of its own, or that each node sets."""

_OF_A_BROWSER = frozenset(
    {"origin", "referer", "sec-fetch-dest", "sec-fetch-mode", "sec-fetch-site", "sec-fetch-user"}
)
"""Headers that say for which page a browser asks: of this node's name, which the next one has not.

The request has been judged by them here.
"""

T = TypeVar("T")


class NobodyAnswers(Refused):
    """Some shards that a request needs have no primary that can be asked now."""

    def __init__(self, shards: Iterable[ShardId], reason: str = "") -> None:
        numbers = sorted(shards)
        named = ", ".join(map(str, numbers[:NAMED_MAX])) + (", …" * (len(numbers) > NAMED_MAX))
        detail = f"no node that can be reached decides for shard {named}" if numbers else ""
        super().__init__(
            Kind.UNAVAILABLE,
            NOT_PRIMARY,
            "; ".join(filter(None, (detail, reason, "nothing was done, not even in part"))),
            retry_after_s=1,
        )


def is_forwarded(request: web.Request) -> bool:
    """Tell whether another node has forwarded *request*."""
    return FORWARDED in request.headers


async def answer_anywhere(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Return what *handler* answers, or the node that can.

    Raises:
        Refused: By the handler; or nobody could be asked in time.
    """
    others = request.app[CONTEXT].others
    if others is None or is_forwarded(request):
        return await handler(request)
    loop = asyncio.get_running_loop()
    give_up_at = loop.time() + OWNER_WAIT_S
    missing: Refused
    while True:
        began_at = loop.time()
        try:
            return await handler(request)
        except NotPrimary as refusal:
            shard = request.app[CONTEXT].shards[refusal.shard]
            if request.get(HAS_WRITTEN):
                raise shard.interrupted() from refusal
            answer = await _forwarded(request, others, shard)
            if answer is not None:
                return answer
            missing = refusal
        except NobodyAnswers as refusal:
            missing = refusal
        if loop.time() - began_at > OWNER_WAIT_S:
            # It waited for something, until the shard went elsewhere.
            give_up_at = loop.time() + OWNER_WAIT_S
        if loop.time() > give_up_at:
            raise missing
        await asyncio.sleep(OWNER_LOOK_S)


async def _forwarded(
    request: web.Request, others: PeerApis, shard: Shard
) -> web.StreamResponse | None:
    """Return the answer of a shard's primary; None if it cannot be asked, or is not it."""
    primary = shard.primary_node
    if primary is None or primary not in others.reached:
        return None
    try:
        relay = Relay(request, primary=primary)
        return await _handed_on(relay, primary, headers_of(request), _has_done_nothing)
    except Unreached as error:
        if error.is_certain or request.method in ("GET", "HEAD"):
            return None
        raise shard.interrupted() from error


async def forward_to(
    request: web.Request, node_id: NodeId, **more: str
) -> web.StreamResponse | None:
    """Return what a node answers to *request*, a question, with *more* headers.

    None if it cannot be asked, or has nothing.
    """
    if request.app[CONTEXT].others is None:
        return None
    try:
        return await _handed_on(Relay(request), node_id, headers_of(request, **more), _is_failure)
    except Unreached:
        return None


async def _handed_on(
    relay: "Relay",
    node_id: NodeId,
    headers: CIMultiDict[str],
    is_none: Callable[[aiohttp.ClientResponse], Awaitable[bool]],
) -> web.StreamResponse | None:
    """Return what a node answers to a request; None if *is_none* says that it is no answer.

    Raises:
        Unreached: It does not answer, or not whole.
        Stops: This node stops before it has answered a question.
    """
    request = relay.request
    others = request.app[CONTEXT].others
    assert others is not None
    asked = PeerRequest(
        method=request.method,
        target=target_of(request),
        headers=headers,
        body=await read_content(request) if request.body_exists else None,
    )
    try:
        async with _until_stop(request), others.ask(node_id, asked) as answer:
            return None if await is_none(answer) else await relay.answer(answer)
    except (Unreached, Stops):
        if relay.begun is None:
            raise
        return relay.broken()


def _until_stop(request: web.Request) -> AbstractAsyncContextManager[None]:
    """Hear the node stop while a question is answered; what changes something is soon over."""
    is_question = request.method in ("GET", "HEAD")
    return request.app[STOPPING].heard() if is_question else nullcontext()


async def _has_done_nothing(answer: aiohttp.ClientResponse) -> bool:
    return answer.status == 503 and _problem_in(await answer.read()).code in NOTHING_DONE


async def _is_failure(answer: aiohttp.ClientResponse) -> bool:
    return answer.status != 200


class Relay:
    """Hands on what another node answers, as it comes.

    Args:
        request: To be answered so.
        primary: The other node, if it is asked because it decides.

    Attributes:
        request: That one.
        begun: The answer, once its first bytes have gone.
    """

    def __init__(self, request: web.Request, *, primary: NodeId | None = None) -> None:
        self.request = request
        self._primary = primary
        self.begun: web.StreamResponse | None = None

    async def answer(self, answer: aiohttp.ClientResponse) -> web.StreamResponse:
        """Return the answer when it has come whole; one of unknown length goes on at once."""
        headers = _passed(answer.headers)
        if self._primary is not None:
            headers[PRIMARY] = self._primary
        if answer.content_length is not None or self.request.method == "HEAD":
            body = await answer.read()
            return web.Response(status=answer.status, headers=headers, body=body)
        response = web.StreamResponse(status=answer.status, headers=headers)
        await response.prepare(self.request)
        self.begun = response
        async for part in answer.content.iter_any():
            # A slow reader holds up this loop, and through it the other node.
            await response.write(part)
        await response.write_eof()
        return response

    def broken(self) -> web.StreamResponse:
        """End an answer whose rest will not come, so that the client sees that it is not whole."""
        assert self.begun is not None
        self.begun.force_close()
        if self.request.transport is not None:
            self.request.transport.abort()
        return self.begun


# -- parts of a request ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Owners:
    """Who decides for the shards that a request needs.

    Attributes:
        here: Those of this node.
        there: Those of each other.
    """

    here: list[Shard]
    there: dict[NodeId, list[Shard]]


def owners_of(request: web.Request, shards: Iterable[Shard]) -> Owners:
    """Return who is to be asked about *shards*; of a forwarded request that is this node.

    Raises:
        NobodyAnswers: Some have no primary that can be asked: nobody is left out in silence.
        Unreadable: One stays closed here.
    """
    others = request.app[CONTEXT].others
    if others is None or is_forwarded(request):
        return Owners(list(shards), {})
    owners, reached = Owners([], {}), frozenset(others.reached)
    lacking: list[ShardId] = []
    for shard in shards:
        primary = shard.primary_node
        if shard.is_open:
            owners.here.append(shard)
        elif shard.is_unreadable:
            raise shard.elsewhere()
        elif primary is None or primary not in reached:
            lacking.append(shard.id)
        else:
            owners.there.setdefault(primary, []).append(shard)
    if lacking:
        raise NobodyAnswers(lacking)
    return owners


def owner_of(request: web.Request, shard: Shard) -> NodeId:
    """Return the node to be asked about a shard that is not open here.

    Raises:
        NobodyAnswers: It is not known, or cannot be reached.
        Unreadable: It is this node, which cannot read the shard.
    """
    if shard.is_unreadable:
        raise shard.elsewhere()
    others, primary = request.app[CONTEXT].others, shard.primary_node
    if others is None or primary is None or primary not in others.reached:
        raise NobodyAnswers([shard.id])
    return primary


def shards_meant(request: web.Request) -> list[Shard]:
    """Return the shards that a request about everything is about: all, or those of its part."""
    shards = request.app[CONTEXT].shards
    bits = request.headers.get(OF_SHARDS)
    if bits is None:
        return list(shards)
    try:
        meant = int(bits, 16)
    except ValueError as error:
        raise invalid("invalid_query", f"{OF_SHARDS} is {bits!r}; it is a number in hex") from error
    return [shard for shard in shards if meant >> shard.id & 1]


def bits_of(shards: Iterable[Shard]) -> str:
    """Return *shards* as the header `OF_SHARDS` has them."""
    return f"{sum(1 << shard.id for shard in shards):x}"


async def ask_part(request: web.Request, node_id: NodeId, asked: PeerRequest, kind: type[T]) -> T:
    """Return what another node answers for its part of *request*.

    Raises:
        Refused: It refuses; or it cannot be reached: ``not_primary`` if nothing was done for
            certain, else ``primary_lost``.
    """
    others = request.app[CONTEXT].others
    assert others is not None
    try:
        async with others.ask(node_id, asked) as answer:
            content, status = await answer.read(), answer.status
    except Unreached as error:
        is_certain = error.is_certain or asked.method == "GET"
        code = NOT_PRIMARY if is_certain else "primary_lost"
        raise Refused(Kind.UNAVAILABLE, code, str(error), retry_after_s=1) from error
    if status == 200:
        return msgspec.json.decode(content, type=kind)
    raise refusal_of(_problem_in(content))


async def ask_parts(
    request: web.Request, asked: Mapping[NodeId, PeerRequest], kind: type[T]
) -> dict[NodeId, T | Refused]:
    """Return what each of several nodes answers for its part of *request*, asked together."""
    answers: dict[NodeId, T | Refused] = {}

    async def ask(node_id: NodeId, its: PeerRequest) -> None:
        try:
            answers[node_id] = await ask_part(request, node_id, its, kind)
        except Refused as refusal:
            answers[node_id] = refusal

    async with asyncio.TaskGroup() as group:
        for node_id, its in asked.items():
            group.create_task(ask(node_id, its))
    return answers


async def all_of(wiring: Iterable[Coroutine[None, None, T]]) -> list[T]:
    """Return what each of *works* returns, done side by side.

    Raises:
        Refused: One of them, which ends the others.
    """
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(work) for work in wiring]
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from errors
    return [task.result() for task in tasks]


def headers_of(request: web.Request, **more: str) -> CIMultiDict[str]:
    """Return the headers of *request* for another node to see, and that it is forwarded.

    Args:
        request: As it came.
        more: Further headers; the underscores of their names stand for hyphens.
    """
    headers = _passed(request.headers, _OF_A_BROWSER)
    headers.update(question_headers(request))
    for name, value in more.items():
        headers[name.replace("_", "-")] = value
    return headers


def question_headers(request: web.Request) -> dict[str, str]:
    """Return the headers of what is asked on behalf of *request*, and is not forwarded either."""
    return {FORWARDED: request.app[CONTEXT].config.node_id, "X-Request-Id": request[REQUEST_ID]}


def _passed(
    headers: "Mapping[str, str]", left_out: frozenset[str] = frozenset()
) -> CIMultiDict[str]:
    left_out = _OF_THE_CONNECTION | left_out
    return CIMultiDict([pair for pair in headers.items() if pair[0].lower() not in left_out])


def _problem_in(content: bytes) -> ProblemView:
    try:
        return msgspec.json.decode(content, type=ProblemView)
    except UNDECODABLE:
        return problem(503, "internal", "a node gave an answer that cannot be read")
