"""Tokens in requests: where they are sent, their renewal, and errors without the secret."""

import asyncio
import traceback
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from aiohttp import web

from rota.client import AsyncClient, Client
from rota.client.errors import NotAllowed, NotAuthenticated, RequestFailed, Unreachable
from rota.wire.tokens import ID_BYTES, SECRET_BYTES, mint
from support.strange_servers import Handler, Strange, problem, refusing, serving

FIRST, SECOND = (mint(bytes([number]) * (ID_BYTES + SECRET_BYTES)) for number in (1, 2))
CREATED = {
    "name": "ci",
    "principal": "ci",
    "expiresAt": None,
    "token": SECOND.text,
    "tokenId": SECOND.id,
}


@pytest.fixture(autouse=True)
def _no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROTA_TOKEN_FILE", raising=False)


def requiring(token: str) -> Handler:
    """Return an answer that requires *token*, and has the version of a node."""

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.headers.get("Authorization") != f"Bearer {token}":
            return web.json_response(problem(401, "unauthenticated"), status=401)
        if request.path == "/api/v1/events":
            return web.Response(text='{"type":"stream.opened","at":"","id":"1"}\n')
        if request.method == "POST":
            return web.json_response(CREATED, status=201)
        return web.json_response(
            {"rota": "1", "python": "3", "cluster": "c", "nodeId": "n", "version": "1"}
            | {
                "principal": "ana",
                "tokenId": FIRST.id,
                "expiresAt": None,
                "bindings": [],
                "allowed": True,
            }
        )

    return answer


async def redirecting(request: web.Request) -> web.StreamResponse:
    raise web.HTTPTemporaryRedirect(f"http://127.0.0.1:1{request.path}")


async def malformed(request: web.Request) -> web.StreamResponse:
    assert request.transport is not None
    assert isinstance(request.transport, asyncio.Transport)
    request.transport.write(b"HTTP/1.1 what\r\n\r\n")
    request.transport.close()
    return web.Response()


@asynccontextmanager
async def asking(
    strange: Strange, *, token: str | None = None, token_file: Path | None = None
) -> AsyncGenerator[AsyncClient, None]:
    async with (
        serving(strange) as url,
        AsyncClient(url, token=token, token_file=token_file, repeats_max=0) as client,
    ):
        yield client


def sent(strange: Strange) -> list[str | None]:
    return [request.headers.get("Authorization") for request in strange.asked]


async def test_the_token_is_sent_in_the_header_and_not_in_the_url() -> None:
    strange = Strange(requiring(FIRST.text))

    async with asking(strange, token=FIRST.text) as client:
        found = await client.whoami(verb="run", namespace="team-a")

    assert (found.principal, found.allowed) == ("ana", True)
    assert sent(strange) == [f"Bearer {FIRST.text}"]
    assert strange.asked[0].path_qs == "/api/v1/whoami?namespace=team-a&verb=run"


async def test_without_a_token_there_is_no_header() -> None:
    strange = Strange(requiring(FIRST.text))

    async with asking(strange) as client:
        with pytest.raises(NotAuthenticated, match="no token was sent"):
            await client.whoami()

    assert sent(strange) == [None]


async def test_a_refused_token_is_read_again_and_the_request_repeated_once(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(FIRST.text)
    strange = Strange(requiring(SECOND.text))

    async with asking(strange, token_file=file) as client:
        file.write_text(SECOND.text)
        await client.whoami()
        # A call without repetitions is repeated too, since the refused request had no effect.
        await client.create_key("ci")
        file.write_text(FIRST.text)
        await client.whoami()

    bearers = [f"Bearer {token.text}" for token in (FIRST, SECOND)]
    assert sent(strange) == [*bearers, bearers[1], bearers[1]]


async def test_a_stream_is_opened_with_the_token_that_was_read_again(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(FIRST.text)
    strange = Strange(requiring(SECOND.text))

    async with asking(strange, token_file=file) as client:
        file.write_text(SECOND.text)
        events = client.events()
        first = await anext(events)
        await events.aclose()

    assert first.type == "stream.opened"


async def test_a_token_that_stays_refused_is_sent_once(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(FIRST.text)
    strange = Strange(requiring(SECOND.text))

    async with asking(strange, token_file=file) as client:
        with pytest.raises(NotAuthenticated) as caught:
            await client.whoami()

    assert len(strange.asked) == 1
    assert caught.value.code == "unauthenticated"
    assert caught.value.detail == f"unauthenticated (token {FIRST.id} of {file} was sent)"
    assert str(caught.value) == f"unauthenticated: {caught.value.detail}"


async def test_a_redirect_gets_no_token() -> None:
    strange = Strange(redirecting)

    async with asking(strange, token=FIRST.text) as client:
        with pytest.raises(RequestFailed, match="HTTP status 307"):
            await client.whoami()

    assert len(strange.asked) == 1


@pytest.mark.parametrize("answer", [requiring(SECOND.text), refusing(403), malformed, redirecting])
async def test_no_error_has_the_secret(answer: Handler) -> None:
    async with asking(Strange(answer), token=FIRST.text) as client:
        with pytest.raises(RequestFailed) as caught:
            await client.whoami()
        shown = [repr(client), *traceback.format_exception(caught.value)]

    chain: list[BaseException] = []
    error: BaseException | None = caught.value
    while error is not None and error not in chain:
        chain.append(error)
        error = error.__cause__ if error.__cause__ not in chain else error.__context__
    shown += [text for each in chain for text in (repr(each), repr(vars(each)))]
    assert FIRST.text not in "".join(shown)


async def test_an_answer_that_is_not_http_is_reported_with_its_reason() -> None:
    async with asking(Strange(malformed), token=FIRST.text) as client:
        with pytest.raises(Unreachable, match=r"(?i)invalid|expected"):
            await client.whoami()


async def test_a_forbidden_request_is_another_error_than_an_unauthenticated_one() -> None:
    async with asking(Strange(refusing(403)), token=FIRST.text) as client:
        with pytest.raises(NotAllowed) as caught:
            await client.whoami()

    assert not isinstance(caught.value, NotAuthenticated)


async def test_a_created_key_is_sent_as_the_api_names_its_fields() -> None:
    bodies: list[object] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        bodies.append((request.path, await request.json()))
        return web.json_response(CREATED, status=201)

    async with asking(Strange(answer), token=FIRST.text) as client:
        made = await client.create_key(
            "ci", expires_in="90d", networks=["10.0.0.0/8"], role="editor", namespaces=["team-a"]
        )
        await client.rotate_key("ci", grace="2h")

    assert bodies == [
        (
            "/api/v1/keys",
            {
                "name": "ci",
                "expiresIn": "90d",
                "from": ["10.0.0.0/8"],
                "role": "editor",
                "namespaces": ["team-a"],
            },
        ),
        ("/api/v1/keys/ci/rotate", {"grace": "2h"}),
    ]
    assert made.token == SECOND.text
    assert SECOND.text not in repr(made)
    assert msgspec.json.encode(made).count(SECOND.text.encode()) == 1


def test_the_blocking_client_sends_the_token_of_the_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "token"
    file.write_text(FIRST.text)
    monkeypatch.setenv("ROTA_TOKEN_FILE", str(file))
    strange = Strange(requiring(FIRST.text))

    async def ask() -> str:
        async with serving(strange) as url:
            with Client(url, repeats_max=0) as client:
                return (await asyncio.to_thread(client.whoami)).principal

    assert asyncio.run(ask()) == "ana"
