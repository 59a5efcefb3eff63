"""Access to one node over HTTP: the first key, keys, tokens, and what is refused without them."""

import asyncio
import socket
import stat
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from aiohttp import web

from rota.core.model.execution import ExecutionStatus
from rota.core.model.ids import ExecutionId, JobId
from rota.core.model.shared_document import DocumentKey
from rota.core.timing.instants import DAY, HOUR, SECOND, Duration, Instant
from rota.core.vocabulary.effects import Publish
from rota.node.access.access_table import ISSUERS
from rota.node.access.authenticator import LoginFailed
from rota.node.access.principal import ClientCertificate
from rota.node.api.app import OPERATIONS
from rota.node.api.requests import local_socket
from rota.node.api.requests.permissions import Scope
from rota.node.feeds.events import Events, Filter
from rota.node.system.clock import SystemClock
from support.access_client import API, Access, Json, ShiftedClock, access_to
from support.access_tables import put
from support.in_process import until

JOB = {"name": "nightly", "namespace": "team-a", "command": "true"}


@pytest.fixture
def clock() -> ShiftedClock:
    return ShiftedClock()


@pytest.fixture
async def fresh(tmp_path: Path, clock: ShiftedClock) -> AsyncIterator[Access]:
    """A node without a key."""
    async with access_to(tmp_path, clock=clock) as access:
        yield access


@pytest.fixture
async def access(fresh: Access) -> Access:
    """A node whose first key was created."""
    status, _ = await fresh.init()
    assert status == 201
    return fresh


async def whoami(access: Access, token: str | None) -> int:
    """Return the status of a request that needs only a valid credential."""
    status, _ = await access.call(token, "GET", f"{API}/whoami")
    return status


# -- the first key ---------------------------------------------------------------------------------


async def test_a_node_without_a_key_answers_public_operations_alone(fresh: Access) -> None:
    for operation in OPERATIONS:
        if operation.method == "GET" and "{" not in operation.path:
            async with fresh.client.session.get(fresh.client.url + operation.path) as answer:
                is_public = operation.permission.scope is Scope.PUBLIC
                assert (answer.status == 200) is is_public, operation.path

    status, problem = await fresh.call(None, "GET", f"{API}/jobs")
    assert (status, problem["code"]) == (401, "unauthenticated")
    assert "no key yet" in problem["detail"]
    assert "rota auth init" in problem["detail"]


async def test_the_first_key_is_that_of_an_administrator(fresh: Access) -> None:
    status, made = await fresh.init({"name": "root"})

    assert status == 201
    assert made["principal"] == "root"
    assert made["token"][7:15] == made["tokenId"]
    status, me = await fresh.call(made["token"], "GET", f"{API}/whoami?verb=admin")
    assert (me["principal"], me["tokenId"], me["expiresAt"]) == ("root", made["tokenId"], None)
    assert me["bindings"] == [{"role": "cluster-admin", "namespaces": ["*"]}]
    assert me["allowed"] is True


async def test_the_first_key_is_created_once(access: Access) -> None:
    first = access.admin

    status, problem = await access.init()

    assert (status, problem["code"]) == (409, "already_initialized")
    assert await whoami(access, first) == 200


async def test_no_second_first_key_is_created_after_the_deletion_of_all_keys(
    access: Access,
) -> None:
    status, _ = await access.call(access.admin, "DELETE", f"{API}/keys/bootstrap")
    assert status == 204

    status, problem = await access.init()

    assert (status, problem["code"]) == (409, "already_initialized")


async def test_concurrent_requests_for_the_first_key_create_one(fresh: Access) -> None:
    found = await asyncio.gather(*(fresh.init({"name": f"a{number}"}) for number in range(8)))

    made = [answer for status, answer in found if status == 201]
    assert len(made) == 1
    assert {status for status, _ in found} == {201, 409}
    _, me = await fresh.call(made[0]["token"], "GET", f"{API}/whoami?verb=admin")
    assert me["allowed"] is True


async def test_a_try_after_one_that_ended_before_its_key_uses_its_binding(fresh: Access) -> None:
    documents = fresh.wiring.context.documents
    binding = {"subject": "principal:ann", "role": "cluster-admin", "namespaces": ["*"]}
    await documents.change(_key("bindings", "bootstrap"), binding, by="local")

    status, made = await fresh.init({"name": "bob"})

    assert (status, made["principal"]) == (201, "ann")
    _, me = await fresh.call(made["token"], "GET", f"{API}/whoami?verb=admin")
    assert me["allowed"] is True


async def test_the_first_key_is_not_created_over_tcp(fresh: Access) -> None:
    status, problem = await fresh.call(None, "POST", f"{API}/auth:init", {"name": "eve"})

    assert (status, problem["code"]) == (403, "local_only")


async def test_the_socket_refuses_another_user(
    fresh: Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 4_321)

    def another_user(connection: socket.socket) -> int:
        del connection
        return 1_234

    monkeypatch.setattr(local_socket, "_user_of", another_user)

    for path in (f"{API}/auth:init", f"{API}/jobs"):
        async with fresh.local.post(f"http://localhost{path}", json={}) as answer:
            assert answer.status == 403
            assert (await answer.json())["code"] == "local_only"


async def test_the_socket_grants_nothing_but_the_first_key(access: Access) -> None:
    for token, expected in ((None, 401), (access.admin, 200)):
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        async with access.local.get(f"http://localhost{API}/jobs", headers=headers) as answer:
            assert answer.status == expected


async def test_the_socket_belongs_to_the_user_of_the_node_and_ends_with_it(
    tmp_path: Path,
) -> None:
    path = tmp_path / "api.sock"
    async with access_to(tmp_path) as access:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        await access.init()
    assert not path.exists()


