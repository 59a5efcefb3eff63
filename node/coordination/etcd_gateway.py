"""Client of etcd's v3 JSON gateway, with one HTTP session and several endpoints.

Every call has a deadline and ends in one of five ways:

- an answer;
- `CoordinatorUnavailable`: the call was certainly not executed, because it was not sent, or because
  etcd refused it before the execution;
- `AccessDenied`: the same, because of the node's credentials;
- `OutcomeUnknown`: the call was sent and no answer was received, so it may have been executed, or
  may still be. Only a call whose repetition is harmless is sent again automatically. `OutOfSpace`
  is the same, because etcd's quota is used up;
- `EtcdRefused`: etcd refused the call, with a reason.

Calls go to one endpoint until it fails, then to the next one.
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
"""The gRPC codes of refusals after which a call had no effect: invalid, not found, exists, denied,
exhausted (but see `NO_SPACE`), precondition, range, unimplemented, unauthenticated. With all other
codes (cancelled, unknown, deadline, aborted, internal, unavailable, data loss), a proposal may be
under way in etcd."""
NO_LEADER = "etcdserver: no leader"
"""The only answer with the code "unavailable" that is sent before anything is proposed."""
RESOURCE_EXHAUSTED = 8
"""The code of a refusal because of too many requests."""
NO_SPACE = "database space exceeded"
"""The only refusal that does not prove that a call had no effect: if the quota is reached between
etcd's first check and the execution of a request, etcd executes the request and then refuses it
(`quotaApplierV3` in etcd's source)."""
NO_SPACE_REMEDY = (
    "etcd's quota is used up. Make room with `etcdctl compact REVISION`, `etcdctl defrag` and "
    '`etcdctl alarm disarm`; see "etcd is full" in docs/how-to/operate.md'
)
REMEDIES = {
    "too many requests": "etcd has more requests under way than it accepts: find out which other "
    "programs use it, and give it a faster disk",
}
"""The refusals of etcd, besides those of credentials, with their remedies."""
UNIMPLEMENTED = 12
STALE_TOKEN = "etcdserver: revision of auth store is old"
"""The only refusal with another code than `UNAUTHENTICATED` that a new token remedies."""
_QUOTA = re.compile(rb"^etcd_server_quota_backend_bytes ([0-9.e+]+)$", re.MULTILINE)
LINE_BYTES_MAX = 16 << 20
"""The largest answer of a watch. etcd's own messages have at most 2 MiB, and a third more in
base64."""


@dataclass(frozen=True, kw_only=True)
class GatewayOptions:
    """The options of the connection to etcd.

    Attributes:
        endpoints: The URLs of the members of one etcd cluster; at least one.
        first: The index of the first endpoint to use, which should differ between nodes.
        credentials: The user, the password file and the certificates.
        call_timeout_s: The time limit of a request, in seconds.
        renew_timeout_s: The time limit of a renewal, in seconds; renewals are repeated anyway.
        watch_idle_s: The time in seconds without data after which a watch is replaced by one at the
            next endpoint, because its member may hang.
    """

    endpoints: tuple[str, ...]
    first: int = 0
    credentials: Credentials = NO_CREDENTIALS
    call_timeout_s: float = 3.0
    renew_timeout_s: float = 1.0
    watch_idle_s: float = 5.0


class EtcdRefused(CoordinatorRefused):
    """etcd refused a call, which had no effect.

    Attributes:
        grpc_code: The gRPC code of the refusal.
    """

    code = "etcd_refused"

    def __init__(self, message: str, grpc_code: int) -> None:
        super().__init__(message)
        self.grpc_code = grpc_code
        self.is_passing = grpc_code == RESOURCE_EXHAUSTED


class _NotDone(Exception):
    """The endpoint did not execute the call; another endpoint may."""


class _Denied(_NotDone):
    """The endpoint did not execute the call, because of the credentials for a connection."""


class _Unanswered(Exception):
    """The call was sent, and its outcome is unknown."""


class Gateway:
    """A client of one etcd cluster.

    Args:
        options: The options of the connection to etcd.

    Raises:
        AccessDenied: A certificate file cannot be used.
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
        """Return the answer to a read, from the first endpoint that answers.

        Raises:
            CoordinatorUnavailable: No endpoint answered before the deadline.
            EtcdRefused: etcd refused the read.
            OtherCluster: Another etcd answered.
        """
        try:
            return await self.write(path, request, kind, repeat=True)
        except OutcomeUnknown as error:
            raise CoordinatorUnavailable(str(error)) from error

    async def write(self, path: str, request: Json, kind: type[A], *, repeat: bool = False) -> A:
        """Return the answer to a request.

        Args:
            path: The path of the method.
            request: The argument of the method.
            kind: The type of the answer.
            repeat: Whether the request may be sent again, because its repetition is harmless.

        Raises:
            CoordinatorUnavailable: The request was certainly not executed.
            OutcomeUnknown: The request may have been executed, or may still be.
            AccessDenied: The request was certainly not executed, because of the credentials.
            EtcdRefused: etcd refused the request.
            OtherCluster: Another etcd answered.
        """
        parse = partial(decode, kind=kind)
        return await self._call(path, request, parse, self.options.call_timeout_s, repeat=repeat)

    async def renew(self, lease: int) -> LeaseResponse:
        """Renew a lease, as `write` does, with its own deadline and with repetitions."""
        request: Json = {"ID": str(lease)}
        timeout_s = self.options.renew_timeout_s
        return await self._call("/v3/lease/keepalive", request, _renewed, timeout_s, repeat=True)

    async def status_of_each(self) -> list[StatusResponse]:
        """Return the status of each endpoint that answers."""
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
        """Yield the lines of one endpoint's response, until it is silent for too long or ends.

        The request uses the token of the last call and gets no new one, so call `read` first.

        Raises:
            CoordinatorUnavailable: The stream has ended; the next one uses the next endpoint.
            EtcdRefused: etcd refused the request.
        """
        endpoint = self.options.endpoints[self._at]
        timeout = aiohttp.ClientTimeout(
            total=None,
            connect=self.options.call_timeout_s / 2,
            sock_read=self.options.watch_idle_s,
        )
        # Without the second header, a member that has lost its leader keeps the stream open but
        # sends nothing.
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
        """Check that an answer is from the same etcd cluster as the first answer.

        Raises:
            OtherCluster: The answer is from another etcd cluster.
        """
        found = answer.header.cluster_id
        if not self._cluster_id:
            self._cluster_id = found
        if found not in (self._cluster_id, 0):
            raise OtherCluster(
                f"etcd is another cluster than before ({found:x} instead of "
                f"{self._cluster_id:x}): it was restored or founded again, or an endpoint is wrong"
            )

    def refuse(self, failure: Failure) -> NoReturn:
        """Raise the error for *failure*, which was received in a stream.

        Raises:
            EtcdRefused: etcd refused the request.
            CoordinatorUnavailable: The same request may succeed later.
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
                # Versions before 3.6 do not report the quota in the status.
                quota = await self._quota_of(endpoint)
                status = msgspec.structs.replace(status, quota_bytes=quota)
        except (_NotDone, _Unanswered, CoordinatorRefused, OtherCluster):
            return None
        return status

    async def _quota_of(self, endpoint: str) -> int:
        """Return the quota of one member from the metrics on its client port; 0 if unknown."""
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
        """Send a call to the endpoints in turn, until one answers or the outcome is unknown."""
        body = msgspec.json.encode(request)
        loop = get_running_loop()
        deadline = loop.time() + timeout_s
        # A repeatable call gives an endpoint half of the time, so that another one can be tried if
        # it hangs.
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
        # An endpoint that is only unavailable may accept the credentials that the others refuse.
        is_denied = all(isinstance(error, _Denied) for error in failures.values())
        raise AccessDenied(what) if failures and is_denied else CoordinatorUnavailable(what)

    async def _ask(
        self, endpoint: str, path: str, body: bytes, parse: Callable[[bytes], A], timeout_s: float
    ) -> A:
        """Send a call to one endpoint; repeat it with a new token if the token is refused."""
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
        """Return the present token, or a new one if that is *token*, which etcd does not accept.

        One call gets a token for all, since each token costs etcd 0.1 s of processor time.
        """
        if not self.options.credentials.user:
            return ""
        try:
            async with asyncio.timeout(timeout_s), self._authenticating:
                if self._token == token:
                    self._token = ""
                    self._token = await self._new_token(endpoint, timeout_s)
        except (_Unanswered, TimeoutError) as error:
            # The call that needs the token was not sent.
            raise _NotDone(f"no token: {_reason(error)}") from error
        return self._token

    async def _new_token(self, endpoint: str, timeout_s: float) -> str:
        credentials = self.options.credentials
        password = await asyncio.to_thread(credentials.password)
        body = msgspec.json.encode({"name": credentials.user, "password": password})
        parse = partial(decode, kind=TokenResponse)
        return (await self._post(endpoint, "/v3/auth/authenticate", body, parse, timeout_s)).token

    def _explained(self, refusal: EtcdRefused) -> CoordinatorRefused:
        """Return the error to raise for *refusal*, with a remedy if one is known."""
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
            raise _Unanswered(f"the answer is not one of etcd ({error})") from error
        self.check(answer)
        return answer

    # -- endpoints ------------------------------------------------------------------------------

    def _endpoints_in_turn(self) -> Iterator[str]:
        """Yield all endpoints, beginning with the present one; yield a single endpoint twice."""
        endpoints = self.options.endpoints
        at = self._at
        for step in range(max(2, len(endpoints))):
            yield endpoints[(at + step) % len(endpoints)]

    def _turn_from(self, endpoint: str) -> None:
        """Use the next endpoint from now on, unless another call has already left this one."""
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
    """Return the lease in the only line of the answer to a keepalive."""
    line = decode(content, KeepaliveLine)
    if line.error:
        _fail(line.error)
    return line.result or LeaseResponse()


def _fail_with(status: int, content: bytes) -> NoReturn:
    """Raise the error for an HTTP status other than 200."""
    try:
        failure: Failure | None = decode(content, Failure)
    except UNDECODABLE:
        failure = _plain_failure(status, content)
    if failure is None:
        raise _Unanswered(f"status {status}")
    _fail(failure)


def _plain_failure(status: int, content: bytes) -> Failure | None:
    """Return the failure that a response without etcd's JSON means; None if it is unknown."""
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
    """Raise the error for *failure*."""
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
