"""Suggestions of similar words in errors: of tasks, and of types of tasks."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

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


async def test_a_task_of_an_execution_with_a_similar_name_is_suggested(access: Access) -> None:
    path = f"{API}/jobs/team-a%2Fnightly/trigger"
    _, made = await access.call(access.admin, "POST", path)
    tasks = f"/executions/{made['executionId']}/tasks"

    _, near = await missing(access, access.admin, f"{tasks}/mian/output")
    _, far = await missing(access, access.admin, f"{tasks}/other/output")

    assert near == "there is no task 'mian'; did you mean 'main'?"
    assert far == "there is no task 'other'; the tasks of the execution are main"


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        (
            {"command": "true", "dependencies": ["team-a/other"]},
            "the job 'team-a/other' does not exist; create it first",
        ),
        (
            {"type": "proces"},
            "there is no task type or job type 'proces'; did you mean 'process'?",
        ),
    ],
)
async def test_similar_names_of_task_types_are_suggested_and_of_jobs_are_not(
    access: Access, body: Json, detail: str
) -> None:
    await access.call(access.admin, "PUT", f"{API}/types/resize", {"template": {"command": "true"}})

    _, problem = await access.call(access.admin, "POST", f"{API}/jobs", {"name": "x", **body})

    assert problem["errors"][0]["detail"] == detail
