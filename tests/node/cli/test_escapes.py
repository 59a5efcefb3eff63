"""``rota`` on a terminal: control sequences in the texts of tasks and nodes."""

import asyncio
import base64
import json
import re
from collections.abc import Iterator

import aiohttp
import pytest
import yaml
from aiohttp import web

from rota.client import Client
from support.rota_program import Rota, on_terminal
from support.rotad import Rotad
from support.strange_servers import Handler, Strange, problem, serving

EVIL = (
    "\x1b]0;owned\x07 \x1b]52;c;b3duZWQ=\x07 \x1b]8;;http://x.test\x1b\\link\x1b]8;;\x1b\\ "
    "\x1b[2J\x1b[1;1H \x9b31m success\rfailed \u202egnp.exe\u202c \u2066 \x7f\x08 [red]markup[/red]"
)
WRITE_EVIL = (
    "head -c 1000000 /dev/zero | tr '\\0' x; "
    f"echo {base64.b64encode(EVIL.encode()).decode()} | base64 -d"
)
"""Writes a megabyte without an end of line, and `EVIL`."""
OWN = re.compile(r"\x1b\[[0-9;]*m")
"""Colours, which are rota's own."""
STEERING = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


@pytest.fixture(scope="module")
def execution_id(node: Rotad) -> Iterator[str]:
    """A failed execution with `EVIL` in its output, its job's description and its pause reason."""
    with Client(node.url) as rota:
        rota.create_job(
            {
                "name": "evil",
                "description": EVIL,
                "command": f"{WRITE_EVIL}; exit 1",
            }
        )
        rota.pause_job("evil", reason=EVIL)
        made = rota.trigger("evil")
        rota.wait(made.execution_id, timeout_s=20)
        yield made.execution_id


def _shown(*argv: str, is_coloured: bool = True) -> str:
    """Return what a command prints on a terminal, without rota's own colours."""
    with on_terminal(*argv, environment={} if is_coloured else {"NO_COLOR": "1"}) as terminal:
        text = terminal.rest().replace("\r\n", "\n")
    return OWN.sub("", text) if is_coloured else text


def _assert_shown(text: str) -> None:
    """Check that *text* shows `EVIL` and has no control characters."""
    assert STEERING.findall(text) == []
    assert r"\x1b]0;owned\x07" in text
    assert r"\x9b31m success" in text
    assert r"\u202egnp.exe" in text
    assert "[red]markup[/red]" in text


@pytest.mark.parametrize("is_coloured", [True, False])
@pytest.mark.parametrize(
    "argv",
    [
        ("jobs", "show", "evil"),
        ("output", "evil@latest"),
        ("output", "evil@latest", "main", "--follow"),
        ("trigger", "evil", "--wait"),
    ],
    ids=" ".join,
)
def test_control_sequences_of_users_and_tasks_are_shown_and_not_executed(
    rota: Rota, execution_id: str, argv: tuple[str, ...], *, is_coloured: bool
) -> None:
    del rota, execution_id

    _assert_shown(_shown(*argv, is_coloured=is_coloured))


def test_documents_mean_the_same(rota: Rota, execution_id: str) -> None:
    del execution_id

    as_json = _shown("jobs", "show", "evil", "-o", "json")
    as_yaml = rota("jobs", "show", "evil", "-o", "yaml").out

    assert STEERING.findall(as_json + as_yaml) == []
    assert json.loads(as_json)["description"] == EVIL
    assert yaml.safe_load(as_yaml)["description"] == EVIL


def test_a_terminal_gets_the_bytes_if_asked_for(rota: Rota, execution_id: str) -> None:
    del rota

    with on_terminal("output", execution_id, "--raw") as terminal:
        assert EVIL in terminal.rest()


def test_a_file_gets_the_bytes(rota: Rota, execution_id: str) -> None:
    assert rota("output", execution_id).out.endswith(EVIL)


@pytest.mark.parametrize("is_coloured", [True, False])
async def test_a_hostile_node_cannot_control_the_terminal(
    node: Rotad, execution_id: str, *, is_coloured: bool
) -> None:
    del execution_id
    async with aiohttp.request("GET", f"{node.url}/api/v1/jobs") as answer:
        found = await answer.json()
    for each in found["items"]:
        each.update(name=EVIL, status=EVIL)
    lying = Strange(_answering(200, found), _answering(403, problem(403, EVIL)))

    async with serving(lying) as url:
        argv = ("jobs", "list", "--url", url)
        listed, refused = [
            await asyncio.to_thread(_shown, *argv, is_coloured=is_coloured) for _ in range(2)
        ]

    _assert_shown(listed)
    _assert_shown(refused)


def _answering(status: int, document: object) -> Handler:
    async def answer(request: web.Request) -> web.Response:
        del request
        return web.json_response(document, status=status)

    return answer
