"""Suggestions of similar names in errors about objects that do not exist, and who gets them."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rota.core.timing.instants import HOUR, Duration, later
from support.access_client import API, Access, Json, access_to


@pytest.fixture
async def access(tmp_path: Path) -> AsyncIterator[Access]:
    """A node with a job in each of two namespaces."""
    async with access_to(tmp_path) as access:
        await access.init()
        for namespace in ("team-a", "team-b"):
            body = {"name": "nightly", "namespace": namespace, "command": "true"}
            status, _ = await access.call(access.admin, "POST", f"{API}/jobs", body)
            assert status == 201
        yield access


async def missing(access: Access, token: str, path: str, method: str = "GET") -> tuple[str, str]:
    """Request an object that does not exist; return code and detail of the error."""
    status, problem = await access.call(token, method, f"{API}{path}")
    assert status == 404, problem
    return problem["code"], problem["detail"]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/jobs/team-a%2Fnihgtly"),
        ("GET", "/jobs/nihgtly?namespace=team-a"),
        ("DELETE", "/jobs/team-a%2Fnihgtly"),
        ("POST", "/jobs/team-a%2Fnihgtly/trigger"),
        ("GET", "/executions?jobId=team-a%2Fnihgtly"),
        ("GET", "/events?jobId=team-a%2Fnihgtly"),
    ],
)
async def test_a_job_with_a_similar_name_is_suggested(
    access: Access, method: str, path: str
) -> None:
    assert await missing(access, access.admin, path, method) == (
        "job_not_found",
        "there is no job 'team-a/nihgtly'; did you mean 'team-a/nightly'?",
    )


async def test_jobs_that_the_caller_may_not_read_are_not_suggested(access: Access) -> None:
    reader = await access.key("ann", "viewer", "team-a")
    stranger = await access.key("bob", "viewer", "team-b")
    path = "/jobs/team-a%2Fnihgtly"

    _, suggested = await missing(access, reader, path)
    _, hidden = await missing(access, stranger, path)
    _, existing = await missing(access, stranger, "/jobs/team-a%2Fnightly")

    assert suggested.endswith("did you mean 'team-a/nightly'?")
    assert hidden.replace("nihgtly", "nightly") == existing
    assert "did you mean" not in hidden


async def test_a_batch_has_suggestions_for_its_first_errors_alone(access: Access) -> None:
    items = [{"job": f"team-a/nightly{number}"} for number in range(5)]

    _, answer = await access.call(access.admin, "POST", f"{API}/executions:batch", {"items": items})

    details = [each["error"]["detail"] for each in answer["items"]]
    assert ["did you mean" in each for each in details] == [True, True, True, False, False]


async def test_only_names_next_to_the_given_one_are_searched_in_a_large_namespace(
    access: Access,
) -> None:
    items: Json = [
        {"name": f"{stem}-{number:04}", "namespace": "team-c", "command": "true"}
        for stem in ("aaa", "zzz")
        for number in range(1_000)
    ]
    items.append({"name": "middle", "namespace": "team-c", "command": "true"})
    for start in range(0, len(items), 500):
        body = {"items": items[start : start + 500]}
        await access.call(access.admin, "POST", f"{API}/jobs:batch", body)

    _, near = await missing(access, access.admin, "/jobs/team-c%2Fmidlde")
    _, far = await missing(access, access.admin, "/jobs/team-c%2F0iddle")

    assert near == "there is no job 'team-c/midlde'; did you mean 'team-c/middle'?"
    # It differs by one character, and is not next to the name: the search has a limit.
    assert "did you mean" not in far


async def test_a_task_of_an_execution_with_a_similar_name_is_suggested(access: Access) -> None:
    path = f"{API}/jobs/team-a%2Fnightly/trigger"
    _, made = await access.call(access.admin, "POST", path)
    tasks = f"/executions/{made['executionId']}/tasks"

    _, near = await missing(access, access.admin, f"{tasks}/mian/output")
    _, far = await missing(access, access.admin, f"{tasks}/other/output")

    assert near == "there is no task 'mian'; did you mean 'main'?"
    assert far == "there is no task 'other'; the tasks of the execution are main"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/roles/deplyoer"),
        ("GET", "/roles/deplyoer/changes"),
        ("DELETE", "/roles/deplyoer"),
    ],
)
async def test_a_document_with_a_similar_name_is_suggested(
    access: Access, method: str, path: str
) -> None:
    await access.call(access.admin, "PUT", f"{API}/roles/deployer", {"verbs": ["read"]})

    assert await missing(access, access.admin, path, method) == (
        "role_not_found",
        "there is no role 'deplyoer'; did you mean 'deployer'?",
    )


async def test_a_key_to_rotate_with_a_similar_name_is_suggested(access: Access) -> None:
    await access.key("builder")

    _, detail = await missing(access, access.admin, "/keys/bulider/rotate", "POST")

    assert detail == "there is no key 'bulider'; did you mean 'builder'?"


async def test_bindings_that_the_caller_may_not_read_are_not_suggested(access: Access) -> None:
    ann = await access.key("ann", "admin", "team-a")
    await access.key("builder", "viewer", "team-a")
    await access.key("tester", "viewer", "team-b")

    _, suggested = await missing(access, ann, "/bindings/key-bulider", "DELETE")
    _, hidden = await missing(access, ann, "/bindings/key-tetser", "DELETE")

    assert suggested.endswith("did you mean 'key-builder'?")
    assert "did you mean" not in hidden


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        (
            {"command": "true", "dependencies": ["team-a/nihgtly"]},
            "the job 'team-a/nihgtly' does not exist; did you mean 'team-a/nightly'?",
        ),
        (
            {"command": "true", "dependencies": ["team-a/other"]},
            "the job 'team-a/other' does not exist; create it first",
        ),
        (
            {"type": "proces"},
            "there is no task type or job type 'proces'; did you mean 'process'?",
        ),
        (
            {"type": "rezise"},
            "there is no task type or job type 'rezise'; did you mean 'resize'?",
        ),
    ],
)
async def test_similar_names_of_the_references_of_a_job_are_suggested(
    access: Access, body: Json, detail: str
) -> None:
    await access.call(access.admin, "PUT", f"{API}/types/resize", {"template": {"command": "true"}})

    _, problem = await access.call(access.admin, "POST", f"{API}/jobs", {"name": "x", **body})

    assert problem["errors"][0]["detail"] == detail


async def test_a_node_searches_for_similar_names_only_some_times_in_a_second(
    access: Access,
) -> None:
    path = "/jobs/team-a%2Fnihgtly"
    context = access.wiring.context
    in_an_hour = later(context.clock.elapsed(), Duration(HOUR))
    # The period ends after that, and has no search left.
    while context.suggestions.take(in_an_hour):
        pass

    _, detail = await missing(access, access.admin, path)

    assert detail.endswith("`rota jobs` lists the jobs")
