"""Secrets over HTTP: who may set and use them, and what an attempt gets."""

import asyncio
import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from rota.core.model.shared_document import SECRETS, DocumentKey
from rota.core.state.shard_state import document_key
from rota.node.access.verbs import Verb
from rota.node.coordination.embedded import EmbeddedCoordinator
from rota.node.system.background import beside
from support.access_client import API, Access, Json, access_to
from support.in_process import until
from support.key_rings import key_ring_file, new_key, ring_of

VALUE = "correct horse battery staple"
PROVES = f'test "$DB" = "{VALUE}"'
SECRET = {"env": {"DB": "db"}}


@pytest.fixture
async def access(tmp_path: Path) -> AsyncIterator[Access]:
    """A node with a key ring, an administrator, and the secret ``db`` in ``team-a``."""
    async with access_to(tmp_path / "data", keyring=key_ring_file(tmp_path)) as access:
        await access.init()
        status, _ = await set_secret(access, access.admin, "team-a", VALUE)
        assert status == 201
        yield access


async def set_secret(
    access: Access, token: str, namespace: str, value: str, name: str = "db"
) -> tuple[int, Json]:
    return await access.call(token, "PUT", f"{API}/secrets/{namespace}/{name}", {"value": value})


async def save(
    access: Access, token: str, *, command: str = PROVES, namespace: str = "team-a", **fields: Json
) -> tuple[int, Json]:
    body = {"command": command, "secrets": SECRET, **fields}
    return await access.call(token, "PUT", f"{API}/jobs/{namespace}/uses", body)


async def run(access: Access, namespace: str = "team-a") -> str:
    _, made = await access.call(access.admin, "POST", f"{API}/jobs/{namespace}%2Fuses/trigger", {})
    return str(made["executionId"])


async def ended(access: Access, execution: str) -> Json:
    path = f"{API}/executions/{execution}/wait?timeout=30s"
    _, found = await access.call(access.admin, "GET", path)
    assert found["finishedAt"], found
    return found


async def test_a_secret_above_the_quota_is_refused(access: Access) -> None:
    quota = {"quota": {"secrets": 2}}
    await access.call(access.admin, "PUT", f"{API}/namespaces/team-a", quota)

    last, _ = await set_secret(access, access.admin, "team-a", VALUE, "second")
    status, problem = await set_secret(access, access.admin, "team-a", VALUE, "third")
    again, _ = await set_secret(access, access.admin, "team-a", "another value")
    elsewhere, _ = await set_secret(access, access.admin, "team-b", VALUE, "third")

    assert (last, again, elsewhere) == (201, 200, 201)
    assert (status, problem["code"]) == (409, "quota_exceeded")


