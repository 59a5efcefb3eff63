"""C8 of jobs that are paused and resumed while they fire: the ledger says *paused* when they were.

One client does that to each job, one call after the other. After a call of unknown effect the state
of the job is unknown; until then the job is certainly paused from the answer to a pause until the
next call begins, and certainly not paused from the answer to a resume.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from chaos.judge.records import Operation, Records, Row, Violation

SLACK = 1_000_000
"""Wall clocks may differ by half a second; in microseconds."""


@dataclass(frozen=True)
class _Span:
    """From when to when a job certainly was, or was not, paused; in microseconds."""

    since: int
    until: int
    is_paused: bool


def violations(records: Records) -> Iterator[Violation]:
    """Yield fire times that were decided as if a job were paused, or as if not."""
    of_job: dict[str, list[Operation]] = defaultdict(list)
    for each in records.asked("hold", "release"):
        of_job[each.asked["job"]].append(each)
    for job_id, job in records.jobs.items():
        spans = list(_spans(records, of_job.get(job["name"], [])))
        for row in records.ledger.get(job_id, []) if spans else ():
            yield from _decided(job["name"], row, spans)


def _spans(records: Records, operations: list[Operation]) -> Iterator[_Span]:
    for each, after in pairwise(operations):
        if each.outcome == "info":
            return
        if each.outcome == "ok":
            since, until = records.wall(each.ended_at) + SLACK, records.wall(after.began_at) - SLACK
            yield _Span(since, until, each.what == "hold")


def _decided(name: str, row: Row, spans: list[_Span]) -> Iterator[Violation]:
    for span in spans:
        is_within = span.since <= row.first and max(row.last, row.recorded_at) <= span.until
        if is_within and span.is_paused != (row.outcome == "paused"):
            was = "was" if span.is_paused else "was not"
            yield Violation("C8", f"{name} {was} paused, and {row.outcome} at {row.first}: {row}")
