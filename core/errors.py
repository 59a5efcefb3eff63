"""The errors a caller may see.

A *refusal* is rota's answer to something it will not do: it has a stable ``code`` that programs
may match, a sentence for people, and, for bad input, one problem per offending field.
"""

from dataclasses import dataclass
from enum import Enum

from rota.core.quoting import in_quotes


class RotaError(Exception):
    """Anything rota raises on purpose."""

    code = "internal"


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with an input.

    Attributes:
        pointer: Where, as a JSON pointer (RFC 6901) into the input; ``""`` is the whole of it.
        detail: What is wrong, with which value, and what would be right.
    """

    pointer: str
    detail: str

    def __str__(self) -> str:
        return f"{self.pointer}: {self.detail}" if self.pointer else self.detail


class Kind(Enum):
    """Why a request is refused; the API maps each to one HTTP status."""

    INVALID = "invalid"
    """The request can never work as it is."""
    NOT_FOUND = "not_found"
    CONFLICT = "conflict"
    """The request contradicts what exists."""
    PRECONDITION = "precondition"
    """What the request expects is no longer so."""
    TOO_MANY = "too_many"
    """A limit of the caller's is reached; trying later may work."""
    UNAVAILABLE = "unavailable"
    """This node cannot do it now; trying later, or elsewhere, may work."""
    FORBIDDEN = "forbidden"
    UNREADABLE = "unreadable"
    """What is stored cannot be read by this version; trying again does not help."""


class Refused(RotaError):
    """Rota will not do what was asked.

    Args:
        kind: The class of the refusal.
        code: Stable word for programs, in snake case.
        detail: What was refused, with which value, and what to do next.
        problems: For bad input, every offending field.
        retry_after_s: When trying again may help, in seconds.
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
    """Return the refusal of an input that can never work as it is."""
    return Refused(Kind.INVALID, code, detail, problems=problems)


def not_found(what: str, name: str) -> Refused:
    """Return the refusal of a request about something that is not there."""
    return Refused(Kind.NOT_FOUND, f"{what}_not_found", f"there is no {what} {in_quotes(name)}")