async def test_a_node_whose_path_is_too_long_for_a_socket_works_without_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / ("d" * 100)
    folder.mkdir()

    async with access_to(folder) as access:
        status, _ = await access.call(None, "GET", f"{API}/jobs")

    assert status == 401
    assert "no unix socket, because its path is too long" in caplog.text


# -- credentials -----------------------------------------------------------------------------------


async def test_every_failure_gets_the_same_answer(access: Access, clock: ShiftedClock) -> None:
    expired = await access.key("old", expiresIn="1h")
    elsewhere = await access.key("far", networks=["203.0.113.0/24"])
    deleted = await access.key("gone")
    await access.call(access.admin, "DELETE", f"{API}/keys/gone")
    clock.shift = Duration(2 * HOUR)
    answers: list[tuple[int, Json, str]] = []

    for token in (None, "garbage", expired, elsewhere, deleted):
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        url = f"{access.client.url}{API}/jobs"
        async with access.client.session.get(url, headers=headers) as answer:
            problem = await answer.json()
            problem.pop("requestId")
            answers.append((answer.status, problem, answer.headers["WWW-Authenticate"]))

    assert all(each == answers[0] for each in answers)
    status, problem, challenge = answers[0]
    assert (status, problem["code"], challenge) == (401, "unauthenticated", 'Bearer realm="rota"')
    assert "rota login" in problem["detail"]
    assert "ROTA_TOKEN_FILE" in problem["detail"]


async def test_a_key_is_accepted_from_its_networks(access: Access) -> None:
    token = await access.key("near", networks=["127.0.0.0/8"])

    assert await whoami(access, token) == 200


async def test_a_deleted_key_is_refused_at_once(access: Access) -> None:
    token = await access.key("ci")
    assert await whoami(access, token) == 200

    await access.call(access.admin, "DELETE", f"{API}/keys/ci")

    assert await whoami(access, token) == 401


async def test_a_rotated_key_has_two_tokens_until_the_grace_ends(
    access: Access, clock: ShiftedClock
) -> None:
    old = await access.key("ci", "viewer", "team-a")

    path = f"{API}/keys/ci/rotate"
    status, made = await access.call(access.admin, "POST", path, {"grace": "30m"})

    assert (status, made["name"], made["principal"]) == (200, "ci", "ci")
    assert await whoami(access, old) == await whoami(access, made["token"]) == 200
    clock.shift = Duration(HOUR)
    assert await whoami(access, old) == 401
    assert await whoami(access, made["token"]) == 200
    _, key = await access.call(access.admin, "GET", f"{API}/keys/ci")
    assert len(key["definition"]["tokens"]) == 2
    await access.call(access.admin, "POST", path, {"grace": 0})
    _, key = await access.call(access.admin, "GET", f"{API}/keys/ci")
    assert len(key["definition"]["tokens"]) == 1
    assert await whoami(access, made["token"]) == 401


async def test_a_rotation_keeps_the_end_of_the_token_unless_it_gives_another(
    access: Access,
) -> None:
    await access.key("ci", expiresIn="90d")
    _, before = await access.call(access.admin, "GET", f"{API}/keys/ci")

    _, kept = await access.call(access.admin, "POST", f"{API}/keys/ci/rotate")
    _, longer = await access.call(
        access.admin, "POST", f"{API}/keys/ci/rotate", {"expiresIn": "200d"}
    )

    assert kept["expiresAt"] == before["definition"]["tokens"][0]["expiresAt"]
    assert longer["expiresAt"] > kept["expiresAt"]


async def test_a_key_has_at_most_ten_tokens(access: Access) -> None:
    await access.key("ci")
    for _ in range(9):
        status, _ = await access.call(access.admin, "POST", f"{API}/keys/ci/rotate")
        assert status == 200

    status, problem = await access.call(access.admin, "POST", f"{API}/keys/ci/rotate")

    assert (status, problem["code"]) == (422, "invalid_key")


async def test_a_principal_above_its_rate_is_refused_and_others_are_not(
    tmp_path: Path, clock: ShiftedClock
) -> None:
    async with access_to(tmp_path, clock=clock, principal_rate=20) as access:
        await access.init()
        token = await access.key("ci")
        statuses = await asyncio.gather(*(whoami(access, token) for _ in range(200)))

        async with access.client.session.get(
            f"{access.client.url}{API}/whoami", headers={"Authorization": f"Bearer {token}"}
        ) as answer:
            if answer.status == 429:  # The second may be over on a slow machine.
                assert (await answer.json())["code"] == "too_many_requests"
        assert await whoami(access, access.admin) == 200

    assert set(statuses) == {200, 429}
    assert statuses.count(200) >= 20


async def test_failed_logins_of_an_address_are_limited(access: Access) -> None:
    statuses = [await whoami(access, "garbage") for _ in range(40)]

    assert statuses[:10] == [401] * 10
    assert 429 in statuses
    async with access.client.session.get(
        f"{access.client.url}{API}/jobs", headers={"Authorization": "Bearer x"}
    ) as answer:
        if answer.status == 429:  # The second may be over on a slow machine.
            assert answer.headers["Retry-After"] == "1"
            assert (await answer.json())["code"] == "too_many_logins"
    assert await whoami(access, access.admin) == 200


