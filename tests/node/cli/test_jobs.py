"""``rota jobs`` against a node: printed text, documents, exit statuses."""

import json
import re
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import yaml

from rota.client.cli.display.show import as_yaml
from support.rota_program import Rota, on_terminal

EXAMPLES = Path(__file__).parents[3] / "examples"


def test_a_created_job_is_listed_and_shown(rota: Rota) -> None:
    created = rota(
        *("jobs", "create", "listed", "--schedule", "0 6 * * 1-5", "--schedule", "@daily"),
        *("--timezone", "Europe/Berlin", "--label", "team=core", "--env", "A=b=c"),
        *("--retries", "2", "--timeout", "90", "--overlap", "skip", "--", "echo", "-n", "hi"),
    )
    listed = rota("jobs", "-q", "listed", "-o", "json")
    shown = rota("jobs", "show", "listed")

    assert created.status == 0
    titles, row = created.out.splitlines()
    assert titles.split() == ["JOB", "STATUS", "SCHEDULE", "NEXT", "TASKS"]
    assert re.match(r"default/listed +scheduled +0 6 \* \* 1-5 \(Europe/Berlin\), @daily", row)
    [job] = listed.json
    assert job["labels"] == {"team": "core"}
    assert job["overlap"] == "skip"
    assert job["tasks"][0]["command"] == ["echo", "-n", "hi"]
    assert (job["tasks"][0]["retries"], job["tasks"][0]["timeout"]) == (2, "1m30s")
    assert "team=core" in shown.out
    assert "echo -n hi" in shown.out


def test_fields_of_a_job_have_the_names_and_forms_of_its_definition(
    rota: Rota, tmp_path: Path
) -> None:
    (tmp_path / "job.yaml").write_text(
        "name: same-names\n"
        "grace: 1m30s\n"
        "schedules: [{schedule: 0 0 13 * FRI, dayOr: false}]\n"
        "tasks: [{name: only, command: 'true', timeout: 2h, limits: {memory: 512MiB}}]\n"
    )
    rota("jobs", "create", "-f", str(tmp_path / "job.yaml"))

    job = yaml.safe_load(rota("jobs", "show", "same-names", "-o", "yaml").out)
    [listed] = rota("jobs", "-q", "same-names", "-o", "json").json

    [schedule], [task] = listed["schedules"], listed["tasks"]
    assert (listed["grace"], schedule["dayOr"]) == ("1m30s", False)
    assert (task["timeout"], task["limits"]["memory"]) == ("2h", "512MiB")
    assert job["grace"] == job["definition"]["grace"] == "1m30s"
    assert job["tasks"][0]["timeout"] == job["definition"]["tasks"][0]["timeout"] == "2h"


def test_schedules_that_are_set_replace_the_schedule(rota: Rota) -> None:
    rota("jobs", "create", "retimed", "--schedule", "@daily", "--", "true")

    rota("jobs", "set", "retimed", "schedules=['@hourly', '@weekly']")
    several = rota("jobs", "show", "retimed", "-o", "json").json["schedules"]
    rota("jobs", "set", "retimed", "schedule=@yearly")
    one = rota("jobs", "show", "retimed", "-o", "json").json["schedules"]

    assert [each["schedule"] for each in several] == ["@hourly", "@weekly"]
    assert [each["schedule"] for each in one] == ["@yearly"]


def test_a_shown_job_has_its_events_and_the_fields_of_its_schedules(
    rota: Rota, tmp_path: Path
) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(
        """\
name: on-events
command: "true"
schedules: ["@daily", {schedule: "@hourly", jitter: 5m, maxExecutions: 3, overlap: skip}]
triggers: [{event: sold}, {event: returned, when: event.data}]
"""
    )
    rota("apply", "-f", str(file))

    shown = rota("jobs", "show", "on-events").out
    listed = rota("jobs", "list", "-o", "wide").out

    assert "schedule 1: overlap skip, jitter 5m, maxExecutions 3" in shown
    assert "@daily, @hourly, on sold or returned" in shown
    assert "on sold or returned" in listed


