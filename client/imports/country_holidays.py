"""Public holidays of a country as a calendar: the data of the library holidays, pinned."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import msgspec

from rota.client.definitions import InvalidFile
from rota.client.imports.calendar_days import BYTES_MAX, check_size, dates_of

YEARS_MAX = 50
"""The most years of one calendar."""


class NoLibrary(Exception):
    """The library holidays is not installed."""


def holiday_calendar(country: str, subdivision: str, years: range) -> dict[str, Any]:  # Any: JSON.
    """Return the definition of the calendar of a country's holidays.

    Its ``source`` names the library with its version, the country and the years. The names of the
    holidays are left out if the document has no room for them.

    Raises:
        NoLibrary: The library is not installed.
        InvalidFile: It does not know the country or its subdivision; or the calendar is too large.
    """
    library = _library()
    place = f"{country}-{subdivision}" if subdivision else country
    try:
        found: Mapping[Any, str] = library.country_holidays(  # Any: dates; it is not typed for us.
            country, subdiv=subdivision or None, years=list(years)
        )
    except NotImplementedError as error:
        detail = f"{place}: {str(error).rstrip('.')}; {_remedy(library, country)}"
        raise InvalidFile(detail) from None
    if not found:
        raise InvalidFile(f"{place}: there are no holidays in these years; choose others")
    span = str(years[0]) if len(years) == 1 else f"{years[0]}-{years[-1]}"
    definition: dict[str, Any] = {
        "description": f"public holidays of {place}",
        "source": f"holidays {library.__version__} {place} {span}",
        "dates": dates_of(found),
    }
    names = {day.isoformat(): found[day][:1000] for day in sorted(found)}
    with_names = {**definition, "names": names}
    whole = with_names if len(msgspec.json.encode(with_names)) <= BYTES_MAX else definition
    check_size(whole, place, "choose fewer years")
    return whole


def _library() -> Any:  # Any: the library is optional.
    try:
        return import_module("holidays")
    except ImportError:
        raise NoLibrary from None


def _remedy(library: Any, country: str) -> str:  # Any: as above.
    supported: Mapping[str, list[str]] = library.list_supported_countries()
    if country not in supported:
        return "give a code of ISO 3166, such as DE, in capitals"
    if not supported[country]:
        return "leave out --subdivision: the package has none of this country"
    return f"choose one of {', '.join(supported[country])}"