async def test_concurrent_requests_do_not_pass_the_quota_together(
    access: Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    change = EmbeddedCoordinator.change_document

    async def change_slowly(*args: Any) -> bool:
        await asyncio.sleep(0.05)
        return await change(*args)

    monkeypatch.setattr(EmbeddedCoordinator, "change_document", change_slowly)
    quota = {"quota": {"secrets": 3}}
    await access.call(access.admin, "PUT", f"{API}/namespaces/team-a", quota)

    names = [f"n{number}" for number in range(9)]
    answers = await asyncio.gather(
        *(set_secret(access, access.admin, "team-a", VALUE, name) for name in names)
    )

    assert sorted(status for status, _ in answers) == [201] * 2 + [409] * 7
    _, listed = await access.call(access.admin, "GET", f"{API}/secrets?namespace=team-a")
    assert len(listed["items"]) == 3


async def test_a_task_gets_the_value_that_its_job_names(access: Access) -> None:
    status, job = await save(access, access.admin)

    found = await ended(access, await run(access))

    assert status == 201, job
    assert job["tasks"][0]["secrets"] == {"env": {"DB": "db"}, "files": {}}
    assert found["status"] == "success", found


async def test_a_password_in_plain_text_has_a_warning_and_a_named_secret_has_none(
    access: Access,
) -> None:
    _, named = await save(access, access.admin)
    _, plain = await save(access, access.admin, env={"PGPASSWORD": VALUE})

    assert named["warnings"] == []
    assert "'PGPASSWORD' may be a secret" in plain["warnings"][0]


async def test_a_value_is_in_no_answer_and_versions_count_values(access: Access) -> None:
    _, first = await access.call(access.admin, "GET", f"{API}/secrets/team-a/db")
    _, second = await set_secret(access, access.admin, "team-a", VALUE)
    _, listed = await access.call(access.admin, "GET", f"{API}/secrets")

    assert (first["version"], second["version"]) == (1, 2)
    assert (second["setBy"], second["namespace"], second["name"]) == ("admin", "team-a", "db")
    assert set(second) == {"namespace", "name", "version", "setAt", "setBy"}
    encoded = base64.b64encode(VALUE.encode()).decode()
    for answer in (first, second, listed):
        assert VALUE not in str(answer)
        assert encoded not in str(answer)


async def test_values_are_stored_encrypted(access: Access) -> None:
    document = access.wiring.context.documents.get(DocumentKey(SECRETS, "team-a/db"))

    assert document is not None
    assert document.definition is not None
    assert set(document.definition) == {"version", "kek", "wrapped", "box", "setAt", "setBy"}
    for text in (VALUE, base64.b64encode(VALUE.encode()).decode()):
        assert text not in str(document)


async def test_only_an_administrator_sets_and_deletes_secrets_of_the_namespace(
    access: Access,
) -> None:
    path = f"{API}/secrets/team-a/db"
    editor = await access.key("editor", "editor", "team-a")
    foreign = await access.key("foreign", "admin", "team-b")

    assert (await set_secret(access, editor, "team-a", "other value"))[0] == 403
    assert (await access.call(editor, "DELETE", path))[0] == 403
    assert (await access.call(editor, "GET", path))[0] == 200
    assert (await set_secret(access, foreign, "team-a", "other value"))[0] == 403
    assert (await access.call(foreign, "DELETE", path))[0] == 404
    assert (await access.call(foreign, "GET", path))[0] == 404
    _, listed = await access.call(foreign, "GET", f"{API}/secrets")
    assert listed["items"] == []


async def test_a_job_with_secrets_is_saved_only_by_those_that_may_use_them(
    access: Access,
) -> None:
    body = {"verbs": ["read", "run", "write"]}
    await access.call(access.admin, "PUT", f"{API}/roles/writer", body)
    writer = await access.key("writer", "writer", "team-a")
    editor = await access.key("editor", "editor", "team-a")

    refused = await save(access, writer)
    saved = await save(access, editor)

    assert (refused[0], refused[1]["code"]) == (403, "forbidden")
    assert Verb.SECRET_USE.value in refused[1]["detail"]
    assert saved[0] == 201


async def test_a_job_that_has_secrets_is_not_changed_by_those_that_may_not_use_them(
    access: Access,
) -> None:
    """Another command could read the values."""
    await save(access, access.admin)
    body = {"verbs": ["read", "run", "write"]}
    await access.call(access.admin, "PUT", f"{API}/roles/writer", body)
    writer = await access.key("writer", "writer", "team-a")

    status, answer = await access.call(
        writer, "PATCH", f"{API}/jobs/team-a%2Fuses", {"command": "env | rev"}
    )

    assert (status, answer["code"]) == (403, "forbidden")


async def test_a_job_cannot_name_a_secret_of_another_namespace(access: Access) -> None:
    status, answer = await save(access, access.admin, namespace="team-b")

    assert (status, answer["code"]) == (422, "unknown_secret")
    assert answer["errors"][0]["pointer"] == "/secrets"


async def test_a_template_of_a_job_type_names_secrets_of_the_namespace_of_the_job(
    access: Access,
) -> None:
    template = {"command": PROVES, "secrets": SECRET}
    await access.call(access.admin, "PUT", f"{API}/types/proving", {"template": template})
    body = {"type": "proving", "secrets": {"files": {"x": "db"}}}

    status, job = await access.call(access.admin, "PUT", f"{API}/jobs/team-a/uses", body)

    assert (status, job["tasks"][0]["secrets"]) == (201, {**SECRET, "files": {"x": "db"}})
    assert (await ended(access, await run(access)))["status"] == "success"


async def test_an_attempt_without_its_secret_is_lost_and_uses_no_retry(access: Access) -> None:
    await save(access, access.admin, retries=0)
    await access.call(access.admin, "DELETE", f"{API}/secrets/team-a/db")
    execution = await run(access)
    async with asyncio.timeout(20):
        while True:
            _, found = await access.call(access.admin, "GET", f"{API}/executions/{execution}")
            attempts = found["tasks"]["main"]["attempts"]
            if len(attempts) >= 3:
                break
            await asyncio.sleep(0.02)

    await set_secret(access, access.admin, "team-a", VALUE)
    last = await ended(access, execution)

    assert attempts[0]["outcome"] == "lost"
    reason = "secret_unavailable: there is no secret 'db' in 'team-a'"
    assert attempts[0]["reason"].replace('"', "'") == reason
    assert last["status"] == "success"


async def test_a_value_that_cannot_be_a_variable_fails_the_attempt(access: Access) -> None:
    encoded = base64.b64encode(b"a\0b").decode()
    path = f"{API}/secrets/team-a/db"
    await access.call(access.admin, "PUT", path, {"base64": encoded})
    await save(access, access.admin, retries=0)

    found = await ended(access, await run(access))

    assert found["status"] == "failed"
    reason = found["tasks"]["main"]["attempts"][0]["reason"]
    assert "has a NUL byte, so it cannot be the variable DB: use a file" in reason


async def test_a_node_without_a_key_ring_refuses_secrets(tmp_path: Path) -> None:
    async with access_to(tmp_path) as access:
        await access.init()

        status, answer = await set_secret(access, access.admin, "team-a", VALUE)

        assert (status, answer["code"]) == (409, "no_key_ring")
        assert "rota keyring init" in answer["detail"]


async def test_a_secret_that_is_created_only_is_not_replaced(access: Access) -> None:
    status, answer = await access.call(
        access.admin,
        "PUT",
        f"{API}/secrets/team-a/db",
        {"value": "other value"},
        {"If-None-Match": "*"},
    )

    assert (status, answer["code"]) == (412, "version_mismatch")


async def test_a_deleted_secret_that_is_set_again_gets_a_new_version(access: Access) -> None:
    await access.call(access.admin, "DELETE", f"{API}/secrets/team-a/db")

    _, again = await set_secret(access, access.admin, "team-a", VALUE)

    assert again["version"] == 3


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({}, "one of value and base64"),
        ({"value": "a", "base64": "YQ=="}, "one of value and base64"),
        ({"value": ""}, "is empty"),
        ({"base64": "?"}, "is malformed"),
        ({"value": "x" * (64 * 1024 + 1)}, "65537 bytes"),
    ],
)
async def test_values_that_cannot_be_secrets_are_refused(
    access: Access, body: Json, reason: str
) -> None:
    status, answer = await access.call(access.admin, "PUT", f"{API}/secrets/team-a/x", body)

    assert (status, answer["code"]) == (422, "invalid_secret")
    assert reason in answer["detail"]


