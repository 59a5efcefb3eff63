"""Public holidays of countries as calendars."""

import sys
from datetime import date
from types import ModuleType

import msgspec
import pytest

from rota.client.cli.files.calendars import changed_days
from rota.client.definitions import InvalidFile
from rota.client.imports import country_holidays as country_holidays_module
from rota.client.imports.country_holidays import NoLibrary, holiday_calendar
from rota.wire.bodies.calendar_bodies import problems_of_calendar
from rota.wire.documents import CalendarBody

SUPPORTED = {"DE": ["BY", "SN"], "FR": []}


def country_holidays(country: str, *, subdiv: str | None, years: list[int]) -> dict[date, str]:
    """Return holidays as the package does; it is no requirement of the tests."""
    if country not in SUPPORTED or (subdiv and subdiv not in SUPPORTED[country]):
        raise NotImplementedError(f"{country} {subdiv or ''} not available.")
    found = {date(year, 12, day): f"Christmas {day}" for year in years for day in (26, 25)}
    return found | ({date(year, 1, 6): "Epiphany" for year in years} if subdiv else {})


@pytest.fixture(autouse=True)
def library(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in = ModuleType("holidays")
    stand_in.__dict__.update(
        __version__="0.109",
        country_holidays=country_holidays,
        list_supported_countries=lambda: SUPPORTED,
    )
    monkeypatch.setitem(sys.modules, "holidays", stand_in)


def test_the_library_and_its_version_are_in_the_document() -> None:
    found = holiday_calendar("DE", "BY", range(2027, 2029))

    assert found == {
        "description": "public holidays of DE-BY",
        "source": "holidays 0.109 DE-BY 2027-2028",
        "dates": ["2027-01-06", "2027-12-25..2027-12-26", "2028-01-06", "2028-12-25..2028-12-26"],
        "names": {
            "2027-01-06": "Epiphany",
            "2027-12-25": "Christmas 25",
            "2027-12-26": "Christmas 26",
            "2028-01-06": "Epiphany",
            "2028-12-25": "Christmas 25",
            "2028-12-26": "Christmas 26",
        },
    }
    assert not list(problems_of_calendar(msgspec.convert(found, CalendarBody)))


def test_names_without_room_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(country_holidays_module, "BYTES_MAX", 150)

    found = holiday_calendar("DE", "", range(2027, 2028))

    assert found.keys() == {"description", "source", "dates"}
    assert found["source"] == "holidays 0.109 DE 2027"


def test_the_package_itself_has_this_interface(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "holidays")
    pytest.importorskip("holidays")

    found = holiday_calendar("DE", "BY", range(2027, 2028))

    assert "2027-01-06" in found["dates"]
    with pytest.raises(InvalidFile, match=r"^DE-XX: .*; choose one of BB, BE, BW, BY"):
        holiday_calendar("DE", "XX", range(2027, 2028))


@pytest.mark.parametrize(
    ("country", "subdivision", "reason"),
    [
        ("XX", "", "^XX: .*XX.*; give a code of ISO 3166, such as DE, in capitals$"),
        ("DE", "XX", "^DE-XX: .*XX not available; choose one of BY, SN$"),
        ("FR", "XX", "^FR-XX: .*; leave out --subdivision"),
    ],
)
def test_an_unknown_place_is_refused(country: str, subdivision: str, reason: str) -> None:
    with pytest.raises(InvalidFile, match=reason):
        holiday_calendar(country, subdivision, range(2027, 2028))


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "holidays", None)

    with pytest.raises(NoLibrary):
        holiday_calendar("DE", "", range(2027, 2028))


def test_changed_days_have_names_and_sources() -> None:
    before = {"source": "old", "dates": ["2027-01-01..2027-01-02", "12-24"]}
    names = {"2027-01-03": "Third"}
    after = {"source": "new", "dates": ["2027-01-01", "12-24", "2027-01-03"], "names": names}

    assert changed_days(before, after) == [
        "- source old",
        "+ source new",
        "- 2027-01-02",
        "+ 2027-01-03 Third",
    ]
    assert changed_days(after, after) == []
