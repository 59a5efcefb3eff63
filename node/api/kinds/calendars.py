"""Calendars: sets of local times that exclude fire times of jobs."""

from collections.abc import Iterable, Sequence, Set

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
from rota.wire.documents import CalendarBody, NewCalendar


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
    present = request.node.facts.present().calendars
    name = request.http.match_info["document"]
    problems = _missing_in(body, present.keys() | {name}, present)
    if problems or any(True for _ in problems_of_calendar(body)):
        return problems
    return _circles({**present, name: calendar_of(name, 1, body)}, name)


def problems_together(present: Calendars, given: Sequence[NewCalendar]) -> Sequence[Problem]:
    """Return the errors of calendars that would be saved together, with pointers of a preview."""
    names = present.keys() | {each.name for each in given}
    problems = [
        problem
        for number, each in enumerate(given)
        for problem in _below(
            number,
            [
                *problems_of(each.name, each.definition),
                *_missing_in(each.definition, names, present),
            ],
        )
    ]
    problems += [
        Problem(f"/calendars/{number}/name", f"{in_quotes(each.name)} is not a name: {NAME_RULE}")
        for number, each in enumerate(given)
        if not is_name(each.name)
    ]
    if problems:
        return problems
    new = {each.name: calendar_of(each.name, 1, each.definition) for each in given}
    whole = {**present, **new}
    return [
        problem
        for number, each in enumerate(given)
        for problem in _below(number, _circles(whole, each.name))
    ]


def _below(number: int, problems: Iterable[Problem]) -> list[Problem]:
    pointer = f"/calendars/{number}/definition"
    return [Problem(f"{pointer}{each.pointer}", each.detail) for each in problems]


def _missing_in(body: CalendarBody, names: Set[str], present: Calendars) -> list[Problem]:
    return [
        Problem(f"/{field}/{number}", missing_calendar(present, each))
        for field, named in (("includes", body.includes), ("excludes", body.excludes))
        for number, each in enumerate(named)
        if each not in names
    ]


def _circles(calendars: Calendars, name: str) -> list[Problem]:
    path = circle_of(calendars, name)
    if not path:
        return []
    what = "is part of itself" if path[-1] == name else f"has more than {DEPTH_MAX} levels"
    return [Problem("/includes", f"the calendar {what}: {' > '.join(path)}")]


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
