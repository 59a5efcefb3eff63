"""Requests to the other nodes on behalf of a client's request, and the primaries of its shards."""

import asyncio
from collections.abc import Coroutine, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import msgspec
from multidict import CIMultiDict

from rota.core.decoding import UNDECODABLE
from rota.core.errors import Kind, Refused, invalid
from rota.core.model.ids import NodeId, ShardId
from rota.core.quoting import in_quotes
from rota.node.access.forwarded_principal import PRINCIPAL
from rota.node.api.requests.authors import client_address
from rota.node.api.requests.node_headers import CLIENT_ADDRESS, OF_SHARDS
from rota.node.api.requests.problems import problem, refusal_of
from rota.node.api.requests.request_context import RequestContext
from rota.node.peers.peer_apis import PeerRequest, Unreached
from rota.node.shards.shard import Shard
from rota.wire.documents import ProblemView

NOT_PRIMARY = "not_primary"
NAMED_MAX = 10
UNKNOWN = (
    "the request may or may not have taken effect; read the result, or repeat the request with the "
    "same idempotency key"
)
"""The end of the detail of an error after which the request may have taken effect."""

_OF_THE_CONNECTION = frozenset(
    {
        "connection", "content-length", "date", "expect", "host", "keep-alive",
        "proxy-connection", "server", "te", "trailer", "transfer-encoding", "upgrade",
        "x-request-id",
    }
)  # fmt: skip
"""Headers that belong to one connection, or that each node sets."""

_OF_A_BROWSER = frozenset(
    {"origin", "referer", "sec-fetch-dest", "sec-fetch-mode", "sec-fetch-site", "sec-fetch-user"}
)
"""Headers about the web page that a browser's request comes from. This node has checked them
against its own name; the next node has another name."""

_CREDENTIALS = frozenset({"authorization", "cookie"})
"""Headers that only the node needs that a client has sent them to; others get its principal."""

T = TypeVar("T")


class NoPrimaryReachable(Refused):
    """Some shards of a request have no primary that this node can reach."""

    def __init__(self, shards: Iterable[ShardId], reason: str = "") -> None:
        numbers = sorted(shards)
        named = ", ".join(map(str, numbers[:NAMED_MAX])) + (", …" * (len(numbers) > NAMED_MAX))
        noun = "primary of shard" if len(numbers) == 1 else "primaries of shards"
        detail = f"the {noun} {named} cannot be reached" if numbers else ""
        super().__init__(
            Kind.UNAVAILABLE,
            NOT_PRIMARY,
            "; ".join(filter(None, (detail, reason, "nothing was changed; try again"))),
            retry_after_s=1,
        )


# -- primaries ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ShardOwners:
    """The primaries of the shards of a request.

    Attributes:
        local: The shards of this node.
        remote: The shards of each other node.
    """

    local: list[Shard]
    remote: dict[NodeId, list[Shard]]


def owners_of(request: RequestContext, shards: Iterable[Shard]) -> ShardOwners:
    """Return the primaries of *shards*; a forwarded request is for this node alone.

    Raises:
        NoPrimaryReachable: Some shards have no primary that can be reached; no shard is left out
            silently.
        Unreadable: This node is the primary of one of the shards and cannot read its state.
    """
    others = request.node.others
    if others is None or request.is_forwarded:
        return ShardOwners(list(shards), {})
    owners, reached = ShardOwners([], {}), frozenset(others.reached)
    unreachable: list[ShardId] = []
    for shard in shards:
        primary = shard.primary_node
        if shard.is_open:
            owners.local.append(shard)
        elif shard.is_unreadable:
            raise shard.elsewhere()
        elif primary is None or primary not in reached:
            unreachable.append(shard.id)
        else:
            owners.remote.setdefault(primary, []).append(shard)
    if unreachable:
        raise NoPrimaryReachable(unreachable)
    return owners


def owner_of(request: RequestContext, shard: Shard) -> NodeId:
    """Return the primary of a shard that is not open on this node.

    Raises:
        NoPrimaryReachable: The primary is unknown or cannot be reached.
        Unreadable: This node is the primary and cannot read the state of the shard.
    """
    if shard.is_unreadable:
        raise shard.elsewhere()
    others, primary = request.node.others, shard.primary_node
    if others is None or primary is None or primary not in others.reached:
        raise NoPrimaryReachable([shard.id])
    return primary


