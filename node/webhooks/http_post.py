"""Webhooks by HTTP."""

import asyncio
import socket
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from functools import partial
from socket import AF_INET, AddressFamily
from typing import Self

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from rota.node.system.bounded_calls import BoundedCalls
from rota.node.webhooks.permitted_hosts import PermittedHosts
from rota.node.webhooks.webhook_request import WebhookAnswer, WebhookFailed, WebhookRequest, shown

ATTEMPT_S = 15.0
"""The time limit of an attempt: name, connection, TLS and answer, in seconds."""
START_BYTES_MAX = 2_000
"""Bytes that are read of the body of an answer that refuses a webhook."""
START_S = 2.0
"""The time limit for reading them."""
LOOKUP_S = 10.0
LOOKUPS_MAX = 16
"""The lookups of names at the same time. The names are from users, and their name servers may hang;
lookups of the loop itself would then delay the connections to etcd and to other nodes."""


class HttpPost:
    """Sends webhooks; no redirection is followed, and of an answer only the start is read.

    Args:
        session: The session for the requests; see `HttpPost.open`.
        hosts: The hosts to which requests may be sent.
    """

    def __init__(self, session: aiohttp.ClientSession, hosts: PermittedHosts) -> None:
        self._session = session
        self._hosts = hosts
        self._tls: ssl.SSLContext | None = None

    @classmethod
    @asynccontextmanager
    async def open(cls, hosts: PermittedHosts) -> AsyncGenerator[Self]:
        """Make a session for the time of the body.

        Each attempt has a new connection, so that a receiver is found at its present address.
        """
        connector = aiohttp.TCPConnector(
            resolver=_PermittedResolver(hosts), use_dns_cache=False, force_close=True, limit=0
        )
        async with aiohttp.ClientSession(
            connector=connector,
            timeout=aiohttp.ClientTimeout(total=ATTEMPT_S),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            skip_auto_headers=("Accept-Encoding",),
            trust_env=False,
        ) as session:
            yield cls(session, hosts)

    async def post(self, request: WebhookRequest) -> WebhookAnswer:
        """Send *request*, and return the answer.

        Raises:
            WebhookFailed: There is no answer, or the host is not permitted.
        """
        try:
            url = URL(request.url)
            fault = self._hosts.fault_of(url.host or "")
            if fault:
                raise WebhookFailed(fault, is_final=True)
            tls = await self._trusted() if url.scheme == "https" else True
            async with self._session.post(
                url, data=request.body, headers=request.headers, allow_redirects=False, ssl=tls
            ) as response:
                status = response.status
                start = "" if 200 <= status < 300 else await _start_of(response)
                return WebhookAnswer(status, shown(start, request.url))
        except WebhookFailed:
            raise
        except TimeoutError as error:
            raise WebhookFailed(f"no answer within {ATTEMPT_S:g} s") from error
        except Exception as error:
            # Any: the URL is from a user, and no error of a library may end the node.
            reason = shown(f"{error}", request.url)
            raise WebhookFailed(reason or type(error).__name__) from error

    async def _trusted(self) -> ssl.SSLContext:
        """Return the settings for https, which are loaded once: that takes 20 ms."""
        if self._tls is None:
            self._tls = await asyncio.to_thread(ssl.create_default_context)
        return self._tls


async def _start_of(response: aiohttp.ClientResponse) -> str:
    """Return the start of the body of *response*, as far as it arrives; the status is known."""
    found = bytearray()
    with suppress(aiohttp.ClientError, OSError, TimeoutError):
        async with asyncio.timeout(START_S):
            async for part in response.content.iter_any():
                found += part
                if len(found) >= START_BYTES_MAX:
                    break
    return found[:START_BYTES_MAX].decode(errors="replace")


class _PermittedResolver(AbstractResolver):
    """The system's resolver, which fails for names with an address that is not permitted."""

    def __init__(self, hosts: PermittedHosts) -> None:
        self._hosts = hosts
        self._lookups = BoundedCalls(
            "rota-webhook-name", within_s=LOOKUP_S, running_max=LOOKUPS_MAX
        )

    async def resolve(
        self, host: str, port: int = 0, family: AddressFamily = AF_INET
    ) -> list[ResolveResult]:
        """Return the addresses of *host*.

        Raises:
            WebhookFailed: The name is not found in time, or has an address that is not permitted.
        """
        found = await self._lookups.result(partial(_addresses, host, port, family))
        if found is None:
            raise WebhookFailed(f"{host}: the name was not found in time")
        if isinstance(found, OSError):
            raise WebhookFailed(f"{host}: {found.strerror}")
        fault = self._hosts.fault_of_addresses(host, (each["host"] for each in found))
        if fault:
            raise WebhookFailed(f"{host}: {fault}", is_final=True)
        return found

    async def close(self) -> None:
        """Do nothing: lookups under way end by themselves."""


def _addresses(host: str, port: int, family: AddressFamily) -> list[ResolveResult] | OSError:
    """Return the addresses of a name, or the error of their lookup."""
    try:
        found = socket.getaddrinfo(host, port, family, socket.SOCK_STREAM)
    except UnicodeError:
        return OSError(0, "it is not a valid name of a host")
    except OSError as error:
        return error
    return [
        ResolveResult(
            hostname=host,
            host=str(address[0]),
            port=port,
            family=kind,
            proto=protocol,
            flags=socket.AI_NUMERICHOST,
        )
        for kind, _, protocol, _, address in found
    ]
