"""Jobs of clients with many mistakes: how many are looked for, and how many are answered."""

import difflib
from itertools import islice
from typing import Any

import msgspec
import pytest

from rota.core.errors import Refused
from rota.core.model.job import DEPENDENCIES_MAX, SCHEDULES_MAX, TASKS_MAX
from rota.node.api.documents.field_reader import HINTS_MAX, Hints, Reader
from rota.node.api.documents.job_bodies import PROBLEMS_MAX, job_spec
from rota.wire.documents import JobBody

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


def unknown_zones(count: int) -> list[Fields]:
    return [{"schedule": "@daily", "timezone": f"Europa/B{number}"} for number in range(count)]


def test_a_few_unknown_zones_of_a_request_are_compared_with_all_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """1,000 of them, in 54 kB, held a node for so long that others took its shards."""
    compared: list[str] = []

    def close(word: str, known: Any) -> list[str]:
        compared.append(word)
        return list(islice(known, 1))

    monkeypatch.setattr(difflib, "get_close_matches", close)
    hints = Hints()

    first = refusal_of({"schedules": unknown_zones(SCHEDULES_MAX)}, hints)
    second = refusal_of({"schedules": unknown_zones(1)}, hints)

    assert len(compared) == HINTS_MAX
    hinted = ["did you mean" in problem.detail for problem in first.problems[:-1]]
    assert hinted == [True] * HINTS_MAX + [False] * (PROBLEMS_MAX - HINTS_MAX)
    assert second.problems[0].detail == (
        '"Europa/B0" is not a time zone. Zones have IANA names, such as Europe/Paris.'
    )
