"""A ledger is compared with expected fire times: each fault is named."""

from collections.abc import Iterator, Sequence
from itertools import count, islice
from typing import Any

import pytest
from msgspec.structs import replace

from rota.client.cli.audit.comparison import Expected, Fault, compare, unpaired
from rota.core.timing.instants import MINUTE, Instant, format_instant, parse_instant
from rota.wire.documents import ExecutionView, LedgerEntryView
from unit.core.shard import at


def entry(first: str, until: str = "", number: int = 1, **fields: Any) -> LedgerEntryView:
    """Return an entry of the day of the tests."""
    begin = format_instant(at(first))
    members: dict[str, Any] = {
        "fire_time": begin,
        "until": format_instant(at(until)) if until else begin,
        "count": number,
        "schedule": 0,
        "outcome": "fired",
        "execution_id": f"x-{first}",
        "reason": "",
        "recorded_at": begin,
        **fields,
    }
    return LedgerEntryView(**members)


LEDGER = (
    entry("12:00"),
    entry("12:01"),
    entry("12:02", "12:05", 4, outcome="missed"),
    entry("12:06"),
    entry("12:07", outcome="skipped"),
)


def minutes(schedule: int = 0) -> Iterator[Expected]:
    """Yield each minute from 11:55 on, without end."""
    return (Expected(Instant(time), schedule) for time in count(at("11:55"), MINUTE))


def faults(entries: Sequence[LedgerEntryView], since: str = "12:00", until: str = "12:08") -> Any:
    """Return kind, first fire time and number of each fault."""
    found = compare(minutes(), entries, at(since), at(until))
    return [(each.kind, each.fire_time[11:19], each.count) for each in found]


def test_a_whole_ledger_has_no_fault() -> None:
    assert faults(LEDGER) == []


@pytest.mark.parametrize("number", range(len(LEDGER)))
def test_a_removed_entry_is_missing(number: int) -> None:
    removed = LEDGER[number]

    found = faults([*LEDGER[:number], *LEDGER[number + 1 :]])

    assert found == [("missing", removed.fire_time[11:19], removed.count)]


@pytest.mark.parametrize("number", range(len(LEDGER)))
def test_a_doubled_entry_is_doubled(number: int) -> None:
    found = faults([*LEDGER[:number], LEDGER[number], *LEDGER[number:]])

    assert {kind for kind, _, _ in found} == {"doubled"}
    assert len(found) == LEDGER[number].count


def test_an_altered_fire_time_is_extra_and_its_own_is_missing() -> None:
    found = faults([LEDGER[0], entry("12:01:30"), *LEDGER[2:]])

    assert sorted(found) == [("extra", "12:01:30", 1), ("missing", "12:01:00", 1)]


@pytest.mark.parametrize(
    ("altered", "expected"),
    [
        (entry("12:02", "12:05", 5), [("count", "12:02:00", 5)]),
        (entry("12:02", "12:05", 3), [("count", "12:02:00", 3)]),
        (entry("12:02", "12:04", 3), [("missing", "12:05:00", 1)]),
        (entry("12:02", "12:05:30", 4), [("extra", "12:02:00", 4)]),
        (entry("12:02", "12:06", 5), [("doubled", "12:06:00", 1)]),
        (
            entry("12:02", "12:05", 4, schedule=3),
            [("extra", "12:02:00", 4), ("missing", "12:02:00", 4)],
        ),
        (
            entry("12:02", "9998-12-31T23:00:00Z", 4),
            [("count", "12:02:00", 4), ("doubled", "12:06:00", 1), ("doubled", "12:07:00", 1)],
        ),
    ],
)
def test_an_altered_entry_is_named(altered: LedgerEntryView, expected: list[Any]) -> None:
    assert sorted(faults([*LEDGER[:2], altered, *LEDGER[3:]])) == expected


def test_entries_across_the_ends_of_the_range_are_counted_in_whole() -> None:
    assert faults(LEDGER, since="12:04", until="12:06") == []
    assert faults(LEDGER[:3], since="12:00", until="12:03") == []


def test_a_record_that_cannot_be_read_is_named() -> None:
    found = list(compare(minutes(), [entry("12:00", broken="odd")], at("12:00"), at("12:01")))

    assert [(each.kind, each.reason) for each in found] == [
        ("extra", "its record cannot be read: odd")
    ]


def test_a_fire_time_at_a_change_of_the_schedule_may_have_an_outcome() -> None:
    optional = [fire._replace(is_required=False) for fire in islice(minutes(), 20)]

    for entries in (LEDGER, LEDGER[:2]):
        assert list(compare(optional, entries, at("12:00"), at("12:08"))) == []


def test_schedules_are_compared_each_for_itself() -> None:
    fires = (fire for pair in zip(minutes(0), minutes(1), strict=True) for fire in pair)
    entries = [
        each for one in LEDGER for each in (one, replace(one, schedule=1)) if one is not LEDGER[1]
    ]

    found = list(compare(fires, entries, at("12:00"), at("12:08")))

    assert [(each.kind, each.schedule) for each in found] == [("missing", 0), ("missing", 1)]


def test_a_wrong_outcome_is_named_once_for_an_entry() -> None:
    found = list(
        compare(
            minutes(),
            LEDGER,
            at("12:00"),
            at("12:08"),
            lambda _, entry: "no" if entry.outcome == "missed" else "",
        )
    )

    assert [(each.kind, each.fire_time[11:16]) for each in found] == [("outcome", "12:02")]


def test_a_long_range_is_compared_without_keeping_it() -> None:
    begun = at("12:00")
    entries = (entry(format_instant(Instant(time))) for time in count(begun, MINUTE))
    until = Instant(begun + 20_000 * MINUTE)

    found: list[Fault] = list(
        compare(
            minutes(),
            (each for each in islice(entries, 20_000) if parse_instant(each.fire_time) < until),
            begun,
            until,
        )
    )

    assert found == []


def execution(name: str, trigger: str = "schedule", **fields: Any) -> ExecutionView:
    """Return an execution of the day of the tests."""
    time = format_instant(at(name.removeprefix("x-")))
    return ExecutionView(
        execution_id=name,
        job_id="j",
        job="default/j",
        job_version=1,
        status="success",
        trigger=trigger,
        fire_time=time,
        queued_at=time,
        **fields,
    )


def test_entries_and_executions_without_each_other_are_found() -> None:
    executions = [
        *(execution("x-12:06"), execution("x-12:05:30", "manual"), execution("x-12:04")),
        *(execution("x-12:03", rerun_of="x"), execution("x-12:00")),
    ]

    found = list(unpaired(LEDGER[::-1], executions))

    assert [(a and a.execution_id, b and b.execution_id) for a, b in found] == [
        (None, "x-12:04"),
        ("x-12:01", None),
    ]
