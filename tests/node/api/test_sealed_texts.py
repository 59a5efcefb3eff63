"""Sealed texts over HTTP: in variables and parameters, for whom, and what a task gets."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rota.core.model.author import Author
from rota.core.model.shared_document import SECRETS, DocumentKey
from rota.node.api.handlers.sealed_text_checks import SEALED_MAX
from rota.node.secrets.secret_store import SEALING_KEY
from support.access_client import API, Access, Json, access_to
from support.key_rings import key_ring_file

VALUE = 'correct "horse" battery\\staple'
KEY = f"{API}/secrets/team-a/{SEALING_KEY}"


@pytest.fixture
async def access(tmp_path: Path) -> AsyncIterator[Access]:
    async with access_to(tmp_path / "data", keyring=key_ring_file(tmp_path)) as access:
        await access.init()
        yield access


async def seal(access: Access, value: str = VALUE, namespace: str = "team-a") -> str:
    path = f"{API}/secrets/{namespace}:seal"
    status, found = await access.call(access.admin, "POST", path, {"value": value})
    assert status == 200, found
    assert found["sealed"].startswith("rota:sealed:v1:")
    assert value not in str(found)
    return str(found["sealed"])


async def save(access: Access, **fields: Json) -> tuple[int, Json]:
    body = {"command": "true", **fields}
    return await access.call(access.admin, "PUT", f"{API}/jobs/team-a/uses", body)


async def run(access: Access, **body: Json) -> Json:
    """Trigger the job, and return its only attempt when it has ended."""
    _, made = await access.call(access.admin, "POST", f"{API}/jobs/team-a%2Fuses/trigger", body)
    path = f"{API}/executions/{made['executionId']}/wait?timeout=30s"
    _, found = await access.call(access.admin, "GET", path)
    return found["tasks"]["main"]["attempts"][0]


async def test_a_task_gets_the_plain_text_of_a_part_of_a_variable(access: Access) -> None:
    url = f"postgres://app:{await seal(access)}@db"
    await save(access, command='test "$DB" = "$EXPECTED"', env={
        "DB": url, "EXPECTED": f"postgres://app:{VALUE}@db",
    })  # fmt: skip

    attempt = await run(access)

    assert attempt["outcome"] == "success", attempt


async def test_a_task_gets_parameters_as_json_with_the_plain_text(access: Access) -> None:
    script = "import json, os; print(json.loads(os.environ['ROTA_PARAMETERS'])['a'][0]['b'] == V)"
    expected = json.dumps(VALUE)
    await save(access, command=["python3", "-c", f"V = {expected}; {script}"])

    attempt = await run(access, parameters={"a": [{"b": await seal(access)}]})

    assert attempt["outputTail"] == "True\n", attempt


async def test_a_printed_text_is_masked(access: Access) -> None:
    await save(
        access, command='echo "is $DB"; echo "$ROTA_PARAMETERS"', env={"DB": await seal(access)}
    )

    attempt = await run(access, parameters={"password": await seal(access, "another secret text")})

    assert attempt["outputTail"] == 'is ***\n{"password":"***"}\n', attempt


async def test_a_sealed_text_is_stored_and_shown_as_it_is_and_is_no_plain_secret(
    access: Access,
) -> None:
    sealed = await seal(access)

    _, job = await save(access, env={"PGPASSWORD": sealed})
    again, same = await save(access, env={"PGPASSWORD": sealed})

    assert job["definition"]["env"] == {"PGPASSWORD": sealed}
    assert job["warnings"] == []
    assert (again, same["version"]) == (200, 1)


async def test_a_text_of_a_namespace_without_a_key_is_refused_with_what_to_do(
    access: Access,
) -> None:
    status, job = await save(access, env={"DB": await seal(access, namespace="team-b")})

    assert (status, job["code"]) == (422, "invalid_sealed_text")
    assert "seal it again: `rota secret seal -n team-a`" in job["detail"]


async def test_a_text_of_another_namespace_is_refused(access: Access) -> None:
    foreign = await seal(access, namespace="team-b")
    await seal(access)

    status, job = await save(access, env={"DB": foreign})
    await save(access)
    path = f"{API}/jobs/team-a%2Fuses/trigger"
    refused, trigger = await access.call(access.admin, "POST", path, {"parameters": [foreign]})

    assert (status, refused) == (422, 422)
    assert job["code"] == trigger["code"] == "invalid_sealed_text"
    assert job["errors"][0]["pointer"] == "/env/DB"
    assert trigger["errors"][0]["pointer"] == "/parameters"


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"command": "echo SEALED"}, "/command"),
        ({"command": ["echo", "SEALED"]}, "/command"),
        ({"command": "cat", "stdin": "SEALED"}, "/stdin"),
        ({"container": "busybox", "env": {"DB": "SEALED"}}, "/env/DB"),
        ({"container": "busybox", "parameters": {"DB": "SEALED"}}, "/parameters"),
        ({"command": "true", "env": {"DB": "rota:sealed:v1:AAAA"}}, "/env/DB"),
        ({"command": "true", "parameters": {"DB": "rota:sealed:v1:"}}, "/parameters"),
    ],
)
async def test_a_sealed_text_is_refused_where_no_task_would_get_it(
    access: Access, fields: Json, pointer: str
) -> None:
    text = json.dumps(fields).replace("SEALED", await seal(access))

    status, job = await save(access, **json.loads(text))

    assert (status, job["code"]) == (422, "invalid_sealed_text"), job
    assert [each["pointer"] for each in job["errors"]] == [pointer]


async def test_a_job_and_a_trigger_have_so_many_sealed_texts_and_no_more(access: Access) -> None:
    texts = access.wiring.context.sealed_texts
    await seal(access)
    author = Author(principal="admin")
    many = [await texts.seal("team-a", "x", by=author) for _ in range(SEALED_MAX + 1)]
    path = f"{API}/jobs/team-a%2Fuses/trigger"
    tasks = [{"name": f"task-{number}", "command": "true"} for number in range(SEALED_MAX + 1)]

    # The variable of a job is one of each task.
    in_each, _ = await save(access, command=None, tasks=tasks, env={"ONE": many[0]})
    most, _ = await save(access, parameters=many[1:])
    over, job = await save(access, parameters=many[1:], env={"ONE": many[0]})
    body = {"parameters": many}
    _, trigger = await access.call(access.admin, "POST", path, body)

    assert (in_each, most, over) == (201, 200, 422)
    assert job["code"] == trigger["code"] == "invalid_sealed_text"
    assert "at most 100 are allowed" in job["detail"]


async def test_sealed_texts_are_for_those_that_may_use_secrets(access: Access) -> None:
    body = {"verbs": ["read", "run", "write"]}
    await access.call(access.admin, "PUT", f"{API}/roles/writer", body)
    writer = await access.key("writer", "writer", "team-a")
    sealed = await seal(access)
    await save(access)

    for method, path, given in (
        ("POST", f"{API}/secrets/team-a:seal", {"value": "x"}),
        ("PUT", f"{API}/jobs/team-a/other", {"command": "true", "env": {"DB": sealed}}),
        ("POST", f"{API}/jobs/team-a%2Fuses/trigger", {"parameters": {"password": sealed}}),
    ):
        status, answer = await access.call(writer, method, path, given)
        assert (status, answer["code"]) == (403, "forbidden"), path


async def test_the_key_of_a_namespace_is_encrypted_and_no_operation_reaches_it(
    access: Access,
) -> None:
    await seal(access)

    _, listed = await access.call(access.admin, "GET", f"{API}/secrets")
    found = [await access.call(access.admin, each, KEY) for each in ("GET", "DELETE")]
    put, _ = await access.call(access.admin, "PUT", KEY, {"value": "x"})
    document = access.wiring.context.documents.get(DocumentKey(SECRETS, f"team-a/{SEALING_KEY}"))

    assert listed["items"] == []
    assert [status for status, _ in found] == [404, 404]
    assert put in (404, 422)
    assert document is not None
    assert document.version == 1


@pytest.mark.parametrize("body", [{"base64": "/w=="}, {"value": "a\0b"}, {"value": "x" * 20_000}])
async def test_bytes_and_long_texts_are_not_sealed(access: Access, body: Json) -> None:
    path = f"{API}/secrets/team-a:seal"

    status, answer = await access.call(access.admin, "POST", path, body)

    assert (status, answer["code"]) == (422, "invalid_secret")
    assert "use a secret, as a file" in answer["detail"]


async def test_texts_that_are_sealed_at_the_same_time_have_the_same_key(access: Access) -> None:
    first, second = await seal(access, "one of them"), await seal(access, "the other one")
    texts = access.wiring.context.sealed_texts

    assert first != second
    assert texts.open("team-a", first.rpartition(":")[2]) == "one of them"
    assert texts.open("team-a", second.rpartition(":")[2]) == "the other one"
