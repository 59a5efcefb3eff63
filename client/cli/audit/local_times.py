"""Local times and their instants, for the audit: from the definition, one time after another.

The audit imports nothing that decides fire times in a node, so an error there is no error here.
"""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from rota.core.timing.instants import Instant, from_datetime, to_datetime

FOLDS = (0, 1)


def shown_at(at: Instant, zone: ZoneInfo) -> datetime:
    """Return what the clock of *zone* shows at an instant, as a naive time."""
    return to_datetime(at).astimezone(zone).replace(tzinfo=None, fold=0)


def instants_of(wall: datetime, zone: ZoneInfo) -> list[Instant]:
    """Return the instants at which the clock shows *wall*: one, two in a fold, none in a gap."""
    readings = {from_datetime(wall.replace(tzinfo=zone, fold=fold)) for fold in FOLDS}
    return sorted(at for at in readings if shown_at(at, zone) == wall)


def first_instant_of(wall: datetime, zone: ZoneInfo) -> Instant:
    """Return the first instant at which the clock shows *wall* or, in a gap, the end of the gap."""
    if found := instants_of(wall, zone):
        return found[0]
    before, after = sorted(from_datetime(wall.replace(tzinfo=zone, fold=fold)) for fold in FOLDS)
    while after - before > 1:
        middle = Instant((before + after) // 2)
        if shown_at(middle, zone) < wall:
            before = middle
        else:
            after = middle
    return after


def hours_around(at: Instant, zone: ZoneInfo) -> timedelta:
    """Return by how much the clock of *zone* is changed within a day of *at*; usually nothing."""
    moment = to_datetime(at)
    days = (moment + timedelta(days=day) for day in (-1, 0, 1) if moment.year > 1970)
    offsets = [each.astimezone(zone).utcoffset() or timedelta() for each in days]
    return max(offsets) - min(offsets) if offsets else timedelta(days=1)


def instant_in(text: str, zone: ZoneInfo) -> Instant:
    """Return the instant that *text* is, or that it is as a local time of *zone*."""
    moment = datetime.fromisoformat(text.upper())
    if moment.tzinfo is not None:
        return from_datetime(moment.astimezone(UTC))
    return first_instant_of(moment, zone)
