"""The next fire times that a job would have, with the calendars of files and of a node."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

import msgspec

from rota.client.cli.documents.given_documents import CALENDARS_OF_JOB, Given
from rota.client.cli.jobs.viewed_schedules import schedule_of
from rota.core.timing.calendars import EVERYWHERE, Calendar, Calendars, Exclusion
from rota.core.timing.instants import Instant, format_instant
from rota.core.timing.schedule import Schedule, coming, load_zone
from rota.core.vocabulary.facts import Facts
from rota.wire.bodies.calendar_bodies import calendar_of
from rota.wire.documents import CalendarBody, DocumentView, JobView

FIRES = 3
"""The number of fire times that are shown for a new schedule."""


def calendars_with(given: Iterable[Given], present: Iterable[DocumentView]) -> Calendars:
    """Return the calendars of a node, and in their place those of files.

    A calendar that cannot be read is left out; the node refuses it.
    """
    new = {each.name: each.definition for each in given if each.kind == "calendars"}
    both: dict[str, Mapping[str, Any]] = {
        each.name: each.definition for each in present
    }  # Any: JSON
    found: dict[str, Calendar] = {}
    for name, definition in {**both, **new}.items():
        try:
            body = msgspec.convert(definition, CalendarBody)
            found[name] = calendar_of(name, 1, body)
        except ValueError:
            continue
    return found


def facts_of(given: Iterable[Given]) -> Facts:
    """Return the calendars of files, with the namespaces that each stops."""
    calendars = calendars_with(given, ())
    blackouts: dict[str, tuple[str, ...]] = {}
    for name, calendar in calendars.items():
        for scope in calendar.blackout_of:
            blackouts[scope] = (*blackouts.get(scope, ()), name)
    return Facts(calendars=calendars, blackouts=blackouts)


def new_fires(
    before: JobView | None, after: JobView, calendars: Calendars, now: Instant
) -> list[str]:
    """Return the next fire times of a job whose schedules or calendars are new.

    Args:
        before: The job on the node; None if it does not exist.
        after: The job as it would be saved.
        calendars: The calendars by name, as they would be then.
        now: The present time.
    """
    if before is not None and _rules(before) == _rules(after):
        return []
    name = f"{after.namespace}/{after.name}"
    schedules = [schedule_of(each, name) for each in after.schedules]
    exclusions = [_exclusion(after, each, calendars) for each in schedules]
    # An excluded stretch is one item, and a fire time follows it.
    found = islice(coming(schedules, now, exclusions), 2 * FIRES)
    times = [fire.instant for _, fire in found if not fire.excluded]
    return [format_instant(each) for each in times[:FIRES]]


def _rules(job: JobView) -> tuple[object, ...]:
    schedules = [msgspec.structs.replace(each, next_fire_at=None) for each in job.schedules]
    return (schedules, *(_names(job, field) for field in CALENDARS_OF_JOB))


def _names(job: JobView, field: str) -> tuple[str, ...]:
    definition: Mapping[str, Any] = job.definition or {}  # Any: JSON of the node.
    return tuple(definition.get(field) or ())


def _exclusion(job: JobView, schedule: Schedule, calendars: Calendars) -> Exclusion:
    only, unless = (_names(job, field) for field in CALENDARS_OF_JOB)
    scopes = {job.namespace, EVERYWHERE}
    blackouts: Sequence[str] = [
        each.name for each in calendars.values() if not scopes.isdisjoint(each.blackout_of)
    ]
    return Exclusion(
        calendars=calendars,
        zone=load_zone(schedule.timezone),
        only=only,
        unless=unless,
        blackouts=tuple(blackouts),
    )