def requested_shards(request: RequestContext) -> list[Shard]:
    """Return the shards of a request about all shards.

    A request from another node is only about the shards in its header `OF_SHARDS`, if it has one.

    Raises:
        Refused: The header is malformed.
    """
    shards = request.node.shards
    bits = request.http.headers.get(OF_SHARDS) if request.is_forwarded else None
    if bits is None:
        return list(shards)
    try:
        requested = int(bits, 16)
    except ValueError as error:
        raise invalid(
            "invalid_query",
            f"the header {OF_SHARDS} is {in_quotes(bits)}; give a hexadecimal number",
        ) from error
    return [shard for shard in shards if requested >> shard.id & 1]


def shard_bits(shards: Iterable[Shard]) -> str:
    """Return the value of the header `OF_SHARDS` for *shards*."""
    return f"{sum(1 << shard.id for shard in shards):x}"


# -- requests -------------------------------------------------------------------------------------


async def ask_peer(request: RequestContext, node_id: NodeId, sent: PeerRequest, kind: type[T]) -> T:
    """Return another node's response to its part of *request*.

    Raises:
        Refused: The other node refuses, or cannot be reached. In the latter case the code is
            ``not_primary`` if certainly nothing was changed, else ``primary_lost``.
    """
    others = request.node.others
    assert others is not None
    try:
        async with others.ask(node_id, sent) as response:
            content, status = await response.read(), response.status
    except Unreached as error:
        is_certain = error.is_certain or sent.method == "GET"
        raise Refused(
            Kind.UNAVAILABLE,
            NOT_PRIMARY if is_certain else "primary_lost",
            f"{error}; {'nothing was changed; try again' if is_certain else UNKNOWN}",
            retry_after_s=1,
        ) from error
    if status == 200:
        return msgspec.json.decode(content, type=kind)
    raise refusal_of(problem_in(content))


async def ask_peers(
    request: RequestContext, sent: Mapping[NodeId, PeerRequest], kind: type[T]
) -> dict[NodeId, T | Refused]:
    """Return each node's response to its part of *request*; the nodes work concurrently."""
    responses: dict[NodeId, T | Refused] = {}

    async def ask(node_id: NodeId, part: PeerRequest) -> None:
        try:
            responses[node_id] = await ask_peer(request, node_id, part, kind)
        except Refused as refusal:
            responses[node_id] = refusal

    async with asyncio.TaskGroup() as group:
        for node_id, part in sent.items():
            group.create_task(ask(node_id, part))
    return responses


async def gathered(work: Iterable[Coroutine[None, None, T]]) -> list[T]:
    """Return the results of coroutines that run concurrently.

    Raises:
        Refused: One of the coroutines raised it; the others are cancelled.
    """
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(each) for each in work]
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from errors
    return [task.result() for task in tasks]


def forwarded_headers(request: RequestContext, **more: str) -> CIMultiDict[str]:
    """Return the headers of *request* as another node receives them.

    Args:
        request: The client's request.
        more: Further headers; underscores in their names stand for hyphens.
    """
    headers = end_to_end(request.http.headers, _OF_A_BROWSER | _CREDENTIALS)
    headers.update(peer_headers(request))
    for name, value in more.items():
        headers[name.replace("_", "-")] = value
    return headers


def peer_headers(request: RequestContext) -> dict[str, str]:
    """Return the headers of this node's own request on behalf of *request*.

    With these headers, the other node makes the request for the same caller. It does not forward
    the request, because its peer port proves that a node has sent it.
    """
    return {
        PRINCIPAL: request.node.access.forwarded_form(request.principal),
        "X-Request-Id": request.id,
        CLIENT_ADDRESS: client_address(request),
    }


def end_to_end(
    headers: Mapping[str, str], left_out: frozenset[str] = frozenset()
) -> CIMultiDict[str]:
    """Return *headers* without those of the connection, and without *left_out*."""
    left_out = _OF_THE_CONNECTION | left_out
    return CIMultiDict([pair for pair in headers.items() if pair[0].lower() not in left_out])


def problem_in(content: bytes) -> ProblemView:
    """Return the error document of another node."""
    try:
        return msgspec.json.decode(content, type=ProblemView)
    except UNDECODABLE:
        return problem(503, "internal", "another node sent a malformed response; see its log")
