"""Webhooks by HTTP."""

import asyncio
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import cache
from socket import AF_INET, AddressFamily
from typing import Self

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from rota.node.webhooks.permitted_hosts import PermittedHosts
from rota.node.webhooks.webhook_request import WebhookFailed, WebhookRequest

ATTEMPT_S = 15.0
"""Time for one attempt: name, connection, TLS and answer."""


class HttpPost:
    """Sends webhooks; no redirection is followed, and no body of an answer is read.

    Args:
        session: Makes the requests; see `HttpPost.open`.
        hosts: The hosts that requests may be sent to.
    """

    def __init__(self, session: aiohttp.ClientSession, hosts: PermittedHosts) -> None:
        self._session = session
        self._hosts = hosts

    @classmethod
    @asynccontextmanager
    async def open(cls, hosts: PermittedHosts) -> AsyncGenerator[Self]:
        """Make a session for the time of the body.

        Each attempt has a new connection: a receiver that is moved is found at its new address.
        """
        connector = aiohttp.TCPConnector(
            resolver=_PermittedResolver(hosts), use_dns_cache=False, force_close=True, limit=0
        )
        async with aiohttp.ClientSession(
            connector=connector,
            timeout=aiohttp.ClientTimeout(total=ATTEMPT_S),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
        ) as session:
            yield cls(session, hosts)

    async def post(self, request: WebhookRequest) -> int:
        """Send *request*, and return the status of the answer.

        Raises:
            WebhookFailed: There is no answer, or the host is not permitted.
        """
        try:
            url = URL(request.url)
            fault = self._hosts.fault_of(url.host or "")
            if fault:
                raise WebhookFailed(fault, is_final=True)
            tls = await asyncio.to_thread(_tls) if url.scheme == "https" else True
            async with self._session.post(
                url, data=request.body, headers=request.headers, allow_redirects=False, ssl=tls
            ) as response:
                return response.status
        except WebhookFailed:
            raise
        except TimeoutError as error:
            raise WebhookFailed(f"no answer within {ATTEMPT_S:g} s") from error
        except Exception as error:
            # Any: the URL is from a user, and no error of a library may end the node.
            raise WebhookFailed(f"{error}" or type(error).__name__) from error


class _PermittedResolver(AbstractResolver):
    """The system's resolver, which fails for names with an address that is not permitted."""

    def __init__(self, hosts: PermittedHosts) -> None:
        self._hosts = hosts
        self._resolver = aiohttp.ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: AddressFamily = AF_INET
    ) -> list[ResolveResult]:
        """Return the addresses of *host*.

        Raises:
            WebhookFailed: One of them is not permitted.
        """
        found = await self._resolver.resolve(host, port, family)
        fault = self._hosts.fault_of_addresses(host, (each["host"] for each in found))
        if fault:
            raise WebhookFailed(f"{host}: {fault}", is_final=True)
        return found

    async def close(self) -> None:
        """Close the system's resolver."""
        await self._resolver.close()


@cache
def _tls() -> ssl.SSLContext:
    """Return the settings for https; loading the certificates of the system takes 20 ms."""
    return ssl.create_default_context()
