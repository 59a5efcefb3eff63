"""Jobs of clients with many mistakes: how many are looked for, and how many are answered."""

import difflib
from itertools import islice
from typing import Any

import msgspec
import pytest

from rota.core.errors import Refused
from rota.core.model.job import DEPENDENCIES_MAX, SCHEDULES_MAX, TASKS_MAX
from rota.core.timing.instants import Instant
from rota.core.timing.schedule import next_fire
from rota.wire.bodies.field_reader import HINTS_MAX, Hints, Reader
from rota.wire.bodies.job_bodies import PROBLEMS_MAX, job_spec
from rota.wire.documents import JobBody

HASHED = {"schedule": "@daily", "spread": True}
Fields = dict[str, Any]  # Any: fields of all kinds, as JSON has them.


def refusal_of(fields: Fields, hints: Hints | None = None) -> Refused:
    with pytest.raises(Refused) as refused:
        job_spec(msgspec.convert({"name": "job", **fields}, JobBody), hints)
    return refused.value


def tasks(count: int, **fields: Any) -> list[Fields]:
    return [{"name": f"t{number}", "command": "true", **fields} for number in range(count)]


@pytest.mark.parametrize(
    "wrong",
    [
        {"timeout": "nonsense"},
        {"timeout": -1},
        {"name": "same"},
        {"name": "no name"},
        {"needs": ["unknown"]},
        {"needs": ["t0", "t0"]},
        {"retries": {"limit": 1, "onExceptions": ["1"] * 10}},
    ],
)
def test_the_first_problems_are_answered_and_that_there_may_be_more(wrong: Fields) -> None:
    refusal = refusal_of({"tasks": tasks(1_000, **wrong)})

    *shown, last = refusal.problems
    assert len(shown) == PROBLEMS_MAX
    assert (last.pointer, last.detail) == (
        "",
        "only the first errors are listed; there may be more",
    )
    assert refusal.detail == f"{shown[0]} (and {PROBLEMS_MAX} more, see errors)"


@pytest.mark.parametrize(
    ("retries", "pointer"),
    [
        ({"onExitCodes": [1, 300]}, "/retries/onExitCodes/1"),
        ({"neverOnExitCodes": [300]}, "/retries/neverOnExitCodes/0"),
        ({"delay": "400d"}, "/retries/delay"),
        ({"maxDelay": "400d"}, "/retries/maxDelay"),
        ({"backoff": "explicit", "delays": [1, "400d"]}, "/retries/delays/1"),
    ],
)
def test_a_mistake_in_retries_is_found_where_it_is(retries: Fields, pointer: str) -> None:
    refusal = refusal_of({"command": "true", "retries": {"limit": 1, **retries}})

    assert [problem.pointer for problem in refusal.problems] == [pointer]


def test_as_many_problems_as_are_shown_are_all() -> None:
    refusal = refusal_of({"tasks": tasks(PROBLEMS_MAX, timeout="nonsense")})

    assert [problem.pointer for problem in refusal.problems] == [
        f"/tasks/{number}/timeout" for number in range(PROBLEMS_MAX)
    ]


@pytest.mark.parametrize("own", [{"timeout": "nonsense"}, {}], ids=["each its own", "the job's"])
def test_no_more_tasks_are_read_than_have_problems_to_show(
    monkeypatch: pytest.MonkeyPatch, own: Fields
) -> None:
    """10,000 such tasks held the loop for 1.5 s, and their answer had 6.7 MB."""
    read: list[str] = []
    timespan = Reader.timespan

    def counted(self: Reader, value: Any, pointer: str) -> Any:
        read.append(pointer)
        return timespan(self, value, pointer)

    monkeypatch.setattr(Reader, "timespan", counted)

    refusal = refusal_of({"timeout": "nonsense", "tasks": tasks(1_000, **own)})

    assert refusal.problems[0].detail.startswith("'nonsense'")
    of_tasks = [each for each in read if each.startswith("/tasks/")]
    assert len(of_tasks) <= 2 * (PROBLEMS_MAX + 2)


