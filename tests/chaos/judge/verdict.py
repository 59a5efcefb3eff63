"""The judge's verdict on a run."""

from collections.abc import Callable, Iterator

from chaos.judge import (
    acknowledged,
    attempts,
    configurations,
    fencing,
    fires,
    pauses,
    registers,
    replicas,
    standing_in,
)
from chaos.judge.records import Records, Violation

CHECKS: tuple[Callable[[Records], Iterator[Violation]], ...] = (
    acknowledged.violations,
    fires.violations,
    attempts.violations,
    standing_in.violations,
    fencing.violations,
    pauses.violations,
    registers.violations,
    configurations.violations,
    replicas.violations,
)


def judge(records: Records) -> list[Violation]:
    """Return all violations."""
    return [violation for check in CHECKS for violation in check(records)]