async def test_a_token_is_never_logged(access: Access, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("DEBUG"):
        token = await access.key("ci")
        await whoami(access, token)
        await access.call(access.admin, "DELETE", f"{API}/keys/ci")
        await whoami(access, token)

    assert "login failed" in caplog.text
    written = "".join(str(vars(line)) for line in caplog.records)
    for secret in (token, access.admin):
        assert secret not in written
        assert secret[15:50] not in written


# -- definitions -----------------------------------------------------------------------------------


async def test_no_answer_has_a_hash(access: Access) -> None:
    token = await access.key("ci", "viewer", "team-a")
    stored = access.wiring.context.documents.get(_key("keys", "ci"))
    assert stored is not None
    assert stored.definition is not None
    digest = stored.definition["tokens"][0]["hash"]
    _, key = await access.call(access.admin, "GET", f"{API}/keys/ci")
    answers = [
        key,
        await access.call(access.admin, "GET", f"{API}/keys"),
        await access.call(access.admin, "GET", f"{API}/keys/ci/changes"),
        await access.call(access.admin, "PUT", f"{API}/keys/ci", key["definition"]),
        await access.call(access.admin, "POST", f"{API}/keys/ci/rotate"),
    ]

    assert digest not in str(answers)
    assert token not in str(answers)


async def test_a_key_that_is_sent_back_as_it_was_shown_keeps_its_token(access: Access) -> None:
    token = await access.key("ci")
    _, key = await access.call(access.admin, "GET", f"{API}/keys/ci")

    changed = {**key["definition"], "from": ["127.0.0.1/32"]}
    status, _ = await access.call(access.admin, "PUT", f"{API}/keys/ci", changed)

    assert status == 200
    assert await whoami(access, token) == 200


@pytest.mark.parametrize(
    ("path", "body", "pointer"),
    [
        ("keys/k", {"principal": "a b", "tokens": []}, "/principal"),
        ("keys/k", {"principal": "a", "tokens": [{"id": "x"}]}, "/tokens/0/id"),
        ("keys/k", {"principal": "a", "tokens": [{"id": "abcdefgh"}]}, "/tokens/0/hash"),
        (
            "keys/k",
            {"principal": "a", "tokens": [{"id": "abcdefgh", "hash": "rota_k_secret"}]},
            "/tokens/0/hash",
        ),
        (
            "keys/k",
            {"principal": "a", "tokens": [{"id": "abcdefgh", "expiresAt": "soon"}]},
            "/tokens/0/expiresAt",
        ),
        ("keys/k", {"principal": "a", "tokens": [], "from": ["10.0.0.1/8"]}, "/from/0"),
        ("roles/viewer", {"verbs": ["read"]}, "/name"),
        ("roles/mine", {"verbs": ["read", "fly"]}, "/verbs/1"),
        ("bindings/b", {"subject": "ann", "role": "viewer", "namespaces": ["a"]}, "/subject"),
        (
            "bindings/b",
            {"subject": "principal:", "role": "viewer", "namespaces": ["a"]},
            "/subject",
        ),
        ("bindings/b", {"subject": "cert:", "role": "viewer", "namespaces": ["a"]}, "/subject"),
        ("bindings/b", {"subject": "cert:x", "role": "v w", "namespaces": ["a"]}, "/role"),
        ("bindings/b", {"subject": "cert:x", "role": "viewr", "namespaces": ["a"]}, "/role"),
        ("bindings/b", {"subject": "cert:x", "role": "viewer", "namespaces": []}, "/namespaces"),
        (
            "bindings/b",
            {"subject": "cert:x", "role": "viewer", "namespaces": ["a", "b*c"]},
            "/namespaces/1",
        ),
        (
            "bindings/b",
            {"subject": "cert:x", "role": "viewer", "namespaces": ["**"]},
            "/namespaces/0",
        ),
    ],
)
async def test_an_invalid_definition_is_refused_with_its_place(
    access: Access, path: str, body: Json, pointer: str
) -> None:
    status, problem = await access.call(access.admin, "PUT", f"{API}/{path}", body)

    assert status == 422
    assert pointer in [each["pointer"] for each in problem["errors"]]
    assert "rota_k_secret" not in str(problem)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"name": "x y"}, "invalid_key"),
        ({"name": "k", "principal": "x y"}, "invalid_key"),
        ({"name": "k", "expiresIn": "soon"}, "invalid_key"),
        ({"name": "k", "expiresIn": 0}, "invalid_key"),
        ({"name": "k", "role": "viewer"}, "invalid_key"),
        ({"name": "k", "namespaces": ["a"]}, "invalid_key"),
        ({"name": "k", "from": ["here"]}, "invalid_key"),
        ({"name": "k", "role": "viewer", "namespaces": ["a b"]}, "invalid_binding"),
    ],
)
async def test_an_invalid_new_key_is_refused_and_nothing_is_created(
    access: Access, body: Json, code: str
) -> None:
    status, problem = await access.call(access.admin, "POST", f"{API}/keys", body)

    assert (status, problem["code"]) == (422, code)
    documents = access.wiring.context.documents
    assert [each.name for each in documents.of_kind("keys")] == ["bootstrap"]
    assert [each.name for each in documents.of_kind("bindings")] == ["bootstrap"]


async def test_an_existing_key_is_not_created_again_and_keeps_its_rights(access: Access) -> None:
    await access.key("ci", "viewer", "team-a")

    body = {"name": "ci", "role": "editor", "namespaces": ["*"]}
    status, problem = await access.call(access.admin, "POST", f"{API}/keys", body)

    assert (status, problem["code"]) == (409, "key_exists")
    _, binding = await access.call(access.admin, "GET", f"{API}/bindings/key-ci")
    assert binding["definition"]["role"] == "viewer"


# -- bindings of administrators of namespaces ------------------------------------------------------


def bound(role: str, *namespaces: str, subject: str = "principal:new") -> Json:
    """Return a binding."""
    return {"subject": subject, "role": role, "namespaces": list(namespaces)}


