"""Calls over HTTP: one session for all endpoints, which are tried until one answers."""

import asyncio
import errno
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, TypeVar

import aiohttp
from yarl import URL

from rota.client.errors import NotAuthenticated, RequestFailed, Unreachable
from rota.client.transport.call import Call, Response, failure_of, result_of
from rota.client.transport.credentials import Credentials
from rota.client.transport.endpoints import Endpoints
from rota.client.transport.tries import Tries, Try
from rota.client.transport.trust import Trust, why_not_trusted

T = TypeVar("T")

CONNECT_S = 5.0
"""The time limit for opening a connection; a node on the same continent accepts in 0.1 s."""
CONNECTIONS_MAX = 1_000
"""The most connections. Each wait takes one, so with fewer, many waits would block other calls."""


class Connection:
    """Sends calls, which may be concurrent; sockets are reused.

    Args:
        urls: The endpoints, at least one.
        repeats_max: The most retries at each endpoint; see `Tries`.
        credentials: The tokens that are sent; None for those that the environment implies.
        trust: The certificates; None for those that the environment implies.

    Attributes:
        endpoints: The endpoints, in the order in which they are tried.
        life: The number of calls of `close` so far; streams of an earlier life have ended.
    """

    def __init__(
        self,
        urls: Sequence[str],
        repeats_max: int,
        credentials: Credentials | None = None,
        trust: Trust | None = None,
    ) -> None:
        self.endpoints = Endpoints(urls)
        self.life = 0
        self._credentials = credentials or Credentials(urls)
        self._trust = trust or Trust(urls)
        self._repeats_max = repeats_max
        self._session: aiohttp.ClientSession | None = None
        self._streams: set[ByteStream] = set()

    async def close(self) -> None:
        """Close the sockets: streams end, and a later call opens new sockets."""
        self.life += 1
        for stream in list(self._streams):
            # Closing the session alone would not notify the reader of the stream.
            await stream.aclose()
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def ask(self, call: Call[T], timeout_s: float, *, repeats_max: int | None = None) -> T:
        """Return the result of *call*.

        Raises:
            RequestFailed: The call failed; the subclass depends on the error.
        """

        async def answer(url: str, limit_s: float) -> T:
            return await self._answer(call, url, limit_s)

        return await self._tried(call, timeout_s, repeats_max, answer)

    async def open(
        self,
        call: Call[Any],  # Any: its result is not read
        timeout_s: float,
        *,
        silence_s: float,
        repeats_max: int | None = None,
    ) -> "ByteStream":
        """Return the body of the answer to *call* as a stream; close it with ``aclose``.

        Args:
            call: The request.
            timeout_s: The limit in seconds until the stream begins; its duration is not limited.
            silence_s: The number of seconds without a byte after which the stream counts as lost.
            repeats_max: The most retries at each endpoint; None for those of this connection.

        Raises:
            RequestFailed: The stream does not begin.
        """

        async def stream(url: str, limit_s: float) -> ByteStream:
            return await self._stream(call, url, limit_s, silence_s)

        return await self._tried(call, timeout_s, repeats_max, stream)

    async def _tried(
        self,
        call: Call[Any],  # Any: the type of the call's result
        timeout_s: float,
        repeats_max: int | None,
        ask: Callable[[str, float], Awaitable[T]],
    ) -> T:
        try:
            return await self._asked(call, timeout_s, repeats_max, ask)
        except RequestFailed as failure:
            failure.name_request(call.method, call.path)
            raise

    async def _asked(
        self,
        call: Call[Any],  # Any: the type of the call's result
        timeout_s: float,
        repeats_max: int | None,
        ask: Callable[[str, float], Awaitable[T]],
    ) -> T:
        life = self.life
        loop = asyncio.get_running_loop()
        tries = Tries(
            call,
            self.endpoints,
            now=loop.time(),
            timeout_s=timeout_s,
            repeats_max=self._repeats_max if repeats_max is None else repeats_max,
        )
        next_try: Try = tries.first(loop.time())
        while True:
            await asyncio.sleep(next_try.pause_s)
            if self.life != life:
                detail = "the client was closed during the call; create another one to repeat it"
                raise Unreachable(detail, may_have_arrived=True)
            try:
                result = await ask(next_try.url, next_try.timeout_s)
            except RequestFailed as failure:
                if isinstance(failure, NotAuthenticated):
                    failure.name_token(self._credentials.describe(next_try.url))
                next_try = tries.after(next_try, failure, loop.time())
            else:
                self.endpoints.worked(next_try.url)
                return result

    async def _answer(self, call: Call[T], url: str, limit_s: float) -> T:
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S)
        try:
            # aiohttp's own total is not used, since it treats 0 s or less as no limit.
            async with asyncio.timeout(limit_s), await self._send(call, url, timeout) as response:
                answer = await _whole(response)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise _unreachable(url, error, self._trust) from error
        self._hear(call, url, response)
        return result_of(call, answer)

    async def _stream(
        self, call: Call[Any], url: str, limit_s: float, silence_s: float
    ) -> "ByteStream":  # Any: as in `open`
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S, sock_read=silence_s)
        try:
            async with asyncio.timeout(limit_s):
                response = await self._send(call, url, timeout)
                if response.status != 200:
                    async with response:
                        raise failure_of(await _whole(response))
        except (aiohttp.ClientError, TimeoutError) as error:
            raise _unreachable(url, error, self._trust) from error
        self._hear(call, url, response)
        stream = ByteStream(call, url, response, trust=self._trust, on_close=self._streams.discard)
        self._streams.add(stream)
        return stream

    def _hear(
        self,
        call: Call[Any],  # Any: the answer is not read here
        url: str,
        response: aiohttp.ClientResponse,
    ) -> None:
        if response.ok:
            self.endpoints.owners.record(url, call.slot, response.headers)

    async def _send(
        self,
        call: Call[Any],  # Any: the answer is not read here
        url: str,
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - aiohttp's own, of several kinds
    ) -> aiohttp.ClientResponse:
        token = self._credentials.token_for(url)
        response = await self._request(call, url, timeout, token)
        # A refused request had no effect, so it may be repeated, whatever it is.
        if response.status == 401 and self._credentials.is_renewed(url, token):
            response.close()
            response = await self._request(call, url, timeout, self._credentials.token_for(url))
        return response

    async def _request(
        self,
        call: Call[Any],  # Any: the answer is not read here
        url: str,
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - aiohttp's own, of several kinds
        token: str,
    ) -> aiohttp.ClientResponse:
        try:
            return await self._opened().request(
                call.method,
                URL(self._credentials.address_of(url) + call.target, encoded=True),
                data=call.body,
                headers=call.all_headers | ({"Authorization": f"Bearer {token}"} if token else {}),
                timeout=timeout,
                allow_redirects=False,
            )
        except aiohttp.ClientResponseError as error:
            reason = error.message
        # Raised here, apart from aiohttp's own error, which has the headers with the token.
        raise aiohttp.ClientPayloadError(reason)

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=CONNECTIONS_MAX, ssl=self._trust.context or True)
            jar = aiohttp.DummyCookieJar()
            self._session = aiohttp.ClientSession(connector=connector, cookie_jar=jar)
            # aiohttp would repeat by itself, and the second answer to `forget_node`, not found,
            # would hide the first. It has no public switch for this; a test checks the private one.
            self._session._retry_connection = False  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # see above
        return self._session


