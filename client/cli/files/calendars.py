"""``rota calendars``: imports of iCalendar files, and of the holidays of countries."""

from collections.abc import Callable, Mapping
from datetime import date
from pathlib import Path
from typing import Any, TypeVar

import click

from rota.client.cli.display.printing import one_line, out, say, visible_yaml
from rota.client.cli.human import now
from rota.client.cli.inputs.options import connect, examples, url_option
from rota.core.model.ids import NAME_RULE, is_name
from rota.core.timing.instants import to_datetime
from rota.core.timing.schedule import is_zone, unknown_zone

EX_DIFFERENT = 8
IMPORTED = ("dates", "names", "windows", "source")
"""The fields that an import replaces as a whole; others of the document on the node stay."""
F = TypeVar("F", bound=Callable[..., Any])  # Any: options apply to any command
Definition = dict[str, Any]
"""The definition of a calendar: JSON."""


@click.group(
    epilog=examples(
        "rota calendars import bank.ics --name bank",
        "rota calendars import-holidays DE --years 2027-2029 --name germany",
    )
)
def calendars() -> None:
    """Import calendars; `rota get calendars` lists those of the node."""


def _as_name(ctx: click.Context, param: click.Parameter, text: str) -> str:
    if not is_name(text):
        raise click.BadParameter(f"{text!r} is not a name: {NAME_RULE}", ctx, param)
    return text


def _as_zone(ctx: click.Context, param: click.Parameter, text: str) -> str:
    if text and not is_zone(text):
        raise click.BadParameter(unknown_zone(text).detail, ctx, param)
    return text


def _as_day(ctx: click.Context, param: click.Parameter, text: str | None) -> date | None:
    try:
        return None if text is None else date.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is no date; write 2028-12-31", ctx, param) from None


def _as_years(ctx: click.Context, param: click.Parameter, text: str) -> range:
    from rota.client.imports.country_holidays import YEARS_MAX

    first, _, last = text.partition("-")
    ends = (first, last or first)
    if not all(len(each) == 4 and each.isascii() and each.isdigit() for each in ends):
        raise click.BadParameter(f"{text!r} is no range of years; write 2027-2029", ctx, param)
    years = range(int(ends[0]), int(ends[1]) + 1)
    if not 1 <= len(years) <= YEARS_MAX:
        raise click.BadParameter(f"{text} has to have 1 to {YEARS_MAX} years", ctx, param)
    return years


def _delivery_options(command: F) -> F:
    for option in (
        url_option,
        click.option("--dry-run", "is_dry", is_flag=True, help="Show how the node's days change."),
        click.option("--save", "is_saving", is_flag=True, help="Save the calendar on the node."),
        click.option("-o", "--output", "target", metavar="FILE", help="File for the document."),
        click.option(
            "--name", required=True, callback=_as_name, help="Name of the calendar.", metavar="NAME"
        ),
    ):
        command = option(command)
    return command


@calendars.command(
    "import",
    short_help="Convert an iCalendar file to a calendar.",
    epilog=examples(
        "rota calendars import bank.ics --name bank -o bank.yaml",
        "rota calendars import bank.ics --name bank --dry-run",
        "rota calendars import bank.ics --name bank --save",
    ),
)
@click.argument("file", metavar="FILE")
@click.option(
    "--until",
    metavar="DATE",
    callback=_as_day,
    help="Last day of rules without an end.  [default: the end of the year after next]",
)
@click.option(
    "--timezone", metavar="ZONE", default="", callback=_as_zone, help="Zone of the calendar."
)
@_delivery_options
def import_file(
    file: str,
    *,
    until: date | None,
    timezone: str,
    name: str,
    target: str | None,
    is_saving: bool,
    is_dry: bool,
) -> int:
    """Convert an iCalendar file (.ics) to a calendar; - is standard input.

    Events of whole days are dates. Events with times are windows if they repeat on weekdays without
    an end; others are lost, and reported line by line. The document is printed for `rota apply -f`
    unless it is saved. With --dry-run, the days that go and come are shown. The exit status is 8 if
    something is lost, or if the days of a dry run differ.
    """
    from rota.client.cli.jobs.imports import source_of
    from rota.client.imports.ical import imported_calendar

    today = to_datetime(now()).date()
    found = imported_calendar(
        source_of(file),
        today=today,
        until=until or date(today.year + 2, 12, 31),
        timezone=timezone,
    )
    for note in found.report:
        line = f"{note.file}:{note.line}: {note.effect}: {note.what}; {note.remedy}"
        say(one_line(line))
    status = _deliver(name, found.definition, target, is_saving=is_saving, is_dry=is_dry)
    return status if found.is_whole else EX_DIFFERENT


