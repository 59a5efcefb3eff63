"""Trigger rules: whether a blocked task starts, given the states of the tasks that it needs.

The rules and their names are those of Apache Airflow 3
(https://airflow.apache.org/docs/apache-airflow/stable/core-concepts/dags.html#trigger-rules). A new
rule is a member of `TriggerRule` and a row of `RULES`.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple


class TriggerRule(Enum):
    """The condition on the needed tasks under which a task starts."""

    ALL_SUCCESS = "all_success"
    ALL_FAILED = "all_failed"
    ALL_DONE = "all_done"
    ALL_DONE_MIN_ONE_SUCCESS = "all_done_min_one_success"
    ONE_SUCCESS = "one_success"
    ONE_FAILED = "one_failed"
    ONE_DONE = "one_done"
    NONE_FAILED = "none_failed"
    NONE_FAILED_MIN_ONE_SUCCESS = "none_failed_min_one_success"
    NONE_SKIPPED = "none_skipped"
    ALL_SKIPPED = "all_skipped"
    ALWAYS = "always"


class UpstreamState(Enum):
    """The state of a needed task, as the trigger rules distinguish it."""

    OPEN = "open"
    SUCCESS = "success"
    FAILED = "failed"
    UPSTREAM_FAILED = "upstream_failed"
    """Skipped because a task that it needs failed."""
    SKIPPED = "skipped"
    CANCELLED = "cancelled"


class TriggerVerdict(Enum):
    """The result of a trigger rule for a blocked task."""

    WAIT = "wait"
    START = "start"
    SKIP = "skip"
    SKIP_FAILED = "skip_failed"
    """Skip as ``upstream_failed``, which the tasks that need this one see as a failure."""


class Census(NamedTuple):
    """The numbers of needed tasks by state, in the order of `UpstreamState`."""

    open: int
    success: int
    failed: int
    upstream_failed: int
    skipped: int
    cancelled: int

    @property
    def unsuccessful(self) -> int:
        """The number of tasks that failed, directly or not, or were cancelled."""
        return self.failed + self.upstream_failed + self.cancelled

    def after(self, standing: UpstreamState) -> "Census":
        """Return the census after one open task has entered the state *standing*."""
        closed = {standing.value: getattr(self, standing.value) + 1}
        return self._replace(open=self.open - 1, **closed)


def census_of(standings: Iterable[UpstreamState]) -> Census:
    """Return the census of *standings*."""
    seen = list(standings)
    return Census(*(seen.count(standing) for standing in UpstreamState))


Condition = Callable[[Census], bool | int]


def _never(_: Census) -> bool:
    return False


def _all_done(needs: Census) -> bool:
    return not needs.open


@dataclass(frozen=True, slots=True)
class Row:
    """One trigger rule. The first condition that holds decides; if none does, the task waits.

    Attributes:
        starts: When the task starts.
        fails: When it is skipped because of a failure, as ``upstream_failed``.
        skips: When it is skipped.
    """

    starts: Condition
    fails: Condition = _never
    skips: Condition = _never


_R = TriggerRule

RULES: Mapping[TriggerRule, Row] = {
    _R.ALL_SUCCESS: Row(
        fails=lambda n: n.unsuccessful,
        skips=lambda n: n.skipped,
        starts=_all_done,
    ),
    _R.ALL_FAILED: Row(
        skips=lambda n: n.success or n.skipped or n.cancelled,
        starts=_all_done,
    ),
    _R.ALL_DONE: Row(
        starts=_all_done,
    ),
    _R.ALL_DONE_MIN_ONE_SUCCESS: Row(
        fails=lambda n: not n.open and not n.success and n.unsuccessful,
        skips=lambda n: not n.open and not n.success,
        starts=_all_done,
    ),
    _R.ONE_SUCCESS: Row(
        fails=lambda n: not n.open and not n.success and n.unsuccessful,
        skips=lambda n: not n.open and not n.success,
        starts=lambda n: n.success,
    ),
    _R.ONE_FAILED: Row(
        skips=lambda n: not n.open and not (n.failed or n.upstream_failed),
        starts=lambda n: n.failed or n.upstream_failed,
    ),
    _R.ONE_DONE: Row(
        skips=lambda n: not n.open and not (n.success or n.failed),
        starts=lambda n: n.success or n.failed,
    ),
    _R.NONE_FAILED: Row(
        fails=lambda n: n.unsuccessful,
        starts=_all_done,
    ),
    _R.NONE_FAILED_MIN_ONE_SUCCESS: Row(
        fails=lambda n: n.unsuccessful,
        skips=lambda n: not n.open and not n.success,
        starts=_all_done,
    ),
    _R.NONE_SKIPPED: Row(
        skips=lambda n: n.skipped,
        starts=_all_done,
    ),
    _R.ALL_SKIPPED: Row(
        skips=lambda n: n.success or n.unsuccessful,
        starts=_all_done,
    ),
    _R.ALWAYS: Row(
        starts=lambda _: True,
    ),
}

EARLY = frozenset({_R.ONE_SUCCESS, _R.ONE_FAILED, _R.ONE_DONE, _R.ALWAYS})
"""The rules by which a task may start before all tasks that it needs have ended."""


def verdict(rule: TriggerRule, needs: Census) -> TriggerVerdict:
    """Return the verdict of *rule* for the census *needs* of a task that needs other tasks."""
    row = RULES[rule]
    if row.fails(needs):
        return TriggerVerdict.SKIP_FAILED
    if row.skips(needs):
        return TriggerVerdict.SKIP
    return TriggerVerdict.START if row.starts(needs) else TriggerVerdict.WAIT
