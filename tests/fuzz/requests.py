"""Requests drawn from a seed: junk, damaged heads, every operation with strange values."""

import json
import random  # noqa: TID251 - there is no simulation here that would replay it
import re
from collections.abc import Iterator
from copy import copy
from typing import Any
from urllib.parse import quote

from rota.node.api.app import OPERATIONS
from rota.node.api.reference.openapi import EXAMPLES
from rota.node.api.requests.operations import Operation

Json = Any  # Any: a document that is about to be spoiled.

STRANGE: list[Json] = [
    *(None, True, 0, -1, 1, 2**31, 2**63, -(2**63), 2**64, 1e300, 0.1, "", " ", "\0", "\ud7ff"),
    *("x" * 300, "@every 1s", "@daily", "@every 99999999d", "* * * * *", "0 0 31 2 *", "9" * 400),
    *("9999-12-31T23:59:59Z", "2027-01-01T00:00:00Z", "Europe/Berlin", "../../etc/passwd", "~x"),
    *(
        [],
        {},
        [[]] * 20,
        {"x": {"x": {}}},
        "{{x}}",
        "%00",
        "f" * 16,
        "a/b",
        "\u0660",
        "1h30m",
        "1e9s",
    ),
]
HEADERS = [
    *("Content-Length: 5", "Content-Length: -1", "Content-Length: 99999999999999999999"),
    *("Transfer-Encoding: chunked", "Transfer-Encoding: gzip, chunked", "Expect: 100-continue"),
    *("Content-Encoding: gzip", "Host: evil.example", "Host:", "Origin: null", "X: \0", "X : y"),
    *("Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x", "Upgrade: tcp"),
    *('If-Match: "1"', "If-Match: x", "If-None-Match: *", "Idempotency-Key: k", "Range: bytes=0-"),
    *(
        "Rota-Shards: zz",
        "Rota-Shards: -1",
        "Rota-Items: x",
        "Rota-Items: 9,9",
        "Rota-Items: " + "9" * 5_000,
        "Rota-Kept: x",
        "Rota-Kept: -1",
        "Rota-Kept: " + "9" * 23,
    ),
    *("Last-Event-ID: x", "Accept: x/y", "traceparent: x", "X-Request-Id: \xff", " folded: line"),
    *(
        "X: " + "y" * 9_000,
        "\r\n".join(f"H{number}: x" for number in range(200)),
        ":",
        "\xff: \xff",
    ),
]
NAMES = ["one", "two", "default/one", "f" * 16, f"{'f' * 16}-{'f' * 14}-ffff", "main", "node"]
SECONDS = "timeout=10ms"
"""For operations that wait: the answer comes within the reader's time limit."""


def requests(seed: int) -> Iterator[bytes]:
    """Yield an endless sequence of requests, always the same for one *seed*."""
    chance = random.Random(seed)
    while True:
        kind = chance.random()
        if kind < 0.05:
            yield chance.randbytes(chance.randrange(1, 400)) + b"\r\n\r\n"
        elif kind < 0.35:
            yield _damaged(chance, _request(chance))
        else:
            yield _request(chance)


def _damaged(chance: random.Random, request: bytes) -> bytes:
    """Return *request* with some of its bytes or lines changed."""
    damaged = bytearray(request)
    for _ in range(chance.choice((1, 1, 2, 5))):
        at = chance.randrange(len(damaged) or 1)
        match chance.randrange(5):
            case 0:
                damaged[at : at + 1] = chance.randbytes(1)
            case 1:
                damaged[at:at] = chance.randbytes(chance.randrange(1, 5))
            case 2:
                del damaged[at : at + chance.randrange(1, 20)]
            case 3:
                damaged[at:at] = damaged[at : at + chance.randrange(1, 200)]
            case _:
                lines = bytes(damaged).split(b"\r\n")
                place = chance.randrange(1, len(lines) + 1)
                lines.insert(place, chance.choice(HEADERS).encode("latin-1"))
                damaged = bytearray(b"\r\n".join(lines))
    return bytes(damaged)


def _request(chance: random.Random) -> bytes:
    """Return a well-formed request for a random operation, with random values."""
    operation = chance.choice(OPERATIONS)
    path = re.sub("{[^}]*}", lambda _: _name(chance), operation.path)
    body = b"" if operation.body is None else _body(chance, operation)
    lines = [
        f"{operation.method} {path}{_query(chance, operation)} HTTP/1.1",
        "Host: localhost",
        "Connection: close",
        *(["Content-Type: application/json", f"Content-Length: {len(body)}"] if body else []),
        *chance.sample(HEADERS, chance.choice((0, 0, 0, 0, 1))),
    ]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


def _name(chance: random.Random) -> str:
    if chance.random() < 0.6:
        return quote(chance.choice(NAMES), safe="")
    return quote(str(chance.choice(STRANGE)).encode("utf-8", "replace"), safe="")[:400] or "x"


def _query(chance: random.Random, operation: Operation) -> str:
    pairs = [
        f"{each.name}={quote(str(chance.choice(STRANGE)).encode('utf-8', 'replace'))}"
        for each in operation.query or ()
        if each.name != "timeout" and chance.random() < 0.3
    ]
    if any(each.name == "timeout" for each in operation.query or ()):
        pairs.append(SECONDS)
    return f"?{'&'.join(pairs)}" if pairs else ""


def _body(chance: random.Random, operation: Operation) -> bytes:
    assert operation.body is not None
    example: Json = json.loads(json.dumps(EXAMPLES.get(operation.body.kind, {})))
    if "timeout" in example and "executionIds" in example:
        example["timeout"] = "10ms"
    elif "name" in example or "items" in example or operation.body.is_patch:
        # Nothing that is drawn here runs a program.
        for job in example.get("items", [example]):
            job.pop("command", None)
            if "job" not in job:
                job.update(name=chance.choice(NAMES[:2]), type="scripted", schedule="@daily")
    for _ in range(chance.choice((0, 0, 1, 1, 2, 4))):
        example = _spoiled(chance, example)
    content = json.dumps(example).encode()
    return _damaged(chance, content) if chance.random() < 0.1 else content


def _spoiled(chance: random.Random, document: Json) -> Json:
    """Return *document* with one value replaced."""
    is_container = type(document) in (dict, list)
    if not document or not is_container or chance.random() < 0.1:
        return chance.choice(STRANGE)
    spoiled: Json = copy(document)
    keys: list[Json] = list(document) if hasattr(document, "keys") else list(range(len(document)))
    key = chance.choice(keys)
    if key not in ("command", "timeout"):
        spoiled[key] = _spoiled(chance, spoiled[key])
    return spoiled
