"""``rota audit`` on a node."""

from pathlib import Path

import pytest

from rota.client import Client
from support.ledger_entries import fire_times_of
from support.rota_program import Rota
from support.rotad import Rotad


@pytest.fixture
def calendars(url: str) -> None:
    """A calendar of all days."""
    with Client(url) as client:
        client.put_document("calendars", "always", {"weekdays": ["MON-SUN"]})


@pytest.mark.usefixtures("calendars")
def test_the_ledger_of_a_node_passes_the_audit(rota: Rota, url: str, tmp_path: Path) -> None:
    file = tmp_path / "jobs.yaml"
    file.write_text(
        "{name: often, namespace: audited, schedule: '@every 200ms', command: 'true'}\n---\n"
        "{name: never, namespace: audited, schedule: '* * * * * *', command: 'true',"
        " exceptCalendars: [always]}\n---\n"
        "{name: hashed, namespace: audited, schedule: 'H * * * *', command: 'true'}\n"
    )
    rota("apply", "-f", str(file))
    fire_times_of(url, "audited/often", 8)
    rota("jobs", "set", "audited/often", "schedule=@every 300ms")
    fire_times_of(url, "audited/never", 3)
    until = fire_times_of(url, "audited/often", 14)[-2]

    found = rota("audit", "--all", "-n", "audited", "--to", until, "-o", "json")
    shown = rota("audit", "audited/often", "audited/hashed", "--to", until)

    assert found.status == 0, found.out
    assert (found.json["jobs"], found.json["faults"]) == (3, [])
    assert found.json["fireTimes"] >= 14
    # The calendar has just been changed.
    assert [(each["job"], each["schedule"]) for each in found.json["notAudited"]] == [
        ("audited/hashed", 0),
        ("audited/never", None),
    ]
    assert (shown.status, shown.out) == (0, "")
    assert "not audited: audited/hashed, schedule 0: H * * * *: hashed fields" in shown.err
    assert "of 2 jobs from" in shown.err


def test_a_fire_time_without_an_outcome_fails_the_audit(
    rota: Rota, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rota("jobs", "create", "holed", "--schedule", "@every 200ms", "--", "true")
    fires = fire_times_of(url, "holed", 6)
    read = Client.ledger

    def without_one(client: Client, *words: object, **options: object) -> object:
        entries = read(client, *words, **options)  # type: ignore[arg-type] # passed through
        return (each for each in entries if each.fire_time != fires[2])

    monkeypatch.setattr(Client, "ledger", without_one)
    found = rota("audit", "holed", "--to", fires[-1])

    rows = [line.split()[:4] for line in found.out.splitlines()[1:]]
    assert found.status == 1
    assert [row[:2] for row in rows] == [
        ["default/holed", "missing"],
        ["default/holed", "execution"],
    ]
    assert {row[3] for row in rows} == {
        fires[2][11:19] if fires[2][20:23] == "000" else fires[2][11:23]
    }


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "name jobs, or give --all"),
        (["holed", "--all"], "name jobs, or give --all"),
        (["holed", "--from", "2099-01-01"], "there is nothing to audit"),
        (["holed", "--history", "soon"], "Invalid value for '--history'"),
    ],
)
def test_wrong_usage_of_the_audit_is_refused(rota: Rota, words: list[str], message: str) -> None:
    refused = rota("audit", *words)

    assert (refused.status, message in refused.err) == (2, True)


def test_the_audit_names_its_library(rota: Rota, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "croniter", None)

    refused = rota("audit", "holed")

    assert refused.status == 2
    assert "pip install 'rota[audit]'" in refused.err


def test_a_node_that_is_unknown_to_the_audit_is_reported(rota: Rota, node: Rotad) -> None:
    del node

    assert rota("audit", "no-such-job").status == 3
