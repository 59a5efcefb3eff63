"""Calendars: their documents, and jobs whose fire times they exclude."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from rota.core.timing.instants import (
    MICROSECOND,
    SECOND,
    Duration,
    format_instant,
    later,
    to_datetime,
)
from rota.node.system.clock import SystemClock
from rota.storage.memory import MemoryStore
from support.in_process import Client, running_works, serving
from support.rotad import Rotad

CALENDARS = "/api/v1/calendars"
HOLIDAYS = {
    "description": "of a bank",
    "dates": ["2099-12-24..2099-12-26", "01-01"],
    "weekdays": ["SAT-SUN"],
    "monthDays": [-1],
    "windows": [{"start": "22:00", "end": "06:00", "weekdays": ["friday"]}],
    "timezone": "Europe/Berlin",
}
ALWAYS = {"weekdays": ["MON-SUN"]}
TICK = {"command": "true", "schedule": "* * * * * *"}


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    async with running_works(MemoryStore(), tmp_path) as wiring, serving(wiring) as client:
        yield client


async def put(client: Client, name: str, body: Any) -> tuple[int, Any]:
    """Create or replace a calendar."""
    return await client.call("PUT", f"{CALENDARS}/{name}", body)


async def test_a_calendar_is_kept_as_it_was_sent(client: Client) -> None:
    status, saved = await put(client, "bank", HOLIDAYS)
    _, read = await client.call("GET", f"{CALENDARS}/bank")
    _, listed = await client.call("GET", CALENDARS)

    assert (status, saved["version"], saved["definition"]) == (201, 1, HOLIDAYS)
    assert read == saved
    assert [each["name"] for each in listed["items"]] == ["bank"]


@pytest.mark.parametrize(
    ("body", "pointer", "detail"),
    [
        ({"dates": ["2027-02-29"]}, "/dates/0", "'2027-02-29' is no day of the calendar"),
        ({"dates": ["24.12.2027"]}, "/dates/0", "is no date; write 2027-12-24"),
        ({"dates": ["02-30"]}, "/dates/0", "'02-30' is no day of a year"),
        ({"dates": ["2027-12-26..2027-12-24"]}, "/dates/0", "ends before it begins"),
        ({"dates": ["1000-01-01..9000-01-01"]}, "/dates", "more than 20,000 days"),
        ({"weekdays": ["MON", "SOON"]}, "/weekdays/1", "'SOON' is no weekday; write MON"),
        ({"monthDays": [0]}, "/monthDays/0", "0 is no day of a month"),
        ({"windows": [{"start": "9:00", "end": "24:00"}]}, "/windows/0/start", "write 09:30"),
        ({"windows": [{"start": "09:00", "end": "24:01"}]}, "/windows/0/end", "no time of day"),
        ({"timezone": "Berlin"}, "/timezone", "did you mean Europe/Berlin?"),
        ({"blackoutOf": ["a b"]}, "/blackoutOf/0", "'a b' is not a name"),
        ({"includes": ["bnak"]}, "/includes/0", "did you mean 'bank'?"),
        ({"excludes": ["new"]}, "/includes", "the calendar is part of itself: new > new"),
    ],
)  # fmt: skip
async def test_an_invalid_calendar_is_refused_with_the_place(
    client: Client, body: Any, pointer: str, detail: str
) -> None:
    await put(client, "bank", HOLIDAYS)

    status, problem = await put(client, "new", body)

    assert (status, problem["code"]) == (422, "invalid_calendar")
    assert problem["errors"][0]["pointer"] == pointer
    assert detail in problem["errors"][0]["detail"]


async def test_a_circle_of_calendars_is_refused(client: Client) -> None:
    await put(client, "a", ALWAYS)
    await put(client, "b", {"includes": ["a"]})

    status, problem = await put(client, "a", {"includes": ["b"]})

    assert status == 422
    assert problem["errors"][0]["detail"] == "the calendar is part of itself: a > b > a"


async def test_a_job_with_a_calendar_that_does_not_exist_is_refused(client: Client) -> None:
    await put(client, "bank", HOLIDAYS)

    job = {"name": "tick", **TICK, "exceptCalendars": ["bnak"], "onlyCalendars": ["bank", "x"]}
    status, problem = await client.call("POST", "/api/v1/jobs", job)

    assert (status, problem["code"]) == (422, "unknown_calendar")
    assert [each["pointer"] for each in problem["errors"]] == [
        "/onlyCalendars/1",
        "/exceptCalendars/0",
    ]


@pytest.mark.parametrize(
    ("kind", "path", "body", "user"),
    [
        ("PUT", f"{CALENDARS}/shop", {"includes": ["bank"]}, "calendar shop"),
        ("PUT", f"{CALENDARS}/shop", {"excludes": ["bank"]}, "calendar shop"),
        ("PUT", "/api/v1/namespaces/ops", {"defaults": {"onlyCalendars": ["bank"]}},
         "namespace ops"),
        ("PUT", "/api/v1/types/t", {"template": {"command": "x", "exceptCalendars": ["bank"]}},
         "type t"),
        ("POST", "/api/v1/jobs", {"name": "a", **TICK, "exceptCalendars": ["bank"]},
         "job default/a"),
        ("POST", "/api/v1/jobs", {"name": "a", **TICK, "onlyCalendars": ["bank"]},
         "job default/a"),
    ],
)  # fmt: skip
async def test_a_calendar_that_is_named_is_not_deleted(
    client: Client, kind: str, path: str, body: Any, user: str
) -> None:
    await put(client, "bank", {})
    await client.call(kind, path, body)

    status, problem = await client.call("DELETE", f"{CALENDARS}/bank")
    still_there, _ = await client.call("GET", f"{CALENDARS}/bank")

    assert (status, problem["code"], still_there) == (409, "calendar_in_use", 200)
    assert problem["detail"].startswith(f"{user} names the calendar 'bank'; ")


async def test_a_calendar_can_be_deleted_after_the_jobs_that_named_it(client: Client) -> None:
    await put(client, "bank", {})
    for name in "abcdef":
        job = {"name": name, **TICK, "exceptCalendars": ["bank"]}
        await client.call("POST", "/api/v1/jobs", job)

    _, refused = await client.call("DELETE", f"{CALENDARS}/bank")
    for name in "abcdef":
        await client.call("DELETE", f"/api/v1/jobs/{name}")
    status, _ = await client.call("DELETE", f"{CALENDARS}/bank")

    assert " and others name the calendar" in refused["detail"]
    assert status == 204


async def test_jobs_are_listed_by_a_calendar_that_they_name(client: Client) -> None:
    await put(client, "bank", {})
    await client.call("POST", "/api/v1/jobs", {"name": "a", **TICK, "exceptCalendars": ["bank"]})
    await client.call("POST", "/api/v1/jobs", {"name": "b", **TICK})

    _, listed = await client.call("GET", "/api/v1/jobs?calendar=bank")

    assert [each["name"] for each in listed["items"]] == ["a"]


async def test_fire_times_in_a_calendar_are_in_the_ledger_as_excluded(client: Client) -> None:
    await put(client, "always", ALWAYS)
    job = {"name": "tick", **TICK, "exceptCalendars": ["always"]}
    _, saved = await client.call("POST", "/api/v1/jobs", job)

    entry = await first_entry(client)
    await put(client, "always", {})
    fired = await first_entry(client, "fired")

    assert saved["nextFireAt"] is None
    assert entry["outcome"] == "excluded"
    assert entry["reason"] == "in calendar always (version 1)"
    assert fired["executionId"]


async def test_a_blackout_stops_schedules_and_not_triggers(client: Client) -> None:
    await put(client, "freeze", {**ALWAYS, "blackoutOf": ["default"]})
    await client.call("POST", "/api/v1/jobs", {"name": "tick", **TICK})

    entry = await first_entry(client)
    status, triggered = await client.call("POST", "/api/v1/jobs/tick/trigger", {})

    assert entry["reason"] == "blackout: calendar freeze (version 1)"
    assert (status, bool(triggered["executionId"])) == (201, True)


async def test_the_next_fire_times_show_what_does_not_run(client: Client) -> None:
    await put(client, "weekend", {"weekdays": ["SAT", "SUN"]})
    job = {"name": "noon", "command": "true", "schedule": "0 12 * * *"}
    await client.call("POST", "/api/v1/jobs", {**job, "exceptCalendars": ["weekend"]})

    path = "/api/v1/jobs/noon/next?count=3&after=2099-01-01T00:00:00Z"
    _, found = await client.call("GET", path)

    assert [(each["at"][:10], each["excluded"]) for each in found["items"]] == [
        ("2099-01-01", ""),
        ("2099-01-02", ""),
        ("2099-01-03", "in calendar weekend (version 1)"),
        ("2099-01-05", ""),
    ]


async def test_the_next_fire_time_of_a_job_is_one_at_which_it_runs(client: Client) -> None:
    await put(client, "far", {"dates": ["2090-01-01..2091-12-31"]})
    job = {"name": "noon", "command": "true", "schedule": "0 0 12 1 1 * 2090-2099"}
    await client.call("POST", "/api/v1/jobs", {**job, "exceptCalendars": ["far"]})

    _, shown = await client.call("GET", "/api/v1/jobs/noon")
    _, listed = await client.call("GET", "/api/v1/jobs")

    assert shown["nextFireAt"] == "2092-01-01T12:00:00.000000Z"
    assert listed["items"][0]["nextFireAt"] == "2092-01-01T12:00:00.000000Z"


def test_a_held_fire_is_shown_and_starts_when_the_calendar_is_changed(node: Rotad) -> None:
    now = SystemClock().now()
    today = to_datetime(now).date()
    days = [f"{today}..{today + timedelta(days=1)}"]
    node.call("PUT", f"{CALENDARS}/thaw", {"dates": days})
    soon = format_instant(later(now, Duration(SECOND // 2)))
    held = {"exceptCalendars": ["thaw"], "onExcluded": "hold", "command": "true"}
    node.create(name="thawed", schedule=f"@at {soon}", **held)

    def explained() -> str:
        found = node.call("GET", f"/api/v1/jobs/thawed/explain?at={soon}")
        return str(found["causes"][-1]["code"])

    node.wait_until(lambda: explained() == "deferred")
    shown = node.call("GET", "/api/v1/jobs/thawed/next")
    view = node.call("GET", "/api/v1/jobs/thawed")
    node.call("PUT", f"{CALENDARS}/thaw", {"dates": ["2099-01-01"]})
    node.wait_until(lambda: explained() == "execution_success")

    start = f"{today + timedelta(days=2)}T00:00:00.000000Z"
    assert [each["startsAt"] for each in shown["items"]] == [start]
    assert view["nextFireAt"] == start


def test_executions_are_listed_by_their_fire_times_also_if_they_started_later(node: Rotad) -> None:
    at = later(SystemClock().now(), Duration(SECOND // 2))
    schedule = {"schedule": f"@at {format_instant(at)}", "jitter": "900ms"}
    node.create(name="drawn-late", command="true", schedules=[schedule])
    listed = "/api/v1/executions?jobId=drawn-late"
    node.wait_until(lambda: bool(node.call("GET", listed)["items"]))

    [execution] = node.call("GET", listed)["items"]
    after = format_instant(later(at, MICROSECOND))
    from_then, before = (node.call("GET", f"{listed}&{name}={after}") for name in ("from", "to"))

    assert execution["deferredTo"] > execution["fireTime"] == format_instant(at)
    assert (from_then["items"], len(before["items"])) == ([], 1)


async def first_entry(client: Client, outcome: str = "") -> Any:
    """Wait for an entry in the ledger of ``tick``, and return it."""
    while True:
        _, found = await client.call("GET", "/api/v1/jobs/tick/ledger")
        for each in found["items"]:
            if outcome in ("", each["outcome"]):
                return each
        await asyncio.sleep(0.05)