@pytest.mark.parametrize(
    ("field", "items", "most"),
    [
        ("tasks", tasks(TASKS_MAX + 1, timeout="nonsense"), TASKS_MAX),
        ("schedules", ["nonsense"] * (SCHEDULES_MAX + 1), SCHEDULES_MAX),
        ("dependencies", ["no name"] * (DEPENDENCIES_MAX + 1), DEPENDENCIES_MAX),
    ],
)
def test_a_list_that_is_too_long_is_not_read(field: str, items: list[Any], most: int) -> None:
    refusal = refusal_of({field: items})

    [problem] = refusal.problems
    assert refusal.code == "invalid_job"
    assert problem.pointer == f"/{field}"
    assert problem.detail == f"has {most + 1} items; at most {most} are allowed"


UNKNOWN_ZONES = [
    [{"schedule": "@daily", "timezone": f"Europa/B{number}"} for number in range(SCHEDULES_MAX)],
    [f"TZ=Europa/B{number} @daily" for number in range(SCHEDULES_MAX)],
]


@pytest.mark.parametrize("schedules", UNKNOWN_ZONES, ids=["fields", "prefixes"])
def test_a_few_unknown_zones_of_a_request_are_compared_with_all_names(
    monkeypatch: pytest.MonkeyPatch, schedules: list[Any]
) -> None:
    """1,000 of them, in 54 kB, held a node for so long that others took its shards."""
    compared: list[str] = []

    def close(word: str, known: Any) -> list[str]:
        compared.append(word)
        return list(islice(known, 1))

    monkeypatch.setattr(difflib, "get_close_matches", close)
    hints = Hints()

    first = refusal_of({"schedules": schedules}, hints)
    second = refusal_of({"schedules": schedules[:1]}, hints)

    assert len(compared) == HINTS_MAX
    hinted = ["did you mean" in problem.detail for problem in first.problems[:-1]]
    assert hinted == [True] * HINTS_MAX + [False] * (PROBLEMS_MAX - HINTS_MAX)
    assert second.problems[0].detail == (
        '"Europa/B0" is not a time zone. Zones have IANA names, such as Europe/Paris.'
    )


@pytest.mark.parametrize(
    ("fields", "zone"),
    [
        ({}, "Europe/Paris"),
        ({"timezone": "UTC"}, "Europe/Paris"),
        ({"timezone": "Europe/Paris"}, "Europe/Paris"),
    ],
)
def test_a_prefix_of_a_schedule_is_its_zone(fields: Fields, zone: str) -> None:
    text = "TZ=Europe/Paris 0 9 * * *"
    body = {"name": "job", "command": "true", "schedule": text, **fields}

    [schedule] = job_spec(msgspec.convert(body, JobBody)).schedules

    assert (schedule.text, schedule.timezone) == ("0 9 * * *", zone)


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo"])
def test_a_prefix_and_the_zone_of_a_schedule_contradict_each_other(zone: str) -> None:
    refusal = refusal_of(
        {"schedules": [{"schedule": "TZ=Europe/Paris 0 9 * * *", "timezone": zone}]}
    )

    assert [(problem.pointer, problem.detail) for problem in refusal.problems][:1] == [
        (
            "/schedules/0/schedule",
            f'"TZ=Europe/Paris 0 9 * * *" begins with another zone than {zone}; remove one of them',
        )
    ]


@pytest.mark.parametrize("field", ["startAt", "endAt", "every"])
def test_a_mistake_in_a_limit_of_a_schedule_is_found_where_it_is(field: str) -> None:
    refusal = refusal_of({"command": "true", "schedules": [{"schedule": "@daily", field: "soon"}]})

    assert [problem.pointer for problem in refusal.problems] == [f"/schedules/0/{field}"]


