"""The preview of a change of calendars."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from rota.node.api.handlers import calendar_preview
from rota.storage.memory import MemoryStore
from support.access_client import access_to
from support.in_process import Client, running_works, serving

PREVIEW = "/api/v1/calendars:preview?days=14&after=2099-03-01T00:30:00Z"
NOON = {"command": "true", "schedule": "0 12 * * *"}
WEEKEND = {"weekdays": ["SAT-SUN"]}
FRIDAY = "2099-03-06"


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    async with running_works(MemoryStore(), tmp_path) as wiring, serving(wiring) as client:
        yield client


async def save(client: Client, path: str, body: Any) -> None:
    """Put a calendar or a job."""
    status, answer = await client.call("PUT", f"/api/v1/{path}", body)
    assert status < 300, answer


async def preview(client: Client, path: str = PREVIEW, **calendars: Any) -> tuple[int, Any]:
    """Preview calendars."""
    named = [{"name": name, "definition": each} for name, each in calendars.items()]
    return await client.call("POST", path, {"calendars": named})


async def test_fires_that_go_and_come_are_shown_by_job(client: Client) -> None:
    await save(client, "calendars/free", WEEKEND)
    await save(client, "jobs/noon", {**NOON, "exceptCalendars": ["free"]})
    await save(client, "jobs/other", NOON)

    _, found = await preview(client, free={"dates": [FRIDAY]})
    _, kept = await client.call("GET", "/api/v1/calendars/free")

    assert found == {
        "items": [
            {
                "job": "default/noon",
                "dropped": ["2099-03-06T12:00:00.000000Z"],
                "added": [f"2099-03-{day:02}T12:00:00.000000Z" for day in (1, 7, 8, 14)],
                "truncated": False,
            }
        ],
        "until": "2099-03-15T00:30:00.000000Z",
        "truncated": False,
    }
    assert kept["definition"] == WEEKEND


@pytest.mark.parametrize("field", ["includes", "excludes"])
async def test_calendars_that_name_a_changed_one_count(client: Client, field: str) -> None:
    await save(client, "calendars/inner", {})
    await save(client, "calendars/middle", {"weekdays": ["MON-FRI"], field: ["inner"]})
    await save(client, "calendars/outer", {"includes": ["middle"]})
    await save(client, "jobs/noon", {**NOON, "onlyCalendars": ["outer"]})

    _, found = await preview(client, inner={"dates": ["2099-03-06", "2099-03-07"]})

    [job] = found["items"]
    days = {sign: [at[:10] for at in job[sign]] for sign in ("dropped", "added")}
    if field == "includes":
        assert days == {"dropped": [], "added": ["2099-03-07"]}
    else:
        assert days == {"dropped": ["2099-03-06"], "added": []}


async def test_new_calendars_may_name_each_other(client: Client) -> None:
    await save(client, "calendars/free", {})
    await save(client, "jobs/noon", {**NOON, "exceptCalendars": ["free"]})

    _, found = await preview(client, free={"includes": ["new"]}, new={"dates": [FRIDAY]})

    assert [each["dropped"] for each in found["items"]] == [["2099-03-06T12:00:00.000000Z"]]


@pytest.mark.parametrize("scope", ["default", "*"])
async def test_a_new_blackout_and_its_end_count(client: Client, scope: str) -> None:
    freeze = {"dates": [FRIDAY], "blackoutOf": [scope]}
    await save(client, "jobs/noon", NOON)

    _, begun = await preview(client, freeze=freeze)
    await save(client, "calendars/freeze", freeze)
    _, ended = await preview(client, freeze={"dates": [FRIDAY]})

    assert [each["dropped"] for each in begun["items"]] == [["2099-03-06T12:00:00.000000Z"]]
    assert [each["added"] for each in ended["items"]] == [["2099-03-06T12:00:00.000000Z"]]


async def test_the_same_definition_affects_nothing(client: Client) -> None:
    await save(client, "calendars/free", WEEKEND)
    await save(client, "jobs/noon", {**NOON, "exceptCalendars": ["free"]})

    _, found = await preview(client, free=WEEKEND)

    assert (found["items"], found["truncated"]) == ([], False)


async def test_jobs_and_times_are_limited(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calendar_preview, "JOBS_MAX", 2)
    await save(client, "calendars/free", {})
    for name in "cab":
        job = {**NOON, "schedule": "* * * * * *", "exceptCalendars": ["free"]}
        await save(client, f"jobs/{name}", job)

    _, found = await preview(client, free={"weekdays": ["MON-SUN"]})

    assert [each["job"] for each in found["items"]] == ["default/a", "default/b"]
    assert [len(each["dropped"]) for each in found["items"]] == [20, 20]
    assert (found["truncated"], found["items"][0]["truncated"]) == (True, True)


@pytest.mark.parametrize("limit", ["EDGES_MAX", "SEARCHES_MAX"])
async def test_the_work_is_limited(
    client: Client, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    monkeypatch.setattr(calendar_preview, limit, 3)
    await save(client, "calendars/free", {})
    await save(client, "jobs/noon", {**NOON, "exceptCalendars": ["free"]})

    _, found = await preview(client, free={"weekdays": ["MON-SUN"]})

    assert found["truncated"]


@pytest.mark.parametrize(
    ("calendars", "pointer"),
    [
        ({"free": {"dates": ["x"]}}, "/0/definition/dates/0"),
        ({"free": {"includes": ["gone"]}}, "/0/definition/includes/0"),
        ({"free": {"includes": ["b"]}, "b": {"includes": ["free"]}}, "/0/definition/includes"),
        ({"a b": {}}, "/0/name"),
    ],
)
async def test_invalid_calendars_are_refused_with_the_place(
    client: Client, calendars: Any, pointer: str
) -> None:
    status, problem = await preview(client, **calendars)

    assert (status, problem["code"]) == (422, "invalid_calendar")
    assert problem["errors"][0]["pointer"] == f"/calendars{pointer}"


async def test_the_end_of_time_has_no_changes(client: Client) -> None:
    await save(client, "jobs/noon", NOON)
    path = "/api/v1/calendars:preview?after=9999-12-31T23:00:00Z"

    status, found = await preview(client, path, all={**WEEKEND, "blackoutOf": ["*"]})

    assert (status, found["items"]) == (200, [])


async def test_jobs_that_the_caller_may_not_read_are_left_out(tmp_path: Path) -> None:
    freeze = {"name": "freeze", "definition": {"dates": [FRIDAY], "blackoutOf": ["*"]}}
    async with access_to(tmp_path) as access:
        await access.init()
        for namespace in ("team-a", "team-b"):
            job = {"name": "noon", "namespace": namespace, **NOON}
            await access.call(access.admin, "POST", "/api/v1/jobs", job)
        reader = await access.key("reader", "viewer", "team-a")
        _, found = await access.call(reader, "POST", PREVIEW, {"calendars": [freeze]})

    assert [each["job"] for each in found["items"]] == ["team-a/noon"]


async def test_a_preview_of_calendars_with_many_windows_is_refused(client: Client) -> None:
    windows = [{"start": f"{n // 60:02}:{n % 60:02}", "end": "23:59"} for n in range(51)]

    status, problem = await preview(client, one={"windows": windows}, two={"windows": windows})

    assert status == 422
    assert "have 102 windows together" in problem["errors"][0]["detail"]


async def test_a_job_that_makes_up_for_its_fires_does_not_hide_those_of_others(
    client: Client,
) -> None:
    await save(client, "calendars/free", {"windows": [{"start": "02:00", "end": "03:00"}]})
    held = {"command": "true", "schedule": "30 3 * * *", "onExcluded": "hold"}
    await save(client, "jobs/a-held", {**held, "exceptCalendars": ["free"]})
    hourly = {"command": "true", "schedule": "0 * * * *", "exceptCalendars": ["free"]}
    await save(client, "jobs/b-hourly", hourly)
    path = "/api/v1/calendars:preview?days=1&after=2099-03-01T00:30:00Z"

    new = {"windows": [{"start": "01:00", "end": "02:00"}]}
    _, found = await preview(client, path, free=new)

    assert [(each["job"], each["dropped"], each["added"]) for each in found["items"]] == [
        ("default/b-hourly", ["2099-03-01T01:00:00.000000Z"], ["2099-03-01T02:00:00.000000Z"])
    ]
