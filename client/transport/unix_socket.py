"""One call over the socket in the data directory of a node."""

import os
from pathlib import Path
from typing import TypeVar

import aiohttp
from yarl import URL

from rota.client.errors import Unreachable
from rota.client.transport.call import Call, Response, result_of

T = TypeVar("T")

NAME = "api.sock"
"""The name of the socket in a data directory."""


async def ask_at_socket(data_dir: Path, call: Call[T], timeout_s: float) -> T:
    """Return the result of *call*, which is sent once.

    Raises:
        RequestFailed: The call failed; the subclass depends on the error.
    """
    socket = data_dir / NAME
    try:
        folder = os.open(data_dir, os.O_PATH | os.O_DIRECTORY)
    except OSError as error:
        raise _no_socket(socket, error) from error
    try:
        # The whole path may be longer than the 107 bytes that the address of a socket may have.
        connector = aiohttp.UnixConnector(f"/proc/self/fd/{folder}/{NAME}")
        async with (
            aiohttp.ClientSession(
                connector=connector, timeout=aiohttp.ClientTimeout(total=timeout_s)
            ) as session,
            session.request(
                call.method,
                # The host has no meaning at a socket.
                URL(f"http://localhost{call.target}", encoded=True),
                data=call.body,
                headers=call.all_headers,
                allow_redirects=False,
            ) as response,
        ):
            answer = Response(
                response.status,
                await response.read(),
                request_id=response.headers.get("X-Request-Id", ""),
            )
    except aiohttp.ClientConnectorError as error:
        raise _no_socket(socket, error.os_error) from error
    except (aiohttp.ClientError, TimeoutError) as error:
        detail = f"no answer at {socket}: {str(error) or 'it took too long'}"
        raise Unreachable(detail, may_have_arrived=True) from error
    finally:
        os.close(folder)
    return result_of(call, answer)


def _no_socket(socket: Path, error: OSError) -> Unreachable:
    reason = os.strerror(error.errno) if error.errno else str(error)
    detail = (
        f"no answer at {socket}: {reason}; run this on the machine of a running node, with its "
        "data directory, as the user of the node or as root"
    )
    return Unreachable(detail, may_have_arrived=False)