async def test_a_binding_of_a_role_that_does_not_exist_is_refused_with_similar_roles(
    access: Access,
) -> None:
    put, path = (access.admin, "PUT"), f"{API}/bindings/b"
    key = {"name": "ci", "role": "viewr", "namespaces": ["team-a"]}

    status, problem = await access.call(*put, path, bound("editr", "team-a"))
    of_key = await access.call(access.admin, "POST", f"{API}/keys", key)
    await access.call(*put, f"{API}/roles/starter", {"verbs": ["run"]})
    defined = await access.call(*put, path, bound("starter", "team-a"))
    _, own = await access.call(*put, path, bound("startr", "team-a"))

    assert (status, problem["code"]) == (422, "invalid_binding")
    assert [each["pointer"] for each in problem["errors"]] == ["/role"]
    assert "there is no role 'editr' (did you mean 'editor'?)" in str(problem)
    assert (of_key[0], of_key[1]["code"]) == (422, "invalid_binding")
    assert defined[0] == 201
    assert "did you mean 'starter'?" in str(own)


async def test_a_binding_of_a_deleted_role_can_still_lose_namespaces(access: Access) -> None:
    put, path = (access.admin, "PUT"), f"{API}/bindings/b"
    await access.call(*put, f"{API}/roles/starter", {"verbs": ["run"]})
    await access.call(*put, path, bound("starter", "team-a", "team-b"))
    await access.call(access.admin, "DELETE", f"{API}/roles/starter")

    changed = await access.call(*put, path, bound("starter", "team-a"))
    other = await access.call(*put, f"{API}/bindings/c", bound("starter", "team-a"))

    assert (changed[0], other[0]) == (200, 422)


async def test_an_administrator_of_a_namespace_gives_roles_in_it(access: Access) -> None:
    ann = await access.key("ann", "admin", "team-a")
    new = await access.key("new")

    status, _ = await access.call(ann, "PUT", f"{API}/bindings/b", bound("editor", "team-a"))

    assert status == 201
    status, _ = await access.call(new, "POST", f"{API}/jobs", JOB)
    assert status == 201


@pytest.mark.parametrize(
    ("role", "namespaces"),
    [
        ("editor", ["team-b"]),
        ("editor", ["*"]),
        ("cluster-admin", ["team-a"]),
        ("nope", ["team-a"]),
    ],
)
async def test_an_administrator_of_a_namespace_gives_no_more_than_it_has(
    access: Access, role: str, namespaces: list[str]
) -> None:
    ann = await access.key("ann", "admin", "team-a")

    body = bound(role, *namespaces, subject="principal:ann")
    status, problem = await access.call(ann, "PUT", f"{API}/bindings/b", body)

    assert (status, problem["code"]) == (403, "forbidden")


async def test_an_administrator_of_a_namespace_neither_replaces_nor_deletes_other_bindings(
    access: Access,
) -> None:
    ann = await access.key("ann", "admin", "team-a")
    await access.call(access.admin, "PUT", f"{API}/bindings/b", bound("viewer", "team-b"))
    await access.call(access.admin, "PUT", f"{API}/bindings/c", bound("cluster-admin", "team-a"))

    replaced = await access.call(ann, "PUT", f"{API}/bindings/b", bound("viewer", "team-a"))
    hidden = await access.call(ann, "DELETE", f"{API}/bindings/b")
    higher = await access.call(ann, "DELETE", f"{API}/bindings/c")

    assert replaced[0] == 403
    assert "team-b" not in str(replaced[1])  # Not even the namespace of a hidden binding is shown.
    assert (hidden[0], hidden[1]["code"]) == (404, "binding_not_found")
    assert (higher[0], higher[1]["code"]) == (403, "forbidden")
    _, kept = await access.call(access.admin, "GET", f"{API}/bindings")
    assert {"b", "c"} <= {each["name"] for each in kept["items"]}


async def test_an_administrator_of_a_namespace_sees_the_bindings_of_it_alone(
    access: Access,
) -> None:
    ann = await access.key("ann", "admin", "team-a")
    await access.key("bob", "viewer", "team-a")
    await access.key("eve", "viewer", "team-b")

    _, listed = await access.call(ann, "GET", f"{API}/bindings")
    own = await access.call(ann, "GET", f"{API}/bindings/key-bob")
    foreign = await access.call(ann, "GET", f"{API}/bindings/key-eve")
    absent = await access.call(ann, "GET", f"{API}/bindings/nope")
    changes = await access.call(ann, "GET", f"{API}/bindings/key-eve/changes")

    assert [each["name"] for each in listed["items"]] == ["key-ann", "key-bob"]
    assert own[0] == 200
    assert (foreign[0], foreign[1]["code"]) == (absent[0], absent[1]["code"])
    assert (changes[0], changes[1]["code"]) == (404, "binding_not_found")


async def test_an_auditor_reads_keys_roles_and_bindings_and_changes_none(access: Access) -> None:
    auditor = await access.key("auditor", "auditor", "*")

    for kind, name in (("keys", "auditor"), ("bindings", "key-auditor")):
        assert (await access.call(auditor, "GET", f"{API}/{kind}"))[0] == 200
        assert (await access.call(auditor, "GET", f"{API}/{kind}/{name}"))[0] == 200
        assert (await access.call(auditor, "DELETE", f"{API}/{kind}/{name}"))[0] == 403
    assert (await access.call(auditor, "GET", f"{API}/roles"))[0] == 200
    _, listed = await access.call(auditor, "GET", f"{API}/bindings")
    assert len(listed["items"]) == 2


