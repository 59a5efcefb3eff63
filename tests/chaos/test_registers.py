"""The checker of registers agrees with an exhaustive search."""

from collections.abc import Iterator
from itertools import chain, combinations, permutations

from hypothesis import given, settings
from hypothesis import strategies as st

from chaos.judge.records import Operation, Records
from chaos.judge.registers import violations

ABSENT = {"code": "job_not_found"}


def records(operations: list[Operation]) -> Records:
    return Records({}, operations, [], [], {}, {}, {}, {}, [], [], [], [], {})


def operation(number: int, what: str, value: str | None, outcome: str) -> Operation:
    """Return a write of *value*, a delete, or a read that saw *value* (None: no job)."""
    asked = {"register": "r"} | ({"value": value} if what == "put" else {})
    if what == "get":
        seen = ABSENT if value is None else {"value": value}
        return Operation(number, what, asked, number, "ok" if value else "fail", seen)
    return Operation(number, what, asked, number, outcome)


VALUES = st.sampled_from(["a", "b", None])
OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from(["a", "b"]), st.sampled_from(["ok", "info"])),
        st.tuples(st.just("delete"), st.none(), st.sampled_from(["ok", "info"])),
        st.tuples(st.just("get"), VALUES, st.just("ok")),
    ),
    max_size=5,
)


@settings(max_examples=150, deadline=None)
@given(OPERATIONS)
def test_a_history_is_refused_if_no_order_of_its_changes_explains_it(
    history: list[tuple[str, str | None, str]],
) -> None:
    operations = [operation(number, *each) for number, each in enumerate(history)]

    found = list(violations(records(operations)))

    assert bool(found) == (not any(explains(order) for order in orders(operations)))


def orders(operations: list[Operation]) -> Iterator[list[Operation]]:
    """Yield all: known ones as they came, and some of the others, each anywhere after its begin."""
    known = [each for each in operations if each.outcome != "info"]
    unknown = [each for each in operations if each.outcome == "info"]
    subsets = chain.from_iterable(combinations(unknown, size) for size in range(len(unknown) + 1))
    for some in chain.from_iterable(map(permutations, subsets)):
        yield from merged(known, list(some))


def merged(known: list[Operation], late: list[Operation]) -> Iterator[list[Operation]]:
    if not late:
        yield known
        return
    for place in range(len(known) + 1):
        if all(each.number > late[0].number for each in known[place:]):
            for rest in merged(known[place:], late[1:]):
                yield [*known[:place], late[0], *rest]


def explains(order: list[Operation]) -> bool:
    value = None
    for each in order:
        if each.what == "get":
            if value != each.answer.get("value"):
                return False
        else:
            value = each.asked.get("value")
    return True


def test_a_hundred_changes_of_unknown_outcome_are_checked_in_time() -> None:
    writes = [operation(number, "put", str(number), "info") for number in range(100)]
    reads = [operation(1_000 + number, "get", str(number), "ok") for number in range(99, -1, -1)]
    again = operation(2_000, "get", "50", "ok")

    assert list(violations(records([*writes, *reads]))) == []
    [found] = violations(records([*writes, *reads, again]))
    assert found.rule == "I15"
