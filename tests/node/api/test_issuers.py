"""Tokens of an issuer on loopback, which a node downloads the keys of."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rota.core.timing.instants import HOUR, SECOND, Instant
from rota.node.access.issuer import issuer_in
from rota.node.access.oidc.key_download import BYTES_MAX, DownloadFailed, download_keys
from rota.node.access.oidc.signing_keys import AGAIN, KEPT, KeysNotHere, SigningKeys
from rota.node.system.background import beside
from support.access_client import API, Access, access_to
from support.in_process import until
from support.issuers import SomeIssuer, issuer_site


class SetClock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.at = Instant(1_000 * SECOND)

    def now(self) -> Instant:
        """Return the time that was set."""
        return self.at

    def elapsed(self) -> Instant:
        """Return the time that was set."""
        return self.at


@pytest.fixture
async def issuer() -> AsyncIterator[SomeIssuer]:
    async with issuer_site() as issuer:
        yield issuer


@pytest.fixture
async def access(tmp_path: Path) -> AsyncIterator[Access]:
    """A node whose first key was created."""
    async with access_to(tmp_path) as access:
        await access.init()
        yield access


async def define(access: Access, issuer: SomeIssuer) -> None:
    """Define the issuer, and give a group of it a role."""
    for path, body in (
        ("issuers/corp", issuer.definition()),
        (
            "bindings/ops",
            {"subject": "group:corp/ops", "role": "editor", "namespaces": ["team-a"]},
        ),
    ):
        status, answer = await access.call(access.admin, "PUT", f"{API}/{path}", body)
        assert status in (200, 201), answer


async def whoami(access: Access, token: str) -> tuple[int, str]:
    """Return the status, and the principal or the code, of a request with *token*."""
    status, answer = await access.call(token, "GET", f"{API}/whoami")
    return status, answer.get("principal") or answer.get("code")


async def accepted(access: Access, token: str) -> str:
    """Return the principal of *token*, once the node has the keys."""
    status, found = 503, ""
    async with asyncio.timeout(20):
        while status == 503:
            status, found = await whoami(access, token)
            await asyncio.sleep(0.01)
    assert status == 200, found
    return found


async def test_a_token_of_a_defined_issuer_has_the_roles_of_its_groups(
    access: Access, issuer: SomeIssuer
) -> None:
    await define(access, issuer)
    token = issuer.token()

    assert await accepted(access, token) == "corp/ana@example.org"
    job = {"name": "nightly", "command": "true"}
    in_a, _ = await access.call(token, "PUT", f"{API}/jobs/team-a/nightly", job)
    in_b, problem = await access.call(token, "PUT", f"{API}/jobs/team-b/nightly", job)

    assert (in_a, in_b, problem["code"]) == (201, 403, "forbidden")


async def test_a_token_of_a_deleted_issuer_is_refused_at_once(
    access: Access, issuer: SomeIssuer
) -> None:
    await define(access, issuer)
    token = issuer.token()
    await accepted(access, token)

    await access.call(access.admin, "DELETE", f"{API}/issuers/corp")

    assert await whoami(access, token) == (401, "unauthenticated")


async def test_only_an_administrator_defines_issuers(access: Access, issuer: SomeIssuer) -> None:
    token = await access.key("ana", "admin", "*")

    status, problem = await access.call(token, "PUT", f"{API}/issuers/corp", issuer.definition())

    assert (status, problem["code"]) == (403, "forbidden")


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"issuer": "http://id.example.org"}, "/issuer"),
        ({"issuer": "id.example.org"}, "/issuer"),
        ({"issuer": "https://["}, "/issuer"),
        ({"issuer": "https://id.example.org:99999"}, "/issuer"),
        ({"audiences": []}, "/audiences"),
        ({"algorithms": ["HS256"]}, "/algorithms/0"),
        ({"algorithms": ["none"]}, "/algorithms/0"),
        ({"algorithms": []}, "/algorithms"),
        ({"maxAge": "soon"}, "/maxAge"),
        ({"maxAge": "0s"}, "/maxAge"),
        ({"ca": "not PEM"}, "/ca"),
        ({"ca": "\u00e9"}, "/ca"),
        ({"keys": []}, "/keys"),
        ({"keys": [{"kty": "oct", "k": "c2VjcmV0"}]}, "/keys"),
        ({"keys": [{"kty": "EC", "d": "secret"}]}, "/keys"),
    ],
)
async def test_an_invalid_issuer_is_refused_with_its_place(
    changes: dict[str, object], pointer: str, access: Access
) -> None:
    body = SomeIssuer().definition(**changes)

    status, problem = await access.call(access.admin, "PUT", f"{API}/issuers/corp", body)

    assert (status, problem["code"]) == (422, "invalid_issuer")
    assert [each["pointer"] for each in problem["errors"]] == [pointer]


# -- keys ------------------------------------------------------------------------------------------


async def test_a_new_key_of_the_issuer_is_downloaded_when_a_token_names_it(
    issuer: SomeIssuer,
) -> None:
    clock, found = SetClock(), issuer_in("corp", issuer.definition())
    keys = SigningKeys(clock)
    async with beside(keys.run()):
        keys.set_issuers({"corp": found})
        await until(lambda: has_key(keys, issuer, "k1"))

        issuer.add_key("k2")
        assert keys.key(found, "k2") is None  # The last download was a moment ago.
        clock.at = Instant(clock.at + AGAIN)
        with pytest.raises(KeysNotHere):
            keys.key(found, "k2")
        await until(lambda: has_key(keys, issuer, "k2"))


async def test_unknown_keys_cause_one_download_in_half_a_minute(issuer: SomeIssuer) -> None:
    clock, found = SetClock(), issuer_in("corp", issuer.definition())
    keys = SigningKeys(clock)
    async with beside(keys.run()):
        keys.set_issuers({"corp": found})
        await until(lambda: has_key(keys, issuer, "k1"))

        for number in range(1_000):
            assert keys.key(found, f"unknown-{number}") is None
        await asyncio.sleep(0)

    assert issuer.asked.count("/keys") == 1


async def test_the_last_keys_are_used_for_a_day_while_the_issuer_is_away(
    issuer: SomeIssuer,
) -> None:
    clock, found = SetClock(), issuer_in("corp", issuer.definition())
    keys = SigningKeys(clock)
    async with beside(keys.run()):
        keys.set_issuers({"corp": found})
        await until(lambda: has_key(keys, issuer, "k1"))
        issuer.status = 503

        clock.at = Instant(clock.at + KEPT)
        assert keys.key(found, "k1") is not None
        clock.at = Instant(clock.at + HOUR)
        with pytest.raises(KeysNotHere):
            keys.key(found, "k1")


def has_key(keys: SigningKeys, issuer: SomeIssuer, key_id: str) -> bool:
    """Return True if a key of the issuer is known."""
    try:
        return keys.key(issuer_in("corp", issuer.definition()), key_id) is not None
    except KeysNotHere:
        return False


async def test_the_discovery_document_has_to_be_that_of_the_issuer(issuer: SomeIssuer) -> None:
    found = issuer_in("corp", issuer.definition())
    issuer.url = "https://other.example.org"

    with pytest.raises(DownloadFailed, match=r"of the issuer 'https://other\.example\.org'"):
        await download_keys(found)


async def test_keys_are_downloaded_from_protected_addresses_alone(issuer: SomeIssuer) -> None:
    found = issuer_in("corp", {"issuer": "http://192.0.2.1", "audiences": ["rota"]})

    with pytest.raises(DownloadFailed, match="is not an https:// address"):
        await download_keys(found)


async def test_a_set_of_keys_that_is_too_large_is_not_read(
    issuer: SomeIssuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = issuer.public_keys[0]
    monkeypatch.setattr(SomeIssuer, "public_keys", [{**key, "x5c": ["A" * BYTES_MAX]}])

    with pytest.raises(DownloadFailed, match="has more than 65,536 bytes"):
        await download_keys(issuer_in("corp", issuer.definition()))


async def test_an_issuer_that_does_not_answer_is_reported(issuer: SomeIssuer) -> None:
    issuer.status = 500

    with pytest.raises(DownloadFailed, match="answered with status 500"):
        await download_keys(issuer_in("corp", issuer.definition()))
