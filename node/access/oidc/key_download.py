"""Download of the public keys of an issuer: its discovery document, then its set of keys.

Source: OpenID Connect Discovery 1.0, section 4; RFC 8414.
"""

import asyncio
import ssl
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Any, cast

import aiohttp
import msgspec
from yarl import URL

from rota.node.access.issuer import Issuer, JsonWebKey

DISCOVERY = "/.well-known/openid-configuration"
DOWNLOAD_S = 5.0
"""The time limit of each of the two requests, in seconds."""
BYTES_MAX = 64 << 10
KEYS_MAX = 100


class DownloadFailed(Exception):
    """The keys of an issuer were not downloaded; the text has the reason."""


async def download_keys(issuer: Issuer) -> list[JsonWebKey]:
    """Return the public keys that *issuer* publishes at present.

    Raises:
        DownloadFailed: They cannot be read.
    """
    try:
        tls = await asyncio.to_thread(ssl.create_default_context, cadata=issuer.ca or None)
        # A new connection each time: there are a few in an hour.
        async with aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=DOWNLOAD_S),
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
        ) as session:
            about = await _document(session, issuer.url.rstrip("/") + DISCOVERY, tls)
            if about.get("issuer") != issuer.url:
                raise DownloadFailed(
                    f"the discovery document is of the issuer {about.get('issuer')!r}"
                )
            where = about.get("jwks_uri")
            if not isinstance(where, str):
                raise DownloadFailed("the discovery document has no jwks_uri")
            found = (await _document(session, where, tls)).get("keys")
    except TimeoutError as error:
        raise DownloadFailed(f"no answer within {DOWNLOAD_S:g} s") from error
    except (aiohttp.ClientError, OSError, ValueError, msgspec.MsgspecError) as error:
        raise DownloadFailed(f"{error}" or type(error).__name__) from error
    if not isinstance(found, list):
        raise DownloadFailed("the set of keys has no list of keys")
    keys = cast("list[object]", found)[:KEYS_MAX]
    return [cast("JsonWebKey", each) for each in keys if isinstance(each, dict)]


async def _document(
    session: aiohttp.ClientSession, address: str, tls: ssl.SSLContext
) -> Mapping[str, Any]:
    """Return the JSON object at *address*; redirections are not followed.

    Raises:
        DownloadFailed: There is none.
    """
    if not is_protected(address):
        raise DownloadFailed(f"{address} is not an https:// address")
    async with session.get(address, ssl=tls, allow_redirects=False) as response:
        if response.status != 200:
            raise DownloadFailed(f"{address} answered with status {response.status}")
        content = await _limited(response)
    return msgspec.json.decode(content, type=dict[str, Any])


async def _limited(response: aiohttp.ClientResponse) -> bytes:
    """Return the body of *response*.

    Raises:
        DownloadFailed: It has too many bytes.
    """
    content = bytearray()
    async for chunk in response.content.iter_chunked(BYTES_MAX):
        content += chunk
        if len(content) > BYTES_MAX:
            raise DownloadFailed(f"{response.url} has more than {BYTES_MAX:,} bytes")
    return bytes(content)


def is_protected(address: str) -> bool:
    """Return True if others cannot change what is read on the way: https, or this machine."""
    try:
        url = URL(address)
        if url.scheme == "https":
            return bool(url.host)
        return url.scheme == "http" and ip_address(url.host or "").is_loopback
    except ValueError:
        return False