async def test_an_own_role_has_its_verbs_at_once(access: Access) -> None:
    await access.call(access.admin, "PUT", f"{API}/roles/starter", {"verbs": ["run"]})
    token = await access.key("ci", "starter", "team-a")
    path = f"{API}/whoami?namespace=team-a&verb="

    _, run = await access.call(token, "GET", f"{path}run")
    _, read = await access.call(token, "GET", f"{path}read")
    await access.call(access.admin, "PUT", f"{API}/roles/starter", {"verbs": ["read"]})
    _, later = await access.call(token, "GET", f"{path}read")

    assert (run["allowed"], read["allowed"], later["allowed"]) == (True, False, True)


async def test_the_parameters_of_an_execution_need_the_verb_of_its_output(access: Access) -> None:
    await access.call(access.admin, "PUT", f"{API}/roles/reader", {"verbs": ["read"]})
    seeing = await access.key("ann", "viewer", "team-a")
    reading = await access.key("bob", "reader", "team-a")
    body = {**JOB, "parameters": {"day": 1}}
    await access.call(access.admin, "POST", f"{API}/jobs", body)
    path = f"{API}/jobs/team-a%2Fnightly/trigger"
    _, made = await access.call(access.admin, "POST", path, {"parameters": {"day": 2}})
    path = f"{API}/executions/{made['executionId']}"

    _, ended = await access.call(seeing, "GET", f"{path}/wait")
    _, shown = await access.call(seeing, "GET", path)
    _, hidden = await access.call(reading, "GET", path)
    _, listed = await access.call(seeing, "GET", f"{API}/executions")

    assert shown["parameters"] == {"day": 2}
    assert (hidden["status"], hidden["parameters"]) == ("success", None)
    assert [each["parameters"] for each in (ended, *listed["items"])] == [None, None]


# -- forwarded requests ----------------------------------------------------------------------------


async def test_a_pretended_forward_is_refused(access: Access) -> None:
    token = await access.key("ci", "viewer", "team-a")

    for headers in (
        {"Rota-Peer": "n2"},
        {"Rota-Principal": '{"name":"admin","subjects":["principal:admin"]}'},
        {"Rota-Client-Address": "192.0.2.1"},
        {"Rota-Kept": "1"},
    ):
        status, problem = await access.call(token, "GET", f"{API}/jobs", headers=headers)
        assert (status, problem["code"]) == (403, "not_a_node")


async def test_a_principal_that_a_client_names_itself_is_refused(access: Access) -> None:
    token = await access.key("ci", "viewer", "team-a")
    form = '{"name":"admin","subjects":["principal:admin"]}'

    status, problem = await access.call(
        token, "GET", f"{API}/whoami", headers={"Rota-Principal": form}
    )

    assert (status, problem["code"]) == (403, "not_a_node")


async def test_a_forwarded_principal_has_the_grants_of_this_nodes_documents(
    access: Access,
) -> None:
    control = access.wiring.context.access
    token = await access.key("ci", "viewer", "team-a")
    sent = control.authenticator.authenticate(f"Bearer {token}", "")

    received = await control.principal_from_forwarded_form(control.forwarded_form(sent))

    assert received == sent
    assert control.forwarded_form(sent).isascii()


async def test_a_forwarded_principal_ends_with_its_certificate_or_token(access: Access) -> None:
    control, ends_at = access.wiring.context.access, Instant(1_800_000_000 * SECOND)
    by_certificate = control.authenticator.authenticate(None, "", ClientCertificate("ci", ends_at))
    by_token = replace(by_certificate, name="corp/ci", issuer="corp")
    url = "https://login.example.org"
    put(control.table, ISSUERS, "corp", {"issuer": url, "audiences": ["rota"]})

    for sent in (by_certificate, by_token):
        received = await control.principal_from_forwarded_form(control.forwarded_form(sent))

        assert (received.name, received.issuer) == (sent.name, sent.issuer)
        assert received.expires_at == ends_at


async def test_a_forwarded_principal_whose_key_is_deleted_here_is_refused(access: Access) -> None:
    """The node that forwards it may be cut off from etcd, and not know of the deletion."""
    control = access.wiring.context.access
    token = await access.key("ci", "viewer", "team-a")
    form = control.forwarded_form(control.authenticator.authenticate(f"Bearer {token}", ""))
    await access.wiring.context.documents.change(DocumentKey("keys", "ci"), None, by="local")

    with pytest.raises(LoginFailed):
        await control.principal_from_forwarded_form(form)


async def test_a_forwarded_principal_waits_for_the_documents_that_its_node_had(
    access: Access,
) -> None:
    control = access.wiring.context.access
    form = msgspec.json.encode(
        {"name": "ci", "subjects": ["principal:ci"], "revision": control.table.revision + 2}
    ).decode()

    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(control.principal_from_forwarded_form(form))
        await asyncio.sleep(0)
        assert not waiting.done()
        await access.key("ci", "viewer", "team-a")

    assert [each.namespaces for each in waiting.result().grants.granted] == [("team-a",)]


# -- readiness -------------------------------------------------------------------------------------


async def test_the_reason_why_a_node_is_not_ready_is_shown_to_known_callers_alone(
    access: Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(access.wiring.context.unready), "__call__", _not_ready)

    def from_elsewhere(http: web.BaseRequest) -> bool:
        del http
        return False

    monkeypatch.setattr("rota.node.api.handlers.health.is_from_here", from_elsewhere)

    unknown = await access.call(None, "GET", "/readyz")
    garbage = await access.call("garbage", "GET", "/readyz")
    known = await access.call(access.admin, "GET", "/readyz")

    assert [each[0] for each in (unknown, garbage, known)] == [503, 503, 503]
    assert "/secret/disk" not in str((unknown, garbage))
    assert known[1]["detail"] == "/secret/disk is full"


