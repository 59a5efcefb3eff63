"""Days as the ``dates`` of a calendar, within the limits of its document."""

from collections.abc import Collection, Iterable, Mapping
from datetime import date
from itertools import groupby
from typing import Any

import msgspec

from rota.client.definitions import InvalidFile

DATES_MAX = 5_000
"""The most entries of ``dates``, as for a node."""
BYTES_MAX = 64 * 1024
"""The most bytes of a definition, as for a node."""


def dates_of(days: Iterable[date], yearly: Collection[str] = ()) -> list[str]:
    """Return days as ``dates``: those of each year first; several days in a row are a range.

    Args:
        days: The days.
        yearly: Days of each year, such as ``12-24``; others that fall on them are left out.
    """
    ordinals = sorted({day.toordinal() for day in days if f"{day:%m-%d}" not in yearly})
    rows = groupby(enumerate(ordinals), key=lambda pair: pair[1] - pair[0])
    return [*sorted(yearly), *(_range([day for _, day in row]) for _, row in rows)]


def _range(row: list[int]) -> str:
    first, last = (date.fromordinal(day).isoformat() for day in (row[0], row[-1]))
    return first if first == last else f"{first}..{last}"


def days_of(definition: Mapping[str, Any]) -> dict[str, str]:
    """Return the single days of a definition's ``dates``, each with its name or an empty text.

    Any: JSON, which was checked.
    """
    named: Mapping[str, str] = definition.get("names") or {}
    found: dict[str, str] = {}
    dates: list[str] = definition.get("dates") or []
    for each in dates:
        first, _, last = each.partition("..")
        if not last:
            found[first] = named.get(first, "")
            continue
        ends = (date.fromisoformat(end).toordinal() for end in (first, last))
        begin, end = ends
        for ordinal in range(begin, end + 1):
            day = date.fromordinal(ordinal).isoformat()
            found[day] = named.get(day, "")
    return found


def check_size(definition: Mapping[str, Any], place: str, remedy: str) -> None:
    """Check that a definition has the size of a calendar.

    Raises:
        InvalidFile: It is too large.
    """
    count = len(definition.get("dates") or ())
    size = len(msgspec.json.encode(definition))
    if count > DATES_MAX:
        limit = f"the calendar has {count:,} dates and ranges, and may have {DATES_MAX:,}"
    elif size > BYTES_MAX:
        limit = f"the calendar has {size:,} bytes, and may have {BYTES_MAX:,}"
    else:
        return
    raise InvalidFile(f"{place}: {limit}; {remedy}")
