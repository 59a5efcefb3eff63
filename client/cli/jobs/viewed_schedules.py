"""Schedules in the documents of jobs, as rules that give fire times."""

from typing import Literal, cast

from rota.core.timing.schedule import Schedule, checked
from rota.wire.documents import ScheduleView


def schedule_of(view: ScheduleView, full_name: str) -> Schedule:
    """Return the schedule of the job *full_name* that a document shows.

    Raises:
        Refused: This version of rota cannot read it.
    """
    return checked(
        Schedule(
            text=view.schedule,
            timezone=view.timezone,
            day_or=view.day_or,
            spread=view.spread,
            seed=full_name,
            start_at=view.start_at or "",
            end_at=view.end_at or "",
            every=view.every or "",
            gap=cast("Literal['shift', 'skip']", view.gap),  # A view has texts of other versions.
            fold=cast("Literal['first', 'last', 'both']", view.fold),
        )
    )