def test_hashed_fire_times_follow_from_the_full_name_of_the_job() -> None:
    schedules = [HASHED, {"schedule": "H H * * *"}]
    body = {"name": "job", "command": "true", "schedules": schedules}

    one, other = (
        job_spec(msgspec.convert({**body, "namespace": namespace}, JobBody)).schedules
        for namespace in ("default", "team")
    )

    assert [each.seed for each in one] == ["default/job"] * 2
    assert next_fire(one[0], Instant(0)) == next_fire(one[1], Instant(0))
    assert next_fire(one[0], Instant(0)) != next_fire(other[0], Instant(0))


SCHEMA = {
    "properties": {"day": {"type": "string"}, "region": {"default": "eu"}},
    "required": ["day"],
}


@pytest.mark.parametrize(
    ("fields", "stored"),
    [
        ({}, ""),
        ({"parameters": {"day": "mon"}}, '{"region":"eu","day":"mon"}'),
        ({"parameters": {"day": "mon"}, "schedule": "@daily"}, '{"region":"eu","day":"mon"}'),
    ],
)
def test_parameters_are_stored_with_the_defaults_of_their_schema(
    fields: Fields, stored: str
) -> None:
    body: dict[str, Any] = {"name": "j", "command": "true", "parameters_schema": SCHEMA, **fields}

    spec = job_spec(JobBody(**body))

    assert spec.parameters == stored


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"parameters": {"day": 1}}, "/parameters/day"),
        ({"parameters": ["mon"]}, "/parameters"),
        ({"parameters": {"dya": "mon"}}, "/parameters/dya"),
        ({"schedule": "@daily"}, "/parameters"),
        ({"dependencies": ["other"]}, "/parameters"),
        ({"parameters_schema": {"type": "nonsense"}}, "/parametersSchema/type"),
        ({"command": None, "type": "scripted"}, "/parametersSchema"),
    ],
)
def test_parameters_that_do_not_match_their_schema_are_refused(
    fields: Fields, pointer: str
) -> None:
    body: dict[str, Any] = {"name": "j", "command": "true", "parameters_schema": SCHEMA, **fields}

    with pytest.raises(Refused) as raised:
        job_spec(JobBody(**body))

    assert [each.pointer for each in raised.value.problems] == [pointer]


END: Fields = {"name": "end", "command": "true", "teardown": True}
PICK: Fields = {"name": "pick", "switch": [{"to": ["go"]}]}
GO: Fields = {"name": "go", "command": "true", "needs": ["pick"]}


WRONG: list[tuple[list[Fields], str]] = [
    ([END], "/tasks"),
    ([END, GO | {"needs": ["end"]}], "/tasks/1/needs/0"),
    ([GO | {"needs": []}, END | {"handlesFailure": True}], "/tasks/1/handlesFailure"),
    ([PICK, GO | {"needs": []}], "/tasks/0/switch/0/to"),
    ([PICK, GO | {"teardown": True}], "/tasks/0/switch/0/to"),
    ([PICK | {"foreach": [1]}, GO], "/tasks/0/switch"),
    ([PICK | {"switch": [{"to": ["go"]}, {"when": "true"}]}, GO], "/tasks/0/switch/0"),
    ([PICK | {"switch": [{"when": "1 +"}]}], "/tasks/0/switch/0/when"),
    ([PICK | {"switch": []}], "/tasks/0/switch"),
    ([PICK | {"command": "true"}, GO], "/tasks/0/switch"),
    ([GO | {"needs": [], "foreach": {}}], "/tasks/0/foreach"),
    ([GO | {"needs": [], "foreach": {"matrix": {}}}], "/tasks/0/foreach/matrix"),
    (
        [GO | {"needs": [], "foreach": {"matrix": {"a": list(range(101)), "b": [0] * 100}}}],
        "/tasks/0/foreach/matrix",
    ),
    ([GO | {"needs": [], "foreach": {"matrix": {"a": "1 +"}}}], "/tasks/0/foreach/matrix/a"),
]


@pytest.mark.parametrize(("tasks", "pointer"), WRONG)
def test_a_wrong_switch_teardown_or_matrix_is_refused_where_it_is(
    tasks: list[Fields], pointer: str
) -> None:
    assert [each.pointer for each in refusal_of({"tasks": tasks}).problems] == [pointer]
