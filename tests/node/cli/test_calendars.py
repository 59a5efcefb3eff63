"""``rota calendars``: imports, printed, saved and compared."""

from pathlib import Path

import pytest

from support.rota_program import Rota

ICS = """\
BEGIN:VCALENDAR
BEGIN:VEVENT
SUMMARY:Closed
DTSTART;VALUE=DATE:{}
END:VEVENT
END:VCALENDAR
"""
PARTY = "BEGIN:VEVENT\nDTSTART:20271224T180000Z\nEND:VEVENT\nEND:VCALENDAR\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    found = tmp_path / "days.ics"
    found.write_text(ICS.format("20271224"))
    return found


def test_an_import_is_printed_for_apply(rota: Rota, file: Path, tmp_path: Path) -> None:
    target = tmp_path / "days.yaml"

    printed = rota("calendars", "import", str(file), "--name", "days")
    written = rota("calendars", "import", str(file), "--name", "days", "-o", str(target))
    applied = rota("apply", "-f", str(target))

    assert (printed.status, written.status, applied.status) == (0, 0, 0)
    assert "kind: calendar\nname: days\n" in printed.out
    assert target.read_text() == printed.out


def test_what_is_lost_is_reported_with_its_line(rota: Rota, file: Path) -> None:
    file.write_text(ICS.format("20271224").replace("END:VCALENDAR\n", PARTY))

    ran = rota("calendars", "import", str(file), "--name", "days")

    assert ran.status == 8
    assert f"{file}:7: lost: the event 'without a summary' has times of one day" in ran.err
    assert "2027-12-24" in ran.out


def test_a_second_import_shows_and_saves_the_days_that_go_and_come(rota: Rota, file: Path) -> None:
    command = ("calendars", "import", str(file), "--name", "days-again")
    kept = file.with_suffix(".yaml")
    kept.write_text("kind: calendar\nname: days-again\ndefinition: {weekdays: [SUN]}\n")
    rota("apply", "-f", str(kept))
    rota(*command, "--save")

    same = rota(*command, "--dry-run")
    file.write_text(ICS.format("20271227"))
    other = rota(*command, "--dry-run")
    rota(*command, "--save")
    saved = rota("get", "calendar", "days-again", "-o", "json").json["definition"]

    assert (same.status, same.out) == (0, "")
    assert (other.status, other.out) == (8, "- 2027-12-24\n+ 2027-12-27\n")
    assert (saved["dates"], saved["weekdays"]) == (["2027-12-27"], ["SUN"])


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["import", "gone.ics", "--name", "x"], 9, "gone.ics: No such file"),
        (["import", "-", "--name", "a b"], 2, "'a b' is not a name"),
        (["import", "-", "--name", "x", "--until", "soon"], 2, "'soon' is no date; write 2028"),
        (["import", "-", "--name", "x", "--timezone", "Berlin"], 2, "did you mean Europe/Berlin"),
        (["import-holidays", "DE", "--name", "x", "--years", "27"], 2, "'27' is no range of years"),
        (["import-holidays", "DE", "--name", "x", "--years", "2029-2027"], 2, "1 to 50 years"),
    ],
)
def test_bad_input_is_refused_with_the_remedy(
    rota: Rota, arguments: list[str], status: int, said: str
) -> None:
    ran = rota("calendars", *arguments)

    assert ran.status == status
    assert said in ran.err
