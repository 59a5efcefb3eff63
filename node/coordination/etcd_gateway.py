"""A client of etcd's v3 JSON gateway: one HTTP session, several endpoints, and honest errors.

Every call has a deadline and ends in one of five ways:

- an answer;
- `CoordinatorUnavailable`: it was certainly not done, for nothing was sent or etcd said so before
  it tried;
- `AccessDenied`: likewise, because of the node's credentials;
- `OutcomeUnknown`: it was sent and nothing came back, so it may have been done or may still be.
  Only a call that does no harm when it is done twice is sent again by itself. Likewise
  `OutOfSpace`: etcd's quota is used up;
- `EtcdRefused`: etcd said no, and why.

Calls go to one endpoint until it fails, then to the next.
"""

import asyncio
import re
from asyncio import get_running_loop
from collections.abc import AsyncGenerator, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import NoReturn, TypeVar

import aiohttp
import msgspec

from rota.core.decoding import UNDECODABLE
from rota.node.coordination.coordinator_errors import (
    CoordinatorRefused,
    CoordinatorUnavailable,
    OtherCluster,
    OutcomeUnknown,
    OutOfSpace,
)
from rota.node.coordination.credentials import (
    COMMON_NAME,
    NO_CREDENTIALS,
    PERMISSION_DENIED,
    UNAUTHENTICATED,
    AccessDenied,
    Credentials,
)
from rota.node.coordination.etcd_messages import (
    EtcdResponse,
    Failure,
    Json,
    KeepaliveLine,
    LeaseResponse,
    StatusResponse,
    TokenResponse,
    decode,
)
from rota.node.coordination.prepared_request import PreparedRequest

A = TypeVar("A", bound=EtcdResponse)

NOTHING_DONE = frozenset({3, 5, 6, 7, 8, 9, 11, 12, 16})
"""gRPC's codes by which etcd refuses before it proposes anything, or when nothing came of it:
invalid, not found, exists, denied, exhausted (but see `NO_SPACE`), precondition, range,
unimplemented, unauthenticated.
With the others (cancelled, unknown, deadline, aborted, internal, unavailable, data loss) a proposal
may be on its way."""
NO_LEADER = "etcdserver: no leader"
"""The one answer under "unavailable" that comes before anything is proposed."""
RESOURCE_EXHAUSTED = 8
"""Too many requests."""
NO_SPACE = "database space exceeded"
"""The one refusal that proves nothing: when the quota is reached between etcd's first check and the
execution of a request, etcd executes it and refuses it then (`quotaApplierV3` in its source)."""
NO_SPACE_REMEDY = (
    "etcd's quota is used up. Make room: `etcdctl compact REVISION`, `etcdctl defrag`, "
    '`etcdctl alarm disarm`; docs/how-to/operate.md shows it under "etcd is full"'
)
REMEDIES = {
    "too many requests": "etcd has more requests under way than it takes: find out who else uses "
    "it, and give it a faster disk",
}
"""What etcd answers, besides refusals of credentials, and what to do."""
UNIMPLEMENTED = 12
STALE_TOKEN = "etcdserver: revision of auth store is old"
"""The one refusal of another code that a new token mends."""
_QUOTA = re.compile(rb"^etcd_server_quota_backend_bytes ([0-9.e+]+)$", re.MULTILINE)
LINE_BYTES_MAX = 16 << 20
"""One answer of a watch. etcd's own messages are at most 2 MiB, half as much again in base64."""


@dataclass(frozen=True, kw_only=True)
class GatewayOptions:
    """The options of the connection to etcd.

    Attributes:
        endpoints: URLs of the members of one etcd cluster; at least one.
        first: Index of the first endpoint to use; nodes should differ in it.
        credentials: User, password and certificates.
        call_timeout_s: Deadline of a request.
        renew_timeout_s: Deadline of a renewal, which is repeated anyway.
        watch_idle_s: A watch that has received nothing for so long is replaced at the next
            endpoint, because its member may hang.
    """

    endpoints: tuple[str, ...]
    first: int = 0
    credentials: Credentials = NO_CREDENTIALS
    call_timeout_s: float = 3.0
    renew_timeout_s: float = 1.0
    watch_idle_s: float = 5.0


class EtcdRefused(CoordinatorRefused):
    """etcd said no, and nothing was done.

    Attributes:
        grpc_code: The kind of refusal.
    """

    code = "etcd_refused"

    def __init__(self, message: str, grpc_code: int) -> None:
        super().__init__(message)
        self.grpc_code = grpc_code
        self.is_passing = grpc_code == RESOURCE_EXHAUSTED


class _NotDone(Exception):
    """This endpoint did nothing; another one may."""


