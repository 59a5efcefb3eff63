"""The transports of `rota mcp`: lines, and the rules for requests over HTTP."""

import io
import json
from typing import Any

import pytest
from multidict import CIMultiDict

from rota.client.cli.mcp.lines import MESSAGE_BYTES_MAX, serve_lines
from rota.client.cli.mcp.web_rules import LOCAL_NAMES, Rules, why_refused
from rota.client.mcp.protocol import Answer, Server, UnknownTool

PING = b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n'
TOKEN = "t" * 32


class NoTools:
    """No tools at all."""

    def listed(self) -> list[dict[str, object]]:
        """Return no descriptions."""
        return []

    def call(self, name: str, arguments: bytes) -> Answer:
        """Refuse any name."""
        del arguments
        raise UnknownTool(name)


def answers(sent: bytes) -> list[Any]:  # Any: JSON
    """Return the answers to lines, sorted by their ids."""
    sink = io.BytesIO()
    server = Server(NoTools(), version="1", instructions="")
    serve_lines(server, io.BytesIO(sent), sink)
    found = [json.loads(line) for line in sink.getvalue().splitlines()]
    return sorted(found, key=lambda each: each["id"] or 0)


def test_each_line_is_a_message_and_each_answer_is_a_line() -> None:
    second = PING.replace(b"1,", b"2,")

    found = answers(PING + b"\n" + second.rstrip(b"\n"))

    assert [(each["id"], each["result"]) for each in found] == [(1, {}), (2, {})]


def test_a_line_that_is_too_long_is_refused_and_the_next_one_is_read() -> None:
    long = b'{"x": "' + b"y" * 3 * MESSAGE_BYTES_MAX + b'"}\n'

    refused, answered = answers(long + PING)

    assert (refused["error"]["code"], refused["id"]) == (-32600, None)
    assert answered == {"jsonrpc": "2.0", "id": 1, "result": {}}


def test_a_line_of_the_longest_length_is_read() -> None:
    padded = PING.rstrip() + b" " * (MESSAGE_BYTES_MAX - len(PING)) + b"\n"

    assert [each["id"] for each in answers(padded)] == [1]


def test_a_client_that_reads_no_more_ends_nothing() -> None:
    class Closed(io.BytesIO):
        def write(self, content: Any) -> int:  # Any: as in the base
            raise BrokenPipeError

    serve_lines(Server(NoTools(), version="1", instructions=""), io.BytesIO(PING), Closed())


GOOD = {"Host": "127.0.0.1:7450", "Content-Type": "application/json"}
CASES: dict[str, tuple[str, dict[str, str], int | None]] = {
    "good": ("POST", GOOD, None),
    "localhost": ("POST", {**GOOD, "Host": "LocalHost:1"}, None),
    "IPv6": ("POST", {**GOOD, "Host": "[::1]:7450"}, None),
    "a charset": ("POST", {**GOOD, "Content-Type": "Application/JSON; charset=utf-8"}, None),
    "a version": ("POST", {**GOOD, "MCP-Protocol-Version": "2025-06-18"}, None),
    "an allowed page": ("POST", {**GOOD, "Origin": "http://localhost:6274"}, None),
    "a foreign host": ("POST", {**GOOD, "Host": "evil.example:7450"}, 403),
    "a host after an @": ("POST", {**GOOD, "Host": "127.0.0.1@evil.example"}, 403),
    "a name before an @": ("POST", {**GOOD, "Host": "evil.example@127.0.0.1"}, 403),
    "a path": ("POST", {**GOOD, "Host": "127.0.0.1/x"}, 403),
    "a query": ("POST", {**GOOD, "Host": "127.0.0.1?x"}, 403),
    "no port": ("POST", {**GOOD, "Host": "127.0.0.1:x"}, 403),
    "an end of a line": ("POST", {**GOOD, "Host": "127.0.0.1\n"}, 403),
    "a broken host": ("POST", {**GOOD, "Host": "[::1"}, 403),
    "no host": ("POST", {"Content-Type": "application/json"}, 403),
    "a foreign page": ("POST", {**GOOD, "Origin": "https://evil.example"}, 403),
    "a page of this machine": ("POST", {**GOOD, "Origin": "http://127.0.0.1:7450"}, 403),
    "a page without an origin": ("POST", {**GOOD, "Origin": "null"}, 403),
    "GET": ("GET", GOOD, 405),
    "DELETE": ("DELETE", GOOD, 405),
    "a form": ("POST", {**GOOD, "Content-Type": "text/plain"}, 415),
    "no type": ("POST", {"Host": "localhost"}, 415),
    "compressed": ("POST", {**GOOD, "Content-Encoding": "gzip"}, 415),
    "an unknown version": ("POST", {**GOOD, "MCP-Protocol-Version": "1999-01-01"}, 400),
}


@pytest.mark.parametrize("case", CASES)
def test_the_rules_accept_and_refuse(case: str) -> None:
    method, headers, status = CASES[case]
    rules = Rules(LOCAL_NAMES, frozenset({"http://localhost:6274"}))

    refused = why_refused(rules, method, CIMultiDict(headers))

    assert (refused.status if refused else None) == status


@pytest.mark.parametrize(
    ("given", "is_accepted"),
    [
        (f"Bearer {TOKEN}", True),
        (f"bearer {TOKEN}", True),
        ("", False),
        ("Bearer ", False),
        (TOKEN, False),
        (f"Basic {TOKEN}", False),
        (f"Bearer {TOKEN}t", False),
        (f"Bearer {TOKEN[1:]}\u00e9", False),
        ("Bearer \udcff", False),
    ],
)
def test_a_token_is_required_before_anything_else_is_checked(given: str, is_accepted: bool) -> None:
    rules = Rules(frozenset({"mcp.example"}), token=TOKEN)
    headers = CIMultiDict({**GOOD, "Host": "mcp.example", "Authorization": given})

    refused = why_refused(rules, "POST", headers), why_refused(rules, "GET", headers)

    found = [each.status if each else None for each in refused]
    assert found == ([None, 405] if is_accepted else [401, 401])
