"""Backfills: runs of a job for fire times of the past."""

from typing import Annotated, Literal

import msgspec

from rota.wire.documents.changes import AuthorView
from rota.wire.documents.document import Body, InstantText, Json, LineText, View

Parallel = Annotated[int, msgspec.Meta(ge=1, le=100)]


class BackfillBody(Body, frozen=True):
    """A backfill of a job.

    Attributes:
        since: The first instant of its range (RFC 3339).
        until: The end of its range, whose fire times are earlier; null for now. Fire times that the
            schedule has not decided yet do not belong to it.
        reprocess: The fire times that run: ``missing``: those without an execution; ``failed``:
            also those whose newest execution failed or was cancelled; ``all``.
        order: ``oldest`` or ``newest`` fire times first.
        parallel: The most executions of it that are unfinished at the same time.
        parameters: Parameters that replace those of the job; null for these.
    """

    since: LineText
    until: LineText | None = None
    reprocess: Literal["missing", "failed", "all"] = "missing"
    order: Literal["oldest", "newest"] = "oldest"
    parallel: Parallel = 1
    parameters: Json = None


class BackfillView(View, frozen=True):
    """A backfill, and its progress.

    Attributes:
        backfill_id: Its id.
        job_id: The id of its job.
        status: ``running``, ``paused``, ``done`` or ``cancelled``; of a dry run ``dry_run``.
        since: The first instant of its range.
        until: The end of its range.
        reprocess: ``missing``, ``failed`` or ``all``.
        order: ``oldest`` or ``newest``.
        parallel: The most executions that are unfinished at the same time.
        total: The number of its fire times.
        begun: The number of executions that have begun.
        running: The number of these that have not ended.
        succeeded: The number of these that succeeded.
        failed: The number of these that failed or were cancelled.
        created_at: When it was started.
        finished_at: When it ended; null before that.
        started_by: The caller who started it.
        next_times: The next fire times that it runs, at most ten.
        warnings: What is to be considered about it; only in the answer to its creation.
    """

    backfill_id: str
    job_id: str
    status: str
    since: InstantText
    until: InstantText
    reprocess: str
    order: str
    parallel: int
    total: int
    begun: int
    running: int
    succeeded: int
    failed: int
    created_at: InstantText
    finished_at: InstantText | None = None
    started_by: AuthorView | None = None
    next_times: list[InstantText] = []
    warnings: list[str] = []


class BackfillList(View, frozen=True):
    """The backfills of a job.

    Attributes:
        items: The newest backfills, newest first.
    """

    items: list[BackfillView]