async def test_the_reason_why_a_node_is_not_ready_is_shown_on_its_machine(
    access: Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(access.wiring.context.unready), "__call__", _not_ready)

    status, problem = await access.call(None, "GET", "/readyz")

    assert (status, problem["detail"]) == (503, "/secret/disk is full")


# -- streams ---------------------------------------------------------------------------------------


async def _opened(access: Access, token: str) -> AsyncIterator[Json]:
    """Yield the events of a stream."""
    headers = {"Authorization": f"Bearer {token}", "Accept": "application/x-ndjson"}
    url = f"{access.client.url}{API}/events"
    async with access.client.session.get(url, headers=headers) as answer:
        assert answer.status == 200
        async for line in answer.content:
            if line.strip():
                yield msgspec.json.decode(line)


@pytest.mark.parametrize("end", ["delete", "rotate", "expire", "bind"])
async def test_an_open_stream_ends_when_its_key_or_its_rights_do(
    access: Access, clock: ShiftedClock, end: str
) -> None:
    token = await access.key("ci", "viewer", "team-a", expiresIn="30d")
    async with asyncio.timeout(10):
        events = _opened(access, token)
        assert (await anext(events))["type"] == "stream.opened"

        if end == "delete":
            await access.call(access.admin, "DELETE", f"{API}/keys/ci")
        elif end == "rotate":
            await access.call(access.admin, "POST", f"{API}/keys/ci/rotate", {"grace": 0})
        elif end == "expire":
            clock.shift = Duration(31 * DAY)
        else:
            await access.call(access.admin, "DELETE", f"{API}/bindings/key-ci")

        last = await anext(events)
        assert last["type"] == "stream.closed"
        assert "revoked" in last["detail"]
        assert [event async for event in events] == []


async def test_the_change_of_another_principal_does_not_end_a_stream(access: Access) -> None:
    token = await access.key("ci", "viewer", "team-a")
    async with asyncio.timeout(10):
        events = _opened(access, token)
        assert (await anext(events))["type"] == "stream.opened"

        await access.key("ann", "viewer", "team-a")
        await access.call(access.admin, "DELETE", f"{API}/keys/ann")
        await access.call(access.admin, "POST", f"{API}/jobs", JOB)

        assert (await anext(events))["type"] == "job.created"
        await events.aclose()  # type: ignore[attr-defined] # an async generator


async def test_followed_output_ends_when_the_key_is_revoked(access: Access) -> None:
    token = await access.key("ci", "editor", "team-a")
    job = {**JOB, "command": "echo begun; sleep 60"}
    _, made = await access.call(token, "POST", f"{API}/jobs", job)
    _, started = await access.call(token, "POST", f"{API}/jobs/{made['jobId']}/trigger")
    attempts = access.wiring.attempts.local
    await until(lambda: attempts.running == 1)
    execution = f"{API}/executions/{started['executionId']}"
    url = f"{access.client.url}{execution}/tasks/main/output?follow=true"
    headers = {"Authorization": f"Bearer {token}"}

    async with asyncio.timeout(10), access.client.session.get(url, headers=headers) as answer:
        assert await answer.content.readline() == b"begun\n"
        await access.call(access.admin, "DELETE", f"{API}/keys/ci")
        with pytest.raises(Exception, match="payload"):
            await answer.content.read()

    status, _ = await access.call(access.admin, "POST", f"{execution}/cancel")
    assert status == 202


# -- other modes -----------------------------------------------------------------------------------