@calendars.command(
    "import-holidays",
    short_help="Make a calendar of public holidays.",
    epilog=examples(
        "rota calendars import-holidays DE --subdivision BY --years 2027-2029 --name bavaria",
        "rota calendars import-holidays US --years 2027 --name us --save",
        "rota calendars import-holidays US --years 2027 --name us --dry-run",
    ),
)
@click.argument("country", metavar="COUNTRY")
@click.option("--subdivision", metavar="CODE", default="", help="Code of a state or region.")
@click.option(
    "--years", metavar="YEARS", required=True, callback=_as_years, help="Such as 2027-2029."
)
@_delivery_options
def import_holidays(
    country: str,
    *,
    subdivision: str,
    years: range,
    name: str,
    target: str | None,
    is_saving: bool,
    is_dry: bool,
) -> int:
    """Make a calendar of the public holidays of a country, such as DE.

    The days are those of the Python package holidays, and stay as they are when it is upgraded;
    `source` in the document has its version. With --dry-run, the days that go and come are shown;
    the exit status is 8 if there are some.
    """
    from rota.client.imports.country_holidays import NoLibrary, holiday_calendar

    try:
        definition = holiday_calendar(country, subdivision, years)
    except NoLibrary as error:
        raise click.UsageError(
            "the command needs the package holidays, which is not installed; run "
            "pip install 'rota[calendars]'"
        ) from error
    return _deliver(name, definition, target, is_saving=is_saving, is_dry=is_dry)


def _deliver(
    name: str, definition: Definition, target: str | None, *, is_saving: bool, is_dry: bool
) -> int:
    """Print a calendar, write it to a file, save it, or compare it; return the exit status."""
    from rota.client.definitions import yaml_text

    if is_dry or is_saving:
        return _save(name, definition, is_dry=is_dry)
    document = {"kind": "calendar", "name": name, "definition": definition}
    if target is not None:
        Path(target).write_text(yaml_text(document), encoding="utf-8")
    else:
        out(visible_yaml(lambda is_unicode: yaml_text(document, allow_unicode=is_unicode)), end="")
    return 0


def _save(name: str, definition: Definition, *, is_dry: bool) -> int:
    from rota.client.cli.documents.given_documents import Given, document_before

    with connect() as client:
        before = document_before(client, Given("calendars", name, definition, ""))
        old: Mapping[str, Any] = before.definition if before else {}  # Any: JSON.
        kept = {field: value for field, value in old.items() if field not in IMPORTED}
        # A description that is there is a person's.
        own = {field: old[field] for field in ("description",) if old.get(field)}
        whole = {**kept, **definition, **own}
        client.put_document("calendars", name, whole, dry_run=is_dry)
    for line in changed_days(old, whole):
        out(one_line(line))
    is_same = dict(old) == whole
    if is_dry:
        say("the calendar is the same" if is_same else "nothing was changed: this was a dry run")
        return 0 if is_same else EX_DIFFERENT
    say(f"{'unchanged' if is_same else 'saved'} calendar {name}")
    return 0


def changed_days(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Return a line for each day that goes (``-``) or comes (``+``), and for another source."""
    from rota.client.imports.calendar_days import days_of

    old, new = days_of(before), days_of(after)
    sources = [str(each.get("source") or "") for each in (before, after)]
    lines = [
        f"{sign} source {source}"
        for sign, source in zip("-+", sources, strict=True)
        if source and sources[0] != sources[1]
    ]
    for day in sorted(old.keys() ^ new.keys()):
        sign, name = ("-", old[day]) if day in old else ("+", new[day])
        lines.append(f"{sign} {day} {name}".rstrip())
    return lines
