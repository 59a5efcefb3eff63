"""Webhooks by HTTP."""

import asyncio
import socket
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from socket import AF_INET, AddressFamily
from typing import Self

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from rota.node.system.bounded_calls import BoundedCalls
from rota.node.webhooks.permitted_hosts import PermittedHosts
from rota.node.webhooks.webhook_request import WebhookFailed, WebhookRequest

ATTEMPT_S = 15.0
"""The time limit of an attempt: name, connection, TLS and answer, in seconds."""
LOOKUP_S = 10.0
LOOKUPS_MAX = 16
"""The lookups of names at the same time. The names are from users, and their name servers may hang;
lookups of the loop itself would then delay the connections to etcd and to other nodes."""


class HttpPost:
    """Sends webhooks; no redirection is followed, and no body of an answer is read.

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
            tls = await self._trusted() if url.scheme == "https" else True
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

    async def _trusted(self) -> ssl.SSLContext:
        """Return the settings for https, which are loaded once: that takes 20 ms."""
        if self._tls is None:
            self._tls = await asyncio.to_thread(ssl.create_default_context)
        return self._tls


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