async def test_observed_refusals_are_logged_and_counted_and_not_made(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with access_to(tmp_path, auth="observe") as access:
        await access.init()
        viewer = await access.key("ann", "viewer", "team-b")
        caplog.clear()

        created = await access.call(viewer, "POST", f"{API}/jobs", JOB)
        listed = await access.call(None, "GET", f"{API}/jobs")
        drained = await access.call("garbage", "GET", f"{API}/keys")
        text = access.wiring.context.metrics.text().decode()

    assert [created[0], listed[0], drained[0]] == [201, 200, 200]
    assert [each["name"] for each in listed[1]["items"]] == ["nightly"]
    lines = [vars(each) for each in caplog.records if each.message == "request would be refused"]
    assert {
        (each["principal"], each["verb"], each["namespace"], each["path"]) for each in lines
    } >= {
        ("ann", "write", "team-a", f"{API}/jobs"),
        ("", "", "", f"{API}/jobs"),
        ("", "read", "team-a", f"{API}/jobs"),
        ("", "", "", f"{API}/keys"),
        ("", "admin", "", f"{API}/keys"),
    }
    assert f"rota_access_would_refuse_total {len(lines)}.0" in text


async def test_what_is_allowed_is_not_observed(tmp_path: Path) -> None:
    async with access_to(tmp_path, auth="observe") as access:
        await access.init()
        editor = await access.key("ann", "editor", "team-a")

        status, made = await access.call(editor, "POST", f"{API}/jobs", JOB)
        _, me = await access.call(editor, "GET", f"{API}/whoami")
        text = access.wiring.context.metrics.text().decode()

    assert (status, me["principal"]) == (201, "ann")
    assert made["jobId"]
    assert "rota_access_would_refuse_total 0.0" in text


async def test_an_open_node_gives_every_request_all_rights(tmp_path: Path) -> None:
    async with access_to(tmp_path, auth="open") as access:
        status, me = await access.call(None, "GET", f"{API}/whoami?verb=admin")

    assert (status, me["principal"], me["allowed"]) == (200, "operator", True)


# -- helpers ---------------------------------------------------------------------------------------


def _key(kind: str, name: str) -> DocumentKey:
    return DocumentKey(kind, name)


def _not_ready(self: object, *, exclude_cluster: bool = False) -> str:
    del self, exclude_cluster
    return "/secret/disk is full"


# -- output ----------------------------------------------------------------------------------------


WRITES = {"command": "echo pri''vate; printf '\"pri%s\"' vate > $ROTA_RESULT"}
"""Work whose output and result have a word that its definition has not."""


async def ended_of(access: Access, path: str, body: Json) -> str:
    """Return the path of the execution that a request creates, once it has ended."""
    _, started = await access.call(access.admin, "POST", path, body)
    of_execution = f"{API}/executions/{started['executionId']}"
    _, ended = await access.call(access.admin, "GET", f"{of_execution}/wait?timeout=30s")
    assert ended["status"] == "success", ended
    return of_execution


async def watcher_of(access: Access) -> str:
    """Return the token of a principal that may read and run, and has no verb for output."""
    await access.call(access.admin, "PUT", f"{API}/roles/watcher", {"verbs": ["read", "run"]})
    return await access.key("watcher", "watcher", "team-a")


async def test_what_an_attempt_wrote_is_shown_only_with_the_verb_of_output(access: Access) -> None:
    watcher, viewer = await watcher_of(access), await access.key("viewer", "viewer", "team-a")
    await access.call(access.admin, "PUT", f"{API}/jobs/team-a/writes", WRITES)
    path = await ended_of(access, f"{API}/jobs/team-a%2Fwrites/trigger", {})

    for method, way in (("GET", path), ("GET", f"{path}/wait"), ("POST", f"{path}/cancel")):
        _, shown = await access.call(watcher, method, way)
        assert shown["tasks"]["main"]["attempts"][0]["outcome"] == "success", way
        assert "private" not in str(shown), way
    _, shown = await access.call(viewer, "GET", path)
    attempt = shown["tasks"]["main"]["attempts"][0]
    assert (attempt["outputTail"], attempt["result"]) == ("private\n", "private")


async def test_a_reason_that_an_attempt_determined_is_shown_only_with_the_verb_of_output(
    access: Access,
) -> None:
    watcher, viewer = await watcher_of(access), await access.key("viewer", "viewer", "team-a")
    fails = {"command": "echo pri''vate > $ROTA_PROGRESS; exit 3"}
    await access.call(access.admin, "PUT", f"{API}/jobs/team-a/fails", fails)
    _, started = await access.call(access.admin, "POST", f"{API}/jobs/team-a%2Ffails/trigger", {})
    of_execution = f"{API}/executions/{started['executionId']}"
    await access.call(access.admin, "GET", f"{of_execution}/wait?timeout=30s")
    many = {"executionIds": [started["executionId"]]}

    for method, way, body in (
        ("GET", of_execution, None),
        ("GET", f"{API}/executions", None),
        ("GET", f"{API}/executions?jobId=team-a/fails", None),
        ("POST", f"{API}/executions:wait", many),
        ("GET", f"{API}/jobs/team-a%2Ffails", None),
        ("GET", f"{API}/jobs", None),
    ):
        _, shown = await access.call(watcher, method, way, body)
        _, whole = await access.call(viewer, method, way, body)
        assert "exited with code 3" in str(shown), way
        assert "private" not in str(shown), way
        assert "private" in str(whole), way


async def test_events_have_the_reasons_that_their_reader_may_see() -> None:
    events = Events("0000abcd", SystemClock())
    failed = Publish(
        at=Instant(SECOND),
        job_id=JobId("j"),
        job="team-a/fails",
        execution_id=ExecutionId("e"),
        status=ExecutionStatus.FAILED,
        detail="task main failed: ValueError: private",
    )

    with (
        events.reader(Filter()) as viewer,
        events.reader(Filter(may_read_output=lambda namespace: False)) as watcher,
    ):
        readers = [each.batches() for each in (viewer, watcher)]
        _ = [await anext(each) for each in readers]
        events.publish(failed)
        ((whole,), (shown,)) = [await anext(each) for each in readers]

    assert b'"task main failed: ValueError: private"' in whole.document
    assert b'"task main failed: ValueError"' in shown.document


async def test_the_result_of_a_one_off_job_is_shown_only_with_the_verb_of_output(
    access: Access,
) -> None:
    watcher, viewer = await watcher_of(access), await access.key("viewer", "viewer", "team-a")
    status, problem = await access.call(
        access.admin, "PUT", f"{API}/types/writes", {"template": WRITES}
    )
    assert status == 201, problem
    body = {"type": "writes", "namespace": "team-a"}
    _, made = await access.call(access.admin, "POST", f"{API}/jobs", body)
    path = f"{API}/jobs/{made['jobId']}"
    async with asyncio.timeout(30):
        while (await access.call(viewer, "GET", path))[1].get("result") != "private":  # noqa: ASYNC110 - the node is asked
            await asyncio.sleep(0.02)

    _, shown = await access.call(watcher, "GET", path)

    assert shown["status"] == "success"
    assert shown.get("result") is None


# -- changes without the verb read -----------------------------------------------------------------


async def test_the_answer_to_a_change_shows_nothing_that_its_caller_may_not_read(
    access: Access,
) -> None:
    verbs = {"verbs": ["run", "write"]}
    await access.call(access.admin, "PUT", f"{API}/roles/blind", verbs)
    blind = await access.key("blind", "blind", "team-a")
    job = f"{API}/jobs/team-a%2Fnightly"
    private = {"command": "sleep 60; : private", "description": "private"}
    limits = {"owners": ["private"]}
    await access.call(access.admin, "PUT", f"{API}/jobs/team-a/nightly", private)
    await access.call(access.admin, "PUT", f"{API}/namespaces/team-a", limits)
    started = (await access.call(blind, "POST", f"{job}/trigger", {}))[1]["executionId"]

    answers = [
        await access.call(blind, method, path, body)
        for method, path, body in (
            ("POST", f"{job}/pause", {"reason": "private"}),
            ("POST", f"{job}/pause?dryRun=true", {}),
            ("POST", f"{job}/resume", {}),
            ("PATCH", job, {}),
            ("PUT", f"{API}/jobs/team-a/nightly?dryRun=true", {"command": "true"}),
            ("POST", f"{API}/executions/{started}/cancel", None),
            ("POST", f"{API}/namespaces/team-a:pause", {"reason": "private"}),
            ("POST", f"{API}/namespaces/team-a:resume", None),
        )
    ]

    assert [status for status, _ in answers] == [200] * 5 + [202] + [200] * 2
    assert "private" not in str(answers)
    paused, _, resumed, *_ = [answer for _, answer in answers]
    assert (paused["name"], paused["namespace"], paused["status"]) == (
        "nightly",
        "team-a",
        "paused",
    )
    assert (resumed["pausedAt"], resumed["definition"], resumed["warnings"]) == (None, None, [])
    assert [set(answer["definition"]) for _, answer in answers[-2:]] == [{"pause"}, set()]
    assert answers[5][1]["tasks"] is None


# -- repeated requests -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "end", "body"), [("POST", "/pause", {}), ("PATCH", "", {"description": "d"})]
)
async def test_a_repeated_request_shows_nothing_to_a_caller_that_has_lost_its_role(
    access: Access, method: str, end: str, body: Json
) -> None:
    ann = await access.key("ann", "editor", "team-a")
    await access.call(access.admin, "POST", f"{API}/jobs", JOB)
    sent = (method, f"{API}/jobs/team-a%2Fnightly{end}", body, {"Idempotency-Key": "k"})
    first = await access.call(ann, *sent)
    again = await access.call(ann, *sent)
    moved = bound("editor", "team-b", subject="principal:ann")
    await access.call(access.admin, "PUT", f"{API}/bindings/key-ann", moved)

    status, problem = await access.call(ann, *sent)

    assert (first[0], again[0]) == (200, 200)
    assert (status, problem["code"]) == (404, "job_not_found")


