"""Death notices: HTTP requests that a warden sends after the end of its node's process.

The warden has no connection to etcd or other nodes. But it has proof that the process has ended,
and holds requests that the node prepared for etcd and the other nodes, which then need not wait for
a timeout. A request may arrive twice, late or never; receivers must tolerate that.
"""

import asyncio
import logging
import ssl
import threading
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from functools import partial
from typing import TypeVar
from urllib.parse import urlsplit

import msgspec

from rota.core.model.attempt import AttemptKey
from rota.executor.warden.messages import HELD_KEYS_MAX, CertificateFiles, OnDeathRequest

log = logging.getLogger(__name__)

T = TypeVar("T")

WITHIN_S = 5.0
"""The time limit of a request: after it, the receivers have detected the end by timeouts."""
TRY_S = 1.0
"""The timeout of one receiver, before the next one is tried."""
PAUSES_S = (0.05, 0.1, 0.2, 0.5)
"""The pauses between two rounds; the last one is repeated."""


async def post_all(requests: Iterable[OnDeathRequest], held: Collection[AttemptKey] = ()) -> None:
    """Send all requests concurrently, each until it is answered or `WITHIN_S` have passed.

    Args:
        requests: The requests.
        held: The attempts that the warden held after the process had ended and all of its messages
            were processed.
    """
    async with asyncio.TaskGroup() as group:
        for request in requests:
            group.create_task(_post(_with_held(request, held)))


def _with_held(request: OnDeathRequest, held: Collection[AttemptKey]) -> OnDeathRequest:
    if not request.includes_held:
        return request
    keys = list(held) if len(held) <= HELD_KEYS_MAX else None
    return msgspec.structs.replace(request, body=msgspec.msgpack.encode((request.body, keys)))


async def _post(request: OnDeathRequest) -> None:
    what = {"url": request.urls[0]}
    try:
        async with asyncio.timeout(WITHIN_S):
            log.info("death notice posted", extra={**what, "status": await _answer(request)})
    except TimeoutError:
        log.warning("death notice not posted", extra=what)


async def _answer(request: OnDeathRequest) -> int:
    """Send a request until the status of an answer is below 500, and return it; no time limit."""
    rounds = 0
    while True:
        for url in request.urls:
            try:
                async with asyncio.timeout(TRY_S):
                    status = await _ask(url, request)
            except (OSError, ValueError, IndexError, TimeoutError):
                continue
            if status < 500:
                return status
        await asyncio.sleep(PAUSES_S[min(rounds, len(PAUSES_S) - 1)])
        rounds += 1


async def _ask(url: str, request: OnDeathRequest) -> int:
    """Post a request to one URL, and return the status of the answer.

    No client library is used, as its import would make every start of a warden slower.

    Raises:
        OSError: The server cannot be reached, or a file of certificates cannot be read.
        ValueError, IndexError: The answer is not HTTP.
    """
    parts = urlsplit(url)
    is_tls = parts.scheme == "https"
    port = parts.port or (443 if is_tls else 80)
    tls = await _in_thread(partial(_tls, request.certificates)) if is_tls else None
    name = (request.server_name or parts.hostname) if is_tls else None
    reader, writer = await asyncio.open_connection(
        parts.hostname, port, ssl=tls, server_hostname=name
    )
    try:
        headers = {
            "Host": parts.netloc,
            "Content-Length": str(len(request.body)),
            "Connection": "close",
            **request.headers,
        }
        lines = [f"POST {parts.path or '/'} HTTP/1.1", *map(": ".join, headers.items()), "", ""]
        writer.write("\r\n".join(lines).encode() + request.body)
        return int((await reader.readline()).split()[1])
    finally:
        writer.close()


async def _in_thread(work: Callable[[], T]) -> T:
    """Return the result of *work*, which may hang with a disk.

    The thread is a daemon, unlike those of the loop's executor, for which the end of the warden
    would wait.

    Raises:
        OSError, ValueError: As *work* does.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def finish(settle: Callable[[], None]) -> None:
        if not done.done():
            settle()

    def run() -> None:
        try:
            result = work()
            settle = partial(done.set_result, result)
        except (OSError, ValueError) as error:
            settle = partial(done.set_exception, error)
        with suppress(RuntimeError):  # The loop has ended without this result.
            loop.call_soon_threadsafe(finish, settle)

    threading.Thread(target=run, daemon=True).start()
    return await done


def _tls(files: CertificateFiles) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=files.authority or None)
    if files.certificate:
        context.load_cert_chain(files.certificate, files.key or None)
    return context
