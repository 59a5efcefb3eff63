"""What a warden does for a node whose process has ended: it posts the letters of its last will.

The warden knows neither etcd nor other nodes. It has seen the process end, which is proof, and has
letters that the node wrote while it lived, for those who have to know: so they need not wait until
the node has been silent for long enough. A letter may come twice, late, or never; whoever gets it
has to be content with that.
"""

import asyncio
import logging
import ssl
from collections.abc import Collection, Iterable
from urllib.parse import urlsplit

import msgspec

from rota.core.model.attempt import AttemptKey
from rota.executor.warden.messages import HELD_TOLD_MAX, CertificateFiles, OnDeathRequest

log = logging.getLogger(__name__)

WITHIN_S = 5.0
"""After so long everybody has found out by themselves, or nobody minds any more."""
TRY_S = 1.0
"""How long one of those that may answer gets, before the next is asked."""
PAUSES_S = (0.05, 0.1, 0.2, 0.5)
"""Between two rounds; the last is repeated."""


async def post_all(letters: Iterable[OnDeathRequest], held: Collection[AttemptKey] = ()) -> None:
    """Post all letters, side by side, each until it is answered or `WITHIN_S` are over.

    Args:
        letters: Of the will.
        held: What the warden held when the process had ended, and all that it said had been heard.
    """
    async with asyncio.TaskGroup() as group:
        for letter in letters:
            group.create_task(_post(_telling(letter, held)))


def _telling(letter: OnDeathRequest, held: Collection[AttemptKey]) -> OnDeathRequest:
    if not letter.tells_held:
        return letter
    told = list(held) if len(held) <= HELD_TOLD_MAX else None
    return msgspec.structs.replace(letter, body=msgspec.msgpack.encode((letter.body, told)))


async def _post(letter: OnDeathRequest) -> None:
    what = {"url": letter.urls[0]}
    try:
        async with asyncio.timeout(WITHIN_S):
            log.info("letter posted", extra={**what, "status": await _answer(letter)})
    except TimeoutError:
        log.warning("letter not posted", extra=what)


async def _answer(letter: OnDeathRequest) -> int:
    """Return the status of the first answer that says what became of it, however long it takes."""
    rounds = 0
    while True:
        for url in letter.urls:
            try:
                async with asyncio.timeout(TRY_S):
                    status = await _ask(url, letter)
            except (OSError, ValueError, IndexError, TimeoutError):
                continue
            if status < 500:
                return status
        await asyncio.sleep(PAUSES_S[min(rounds, len(PAUSES_S) - 1)])
        rounds += 1


async def _ask(url: str, letter: OnDeathRequest) -> int:
    """Post a letter to one address, and return the status of the answer.

    By hand, for a client library would make every start of a warden slower.

    Raises:
        OSError: It cannot be reached, or a file of certificates cannot be read.
        ValueError, IndexError: What answers does not speak HTTP.
    """
    parts = urlsplit(url)
    is_tls = parts.scheme == "https"
    port = parts.port or (443 if is_tls else 80)
    tls = _tls(letter.certificates) if is_tls else None
    reader, writer = await asyncio.open_connection(parts.hostname, port, ssl=tls)
    try:
        headers = {
            "Host": parts.netloc,
            "Content-Length": str(len(letter.body)),
            "Connection": "close",
            **letter.headers,
        }
        lines = [f"POST {parts.path or '/'} HTTP/1.1", *map(": ".join, headers.items()), "", ""]
        writer.write("\r\n".join(lines).encode() + letter.body)
        return int((await reader.readline()).split()[1])
    finally:
        writer.close()


def _tls(files: CertificateFiles) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=files.authority or None)
    if files.certificate:
        context.load_cert_chain(files.certificate, files.key or None)
    return context