class _Denied(_NotDone):
    """Likewise, because of the credentials for a connection."""


class _Unanswered(Exception):
    """It was sent, and what became of it is unknown."""


class Gateway:
    """A client of one etcd cluster.

    Args:
        options: How to reach it.

    Raises:
        AccessDenied: A file of certificates cannot be used.
    """

    def __init__(self, options: GatewayOptions) -> None:
        self.options = options
        self._at = options.first % len(options.endpoints)
        self._tls = options.credentials.tls(options.endpoints)
        self._session: aiohttp.ClientSession | None = None
        self._token = ""
        self._authenticating = asyncio.Lock()
        self._cluster_id = 0

    async def read(self, path: str, request: Json, kind: type[A]) -> A:
        """Return the answer to a question, from whichever endpoint has it first.

        Raises:
            CoordinatorUnavailable: None has it before the deadline.
            EtcdRefused: etcd does not answer it.
            OtherCluster: Another etcd answered.
        """
        try:
            return await self.write(path, request, kind, repeat=True)
        except OutcomeUnknown as error:
            raise CoordinatorUnavailable(str(error)) from error

    async def write(self, path: str, request: Json, kind: type[A], *, repeat: bool = False) -> A:
        """Have something done.

        Args:
            path: Of the method.
            request: Its argument.
            kind: Of the answer.
            repeat: It may be sent again, for being done twice does no harm.

        Raises:
            CoordinatorUnavailable: It was certainly not done.
            OutcomeUnknown: It may have been done, or may still be.
            AccessDenied: Likewise, because of the credentials.
            EtcdRefused: etcd does not do it.
            OtherCluster: Another etcd did it.
        """
        parse = partial(decode, kind=kind)
        return await self._call(path, request, parse, self.options.call_timeout_s, repeat=repeat)

    async def renew(self, lease: int) -> LeaseResponse:
        """Have a lease renewed: a `write` with a deadline of its own, which may be repeated."""
        request: Json = {"ID": str(lease)}
        timeout_s = self.options.renew_timeout_s
        return await self._call("/v3/lease/keepalive", request, _renewed, timeout_s, repeat=True)

    async def status_of_each(self) -> list[StatusResponse]:
        """Return what each endpoint that answers reports of itself; without the others."""
        asked = (self._status_of(endpoint) for endpoint in self.options.endpoints)
        return [each for each in await asyncio.gather(*asked) if each is not None]

    def prepared(self, path: str, request: Json) -> PreparedRequest:
        """Return a request for another program to send, with the present credentials."""
        endpoints = self.options.endpoints
        in_turn = (*endpoints[self._at :], *endpoints[: self._at])
        return PreparedRequest(
            urls=tuple(endpoint + path for endpoint in in_turn),
            body=msgspec.json.encode(request),
            headers=self._credentials(),
            certificates=self.options.credentials.files(),
        )

    async def stream(self, path: str, request: Json) -> AsyncGenerator[bytes]:
        """Yield the lines that one endpoint answers, until it is silent for too long or gone.

        It goes under the token of the last call, and gets none of its own: `read` something first.

        Raises:
            CoordinatorUnavailable: That was it; the next stream is of the next endpoint.
            EtcdRefused: It does not answer such a request.
        """
        endpoint = self.options.endpoints[self._at]
        timeout = aiohttp.ClientTimeout(
            total=None,
            connect=self.options.call_timeout_s / 2,
            sock_read=self.options.watch_idle_s,
        )
        # Without the second header, a member that has lost its leader keeps the stream, in silence.
        headers = {**self._credentials(), "Grpc-Metadata-hasleader": "true"}
        try:
            async with self._http().post(
                endpoint + path, data=msgspec.json.encode(request), headers=headers, timeout=timeout
            ) as response:
                if response.status != 200:
                    _fail_with(response.status, await response.read())
                rest = bytearray()
                async for piece in response.content.iter_any():
                    rest += piece
                    if b"\n" in piece:
                        *lines, rest = rest.split(b"\n")
                        for line in lines:
                            yield bytes(line)
                    if len(rest) > LINE_BYTES_MAX:
                        raise _Unanswered(f"a line has more than {LINE_BYTES_MAX} bytes")
            raise _Unanswered("the stream ended")
        except (aiohttp.ClientError, OSError, _NotDone, _Unanswered) as error:
            self._turn_from(endpoint)
            raise CoordinatorUnavailable(f"{endpoint}: {_reason(error)}") from error
        except EtcdRefused as refusal:
            raise self._explained(refusal) from refusal

    def check(self, answer: EtcdResponse) -> None:
        """See that an answer comes from the etcd cluster that the first one came from.

        Raises:
            OtherCluster: It does not.
        """
        found = answer.header.cluster_id
        if not self._cluster_id:
            self._cluster_id = found
        if found not in (self._cluster_id, 0):
            raise OtherCluster(
                f"etcd is another cluster than before ({found:x}, it was {self._cluster_id:x}): it "
                "was restored or founded again, or an endpoint is wrong"
            )

    def refuse(self, failure: Failure) -> NoReturn:
        """Raise what *failure*, from inside a stream, means.

        Raises:
            EtcdRefused: etcd says no.
            CoordinatorUnavailable: It may say something else another time.
        """
        try:
            _fail(failure)
        except (_NotDone, _Unanswered) as error:
            self._turn_from(self.options.endpoints[self._at])
            raise CoordinatorUnavailable(str(error)) from error
        except EtcdRefused as refusal:
            raise self._explained(refusal) from refusal

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    # -- one member -----------------------------------------------------------------------------

    async def _status_of(self, endpoint: str) -> StatusResponse | None:
        timeout_s = self.options.call_timeout_s
        parse = partial(decode, kind=StatusResponse)
        try:
            status = await self._ask(endpoint, "/v3/maintenance/status", b"{}", parse, timeout_s)
            if not status.quota_bytes:
                # Before 3.6.
                quota = await self._quota_of(endpoint)
                status = msgspec.structs.replace(status, quota_bytes=quota)
        except (_NotDone, _Unanswered, CoordinatorRefused, OtherCluster):
            return None
        return status

    async def _quota_of(self, endpoint: str) -> int:
        """Return the quota of one member, from the metrics that it has on its client port."""
        timeout = aiohttp.ClientTimeout(total=self.options.call_timeout_s)
        try:
            async with self._http().get(endpoint + "/metrics", timeout=timeout) as response:
                text = await response.read() if response.ok else b""
        except (aiohttp.ClientError, OSError):
            text = b""
        found = _QUOTA.search(text)
        return int(float(found[1])) if found else 0

    # -- one call -------------------------------------------------------------------------------

    async def _call(
        self,
        path: str,
        request: Json,
        parse: Callable[[bytes], A],
        timeout_s: float,
        *,
        repeat: bool,
    ) -> A:
        """Ask endpoints in turn until one answers, or until what happened is unknown."""
        body = msgspec.json.encode(request)
        loop = get_running_loop()
        deadline = loop.time() + timeout_s
        # A repeatable call gives one endpoint half of the time: if that hangs, another is asked.
        patience_s = timeout_s / 2 if repeat and len(self.options.endpoints) > 1 else timeout_s
        failures: dict[str, _NotDone | _Unanswered] = {}
        is_unknown = False
        for endpoint in self._endpoints_in_turn():
            left_s = deadline - loop.time()
            if left_s <= 0 or (is_unknown and not repeat):
                break
            try:
                return await self._ask(endpoint, path, body, parse, min(left_s, patience_s))
            except (_NotDone, _Unanswered) as error:
                self._turn_from(endpoint)
                failures[endpoint] = error
                is_unknown |= isinstance(error, _Unanswered)
            except EtcdRefused as refusal:
                raise self._explained(refusal) from refusal
        what = f"etcd, {path}: {'; '.join(f'{at}: {error}' for at, error in failures.items())}"
        if is_unknown:
            raise OutcomeUnknown(what)
        # One endpoint that is merely away may accept what the others do not.
        is_denied = all(isinstance(error, _Denied) for error in failures.values())
        raise AccessDenied(what) if failures and is_denied else CoordinatorUnavailable(what)

    async def _ask(
        self, endpoint: str, path: str, body: bytes, parse: Callable[[bytes], A], timeout_s: float
    ) -> A:
        """Ask one endpoint; with a new token if it does not take the one we have."""
        token = await self._token_other_than("", endpoint, timeout_s)
        try:
            return await self._post(endpoint, path, body, parse, timeout_s)
        except EtcdRefused as refusal:
            is_stale = refusal.grpc_code == UNAUTHENTICATED or str(refusal) == STALE_TOKEN
            if not (self.options.credentials.user and is_stale):
                raise
        await self._token_other_than(token, endpoint, timeout_s)
        return await self._post(endpoint, path, body, parse, timeout_s)

    async def _token_other_than(self, token: str, endpoint: str, timeout_s: float) -> str:
        """Return the present token; a new one if that is *token*, which etcd does not take.

        One call gets a token for all: each costs etcd a tenth of a second of a processor.
        """
        if not self.options.credentials.user:
            return ""
        try:
            async with asyncio.timeout(timeout_s), self._authenticating:
                if self._token == token:
                    self._token = ""
                    self._token = await self._new_token(endpoint, timeout_s)
        except (_Unanswered, TimeoutError) as error:
            # What needs the token was not sent.
            raise _NotDone(f"no token: {_reason(error)}") from error
        return self._token

    async def _new_token(self, endpoint: str, timeout_s: float) -> str:
        credentials = self.options.credentials
        password = await asyncio.to_thread(credentials.password)
        body = msgspec.json.encode({"name": credentials.user, "password": password})
        parse = partial(decode, kind=TokenResponse)
        return (await self._post(endpoint, "/v3/auth/authenticate", body, parse, timeout_s)).token

    def _explained(self, refusal: EtcdRefused) -> CoordinatorRefused:
        """Return *refusal*, or what to raise in its place if it is about credentials."""
        reason = self.options.credentials.why_refused(str(refusal), refusal.grpc_code)
        if reason:
            return AccessDenied(f"etcd: {reason}")
        message = str(refusal)
        remedy = next((each for words, each in REMEDIES.items() if words in message), None)
        return EtcdRefused(f"{message}: {remedy}", refusal.grpc_code) if remedy else refusal

    async def _post(
        self, endpoint: str, path: str, body: bytes, parse: Callable[[bytes], A], timeout_s: float
    ) -> A:
        timeout = aiohttp.ClientTimeout(total=timeout_s, connect=timeout_s / 2)
        try:
            async with self._http().post(
                endpoint + path, data=body, headers=self._credentials(), timeout=timeout
            ) as response:
                content = await response.read()
        except (aiohttp.ClientError, OSError) as error:
            if reason := self.options.credentials.why_not_connected(error):
                raise _Denied(reason) from error
            is_unsent = isinstance(
                error, (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)
            )
            raise (_NotDone if is_unsent else _Unanswered)(_reason(error)) from error
        if response.status != 200:
            _fail_with(response.status, content)
        try:
            answer = parse(content)
        except UNDECODABLE as error:
            raise _Unanswered(f"an answer that is not etcd's ({error})") from error
        self.check(answer)
        return answer

    # -- endpoints ------------------------------------------------------------------------------

    def _endpoints_in_turn(self) -> Iterator[str]:
        """Yield all endpoints from the present one on; a single one twice."""
        endpoints = self.options.endpoints
        at = self._at
        for step in range(max(2, len(endpoints))):
            yield endpoints[(at + step) % len(endpoints)]

    def _turn_from(self, endpoint: str) -> None:
        """Use the next endpoint from now on, unless another call has left this one already."""
        endpoints = self.options.endpoints
        if endpoints[self._at] == endpoint:
            self._at = (self._at + 1) % len(endpoints)

    def _credentials(self) -> dict[str, str]:
        return {"Authorization": self._token} if self._token else {}

    def _http(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=self._tls))
        return self._session


