"""Requests as bytes, for what no HTTP client would send, and the parts of their answers."""

import json
import socket
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from support.rotad import Rotad


@contextmanager
def connection(node: Rotad, source: str = "127.0.0.1") -> Generator[socket.socket]:
    """Yield a connection to the API of *node*, from an address of the loopback."""
    context = urlsplit(node.url)
    address = (context.hostname, context.port)
    with socket.create_connection(address, timeout=20, source_address=(source, 0)) as connected:
        yield connected


def exchange(node: Rotad, request: bytes) -> bytes:
    """Send *request* as it is and return all that comes back."""
    with connection(node) as connected:
        connected.sendall(request)
        return all_of(connected)


def all_of(connected: socket.socket) -> bytes:
    """Return all that comes until the connection ends."""
    answer = b""
    while part := connected.recv(65_536):
        answer += part
    return answer


def request_of(method: str, path: str, body: bytes = b"", headers: bytes = b"") -> bytes:
    """Return a request, after which the connection is to be closed; *headers* end with CR LF."""
    return (
        f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    ).encode() + (headers + b"\r\n" + body)


def bare_request(first_line: str, *headers: str, body: bytes = b"") -> bytes:
    """Return a request with these lines and no others but ``Connection: close``."""
    return "\r\n".join((first_line, *headers, "Connection: close", "", "")).encode() + body


def status_of(answer: bytes) -> int:
    """Return the status of an answer."""
    return int(answer.split(b" ", 2)[1])


def headers_of(answer: bytes) -> dict[str, str]:
    """Return the headers of an answer, their names in lower case."""
    lines = answer.partition(b"\r\n\r\n")[0].decode().split("\r\n")[1:]
    pairs = (line.partition(": ") for line in lines)
    return {name.lower(): value for name, _, value in pairs}


def document_of(answer: bytes) -> Any:
    """Return the JSON document in an answer."""
    return json.loads(answer.partition(b"\r\n\r\n")[2])
