"""``rota validate``, ``plan`` and ``apply`` of files with jobs and documents."""

import sys
from pathlib import Path
from typing import Any

import pytest

from rota.client.cli.files import plan
from rota.client.cli.files.given_files import given_in
from rota.client.cli.inputs.files import Item
from rota.client.client import Client
from support.rota_program import Rota, on_terminal
from support.rotad import Rotad

TYPE = """
kind: type
name: {name}
definition:
  parameters: {{properties: {{width: {{type: integer}}}}}}
  template: {{command: "true"}}
"""


def written(folder: Path, *texts: str) -> str:
    """Return the path of a new file with *texts*, each a document."""
    file = folder / "given.yaml"
    file.write_text("---\n".join(texts))
    return str(file)


# -- validate --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('name: a\ncommand: x\nschedule: "61 * * * *"', ':3: /schedule: "61 * * * *" has minute'),
        ("name: a\ncommand: x\nretrys: 3", ":3: /retrys: unknown field 'retrys'; did you mean"),
        ("name: a\n---\n- name: b\n  command: x\n- {name: c, command: x,\n   timeout: 1parsec}",
         ":6: /timeout: "),
        ("name: a\ncommand: x\nretries:\n  limit: 99999999999999999999", ":3: /retries: 9999"),
        ("command: x", ":1: /name: the job has no name; give it one"),
        ("command: x\nnme: a", ":2: /nme: unknown field 'nme'; did you mean 'name'?"),
        ("retrys: 3\nnme: a", ":1: /retrys: unknown field 'retrys'; did you mean 'retries'?"),
        ("{name: a, command: x}\n---\nname: a\ncommand: y", ":3: /name: there is a job default/a "),
        ("kind: tipe\nname: x", ":1: 'tipe' is not a kind of documents (did you mean 'type'?)"),
        ("kind: role\nname: x\ndefinition:\n  verbz: []", ":4: /definition/verbz: unknown field"),
        ("kind: role\nname: x y\ndefinition: {verbs: [run]}", ":2: /name: 'x y' is not a name"),
        (TYPE.format(name="t").replace('"true"', '"true", retries: -1'),
         ":6: /definition/template/retries: -1 is out of range"),
        (TYPE.format(name="t") + "---\nname: a\ntype: t\nparameters: {width: x}",
         ":10: /parameters/width: "),
        ("a: [", ":1: "),
        ("- x", ": 'x' is not a job"),
    ],
)  # fmt: skip
def test_an_error_has_the_line_and_the_field_of_its_file(
    text: str, said: str, rota_alone: Rota, tmp_path: Path
) -> None:
    file = written(tmp_path, text)

    checked = rota_alone("validate", "-f", file)

    assert checked.status == 9
    assert f"{file}{said}" in checked.out


