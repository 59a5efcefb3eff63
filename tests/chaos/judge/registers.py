"""I15: a job that is written, read and deleted by one client behaves as if that happened at once.

An operation of unknown outcome may take effect at any time after it began, once, or never. So
what is kept is the states that the job may be in, each with the changes that may still come. A
change that may come is only taken for done when a value is read that is not there otherwise: until
then it does not matter, and what may still come allows all that its having come allows.
"""

from collections import defaultdict
from collections.abc import Iterator

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
            after = set(_after(each, states))
            if not after:
                known = sorted({str(value) for state in states for value in _possible(state)})
                yield Violation("I15", f"{each}; the value could be {known}", each.ended_at)
                break
            states = after


def _after(each: Operation, states: set[State]) -> Iterator[State]:
    written: Value = each.asked.get("value")
    is_absent = each.told.get("code") == "job_not_found"
    for value, pending in states:
        match each.what, each.outcome:
            case "get", "ok":
                yield from _seen(each.told.get("value"), (value, pending))
            case _, "ok":
                yield written, pending
            case "put" | "delete", "info":
                yield value, pending | {(each.number, written)}
            case _ if is_absent and each.what != "put":
                # A delete that was told there is nothing to delete has seen that, as a read has.
                yield from _seen(None, (value, pending))
            case _:
                yield value, pending


def _seen(seen: Value, state: State) -> Iterator[State]:
    """Yield the state in which *seen* is there, if it can be."""
    value, pending = state
    changes = [change for change in pending if change[1] == seen]
    if value == seen:
        yield state
    elif changes:
        # The oldest stands for all to the same value: nothing tells them apart.
        yield seen, pending - {min(changes, key=lambda change: change[0])}


def _possible(state: State) -> set[Value]:
    return {state[0], *(value for _, value in state[1])}