def _renewed(content: bytes) -> LeaseResponse:
    """Return what the one line of a keepalive says."""
    line = decode(content, KeepaliveLine)
    if line.error:
        _fail(line.error)
    return line.result or LeaseResponse()


def _fail_with(status: int, content: bytes) -> NoReturn:
    """Raise what a status other than 200 means for what was asked."""
    try:
        failure: Failure | None = decode(content, Failure)
    except UNDECODABLE:
        failure = _plain_failure(status, content)
    if failure is None:
        raise _Unanswered(f"status {status}")
    _fail(failure)


def _plain_failure(status: int, content: bytes) -> Failure | None:
    """Return what a refusal means that is not of etcd's JSON; None if it may be anything."""
    if status in (404, 405):
        return Failure(
            message=f"status {status}: this is not the client URL of etcd 3.4 or newer, or its "
            "gateway is switched off (--enable-grpc-gateway)",
            code=UNIMPLEMENTED,
        )
    if COMMON_NAME.encode() in content:
        return Failure(message=content.decode(errors="replace").strip(), code=PERMISSION_DENIED)
    return None


def _fail(failure: Failure) -> NoReturn:
    """Raise what *failure* means for what was asked."""
    grpc_code = failure.grpc_code or failure.code
    if failure.message == NO_LEADER:
        raise _NotDone(failure.message)
    if NO_SPACE in failure.message:
        raise OutOfSpace(f"{failure.message}: {NO_SPACE_REMEDY}")
    if grpc_code in NOTHING_DONE:
        raise EtcdRefused(failure.message, grpc_code)
    raise _Unanswered(failure.message)


def _reason(error: Exception) -> str:
    return str(error) or ("no answer in time" if isinstance(error, TimeoutError) else repr(error))