def test_a_shown_job_has_the_outcomes_of_its_newest_executions(rota: Rota) -> None:
    rota("jobs", "create", "recent", "--", 'test "$ROTA_PARAMETERS" != 1')
    before = rota("jobs", "show", "recent").out
    for parameters in ("0", "1", "1"):
        rota("trigger", "recent", "--parameters", parameters, "--wait")

    shown = rota("jobs", "show", "recent").out

    assert "recent  " not in before
    assert re.search(
        r"^recent +1 success, 2 failed of the newest 3; "
        r"last success \d{4}-\S+ \S+ UTC; 2 failures in a row$",
        shown,
        re.MULTILINE,
    )


def test_a_single_word_of_command_is_a_line_for_the_shell(rota: Rota) -> None:
    rota("jobs", "create", "shell", "--", "echo a | tr a b")

    ran = rota("trigger", "shell", "--wait", "-o", "json")

    assert ran.json["tasks"]["main"]["attempts"][0]["outcome"] == "success"
    assert rota("output", ran.json["executionId"]).out == "b\n"


def test_creating_the_same_job_again_is_fine_and_another_is_a_conflict(rota: Rota) -> None:
    rota("jobs", "create", "twice", "--", "true")

    same = rota("jobs", "create", "twice", "--", "true")
    other = rota("jobs", "create", "twice", "--", "false")

    assert same.status == 0
    assert other.status == 5
    assert other.err.startswith("error: there is already a job 'default/twice'")


def test_jobs_in_other_namespaces_are_named_with_them(rota: Rota) -> None:
    rota("jobs", "create", "spaced", "-n", "billing", "--", "true")

    assert rota("jobs", "show", "spaced").status == 3
    assert rota("jobs", "show", "billing/spaced", "-o", "name").out == "billing/spaced\n"
    assert rota("jobs", "show", "spaced", "-n", "billing", "-o", "name").out == "billing/spaced\n"
    assert rota("jobs", "list", "-n", "billing", "-o", "name").out == "billing/spaced\n"


def test_each_invalid_field_is_reported_on_its_own_line(rota: Rota) -> None:
    refused = rota(
        "jobs", "create", "wrong", "--schedule", "61 * * * *", "--retries", "-1", "--", "true"
    )

    assert refused.status == 9
    assert refused.out == ""
    heading, *fields = refused.err.splitlines()
    assert heading == "error: invalid input"
    assert {field.split(":")[0].strip() for field in fields} == {"/schedules/0", "/retries"}


@pytest.mark.parametrize("command", ["create", "apply", "diff"])
def test_all_invalid_fields_of_a_file_are_reported_with_its_name(
    rota: Rota, tmp_path: Path, command: str
) -> None:
    file = tmp_path / "types.yaml"
    file.write_text("{name: types, comand: x, retries: three, tasks: [{name: 1}, {nmae: a}]}")

    refused = rota("jobs", command, "-f", str(file))

    assert (refused.status, refused.out) == (9, "")
    heading, *fields = refused.err.splitlines()
    assert heading == f"error: invalid input in {file}"
    assert [field.split(":")[0].strip() for field in fields] == [
        *("/comand", "/retries", "/tasks/0/name", "/tasks/1/nmae", "/tasks/1/name")
    ]


def test_jobs_are_created_from_files(rota: Rota, tmp_path: Path) -> None:
    file = tmp_path / "jobs.yaml"
    file.write_text("name: from-file-1\ncommand: 'true'\n---\nname: from-file-2\ncommand: 'true'\n")

    created = rota("jobs", "create", "-f", str(file), "-o", "name")

    assert created.out.split() == ["default/from-file-1", "default/from-file-2"]


