"""I15: a job that is written, read and deleted by one client behaves as if that happened at once.

An operation of unknown outcome may take effect at any time after it began, once, or never. So
what is kept is the set of all states that the job may be in, each with the changes that may still
come; a value read rules out all others.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from chaos.judge.records import Operation, Records, Violation

Value = str | None
State = tuple[Value, frozenset[tuple[int, Value]]]
"""A value, None where there is no job; and changes that may still come, by operation."""


def violations(records: Records) -> Iterator[Violation]:
    """Yield reads that no order of the operations explains."""
    of_register: dict[str, list[Operation]] = defaultdict(list)
    for each in records.asked("put", "get", "delete"):
        of_register[each.asked["register"]].append(each)
    for operations in of_register.values():
        states: set[State] = {(None, frozenset())}
        for each in operations:
            after = set(_after(each, _settled(states)))
            if not after:
                known = sorted({str(value) for value, _ in _settled(states)})
                yield Violation("I15", f"{each}; the value could be {known}", each.ended_at)
                break
            states = after


def _settled(states: Iterable[State]) -> set[State]:
    """Return the states with those that follow when some pending changes take effect."""
    found, fresh = set(states), list(states)
    while fresh:
        _, pending = fresh.pop()
        for change in pending:
            state = (change[1], pending - {change})
            if state not in found:
                found.add(state)
                fresh.append(state)
    return found


def _after(each: Operation, states: set[State]) -> Iterator[State]:
    written: Value = each.asked.get("value")
    is_absent = each.told.get("code") == "job_not_found"
    for value, pending in states:
        match each.what, each.outcome:
            case "get", _:
                seen = None if is_absent else each.told.get("value")
                if (each.outcome != "ok" and not is_absent) or seen == value:
                    yield value, pending
            case _, "ok":
                yield written, pending
            case _, "info":
                yield value, pending | {(each.number, written)}
            case _:
                # A delete that was told there is nothing to delete has seen that.
                if not is_absent or value is None:
                    yield value, pending