def test_all_errors_of_all_files_are_listed(rota_alone: Rota, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("{name: a, command: x, retries: -1, priority: 101}")
    (tmp_path / "b.yaml").write_text("a: [")
    (tmp_path / "c.yaml").write_text("{name: c, command: x}")

    as_text = rota_alone("validate", "-f", str(tmp_path))
    as_json = rota_alone("validate", "-f", str(tmp_path), "-o", "json")

    assert as_text.err == "2 documents in 3 files: 3 errors\n"
    assert {each["pointer"] for each in as_json.json} == {"/retries", "/priority", ""}
    assert {Path(each["file"]).name for each in as_json.json} == {"a.yaml", "b.yaml"}


def test_valid_files_need_no_node(rota_alone: Rota, tmp_path: Path) -> None:
    job = "{name: a, type: t, parameters: {width: 3}}\n"
    of_the_cluster = "{name: b, type: unknown, command: x, dependencies: [there]}\n"
    file = written(tmp_path, TYPE.format(name="t"), job, of_the_cluster)

    checked = rota_alone("validate", "-f", file)

    assert (checked.status, checked.out) == (0, "")
    assert checked.err == "3 documents in 1 file: valid\n"


def test_without_the_packages_of_a_node_the_error_has_the_command_that_installs_them(
    rota_alone: Rota, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jsonschema_rs", None)
    for name in ("job_bodies", "job_templates", "flow_bodies", "parameter_schema"):
        monkeypatch.delitem(sys.modules, f"rota.wire.bodies.{name}", raising=False)

    refused = rota_alone("validate", "-f", written(tmp_path, "{name: a, command: x}"))

    assert refused.status == 2
    assert "needs the package jsonschema_rs" in refused.err
    assert "pip install 'rota[node]'" in refused.err


# -- jobs and documents in one folder --------------------------------------------------------------


def test_documents_are_applied_before_the_jobs_that_need_them(rota: Rota, tmp_path: Path) -> None:
    job = "{name: both, type: both.type, parameters: {width: 3}, labels: {both: x}}\n"
    file = written(tmp_path, job, TYPE.format(name="both.type"))

    planned = rota("plan", "-f", file)
    tried = rota("apply", "-f", file, "--dry-run")
    applied = rota("apply", "-f", file)
    again = rota("apply", "-f", file, "-o", "json")
    same = rota("plan", "-f", file)

    assert (planned.status, tried.status, applied.status, same.status) == (8, 0, 0, 0)
    assert "create     job default/both  (checked only after the documents" in planned.out
    assert "2 to create, 0 to replace, 0 to delete, 0 unchanged" in planned.out
    assert [line.split() for line in applied.out.splitlines() if "created" in line] == [
        ["type", "both.type", "created", "1"],
        ["default/both", "created", "1", "when", "triggered"],
    ]
    assert [each["change"] for each in again.json] == ["unchanged", "unchanged"]


CIRCLE = """
kind: calendar
name: {0}-left
definition: {{includes: [{0}-right]}}
---
kind: calendar
name: {0}-right
definition: {{excludes: [{0}-left]}}
"""


@pytest.mark.parametrize("command", ["apply", "plan", "validate"])
def test_nothing_is_written_of_calendars_in_a_circle(
    rota: Rota, tmp_path: Path, command: str
) -> None:
    ran = rota(command, "-f", written(tmp_path, CIRCLE.format(command)))

    assert ran.status == 9
    assert "given.yaml" in ran.out + ran.err
    assert "the calendar is part of itself: " in ran.out + ran.err
    assert f"{command}-left" not in rota("get", "calendars", "-o", "name").out


def test_a_calendar_may_name_one_that_no_longer_names_it(rota: Rota, tmp_path: Path) -> None:
    text = "kind: calendar\nname: {}\ndefinition: {}\n"
    before = text.format("turn-a", "{includes: [turn-b]}"), text.format("turn-b", "{}")
    after = text.format("turn-a", "{}"), text.format("turn-b", "{includes: [turn-a]}")
    rota("apply", "-f", written(tmp_path, *before))

    applied = rota("apply", "-f", written(tmp_path, *after), "-o", "json")

    assert [each["change"] for each in applied.json] == ["replaced", "replaced"]


def test_nothing_is_written_if_a_job_is_refused(rota: Rota, tmp_path: Path) -> None:
    file = written(tmp_path, TYPE.format(name="unwritten"), "{name: bad, command: x, retries: -1}")

    refused = rota("apply", "-f", file)

    assert refused.status == 9
    assert rota("get", "type", "unwritten").status == 3


def test_jobs_apply_takes_documents_too(rota: Rota, tmp_path: Path) -> None:
    file = written(tmp_path, TYPE.format(name="of.jobs.apply"))

    applied = rota("jobs", "apply", "-f", file)

    assert "type of.jobs.apply  created" in applied.out


# -- plan ------------------------------------------------------------------------------------------


def planned_in(rota: Rota, *argv: str) -> dict[str, Any]:
    """Return the plan of files by name."""
    shown = rota("plan", *argv, "-o", "json")
    return {each["name"]: each for each in shown.json}


def test_a_plan_has_a_line_for_each_job_the_difference_and_the_next_fires(
    rota: Rota, tmp_path: Path
) -> None:
    rota("jobs", "create", "plan-old", "--schedule", "@daily", "--", "echo old")
    rota("jobs", "create", "plan-same", "--", "true")
    new = '{name: plan-new, schedule: "0 0 1 1 *", command: x}\n'
    old = '{name: plan-old, schedule: "@daily", command: [echo, new]}\n'
    file = written(tmp_path, new, old, "{name: plan-same, command: 'true'}\n")

    shown = rota("plan", "-f", file)
    planned = planned_in(rota, "-f", file)

    assert shown.status == 8
    lines = shown.out.splitlines()
    assert lines[0] == "create     job default/plan-new"
    assert lines[1].count("-01-01 00:00:00") == 3
    assert lines[2] == "replace    job default/plan-old"
    assert {"--- default/plan-old (version 1)", "+- new"} <= set(lines)
    assert lines[-2:] == [
        "unchanged  job default/plan-same",
        "1 to create, 1 to replace, 0 to delete, 1 unchanged",
    ]
    assert [len(each["nextFireTimes"]) for each in planned.values()] == [3, 0, 0]
    assert rota("jobs", "show", "plan-new").status == 3


def test_a_new_schedule_of_a_job_has_its_next_fires(rota: Rota, tmp_path: Path) -> None:
    rota("jobs", "create", "plan-later", "--schedule", "@daily", "--", "true")
    file = written(tmp_path, '{name: plan-later, schedule: "@yearly", command: ["true"]}')

    planned = planned_in(rota, "-f", file)["default/plan-later"]

    assert planned["change"] == "replace"
    assert all("-01-01T00:00:00" in each for each in planned["nextFireTimes"])
    assert len(planned["nextFireTimes"]) == 3


WEEK = "kind: calendar\nname: {}\ndefinition: {{dates: [{}]}}\n"


def test_a_plan_has_the_fires_of_a_job_with_the_calendars_of_the_files(
    rota: Rota, tmp_path: Path
) -> None:
    job = "{name: plan-day, schedule: '0 4 * * *', command: x, onlyCalendars: [plan-week]}\n"
    file = written(tmp_path, WEEK.format("plan-week", "12-24, 12-25"), job)

    [new] = [each for each in planned_in(rota, "-f", file).values() if each["kind"] == "job"]
    rota("apply", "-f", file)
    more = job.replace("[plan-week]", "[plan-week, plan-other]")
    file = written(tmp_path, WEEK.format("plan-other", "12-26"), more)
    [old] = [each for each in planned_in(rota, "-f", file).values() if each["kind"] == "job"]

    assert (new["change"], old["change"]) == ("create", "replace")
    assert days_of(new) == {"12-24T04", "12-25T04"}
    assert days_of(old) == {"12-24T04", "12-25T04", "12-26T04"}


def test_a_plan_of_a_calendar_has_the_fires_of_jobs_that_go_and_come(
    rota: Rota, tmp_path: Path
) -> None:
    calendar = "kind: calendar\nname: affecting\ndefinition: {{weekdays: [{}]}}\n"
    job = "{name: affected, schedule: '0 4 * * *', command: x, exceptCalendars: [affecting]}\n"
    rota("apply", "-f", written(tmp_path, calendar.format("SUN"), job))
    file = written(tmp_path, calendar.format("SAT"))

    planned = planned_in(rota, "-f", file)["default/affected"]
    shown = rota("plan", "-f", file)
    tried = rota("apply", "-f", file, "--dry-run")

    assert planned["change"] == "affect"
    assert len(planned["dropped"]) in (4, 5)  # Saturdays of 30 days
    assert len(planned["added"]) in (4, 5)
    assert "affect     job default/affected\n           goes  20" in shown.out
    assert shown.out.endswith("0 to create, 1 to replace, 0 to delete, 0 unchanged\n")
    assert "affects job default/affected\n  goes  20" in tried.err


def days_of(planned: dict[str, Any]) -> set[str]:
    """Return the days and hours of the next fires of a job."""
    return {each[5:13] for each in planned["nextFireTimes"]}


def test_a_calendar_that_names_a_new_one_is_planned_as_replaced(rota: Rota, tmp_path: Path) -> None:
    old = "kind: calendar\nname: names\ndefinition: {}\n"
    rota("apply", "-f", written(tmp_path, old))

    new = [old.replace("{}", "{includes: [named]}"), old.replace("names", "named")]
    planned = planned_in(rota, "-f", written(tmp_path, *new))

    assert {name: each["change"] for name, each in planned.items()} == {
        "names": "replace",
        "named": "create",
    }


def test_the_jobs_of_large_files_are_printed_in_one_table(rota: Rota, tmp_path: Path) -> None:
    job = "{{name: large-{}, namespace: large, command: x, labels: {{large: x}}}}\n"
    rota("apply", "-f", written(tmp_path, job.format("old")))
    file = written(tmp_path, *map(job.format, range(1_001)))

    applied = rota("apply", "-f", file, "--prune", "-l", "large=x", "--yes")
    again = rota("apply", "-f", file, "-o", "json")

    title, *rows = applied.out.splitlines()
    assert title.split() == ["JOB", "CHANGE", "VERSION", "SCHEDULE", "NEXT"]
    assert [row.split()[:2] for row in rows] == [
        *([f"large/large-{number}", "created"] for number in range(1_001)),
        ["large/large-old", "deleted"],
    ]
    assert {each["change"] for each in again.json} == {"unchanged"}


def test_a_long_plan_names_all_changes_and_shows_the_details_of_the_first(
    node: Rotad, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "DETAILS_MAX", 2)
    node.create(name="long-0", command="true")
    node.create(name="long-1", command="true")
    items = [
        Item({"name": f"long-{n}", "command": command}, "jobs.yaml", n, Path())
        for n, command in enumerate(("true", "false", "true", "true"))
    ]

    with Client(node.url) as client:
        planned = list(plan.planned_changes(client, given_in(items, None)))

    assert [each.change for each in planned] == ["unchanged", "replace", "create", "create"]
    assert [each.version for each in planned] == [1, 1, 0, 0]
    assert [bool(each.diff) for each in planned] == [False, True, True, False]
    assert [each.note for each in planned] == ["", "", "", plan.NO_DETAILS]


def test_a_plan_with_prune_shows_the_jobs_that_apply_deletes(rota: Rota, tmp_path: Path) -> None:
    kept, gone = (f"{{name: plan-{n}, command: x, labels: {{plan: x}}}}\n" for n in ("a", "b"))
    rota("apply", "-f", written(tmp_path, kept, gone))
    file = written(tmp_path, kept)

    without = rota("plan", "-f", file)
    planned = rota("plan", "-f", file, "--prune", "-l", "plan=x")
    refused = rota("plan", "-f", file, "--prune")

    assert (without.status, planned.status, refused.status) == (0, 8, 2)
    assert "delete     job default/plan-b\n" in planned.out
    assert rota("jobs", "show", "plan-b").status == 0


def test_a_dependency_on_a_new_job_is_planned(rota: Rota, tmp_path: Path) -> None:
    file = written(
        tmp_path,
        "{name: plan-2, command: x, dependencies: [plan-1]}\n",
        "{name: plan-1, command: x}\n",
    )

    planned = planned_in(rota, "-f", file)

    assert [each["change"] for each in planned.values()] == ["create", "create"]
    assert "+- default/plan-1" in planned["default/plan-2"]["diff"]


def test_a_plan_is_coloured_on_a_terminal_only(rota: Rota, tmp_path: Path) -> None:
    file = written(tmp_path, "{name: plan-coloured, command: x}")

    with on_terminal("plan", "-f", file) as terminal:
        shown = terminal.rest()

    assert "\x1b[32mcreate" in shown
    assert "\x1b" not in rota("plan", "-f", file).out
