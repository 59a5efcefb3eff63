"""Refused access in the log `rota.audit` and in the metric, over HTTP."""

from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from support.access_client import API, Access, Json, access_to

JOB = {"name": "nightly", "namespace": "team-a", "command": "true"}
Facts = Mapping[str, object]


@pytest.fixture
async def access(tmp_path: Path) -> AsyncIterator[Access]:
    """A node with its first key, and a job of team-a."""
    async with access_to(tmp_path) as made:
        await made.init()
        status, _ = await made.call(made.admin, "POST", f"{API}/jobs", JOB)
        assert status == 201
        yield made


@pytest.fixture(autouse=True)
def info(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "rota.audit")


def lines(caplog: pytest.LogCaptureFixture, event: str) -> list[Facts]:
    """Return the facts of the lines of the audit log with an event."""
    found = (each for each in caplog.records if each.name == "rota.audit")
    return [vars(each) for each in found if each.getMessage() == event]


def shown(line: Facts) -> Json:
    """Return the facts of a line that say what was refused."""
    names = ("reason", "principal", "operation", "verb", "namespace", "object")
    return {name: line[name] for name in names if name in line}


def count(access: Access, reason: str) -> float:
    """Return how many requests were refused for a reason."""
    return access.metric(f'rota_access_refused_total{{reason="{reason}"}}')


async def test_a_missing_verb_is_logged_with_caller_operation_and_object(
    access: Access, caplog: pytest.LogCaptureFixture
) -> None:
    viewer = await access.key("ann", "viewer", "team-a")

    status, _ = await access.call(viewer, "DELETE", f"{API}/jobs/team-a%2Fnightly")

    (line,) = lines(caplog, "access denied")
    assert status == 403
    assert shown(line) == {
        "reason": "forbidden",
        "principal": "ann",
        "operation": f"DELETE {API}/jobs/{{job}}",
        "verb": "write",
        "namespace": "team-a",
        "object": "team-a/nightly",
    }
    assert line["remote"] == "127.0.0.1"
    assert line["token_id"] == viewer[7:15]
    assert line["request"]
    assert count(access, "forbidden") == 1


async def test_an_object_that_is_hidden_from_the_caller_is_logged_and_a_missing_one_is_not(
    access: Access, caplog: pytest.LogCaptureFixture
) -> None:
    viewer = await access.key("ann", "viewer", "team-b")

    for name in ("team-a%2Fnightly", "team-b%2Fnothing"):
        status, _ = await access.call(viewer, "GET", f"{API}/jobs/{name}")
        assert status == 404

    (line,) = lines(caplog, "access denied")
    assert (line["reason"], line["object"]) == ("hidden", "team-a/nightly")


async def test_each_refused_item_of_a_batch_is_logged(
    access: Access, caplog: pytest.LogCaptureFixture
) -> None:
    editor = await access.key("ann", "editor", "team-b")
    items = [{**JOB, "name": name, "namespace": f"team-{name}"} for name in "abc"]

    status, answer = await access.call(editor, "POST", f"{API}/jobs:batch", {"items": items})

    assert (status, [each["status"] for each in answer["items"]]) == (200, [403, 201, 403])
    found = [line["object"] for line in lines(caplog, "access denied")]
    assert found == ["team-a/a", "team-c/c"]


async def test_a_job_with_secrets_of_others_is_logged_once_without_a_value(
    access: Access, caplog: pytest.LogCaptureFixture
) -> None:
    await access.call(
        access.admin, "PUT", f"{API}/roles/writer", {"verbs": ["read", "write", "run"]}
    )
    writer = await access.key("ann", "writer", "team-a")
    body = {**JOB, "env": {"A": "hunter2"}, "secrets": {"env": {"DB": "db"}}}

    status, _ = await access.call(writer, "PUT", f"{API}/jobs/team-a/nightly", body)

    (line,) = lines(caplog, "access denied")
    assert (status, line["verb"], line["object"]) == (403, "secret:use", "team-a/nightly")
    assert "hunter2" not in str(vars(caplog.records[-1]))


async def test_failed_logins_have_their_reason_and_lines_apart_from_missing_credentials(
    access: Access, caplog: pytest.LogCaptureFixture
) -> None:
    revoked = await access.key("ci")
    await access.call(access.admin, "DELETE", f"{API}/keys/ci")

    for _ in range(30):
        await access.call(None, "GET", f"{API}/jobs")
    for token in ("garbage", revoked):
        await access.call(token, "GET", f"{API}/jobs")

    assert [line["reason"] for line in lines(caplog, "login failed")] == ["form", "unknown"]
    assert len(lines(caplog, "credential missing")) == 10
    assert [count(access, each) for each in ("no_credential", "form", "unknown")] == [30, 1, 1]


async def test_no_token_of_a_refused_request_is_in_its_line(
    access: Access, caplog: pytest.LogCaptureFixture
) -> None:
    viewer = await access.key("ann", "viewer", "team-a")
    other = await access.key("bob", "viewer", "team-a")

    await access.call(viewer, "DELETE", f"{API}/keys/{other}?token={other}", {"token": other})

    (line,) = lines(caplog, "access denied")
    assert line["object"] == "***"
    for secret in (viewer, other):
        assert secret[15:50] not in str(line)


async def test_a_forged_header_of_nodes_is_logged(
    access: Access, caplog: pytest.LogCaptureFixture
) -> None:
    async with access.client.session.get(
        f"{access.client.url}{API}/jobs", headers={"Rota-Principal": "admin"}
    ) as answer:
        assert answer.status == 403

    (line,) = lines(caplog, "access denied")
    assert shown(line) == {"reason": "not_a_node", "operation": f"GET {API}/jobs"}