class ByteStream:
    """The body of a response, in parts as they arrive."""

    def __init__(
        self,
        call: Call[Any],  # Any: its result is not read
        url: str,
        response: aiohttp.ClientResponse,
        *,
        trust: Trust,
        on_close: "Callable[[ByteStream], None]",
    ) -> None:
        self._call = call
        self._url = url
        self._response = response
        self._trust = trust
        self._on_close = on_close

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield the parts of the body.

        Raises:
            Unreachable: The connection is lost, or was silent for too long.
        """
        try:
            async for part in self._response.content.iter_any():
                yield part
        except (aiohttp.ClientError, TimeoutError) as error:
            # This node is not marked as down, but tried first: on another, events would have a gap.
            failure = _unreachable(self._url, error, self._trust)
            failure.name_request(self._call.method, self._call.path)
            raise failure from error

    async def aclose(self) -> None:
        """Close the stream and its connection; its reader gets `Unreachable`."""
        self._on_close(self)
        connection = self._response.connection
        if connection is not None and connection.transport is not None:
            # With TLS, a connection that is closed instead waits for the end of TLS, and stays open
            # if the event loop ends before it.
            connection.transport.abort()
        self._response.close()
        await asyncio.sleep(0)


async def _whole(response: aiohttp.ClientResponse) -> Response:
    return Response(
        status=response.status,
        body=await response.read(),
        retry_after=response.headers.get("Retry-After", ""),
        request_id=response.headers.get("X-Request-Id", ""),
    )


def _unreachable(url: str, error: Exception, trust: Trust) -> Unreachable:
    """Return the error of a request to *url* without an answer."""
    never_arrived = isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError)
    os_error = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else None
    return Unreachable(
        f"no answer from {url}: {_what_went_wrong(url, error, trust)}",
        may_have_arrived=not never_arrived,
        is_refused=os_error is not None and os_error.errno == errno.ECONNREFUSED,
    )


def _what_went_wrong(url: str, error: Exception, trust: Trust) -> str:
    cause = error.__cause__ or error
    match error:
        case TimeoutError():
            return "it took too long"
        case aiohttp.ClientConnectorCertificateError():
            return why_not_trusted(error.certificate_error, trust)
        case aiohttp.ClientConnectorSSLError():
            return f"it does not use TLS ({cause}); without TLS the URL begins with http://"
        case aiohttp.ServerDisconnectedError():
            return f"the connection was closed without an answer{_why_closed(url, trust)}"
        case aiohttp.ClientConnectorError(os_error=OSError(errno=int(number))) if number > 0:
            return os.strerror(number)
        case aiohttp.ClientConnectorError(os_error=cause):
            # Names that cannot be resolved have negative numbers.
            return str(cause.strerror or cause)
        case OSError(errno=errno.ECONNRESET | errno.EPIPE) if url.startswith("https:"):
            # With TLS 1.3, a node refuses a certificate after the client's first request.
            return f"the connection was reset{_why_closed(url, trust)}"
        case _:
            return str(error) or type(error).__name__


def _why_closed(url: str, trust: Trust) -> str:
    if not url.startswith("https:"):
        return "; with TLS the URL begins with https://"
    if trust.certificate:
        return f"; the node may not accept the certificate in {trust.certificate}: see its log"
    return ""
