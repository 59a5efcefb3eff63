"""Attacks on the API of a real node, as bytes: from web pages, by name, compressed, malformed."""

import gzip
import json
import re
from collections.abc import Iterator

import pytest

from rota.node.api.app import OPERATIONS
from support.raw_http import (
    bare_request,
    connection,
    document_of,
    exchange,
    headers_of,
    request_of,
    status_of,
)
from support.rotad import Rotad

HERE = "Host: 127.0.0.1:7400"
FORM = "Content-Type: application/x-www-form-urlencoded"
TEXT = "Content-Type: text/plain"
EVIL = "Origin: http://evil.example"
SHELL_JOB = json.dumps({"name": "planted", "schedule": "@every 1s", "command": "true"}).encode()
LENGTH = f"Content-Length: {len(SHELL_JOB)}"
TRIGGER = "POST /api/v1/jobs/victim/trigger HTTP/1.1"
CREATE = "POST /api/v1/jobs HTTP/1.1"

REFUSED = {
    "fetch without a type": (bare_request(CREATE, HERE, LENGTH, body=SHELL_JOB), 415),
    "fetch with text": (bare_request(CREATE, HERE, TEXT, LENGTH, body=SHELL_JOB), 415),
    "fetch in chunks": (
        bare_request(
            CREATE,
            HERE,
            "Transfer-Encoding: chunked",
            body=b"%x\r\n%s\r\n0\r\n\r\n" % (len(SHELL_JOB), SHELL_JOB),
        ),
        415,
    ),
    "fetch of an old browser": (
        bare_request(CREATE, HERE, EVIL, "Content-Type: application/json", LENGTH, body=SHELL_JOB),
        403,
    ),
    "form": (bare_request(TRIGGER, HERE, FORM, "Content-Length: 0"), 415),
    "form of text": (bare_request(TRIGGER, HERE, TEXT, "Content-Length: 4", body=b"a=b\n"), 415),
    "form with its origin": (
        bare_request(TRIGGER, HERE, EVIL, "Sec-Fetch-Site: cross-site", FORM, "Content-Length: 0"),
        403,
    ),
    "request without a body": (bare_request(TRIGGER, HERE, EVIL), 403),
    "page in a sandbox": (bare_request(TRIGGER, HERE, "Origin: null"), 403),
    "page on another port": (
        bare_request(TRIGGER, HERE, "Origin: http://127.0.0.1:8000", "Sec-Fetch-Site: same-site"),
        403,
    ),
    "rebound name": (
        bare_request(
            TRIGGER,
            "Host: evil.example:7400",
            "Origin: http://evil.example:7400",
            "Sec-Fetch-Site: same-origin",
        ),
        403,
    ),
    "pretended forward": (bare_request(TRIGGER, HERE, EVIL, "Rota-Peer: n1"), 403),
    "name in the target": (
        bare_request("POST http://evil.example/api/v1/jobs/victim/trigger HTTP/1.1", HERE),
        403,
    ),
    "two hosts": (bare_request(TRIGGER, HERE, "Host: evil.example"), 400),
    "no host": (bare_request(TRIGGER), 400),
    "empty host": (bare_request(TRIGGER, "Host:"), 403),
}


@pytest.fixture(scope="module")
def victim(node: Rotad) -> Iterator[Rotad]:
    """A node with a job that attacks try to trigger."""
    node.create(name="victim", type="scripted")
    yield node
    node.call("DELETE", "/api/v1/jobs/victim")


@pytest.mark.parametrize("attack", REFUSED)
def test_a_request_of_a_strange_page_changes_nothing(victim: Rotad, attack: str) -> None:
    request, status = REFUSED[attack]

    answer = exchange(victim, request)

    assert status_of(answer) == status
    assert headers_of(answer)["content-type"] == "application/problem+json"
    assert victim.call("GET", "/api/v1/jobs?q=planted")["items"] == []
    assert victim.call("GET", "/api/v1/executions?jobId=victim")["items"] == []


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_no_operation_is_open_to_a_rebound_name(node: Rotad, operation: object) -> None:
    method, path = operation.method, re.sub("{[^}]*}", "x", operation.path)  # type: ignore[attr-defined]  # pytest's ids want an object

    answer = exchange(node, bare_request(f"{method} {path} HTTP/1.1", "Host: evil.example:7400"))

    assert status_of(answer) == 403
    assert document_of(answer)["code"] == "host_not_allowed"
    assert "allowed_hosts" in document_of(answer)["detail"]