async def test_a_value_of_the_greatest_size_is_stored_and_used(access: Access) -> None:
    value = bytes(range(1, 256)) * 257 + b"x"
    encoded = base64.b64encode(value).decode()
    path = f"{API}/secrets/team-a/big"
    status, _ = await access.call(access.admin, "PUT", path, {"base64": encoded})
    await save(
        access,
        access.admin,
        command='test "$(wc -c <$ROTA_SECRETS/big)" = 65536',
        secrets={"files": {"big": "big"}},
    )

    found = await ended(access, await run(access))

    assert len(value) == 65536
    assert (status, found["status"]) == (201, "success")


async def test_secrets_are_encrypted_for_a_new_key_while_jobs_use_them(tmp_path: Path) -> None:
    """The four steps of a change of the key, with executions in every step."""
    old, new = new_key(), new_key()
    file = key_ring_file(tmp_path, ring_of(old))
    async with access_to(tmp_path / "data", keyring=file) as access:
        await access.init()
        for number in range(20):
            await set_secret(access, access.admin, "team-a", VALUE, f"s{number}")
        names = {f"V{number}": f"s{number}" for number in range(20)}
        proof = " && ".join(f'test "$V{number}" = "{VALUE}"' for number in range(20))
        await save(access, access.admin, command=proof, secrets={"env": names})
        key_ring, executions, is_over = access.wiring.context.secrets.key_ring, list[str](), False

        async def load() -> None:
            while not is_over:
                executions.append(await run(access))
                await ended(access, executions[-1])

        async with asyncio.TaskGroup() as group:
            group.create_task(load())
            key_ring_file(tmp_path, ring_of(old, new))
            assert await key_ring.look() == ""
            key_ring_file(tmp_path, ring_of(old, new, in_use=1))
            assert await key_ring.look() == ""
            status, result = await access.call(access.admin, "POST", f"{API}/keyring:rewrap")
            _, shown = await access.call(access.admin, "GET", f"{API}/keyring")
            key_ring_file(tmp_path, ring_of(new))
            assert await key_ring.look() == ""
            reached = len(executions) + 3
            while len(executions) < reached:  # noqa: ASYNC110 - of requests, without an event
                await asyncio.sleep(0.01)
            is_over = True

        assert (status, result["changed"], result["failedCount"]) == (200, 20, 0)
        assert shown["secretsByKey"] == {ring_of(new).in_use: 20}
        for execution in executions:
            found = await ended(access, execution)
            assert found["status"] == "success", found
            assert len(found["tasks"]["main"]["attempts"]) == 1
        _, secret = await access.call(access.admin, "GET", f"{API}/secrets/team-a/s0")
        assert secret["version"] == 1


