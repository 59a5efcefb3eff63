"""I15: a job that is written, read and deleted by one client behaves as if that happened at once.

An operation of unknown outcome may take effect at any time after it began, once, or never. So the
checker keeps the possible states of the job, each with the changes that may still take effect. Such
a change counts as done only when a read value needs it: until then it makes no difference, because
a pending change permits every history that a done one permits.
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
    is_absent = each.answer.get("code") == "job_not_found"
    for value, pending in states:
        match each.what, each.outcome:
            case "get", "ok":
                yield from _seen(each.answer.get("value"), (value, pending))
            case _, "ok":
                yield written, pending
            case "put" | "delete", "info":
                yield value, pending | {(each.number, written)}
            case _ if is_absent and each.what != "put":
                # The answer that there is nothing to delete is also a read of no job.
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
        # The oldest stands for all changes to the same value, which are equivalent.
        yield seen, pending - {min(changes, key=lambda change: change[0])}


def _possible(state: State) -> set[Value]:
    return {state[0], *(value for _, value in state[1])}
