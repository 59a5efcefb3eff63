"""Calendars: sets of local times that exclude fire times of jobs."""

from collections.abc import Sequence

from rota.core.errors import Problem
from rota.core.model.ids import NAME_RULE, is_name
from rota.core.near_names import did_you_mean
from rota.core.quoting import in_quotes
from rota.core.timing.calendars import DEPTH_MAX, EVERYWHERE, Calendars, circle_of
from rota.node.access.verbs import Verb
from rota.node.api.kinds.document_kind import DocumentKind
from rota.node.api.requests.permissions import ANYONE, in_cluster
from rota.node.api.requests.request_context import RequestContext
from rota.node.facts.shared_facts import CALENDARS as KIND
from rota.wire.bodies.calendar_bodies import calendar_of, problems_of_calendar
from rota.wire.documents import CalendarBody


def problems_of(name: str, body: CalendarBody) -> list[Problem]:
    """Return the errors of a calendar."""
    problems = list(problems_of_calendar(body))
    problems += [
        Problem(f"/blackoutOf/{number}", f"{in_quotes(namespace)} is not a name: {NAME_RULE}")
        for number, namespace in enumerate(body.blackout_of)
        if namespace != EVERYWHERE and not is_name(namespace)
    ]
    return problems


def _dangling(request: RequestContext, body: CalendarBody, _before: object) -> Sequence[Problem]:
    """Return the errors about the calendars that a new one names."""
    calendars = request.node.facts.present().calendars
    name = request.http.match_info["document"]
    problems = [
        Problem(f"/{field}/{number}", missing_calendar(calendars, each))
        for field, names in (("includes", body.includes), ("excludes", body.excludes))
        for number, each in enumerate(names)
        if each not in calendars and each != name
    ]
    if problems or any(True for _ in problems_of_calendar(body)):
        return problems
    path = circle_of({**calendars, name: calendar_of(name, 1, body)}, name)
    if path:
        what = "is part of itself" if path[-1] == name else f"has more than {DEPTH_MAX} levels"
        return [Problem("/includes", f"the calendar {what}: {' > '.join(path)}")]
    return []


def missing_calendar(calendars: Calendars, name: str) -> str:
    """Return what is wrong with the name of a calendar that does not exist."""
    hint = did_you_mean(name, list(calendars))
    otherwise = "`rota get calendars` lists their names"
    return f"there is no calendar {in_quotes(name)}; {hint or otherwise}"


CALENDARS = DocumentKind(
    plural=KIND,
    singular="calendar",
    title="Calendars",
    about="calendar",
    not_found_code="calendar_not_found",
    invalid_code="invalid_calendar",
    body=CalendarBody,
    reading=ANYONE,
    writing=in_cluster(Verb.ADMIN),
    problems_of=problems_of,
    dangling=_dangling,
)
