"""A job's fire times: what became of those that were, and which are to come."""

from rota.wire.documents.document import InstantText, View


class LedgerEntryView(View, frozen=True):
    """What became of a fire time, or of *count* of them in a row.

    Attributes:
        fire_time: The first of the fire times.
        until: The last of them.
        count: How many they are; usually one.
        schedule: The schedule's number.
        outcome: ``fired``, ``skipped``, ``missed``, ``coalesced`` or ``paused``; ``broken`` if its
            record cannot be decoded. Then only *fire_time* and *schedule* are known.
        execution_id: The execution made, in the way, or standing for it; null for ``missed`` and
            ``paused``.
        reason: A sentence for people; empty for ``fired``, unless a stand-in did it.
        recorded_at: When it was decided.
        broken: Why its record cannot be shown whole; empty for a sound one.
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


class LedgerPage(View, frozen=True):
    """A page of a job's ledger.

    Attributes:
        items: By fire time.
        next_cursor: Gives the next page; null where there is none.
    """

    items: list[LedgerEntryView]
    next_cursor: str | None = None


class NextFireView(View, frozen=True):
    """A coming fire time.

    Attributes:
        at: In UTC.
        local: On the clock of the schedule's zone.
        schedule: The schedule's number.
        note: Where that clock makes it differ.
    """

    at: InstantText
    local: str
    schedule: int
    note: str = ""


class NextFires(View, frozen=True):
    """Coming fire times.

    Attributes:
        items: Earliest first.
    """

    items: list[NextFireView]
