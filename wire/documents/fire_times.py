"""Fire times of jobs: the outcomes of past ones, and the next ones."""

from rota.wire.documents.document import InstantText, View


class LedgerEntryView(View, frozen=True):
    """The outcome of a fire time, or of *count* successive fire times.

    Attributes:
        fire_time: The first of the fire times.
        until: The last of the fire times.
        count: The number of fire times; usually 1.
        schedule: The number of the schedule.
        outcome: ``fired``, ``skipped``, ``missed``, ``coalesced``, ``paused`` or ``excluded``;
            ``broken`` if its record cannot be decoded: only *fire_time* and *schedule* are known
            then.
        execution_id: The execution that was created, that was still running (``skipped``), or that
            covers the fire time (``coalesced``); null for others.
        reason: The reason, for people; empty for ``fired``, unless a stand-in ran it.
        recorded_at: When the outcome was recorded.
        job_id: The id of the job.
        job: The ``namespace/name`` of the job; null for a deleted job.
        broken: Why the record cannot be shown; empty for a valid record.
    """

    fire_time: InstantText
    until: InstantText
    count: int
    schedule: int
    outcome: str
    execution_id: str | None
    reason: str
    recorded_at: InstantText
    broken: str = ""
    job_id: str | None = None
    job: str | None = None


class LedgerPage(View, frozen=True):
    """A page of the ledger of a job, or of all jobs.

    Attributes:
        items: The entries, ordered by fire time.
        next_cursor: The cursor of the next page; null for the last page.
    """

    items: list[LedgerEntryView]
    next_cursor: str | None = None


class NextFireView(View, frozen=True):
    """A future fire time, or the first one of a stretch that calendars exclude.

    Attributes:
        at: The instant, in UTC.
        local: The local time in the time zone of the schedule.
        schedule: The number of the schedule.
        note: The effect of a clock change in the time zone on this fire time; empty if there is
            none.
        excluded: Why the job does not run then, and at no further time until the next item; empty
            if it runs.
        starts_at: When it starts, if it starts later than *at* because of jitter or calendars; null
            otherwise.
    """

    at: InstantText
    local: str
    schedule: int
    note: str = ""
    excluded: str = ""
    starts_at: InstantText | None = None


class NextFires(View, frozen=True):
    """Future fire times.

    Attributes:
        items: The fire times, earliest first.
    """

    items: list[NextFireView]


class CauseView(View, frozen=True, kw_only=True):
    """One cause in a chain of causes.

    Attributes:
        code: A word for programs, such as ``fired`` or ``no_fire_time``.
        at: When it came about; null for no time, or if it is unknown.
        cause: The cause, in a sentence.
        change: The smallest change that would alter it; empty for none.
    """

    code: str
    at: InstantText | None = None
    cause: str
    change: str = ""


class ExplanationView(View, frozen=True):
    """Why a job ran, did not run, will run or will not run at a time.

    Attributes:
        job: The ``namespace/name`` of the job.
        job_id: The id of the job.
        at: The time.
        causes: The causes, each of which explains the next.
    """

    job: str
    job_id: str
    at: InstantText
    causes: list[CauseView]
