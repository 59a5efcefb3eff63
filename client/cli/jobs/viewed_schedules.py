"""Schedules in the documents of jobs, as rules that give fire times."""

from rota.core.timing.schedule import Schedule, checked
from rota.wire.bodies.schedule_bodies import rule_of
from rota.wire.documents import ScheduleView


def schedule_of(view: ScheduleView, full_name: str) -> Schedule:
    """Return the schedule of the job *full_name* that a document shows.

    Raises:
        Refused: This version of rota cannot read it.
    """
    return checked(rule_of(view, full_name))