async def test_a_key_ring_that_became_unusable_does_not_replace_the_present_one(
    tmp_path: Path,
) -> None:
    file = key_ring_file(tmp_path)
    async with access_to(tmp_path / "data", keyring=file) as access:
        await access.init()
        file.chmod(0o644)

        reason = await access.wiring.context.secrets.key_ring.look()

        assert "0644" in reason
        assert (await set_secret(access, access.admin, "team-a", VALUE))[0] == 201


async def test_the_record_of_changes_has_who_set_a_secret_and_neither_value_nor_box(
    access: Access,
) -> None:
    await set_secret(access, access.admin, "team-a", "another value")
    key = DocumentKey(SECRETS, "team-a/db")

    async def found() -> list[Json]:
        _, page = await access.call(
            access.admin, "GET", f"{API}/changes?object=secrets:team-a/db&order=asc"
        )
        return list(page["items"])

    shard = access.wiring.shards.of_name(*key)
    async with beside(access.wiring.housekeeping.keep(())):
        await until(lambda: document_key(key) in shard.state.recorded_documents)

    created, replaced = await found()
    assert (created["action"], created["fields"]) == ("document.created", [])
    assert (replaced["action"], replaced["fields"]) == ("document.replaced", ["value"])
    assert (replaced["by"]["principal"], replaced["before"], replaced["after"]) == ("admin", 1, 2)
    document = access.wiring.context.documents.get(key)
    assert document is not None
    assert document.definition is not None
    for secret in (VALUE, "another value", document.definition["box"]):
        assert secret not in str([created, replaced])