async def test_only_the_subjects_of_an_approval_may_answer_it(access: Access) -> None:
    ann, bob = [await access.key(name, "operator", "default") for name in ("ann", "bob")]
    ask = {"name": "ask", "approval": {"message": "ship?", "by": ["principal:ann"]}}
    job = {"name": "release", "tasks": [ask]}
    assert (await access.call(access.admin, "POST", f"{API}/jobs", job))[0] == 201
    _, started = await access.call(access.admin, "POST", f"{API}/jobs/release/trigger", {})
    path = f"{API}/executions/{started['executionId']}/tasks/ask/answer"

    refused, problem = await access.call(bob, "POST", path, {"approve": True})
    await access.call(ann, "POST", f"{API}/executions/{started['executionId']}/cancel")
    mark = {"markSuccess": ["ask"]}
    marked, _ = await access.call(
        bob, "POST", f"{API}/executions/{started['executionId']}/rerun", mark
    )
    _, started = await access.call(access.admin, "POST", f"{API}/jobs/release/trigger", {})
    path = f"{API}/executions/{started['executionId']}/tasks/ask/answer"
    answered, execution = await access.call(ann, "POST", path, {"approve": True})

    assert (refused, problem["code"], marked) == (403, "forbidden", 403)
    assert "it waits for one of principal:ann" in problem["detail"]
    assert (answered, execution["status"]) == (200, "success")


async def test_an_approval_by_what_is_no_subject_is_refused(access: Access) -> None:
    ask = {"name": "ask", "approval": {"by": ["ann"]}}

    status, problem = await access.call(
        access.admin, "POST", f"{API}/jobs", {"name": "x", "tasks": [ask]}
    )

    assert (status, problem["errors"][0]["pointer"]) == (422, "/tasks/0/approval/by/0")


async def test_state_results_and_items_are_for_callers_with_logs_alone(access: Access) -> None:
    role = {"verbs": ["read", "run"]}
    assert (await access.call(access.admin, "PUT", f"{API}/roles/runner", role))[0] == 201
    runner = await access.key("runner", "runner", "default")
    wait = {"name": "wait", "waitForEvent": "go"}
    each = {"name": "each", "foreach": ["SECRET"], "approval": "{{ item }}"}
    job = {"name": "hidden", "tasks": [wait, each]}
    assert (await access.call(access.admin, "POST", f"{API}/jobs", job))[0] == 201
    _, started = await access.call(access.admin, "POST", f"{API}/jobs/hidden/trigger", {})
    path, state = f"{API}/executions/{started['executionId']}", f"{API}/jobs/hidden/state/k"
    go = {"name": "go", "data": {"pw": "SECRET"}}
    assert (await access.call(access.admin, "POST", f"{path}/events", go))[0] == 200
    await access.call(access.admin, "PUT", state, {"value": "SECRET"})

    execution = await access.call(runner, "GET", path)
    refused = [
        await access.call(runner, "GET", state),
        await access.call(runner, "PUT", state, {"value": "A", "onlyForward": True}),
        await access.call(
            runner, "PUT", f"{state}?dryRun=true", {"value": "Z", "onlyForward": True}
        ),
    ]

    assert execution[0] == 200
    assert "SECRET" not in str(execution)
    assert [status for status, _ in refused] == [403, 409, 403]
    assert "SECRET" not in str(refused)