@pytest.mark.parametrize(
    "request_",
    [
        bare_request("GET /readyz HTTP/1.0"),
        bare_request("GET /readyz HTTP/1.1", "Host: LOCALHOST.:7400"),
        bare_request("GET /readyz HTTP/1.1", "Host: [::1]:7400"),
        bare_request("GET http://localhost:7400/readyz HTTP/1.1", "Host: localhost:7400"),
        bare_request("POST /api/v1/jobs/victim/pause HTTP/1.1", HERE),
        bare_request(
            "POST /api/v1/jobs/victim/resume HTTP/1.1",
            HERE,
            "Origin: http://127.0.0.1:7400",
            "Sec-Fetch-Site: same-origin",
        ),
    ],
)
def test_what_no_strange_page_sends_is_answered(victim: Rotad, request_: bytes) -> None:
    assert status_of(exchange(victim, request_)) == 200


@pytest.mark.parametrize("encoding", [b"gzip", b"deflate", b"br", b"zstd", b"x", b"gzip, gzip"])
def test_a_compressed_body_is_refused_before_it_comes(node: Rotad, encoding: bytes) -> None:
    head = request_of("POST", "/api/v1/jobs", headers=b"Content-Encoding: %s\r\n" % encoding)
    head = head.replace(b"Content-Length: 0", b"Content-Length: 1000000")

    with connection(node) as connected:
        connected.sendall(head)
        answer = connected.recv(65_536)

    assert status_of(answer) == 415
    assert document_of(answer)["code"] == "unsupported_encoding"


def test_no_byte_of_a_compressed_body_is_inflated(node: Rotad) -> None:
    bomb = gzip.compress(bytes(64 << 20))
    kinds = (b"Content-Encoding: gzip\r\n", b"Content-Encoding: identity\r\n")

    answers = [exchange(node, request_of("POST", "/api/v1/jobs", bomb, kind)) for kind in kinds]

    codes = [document_of(answer)["code"] for answer in answers]
    assert codes == ["unsupported_encoding", "malformed_json"]


ASKED = {
    "page": b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    "document": request_of("GET", "/version"),
    "no such path": request_of("GET", "/nothing"),
    "method": request_of("PUT", "/version"),
    "refused host": bare_request("GET / HTTP/1.1", "Host: evil.example"),
    "expectation": request_of("POST", "/api/v1/jobs", b"{}", b"Expect: miracles\r\n"),
    "expectation that is no text": request_of("GET", "/x", headers=b"Expect: \xff\r\n"),
    "no HTTP": b"hello\r\n\r\n",
    "version": b"GET / HTTP/9.9\r\n\r\n",
    "long line": b"GET /" + b"x" * 20_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "header": b"GET / HTTP/1.1\r\nHost: localhost\r\na b: c\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200) + b"\r\n\r\n",
}


@pytest.mark.parametrize("asked", ASKED)
def test_every_answer_keeps_browsers_out_and_reveals_no_versions(node: Rotad, asked: str) -> None:
    answer = exchange(node, ASKED[asked])

    headers = headers_of(answer)
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert headers["cache-control"] == "no-store"
    assert headers["server"] == "rota"
    assert b"aiohttp" not in answer.lower()
    assert status_of(answer) == 200 or headers["content-type"] == "application/problem+json"


def test_a_stream_keeps_browsers_out_too(node: Rotad) -> None:
    with connection(node) as connected:
        connected.sendall(request_of("GET", "/api/v1/events"))
        headers = headers_of(connected.recv(65_536))

    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert headers["cache-control"] == "no-store"


def test_a_flood_of_junk_does_not_flood_the_log(node: Rotad) -> None:
    junk = (b"hello\r\n\r\n", ASKED["refused host"])
    before = len(node.log().splitlines())

    for _ in range(100):
        for request in junk:
            exchange(node, request)

    lines = node.log().splitlines()[before:]
    assert 0 < len(lines) <= 60, lines[-1]
