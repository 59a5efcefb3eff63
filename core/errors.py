"""Errors that callers may see.

A *refusal* is the response to a request that rota does not carry out. It has a stable ``code`` for
programs, a sentence for users and, for invalid input, one problem for each invalid field.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any  # Any: what pickle stores, of any class.

from rota.core.quoting import in_quotes


class RotaError(Exception):
    """Base class of the errors that rota raises on purpose."""

    code = "internal"

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what pickle needs to restore the error, whatever arguments its class takes."""
        return _unpickled, (type(self), self.args, self.__dict__)


def _unpickled(kind: type[RotaError], args: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
    error = kind.__new__(kind, *args)
    error.__dict__.update(attributes)
    return error


@dataclass(frozen=True, slots=True)
class Problem:
    """One error in an input.

    Attributes:
        pointer: The position of the error in the input, as a JSON pointer (RFC 6901); ``""`` is the
            whole input.
        detail: The error, with the invalid value and a description of valid values.
    """

    pointer: str
    detail: str

    def __str__(self) -> str:
        return f"{self.pointer}: {self.detail}" if self.pointer else self.detail


def out_of_range(value: object, lowest: object, highest: object) -> str:
    """Return the detail of a `Problem` with a value outside its range."""
    return f"{value} is out of range; give a value from {lowest} to {highest}"


class Kind(Enum):
    """The kind of a refusal; the API maps each kind to one HTTP status."""

    INVALID = "invalid"
    """The request is invalid; repeating it does not help."""
    NOT_FOUND = "not_found"
    CONFLICT = "conflict"
    """The request contradicts what exists."""
    PRECONDITION = "precondition"
    """A condition of the request no longer holds."""
    TOO_MANY = "too_many"
    """A limit is reached; a later retry may work."""
    UNAVAILABLE = "unavailable"
    """This node cannot carry out the request now; a retry, later or on another node, may work."""
    UNAUTHENTICATED = "unauthenticated"
    """The request has no valid credential."""
    FORBIDDEN = "forbidden"
    UNREADABLE = "unreadable"
    """This version cannot read the stored data; a retry does not help."""


class Refused(RotaError):
    """A refused request.

    Args:
        kind: The kind of the refusal.
        code: A stable word for programs, in snake case.
        detail: A sentence for users: what was refused, with the value, and what to do next.
        problems: For invalid input, one problem for each invalid field.
        retry_after_s: The time in seconds after which a retry may help; None if it is unknown.
    """

    def __init__(
        self,
        kind: Kind,
        code: str,
        detail: str,
        *,
        problems: tuple[Problem, ...] = (),
        retry_after_s: int | None = None,
    ) -> None:
        super().__init__(f"{code}: {detail}")
        self.kind = kind
        self.code = code
        self.detail = detail
        self.problems = problems
        self.retry_after_s = retry_after_s


def invalid(code: str, detail: str, *problems: Problem) -> Refused:
    """Return the refusal of an invalid input."""
    return Refused(Kind.INVALID, code, detail, problems=problems)


def invalid_fields(code: str, problems: Sequence[Problem]) -> Refused:
    """Return the refusal of an input with *problems*, of which there is at least one."""
    return invalid(code, summary_of(problems), *problems)


def summary_of(problems: Sequence[Problem]) -> str:
    """Return the first of *problems*, and the number of the others."""
    first, *others = problems
    return f"{first} (and {len(others)} more, see errors)" if others else str(first)


def not_found(what: str, name: str, hint: str = "", *, about: str = "") -> Refused:
    """Return the refusal of a request for an object that does not exist.

    Args:
        what: The kind of the object, as in the code of the error.
        name: The name of the object, with its namespace if it has one.
        hint: The next step; by default that of `NEXT_STEPS`.
        about: The kind of the object in words; by default *what*.
    """
    detail = f"there is no {about or what} {in_quotes(name)}; {hint or NEXT_STEPS[what]}"
    return Refused(Kind.NOT_FOUND, f"{what}_not_found", detail)


NEXT_STEPS: Mapping[str, str] = {
    "task": "`rota executions show EXECUTION` lists the tasks",
    "state": "`rota state list JOB` lists the values",
    "backfill": "`rota backfill list JOB` lists the backfills of a job",
    "job": "check the name and the namespace: `rota jobs` lists the jobs",
    "execution": "check the id: `rota executions` lists the latest executions; old ones have "
    "expired",
    "node": "check the id: `rota cluster members` lists the nodes",
}
"""The next step after an error about an object that does not exist, by its kind."""