def test_a_job_is_applied_again_and_again(rota: Rota, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("name: applied\ncommand: echo one\n")
    rota("jobs", "apply", "-f", str(file))
    file.write_text("name: applied\ncommand: echo two\n")

    changed = rota("jobs", "apply", "-f", str(file), "-o", "json")
    same = rota("jobs", "apply", "-f", str(file), "-o", "json")

    assert [json.loads(each.out)[0]["version"] for each in (changed, same)] == [2, 2]
    assert "echo two" in rota("jobs", "show", "applied").out


def test_a_job_is_paused_and_resumed(rota: Rota) -> None:
    rota("jobs", "create", "restless", "--schedule", "@hourly", "--", "true")

    paused = rota("jobs", "pause", "restless", "--reason", "moving house")
    shown = rota("jobs", "show", "restless")
    resumed = rota("jobs", "resume", "restless")

    assert (paused.status, paused.err) == (0, "paused restless\n")
    assert "by operator: moving house" in shown.out
    assert resumed.err == "resumed restless\n"
    assert "moving house" not in rota("jobs", "show", "restless").out
    assert rota("jobs", "pause", "absent").status == 3


def test_of_several_jobs_the_refused_one_is_named_and_the_others_are_created(
    rota: Rota, tmp_path: Path
) -> None:
    file = tmp_path / "jobs.json"
    file.write_text(
        '[{"name": "one-good", "command": "true"}, {"name": "one-bad"},'
        ' {"name": "two-good", "command": "true"}]'
    )

    created = rota("jobs", "create", "-f", str(file), "-o", "name")

    assert created.status == 9
    refused = f"job 'one-bad' is refused:\nerror: invalid input in {file}\n  /tasks: "
    assert created.err.startswith(refused)
    assert created.out == "default/one-good\ndefault/two-good\n"


def test_more_jobs_than_one_request_takes_are_created(rota: Rota, tmp_path: Path) -> None:
    file = tmp_path / "jobs.json"
    jobs = [{"name": f"many-{n}", "namespace": "many", "command": "true"} for n in range(1_050)]
    file.write_text(json.dumps(jobs))

    created = rota("jobs", "create", "-f", str(file), "-o", "json")

    assert [item["job"] for item in created.json] == [f"many/many-{n}" for n in range(1_050)]
    assert {item["status"] for item in created.json} == {201}
    assert created.err == ""
    with on_terminal("jobs", "create", "-f", str(file)) as terminal:
        assert "created 1000 of 1050\rcreated 1050 of 1050" in terminal.rest()


def test_jobs_may_depend_on_those_before_them_in_the_file(rota: Rota, tmp_path: Path) -> None:
    file = tmp_path / "jobs.json"
    jobs: list[dict[str, Any]] = [
        {"name": f"chain-{n}", "namespace": "chain", "command": "true"} for n in range(4)
    ]
    jobs[2] |= {"dependencies": ["chain-1"]}
    jobs[3] |= {"dependencies": ["chain/chain-2", "chain-0"]}
    file.write_text(json.dumps(jobs))

    created = rota("jobs", "create", "-f", str(file), "-o", "json")

    assert created.status == 0
    assert [item["status"] for item in created.json] == [201, 201, 201, 201]


def test_a_file_without_a_name_for_its_job_is_refused(rota: Rota, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("command: 'true'\n")

    for command in ("apply", "diff", "create"):
        refused = rota("jobs", command, "-f", str(file))
        assert (refused.status, refused.out) == (9, "")
        assert "name" in refused.err


def test_apply_reports_the_change_of_each_job(rota: Rota, tmp_path: Path) -> None:
    file = tmp_path / "jobs.yaml"
    file.write_text("[{name: change-1, command: a}, {name: change-2, command: a}]")
    rota("jobs", "apply", "-f", str(file))
    file.write_text(
        "[{name: change-1, command: a}, {name: change-2, command: b}, {name: change-3, command: a}]"
    )

    tried = rota("jobs", "apply", "-f", str(file), "--dry-run", "-o", "json")
    applied = rota("jobs", "apply", "-f", str(file), "-o", "json")

    assert [job["change"] for job in tried.json] == ["unchanged", "replaced", "created"]
    assert tried.err == "dry run: nothing is changed\n"
    assert [job["change"] for job in applied.json] == ["unchanged", "replaced", "created"]


def test_a_diff_shows_what_applying_would_change(rota: Rota, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text('name: differs\nschedule: "@daily"\ncommand: echo one\ntimezone: UTC\n')
    rota("jobs", "create", "-f", str(file))
    equal = rota("jobs", "diff", "-f", str(file))
    file.write_text('name: differs\nschedule: "@daily"\ncommand: echo two\n')

    different = rota("jobs", "diff", "-f", str(file))

    assert (equal.status, equal.out) == (0, "")
    assert different.status == 8
    assert different.out == (
        "--- default/differs (version 1)\n"
        "+++ default/differs (as given)\n"
        "@@ -1,3 +1,3 @@\n"
        " name: differs\n"
        " schedule: '@daily'\n"
        "-command: echo one\n"
        "+command: echo two\n"
    )
    assert "echo one" in rota("jobs", "show", "differs").out


def test_a_diff_of_a_job_that_is_not_there_is_all_of_it(rota: Rota, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("name: undiffered\ncommand: echo one\n")

    different = rota("jobs", "diff", "-f", str(file))

    assert different.status == 8
    assert "--- default/undiffered (not there)\n" in different.out
    assert "+command: echo one\n" in different.out
    assert rota("jobs", "show", "undiffered").status == 3


def test_a_diff_shows_new_jobs_that_depend_on_new_jobs(rota: Rota, tmp_path: Path) -> None:
    file = tmp_path / "jobs.yaml"
    text = "name: new-second\ndependencies: [new-first]\ncommand: echo two\npriority: 3\n"
    file.write_text(f"{text}---\nname: new-first\ncommand: echo one\n")

    different = rota("jobs", "diff", "-f", str(file))
    rota("jobs", "apply", "-f", str(file))

    assert (different.status, different.err) == (8, "")
    shown = rota("jobs", "show", "new-second", "-o", "json").json["definition"]
    added = [line[1:] for line in different.out.splitlines() if line.startswith("+")]
    assert added[added.index("name: new-second") :] == as_yaml(shown).splitlines()
    assert rota("jobs", "diff", "-f", str(file)).status == 0
    file.write_text(text.replace("new-first", "never-made"))
    assert "never-made" in rota("jobs", "diff", "-f", str(file)).err


def test_a_dry_run_changes_nothing(rota: Rota) -> None:
    rota("jobs", "create", "dry", "--schedule", "@daily", "--", "sleep", "60")
    running = rota("trigger", "dry", "-o", "name").out.strip()
    rota("jobs", "create", "dry-paused", "--", "true")
    rota("jobs", "pause", "dry-paused")
    before = rota("jobs", "-q", "dry", "-o", "json").json

    tried = [
        rota("jobs", "create", "dry-2", "--dry-run", "--", "true"),
        rota("jobs", "pause", "dry", "--dry-run"),
        rota("jobs", "resume", "dry-paused", "--dry-run"),
        rota("jobs", "delete", "dry", "--dry-run"),
        rota("trigger", "dry", "--dry-run"),
        rota("executions", "cancel", running, "--dry-run"),
    ]

    assert {each.status for each in tried} == {0}
    assert all("dry run: nothing is changed" in each.err for each in tried)
    assert rota("jobs", "-q", "dry", "-o", "json").json == before
    assert rota("executions", "list", "dry", "-o", "name").out == f"{running}\n"
    assert rota("executions", "show", running, "-o", "json").json["status"] == "running"
    rota("executions", "cancel", running)


def test_a_dry_run_finds_what_is_wrong(rota: Rota) -> None:
    refused = rota("jobs", "create", "dry-bad", "--schedule", "61 * * * *", "--dry-run", "--", "x")

    assert refused.status == 9
    assert rota("trigger", "absent", "--dry-run").status == 3
    assert rota("trigger", "absent", "--dry-run", "--wait").status == 2


def test_jobs_are_listed_by_status_and_labels(rota: Rota) -> None:
    for name, *labels in (("l1", "team=a", "urgent="), ("l2", "team=a"), ("l3", "team=b")):
        flags = [part for label in labels for part in ("--label", label)]
        rota("jobs", "create", name, "-n", "labelled", *flags, "--", "true")
    rota("jobs", "pause", "labelled/l2")
    listed = ("jobs", "list", "-n", "labelled", "-o", "name")

    assert rota(*listed, "--label", "team=a").out == "labelled/l1\nlabelled/l2\n"
    assert rota(*listed, "--label", "team=a", "--label", "urgent").out == "labelled/l1\n"
    assert rota(*listed, "--label", "team").out == "labelled/l1\nlabelled/l2\nlabelled/l3\n"
    assert rota(*listed, "--status", "paused").out == "labelled/l2\n"


def test_a_job_has_a_priority(rota: Rota) -> None:
    rota("jobs", "create", "urgent", "--priority", "7", "--", "true")

    assert rota("jobs", "show", "urgent", "-o", "json").json["priority"] == 7
    assert re.search(r"priority +7\n", rota("jobs", "show", "urgent").out)


def test_the_daily_report_example_works_unchanged(rota: Rota) -> None:
    before = rota("jobs", "create", "-f", str(EXAMPLES / "daily-report.json"))
    for name in ("job1", "job2"):
        rota("jobs", "create", name, "--", "true")

    created = rota("jobs", "create", "-f", str(EXAMPLES / "daily-report.json"), "-o", "json")

    assert before.status == 9
    assert "/dependencies/0: the job 'default/job1' does not exist; create it first" in before.err
    [job] = created.json
    assert job["status"] == "scheduled"
    assert job["dependencies"] == ["default/job1", "default/job2"]


@pytest.mark.parametrize("name", ["heartbeat", "report", "flaky"])
def test_the_examples_are_jobs(rota: Rota, name: str) -> None:
    assert rota("jobs", "create", "-f", str(EXAMPLES / f"{name}.yaml")).status == 0
    assert rota("jobs", "delete", name).err == f"deleted {name}\n"


def test_a_deleted_job_is_gone(rota: Rota) -> None:
    rota("jobs", "create", "gone", "--", "true")

    deleted = rota("jobs", "delete", "gone")
    again = rota("jobs", "delete", "gone")

    assert (deleted.status, deleted.out, deleted.err) == (0, "", "deleted gone\n")
    assert again.status == 3
    assert "there is no job 'default/gone'" in again.err
    assert "`rota jobs` lists the jobs" in again.err


def test_an_empty_list_of_jobs_is_reported_on_standard_error_only_for_tables(rota: Rota) -> None:
    table = rota("jobs", "-n", "void")
    data = rota("jobs", "-n", "void", "-o", "json")

    assert (table.out, table.err) == ("", "no such jobs\n")
    assert (data.json, data.err) == ([], "")


def jobs_file(tmp_path: Path, text: str) -> str:
    """Return the path of a file with *text*."""
    file = tmp_path / "set.yaml"
    file.write_text(text)
    return str(file)


def test_nothing_is_applied_if_one_job_is_refused(rota: Rota, tmp_path: Path) -> None:
    text = (
        "[{name: set-good, command: 'true'}, {name: set-bad, schedule: '61 * * * *', command: x}]"
    )

    applied = rota("jobs", "apply", "-f", jobs_file(tmp_path, text))

    assert applied.status == 9
    assert applied.err.startswith("job 'set-bad' is refused:\nerror:")
    assert rota("jobs", "show", "set-good").status == 3


def test_jobs_of_the_files_may_depend_on_each_other(rota: Rota, tmp_path: Path) -> None:
    text = "[{name: set-up, command: 'true'}, {name: set-down, command: x, dependencies: [set-up]}]"
    file = jobs_file(tmp_path, text)

    tried = rota("jobs", "apply", "-f", file, "--dry-run")
    applied = rota("jobs", "apply", "-f", file, "-o", "name")

    assert (tried.status, applied.status) == (0, 0)
    assert applied.out.split() == ["default/set-up", "default/set-down"]


def test_jobs_with_the_label_that_are_in_no_file_are_deleted(rota: Rota, tmp_path: Path) -> None:
    one = "{name: set-1, command: 'true', labels: {set: x}}"
    two = "{name: set-2, command: 'true', labels: {set: x}}"
    rota("jobs", "apply", "-f", jobs_file(tmp_path, f"[{one}, {two}]"))
    rota("jobs", "create", "set-other", "--label", "set=y", "--", "true")
    file = jobs_file(tmp_path, f"[{one}]")
    prune = ("jobs", "apply", "-f", file, "--prune", "-l", "set=x")

    tried = rota(*prune, "--dry-run")
    kept = rota("jobs", "show", "set-2").status
    asked = rota(*prune)
    pruned = rota(*prune, "--yes")

    for shown in (tried, pruned):
        assert [line.split()[:2] for line in shown.out.splitlines()[1:]] == [
            ["default/set-1", "unchanged"],
            ["default/set-2", "deleted"],
        ]
    assert (kept, asked.status) == (0, 2)
    assert "this would delete 1 job that no file has; add --yes" in asked.err
    assert rota("jobs", "show", "set-2").status == 3
    assert rota("jobs", "show", "set-other").status == 0


def test_prune_needs_a_label_that_all_jobs_have(rota: Rota, tmp_path: Path) -> None:
    file = jobs_file(tmp_path, "{name: set-3, command: 'true'}")

    without = rota("jobs", "apply", "-f", file, "--prune")
    unlike = rota("jobs", "apply", "-f", file, "--prune", "-l", "set=x")

    assert (without.status, unlike.status) == (2, 2)
    assert "--prune and --label belong together" in without.err
    assert "job 'set-3' lacks the label set=x" in unlike.err


# -- fields, and many jobs at once -----------------------------------------------------------------


def test_fields_of_a_job_are_set_and_removed(rota: Rota) -> None:
    rota("jobs", "create", "altered", "--description", "old", "--label", "a=1", "--", "true")

    changed = rota(
        "jobs", "set", "altered", "retries.limit=3", "schedule=*/5 * * * *", "labels.b=2",
        "labels.a=", "description=", "env={X: y}", "-o", "json",
    )  # fmt: skip
    same = rota("jobs", "set", "altered", "priority=0")

    job = json.loads(changed.out)
    definition = job["definition"]
    assert (job["change"], job["version"]) == ("replaced", 2)
    assert definition["retries"] == 3
    assert definition["schedule"] == "*/5 * * * *"
    assert definition["labels"] == {"b": "2"}
    assert definition["env"] == {"X": "y"}
    assert "description" not in definition
    assert "unchanged" in same.out


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        (["retries"], "'retries' is not FIELD=VALUE, such as retries=3"),
        (["a..b=1"], "'a..b=1' is not FIELD=VALUE"),
        (["env={a"], "'env={a': '{a' is not valid YAML"),
        (["retries=1", "retries=2"], "'retries=2' contradicts the field retries before"),
        (["retries=1", "retries.limit=2"], "'retries.limit=2' contradicts the field retries"),
    ],
)
def test_malformed_fields_are_refused(fields: list[str], error: str, rota: Rota) -> None:
    refused = rota("jobs", "set", "altered", *fields)

    assert refused.status == 2
    assert error in refused.err


def test_jobs_with_a_label_are_paused_resumed_and_deleted(rota: Rota) -> None:
    for name in ("bulk-1", "bulk-2"):
        rota("jobs", "create", name, "--label", "bulk=x", "--", "true")
    rota("jobs", "create", "bulk-3", "--label", "bulk=y", "--", "true")

    unsure = rota("jobs", "pause", "--label", "bulk=x")
    tried = rota("jobs", "pause", "--label", "bulk=x", "--dry-run")
    paused = rota("jobs", "pause", "--label", "bulk=x", "--yes")
    listed = rota("jobs", "--status", "paused", "--label", "bulk", "-o", "name")
    resumed = rota("jobs", "resume", "bulk-1", "bulk-2")
    deleted = rota("jobs", "delete", "--label", "bulk=x", "--yes")

    assert unsure.status == 2
    assert "this would pause 2 jobs of namespace default; add --yes to do it" in unsure.err
    assert tried.err.splitlines()[-1] == "2 jobs of namespace default"
    assert (
        paused.err == "paused default/bulk-1\npaused default/bulk-2\n2 jobs of namespace default\n"
    )
    assert listed.out.split() == ["default/bulk-1", "default/bulk-2"]
    assert resumed.err == "resumed bulk-1\nresumed bulk-2\n"
    assert deleted.status == 0
    assert rota("jobs", "--label", "bulk", "-o", "name").out.split() == ["default/bulk-3"]


@pytest.mark.parametrize("argv", [[], ["x", "--all"], ["--label", "a", "--all"]])
def test_jobs_are_selected_in_one_way(argv: list[str], rota: Rota) -> None:
    refused = rota("jobs", "pause", *argv)

    assert refused.status == 2
    assert "name jobs, or select them with --label or --all" in refused.err


def test_unfinished_executions_are_cancelled_by_label_and_by_namespace(rota: Rota) -> None:
    for name, label in (("busy-1", "busy=x"), ("busy-2", "busy=y")):
        rota("jobs", "create", name, "-n", "crowd", "--label", label, "--", "sleep 60")
        rota("trigger", f"crowd/{name}")

    one = rota("executions", "cancel", "-n", "crowd", "--label", "busy=x", "--yes", "-o", "json")
    rest = rota("executions", "cancel", "-n", "crowd", "--all", "--yes", "-o", "json")

    assert [each["job"] for each in json.loads(one.out)] == ["crowd/busy-1"]
    assert "crowd/busy-2" in [each["job"] for each in json.loads(rest.out)]


def test_a_folder_and_a_program_that_the_node_lacks_are_warned_about(
    rota: Rota, tmp_path: Path
) -> None:
    missing = tmp_path / "missing"

    created = rota("jobs", "create", "homeless", "--cwd", str(missing), "--", "true")
    changed = rota("jobs", "set", "homeless", f"cwd={tmp_path}", f"command=[{missing}/run]")
    ran = rota("trigger", "homeless", "--wait")
    mended = rota("jobs", "set", "homeless", "command=[/bin/true]")

    assert (created.status, changed.status) == (0, 0)
    assert f"warning: homeless: there is no folder '{missing}' (cwd) on node " in created.err
    assert f"warning: homeless: there is no program '{missing}/run' on node " in changed.err
    assert f"there is no program '{missing}/run' on node " in ran.err
    assert "warning" not in mended.err


def test_labels_that_no_node_has_are_warned_about(rota: Rota, tmp_path: Path) -> None:
    text = "{name: picky, command: 'true', nodeSelector: {gpu: a100, zone: b}}"
    file = jobs_file(tmp_path, text)
    warning = "warning: picky: task main waits for a node: no living node has the labels gpu=a100, "

    created = rota("jobs", "create", "-f", file)
    applied = rota("jobs", "apply", "-f", file)
    changed = rota("jobs", "set", "picky", "priority=1")
    free = rota("jobs", "set", "picky", "nodeSelector=")

    for each in (created, applied, changed):
        assert each.status == 0
        assert warning in each.err
    assert "warning" not in free.err


@pytest.mark.parametrize(
    "dependencies",
    [
        pytest.param("[early, absent]", id="one is missing"),
        pytest.param("[middle]", id="itself"),
    ],
)
def test_nothing_is_applied_if_a_job_depends_on_one_that_will_not_exist(
    dependencies: str, rota: Rota, tmp_path: Path
) -> None:
    text = (
        "[{name: early, command: x}, {name: middle, command: x, dependencies: %s}, "
        "{name: late, command: x}]"
    )
    file = jobs_file(tmp_path, text.replace("%s", dependencies))

    applied = rota("jobs", "apply", "-f", file, "-n", "unmet")

    assert applied.status == 9
    assert "job 'middle' is refused:" in applied.err
    assert rota("jobs", "-n", "unmet", "-o", "name").out == ""


SHOWN = {
    "schedules": """
        schedules: ["@every 1h", {schedule: 0 5 * * 1-5, timezone: UTC}]
        timezone: Europe/Berlin
        labels: {"on": "yes", number: "010"}
        description: "several\\nlines: text # and more"
        command: "true"
        """,
    "once": 'schedule: "@at 2027-01-01T09:00"\ntimezone: Europe/Berlin\ncommand: "true"',
    "dag": """
        tasks:
          - {name: a, command: echo a}
          - {name: b, command: [echo, b, ""], needs: [a], limits: {memory: 1GiB, cpu: 0.5}}
          - {name: c, python: {function: "os:getcwd", path: [lib]}, triggerRule: all_done}
        """,
    "hooks": """
        command: "true"
        cwd: .
        env: {A: "no", B: "1:30", C: "", D: "*x"}
        onFailure: [{webhook: "https://hooks.example.com/x"}]
        onLate: [{webhook: "https://hooks.example.com/y"}]
        lateAfter: 30m
        schedule: "@every 90s"
        limits: {cpu: 2, memory: 512MiB, pids: 7}
        parameters: {a: [1, null, "x"], b: 1.0e10}
        consistency: available
        """,
    "container": 'container: {image: "alpine:3", binds: ["/srv:/srv:rw"]}\ncommand: [a, ""]',
    "sandbox": "sandbox: {profile: strict}\ncommand: |\n  echo 1\n  echo 2",
    "typed": "type: shown-type\nparameters: {who: Ann}",
}


@pytest.mark.parametrize(("kind", "form"), [*((kind, "yaml") for kind in SHOWN), ("dag", "json")])
def test_a_shown_job_is_applied_again_without_a_new_version(
    kind: str, form: str, rota: Rota, tmp_path: Path
) -> None:
    a_type = tmp_path / "type.yaml"
    a_type.write_text("{kind: type, name: shown-type, definition: {template: {command: x}}}")
    assert rota("apply", "-f", str(a_type)).status == 0
    name = f"shown-{kind}-{form}"
    text = f"name: {name}\n{dedent(SHOWN[kind])}"
    assert rota("jobs", "apply", "-f", jobs_file(tmp_path, text)).status == 0

    shown = rota("jobs", "show", name, "-o", form).out
    again = rota("jobs", "apply", "-n", "other", "-f", jobs_file(tmp_path, shown), "-o", "json")

    assert [(job["namespace"], job["change"]) for job in again.json] == [("default", "unchanged")]


def test_two_jobs_of_one_name_are_refused(rota: Rota, tmp_path: Path) -> None:
    file = jobs_file(tmp_path, "[{name: twin, command: x}, {name: twin, command: y}]")

    applied = rota("jobs", "apply", "-f", file)

    assert applied.status == 9
    assert "two of the jobs have the name default/twin; rename or remove one" in applied.err
