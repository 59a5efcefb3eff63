"""Every command of ``rota`` against a real node: what it prints, where, and its exit status."""

import json
import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from rota.client import Client
from rota.client.cli.human import relative, size, span
from rota.client.definitions import InvalidFile, parse_definitions
from rota.client.errors import NotFound
from rota.core.timing.instants import parse_instant
from support.rota_program import NO_NODE, PROGRAM, Rota, on_terminal, until
from support.rotad import Rotad

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture
def url(node: Rotad) -> str:
    """Where the node is."""
    return node.url


# -- jobs ------------------------------------------------------------------------------------------


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
    assert (job["tasks"][0]["retries"], job["tasks"][0]["timeoutS"]) == (2, 90.0)
    assert "team=core" in shown.out
    assert "echo -n hi" in shown.out


def test_a_single_word_of_command_is_a_line_for_the_shell(rota: Rota) -> None:
    rota("jobs", "create", "shell", "--", "echo a | tr a b")

    ran = rota("trigger", "shell", "--wait", "-o", "json")

    assert ran.json["tasks"]["main"]["attempts"][0]["outcome"] == "succeeded"
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


def test_every_wrong_field_is_told_on_a_line_of_its_own(rota: Rota) -> None:
    refused = rota(
        "jobs", "create", "wrong", "--schedule", "61 * * * *", "--retries", "-1", "--", "true"
    )

    assert refused.status == 9
    assert refused.out == ""
    heading, *fields = refused.err.splitlines()
    assert heading == "error: invalid input"
    assert {field.split(":")[0].strip() for field in fields} == {"/schedules/0", "/retries"}


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
    assert rota("jobs", "pause", "nobody").status == 3


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
    assert created.err.startswith("job 'one-bad' is refused:\nerror: invalid input\n  /tasks: ")
    assert created.out == "default/one-good\ndefault/two-good\n"


def test_of_several_applied_jobs_the_refused_one_ends_it(rota: Rota, tmp_path: Path) -> None:
    file = tmp_path / "jobs.json"
    file.write_text('[{"name": "applied-one", "command": "true"}, {"name": "bad-one"}]')

    applied = rota("jobs", "apply", "-f", str(file))

    assert (applied.status, applied.out) == (9, "")
    assert applied.err.startswith("after 1 taken, job 'bad-one' is refused:\nerror:")
    assert rota("jobs", "show", "applied-one").status == 0


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


def test_applying_tells_what_it_does_to_each_job(rota: Rota, tmp_path: Path) -> None:
    file = tmp_path / "jobs.yaml"
    file.write_text("[{name: told-1, command: a}, {name: told-2, command: a}]")
    rota("jobs", "apply", "-f", str(file))
    file.write_text(
        "[{name: told-1, command: a}, {name: told-2, command: b}, {name: told-3, command: a}]"
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
    assert rota("trigger", "nobody", "--dry-run").status == 3
    assert rota("trigger", "nobody", "--dry-run", "--wait").status == 2


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


def test_the_users_own_job_works_word_for_word(rota: Rota) -> None:
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
    assert "there is no job 'gone'" in again.err
    assert "hint: `rota jobs` lists the jobs" in again.err


def test_no_jobs_are_told_beside_the_data(rota: Rota) -> None:
    table = rota("jobs", "-n", "void")
    data = rota("jobs", "-n", "void", "-o", "json")

    assert (table.out, table.err) == ("", "no such jobs\n")
    assert (data.json, data.err) == ([], "")


# -- executions ------------------------------------------------------------------------------------


def test_a_trigger_tells_the_execution(rota: Rota) -> None:
    rota("jobs", "create", "told", "--", "true")

    table = rota("trigger", "told")
    name = rota("trigger", "told", "-o", "name")

    assert table.out.splitlines()[0].split() == ["EXECUTION", "STATUS"]
    assert re.fullmatch(r"[0-9a-f]{16}-[0-9a-f]{14}-[0-9a-f]{4}\n", name.out)


def test_a_trigger_that_is_waited_for_follows_the_tasks(rota: Rota) -> None:
    rota("jobs", "create", "followed", "--", "echo", "hello")

    ran = rota("trigger", "followed", "--wait")

    assert ran.status == 0
    assert re.search(r"status +success", ran.out)
    assert "main: succeeded after" in ran.err


def test_a_failed_execution_shows_its_output_and_exits_with_1(rota: Rota) -> None:
    rota("jobs", "create", "fails", "--", "echo oh dear >&2; exit 3")

    ran = rota("trigger", "fails", "--wait")

    assert ran.status == 1
    assert "exited with code 3" in ran.out
    assert "main: failed with exit code 3" in ran.err
    assert "--- output of main, attempt 1 ---\noh dear" in ran.err


def test_parameters_are_json_or_a_file(rota: Rota, tmp_path: Path) -> None:
    rota("jobs", "create", "with-parameters", "--", 'echo "$ROTA_PARAMETERS"')
    file = tmp_path / "parameters.json"
    file.write_text('{"day": 2}')

    given = rota("trigger", "with-parameters", "--wait", "--parameters", '{"day":1}', "-o", "name")
    read = rota("trigger", "with-parameters", "--wait", "--parameters", f"@{file}", "-o", "name")
    wrong = rota("trigger", "with-parameters", "--parameters", "{day: 1}")

    assert rota("output", given.out.strip()).out == '{"day":1}\n'
    assert rota("output", read.out.strip()).out == '{"day":2}\n'
    assert wrong.status == 2
    assert "is not JSON" in wrong.err


def test_a_wait_that_times_out_exits_with_7(rota: Rota) -> None:
    rota("jobs", "create", "slow", "--", "sleep", "60")

    triggered = rota("trigger", "slow", "--wait", "--timeout", "50ms")
    waited = rota("executions", "wait", "slow@latest", "--timeout", "0.05")
    cancelled = rota("executions", "cancel", "slow@latest", "-o", "name")
    ended = rota("executions", "wait", "slow@latest", "-o", "json")

    assert (triggered.status, waited.status) == (7, 7)
    assert "continue" in waited.err
    assert cancelled.status == 0
    assert ended.status == 1
    assert ended.json[0]["status"] == "cancelled"


def test_executions_are_listed_shown_and_named_by_their_job(rota: Rota) -> None:
    rota("jobs", "create", "seen", "--", "true")
    first = rota("trigger", "seen", "--wait", "-o", "name").out.strip()
    latest = rota("trigger", "seen", "--wait", "-o", "name").out.strip()

    listed = rota("executions", "list", "seen")
    shown = rota("executions", "show", "seen@latest")

    titles, *rows = listed.out.splitlines()
    assert titles.split() == [
        "EXECUTION",
        "JOB",
        "STATUS",
        "TRIGGER",
        "FIRE",
        "TIME",
        "LATE",
        "TOOK",
    ]
    assert [row.split()[0] for row in rows] == [latest, first]
    assert rota("executions", "list", "seen", "--limit", "1", "-o", "name").out == f"{latest}\n"
    assert rota("executions", "show", "@latest").status == 0
    assert re.search(rf"execution +{latest}\n", shown.out)
    assert re.search(r"main +success +1 +succeeded", shown.out)
    since = rota("executions", "list", "seen", "--since", "1h", "--status", "success", "-o", "name")
    assert since.out.split() == [latest, first]
    assert rota("executions", "list", "seen", "--until", "1h").err == "no such executions\n"


@pytest.mark.parametrize("form", ["table", "wide", "json", "jsonl", "yaml", "name"])
def test_every_form_shows_the_execution(rota: Rota, form: str) -> None:
    rota("jobs", "create", "formed", "--", "true")
    execution = rota("trigger", "formed", "--wait", "-o", "name").out.strip()

    listed = rota("executions", "list", "formed", "--limit", "1", "-o", form)
    shown = rota("executions", "show", execution, "-o", form)

    assert execution in listed.out
    assert execution in shown.out
    readers: dict[str, Callable[[str], Any]] = {"json": json.loads, "yaml": yaml.safe_load}
    if form in readers:
        assert readers[form](listed.out)[0]["executionId"] == execution
        assert readers[form](shown.out)["tasks"]["main"]["attempts"][0]["number"] == 1
    if form == "jsonl":
        assert json.loads(listed.out)["executionId"] == json.loads(shown.out)["executionId"]


def test_output_comes_from_each_task_and_attempt(rota: Rota, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(
        "name: chatty\n"
        "tasks:\n"
        "- {name: first, command: echo $ROTA_ATTEMPT; test $ROTA_ATTEMPT = 2,\n"
        "   retries: {limit: 1, delay: 10ms}}\n"
        "- {name: second, needs: [first], command: [echo, second]}\n"
    )
    rota("jobs", "create", "-f", str(file))
    execution = rota("trigger", "chatty", "--wait", "-o", "name").out.strip()

    everything = rota("output", execution)

    assert (everything.out, everything.err) == ("2\nsecond\n", "==> first <==\n==> second <==\n")
    assert rota("output", "chatty@latest", "first", "--attempt", "1").out == "1\n"
    followed = rota("output", execution, "first", "--follow")
    assert (followed.out, followed.err) == ("1\n2\n", "==> attempt 2 <==\n")
    assert rota("output", execution, "--follow").status == 2
    assert rota("output", execution, "third").status == 3
    assert rota("output", execution, "third", "--follow").status == 3


def test_output_is_followed_while_it_is_written(url: str, rota: Rota, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    command = f"echo first; while [ ! -e {gate} ]; do sleep 0.02; done; echo last"
    rota("jobs", "create", "live", "--", command)
    execution = rota("trigger", "live", "-o", "name").out.strip()

    with subprocess.Popen(
        [*PROGRAM, "--url", url, "output", execution, "-f"], stdout=subprocess.PIPE, text=True
    ) as following:
        assert following.stdout is not None
        first = following.stdout.readline()
        gate.touch()
        rest = following.stdout.read()

    assert (first, rest, following.returncode) == ("first\n", "last\n", 0)


# -- time ------------------------------------------------------------------------------------------


def test_next_shows_fire_times_of_a_job(rota: Rota) -> None:
    rota("jobs", "create", "coming", "--schedule", "@every 1h", "--", "true")

    table = rota("next", "coming", "--count", "3")
    data = rota("next", "coming", "--count", "2", "--from", "2027-01-01T00:30:00Z", "-o", "json")

    assert len(table.out.splitlines()) == 4
    assert [fire["at"][:16] for fire in data.json] == ["2027-01-01T01:00", "2027-01-01T02:00"]


def test_next_needs_no_node_for_a_schedule_and_shows_what_the_clock_does(rota: Rota) -> None:
    shown = rota(
        *("next", "--schedule", "30 2 * * *", "--timezone", "Europe/Berlin", "--count", "3"),
        *("--from", "2027-03-26T12:00:00Z"),
    )

    lines = [re.split(r"  +", line) for line in shown.out.splitlines()]
    assert [line[:2] for line in lines] == [
        ["FIRE TIME (UTC)", "LOCAL"],
        ["2027-03-27 01:30:00", "2027-03-27 02:30:00+01:00"],
        ["2027-03-28 01:00:00", "2027-03-28 03:00:00+02:00"],
        ["2027-03-29 00:30:00", "2027-03-29 02:30:00+02:00"],
    ]
    assert lines[2][-1] == "shifted out of a DST gap"
    assert rota("next", "--schedule", "30 25 * * *").status == 9


def test_next_of_a_job_without_a_schedule_says_so(rota: Rota) -> None:
    rota("jobs", "create", "unscheduled", "--", "true")

    shown = rota("next", "unscheduled")

    assert (shown.out, shown.err) == ("", "unscheduled does not fire by itself again\n")


def test_the_ledger_shows_the_newest_entries_oldest_first(rota: Rota) -> None:
    rota("jobs", "create", "noted", "--schedule", "@every 250ms", "--", "true")

    entries = until(lambda: (found := rota("ledger", "noted", "-o", "json").json)[3:] and found)
    table = rota("ledger", "noted", "--limit", "2")

    times = [entry["fireTime"] for entry in entries]
    assert times == sorted(times)
    assert {entry["outcome"] for entry in entries} == {"fired"}
    titles, *rows = table.out.splitlines()
    assert titles.split() == ["FIRE", "TIME", "(UTC)", "FIRES", "OUTCOME", "EXECUTION"]
    assert len(rows) == 2
    backwards = rota("ledger", "noted", "--reverse", "--until", times[2], "-o", "name")
    assert backwards.out.split() == [times[1], times[0]]
    rota("jobs", "delete", "noted")


# -- what every command has ------------------------------------------------------------------------


def test_version_shows_client_and_node(rota: Rota, url: str) -> None:
    shown = rota("version", "-o", "json")
    alone = rota("version", "--url", NO_NODE)

    assert shown.json["url"] == url
    assert shown.json["client"] == shown.json["node"]
    assert alone.status == 6
    assert alone.out.startswith("client")


@pytest.mark.parametrize("argv", [["jobs"], ["trigger", "x"], ["executions"], ["ledger", "x"]])
def test_no_node_is_told_with_what_to_do(rota: Rota, argv: list[str]) -> None:
    ran = rota(*argv, "--url", NO_NODE)

    assert (ran.status, ran.out) == (6, "")
    assert ran.err == (
        "error: no answer from http://127.0.0.1:1: Connection refused\n"
        "hint: check that the node is running and that this is its address; name others with --url "
        "or $ROTA_URL\n"
    )


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["jbos"], "Did you mean 'jobs'?"),
        (["jobs", "craete"], "Did you mean 'create' or 'resume' or 'delete'?"),
        (["zzzz"], "There are: dev, jobs,"),
        (["jobs", "--naemspace", "x"], "'--namespace'?"),
        (["trigger", "x", "--wiat"], "Did you mean '--wait'?"),
        (["jobs", "create", "x"], "after two dashes, its command"),
        (["jobs", "create", "x", "--env", "A", "--", "true"], "'A' is not KEY=VALUE"),
        (["jobs", "create", "x", "-f", "y"], "not both"),
        (["jobs", "--url", "nonsense"], "'nonsense' is not the URL of a node"),
        (["next"], "name a job, or give a --schedule"),
        (["executions", "list", "--since", "yesterday"], "such as 90m or 2d"),
        (["executions", "wait", "x", "--timeout", "soon"], "is not a duration"),
        (["executions", "show", "x@first"], "after the @ stands 'latest'"),
    ],
)
def test_wrong_usage_exits_with_2_and_says_what_is_right(
    rota: Rota, argv: list[str], said: str
) -> None:
    ran = rota(*argv)

    assert (ran.status, ran.out) == (2, "")
    assert said in " ".join(ran.err.split())


def test_what_is_not_there_exits_with_3(rota: Rota) -> None:
    rota("jobs", "create", "never-ran", "--", "true")

    assert rota("trigger", "nobody").status == 3
    assert rota("executions", "show", "nothing").status == 3
    never = rota("executions", "show", "never-ran@latest")
    assert (never.status, never.err) == (3, "error: job never-ran has no execution yet\n")


# -- terminals -------------------------------------------------------------------------------------


def test_a_terminal_gets_colours_unless_it_wants_none(rota: Rota, url: str) -> None:
    rota("jobs", "create", "colourful", "--", "true")
    rota("trigger", "colourful", "--wait")
    argv = ["executions", "list", "colourful", "--url", url]

    with on_terminal(*argv) as terminal:
        coloured = terminal.rest()
    with on_terminal(*argv, environment={"NO_COLOR": "1"}) as terminal:
        plain = terminal.rest()

    assert "\x1b[32msuccess" in coloured
    assert "success" in plain
    assert "\x1b" not in plain


def test_control_characters_of_users_do_not_reach_the_terminal(rota: Rota) -> None:
    rota("jobs", "create", "sly", "--description", "red \x1b[31malert", "--", "echo \x1b[31m x")

    assert "\x1b" not in rota("jobs", "show", "sly").out


# -- rota dev --------------------------------------------------------------------------------------


def test_dev_runs_a_node_and_stops_it(tmp_path: Path) -> None:
    argv = [*PROGRAM, "dev", "--port", "0", "--data-dir", str(tmp_path / "data"), "--slots", "2"]

    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as dev:
        assert dev.stdout is not None
        assert dev.stderr is not None
        try:
            greeting = [*iter(dev.stdout.readline, "  rota executions\n")]
            url = next(line.split()[1] for line in greeting if line.startswith("  API"))
            with Client(url, repeats_max=0) as client:
                assert client.ready()
                with pytest.raises(NotFound):
                    client.job("nobody")
                dev.send_signal(signal.SIGINT)
                status = dev.wait(20)
                assert not client.ready()
        finally:
            dev.terminate()
        told = dev.stderr.read()

    assert (status, told) == (0, "")
    assert f"  data  {tmp_path / 'data'} (kept; delete it for a fresh start)\n" in greeting
    assert f"  export ROTA_URL={url}\n" in greeting


def test_dev_says_that_its_port_is_taken(rota: Rota, url: str, tmp_path: Path) -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    refused = rota("dev", "--port", url.rpartition(":")[2], "--data-dir", str(tmp_path))

    assert refused.status == 6
    assert (
        refused.err == "error: the node did not start: its address is in use; choose another port\n"
    )
    assert {number: signal.getsignal(number) for number in before} == before


def test_dev_says_what_to_install(
    rota: Rota, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.client.dev.local_node.NEEDS", ("no_such_module",))

    refused = rota("dev", "--data-dir", str(tmp_path))

    assert refused.status == 2
    assert "no_such_module, not installed here: pip install 'rota[node]'" in refused.err


def test_dev_keeps_its_data_among_the_users_state(monkeypatch: pytest.MonkeyPatch) -> None:
    from rota.client.cli.setup.dev import default_data_dir

    monkeypatch.setenv("HOME", "/home/someone")
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)

    assert default_data_dir() == Path("/home/someone/.local/state/rota-data")
    monkeypatch.setenv("XDG_STATE_HOME", "/var/state")
    assert default_data_dir() == Path("/var/state/rota-data")


# -- YAML ------------------------------------------------------------------------------------------


def test_yaml_words_are_text_unless_they_are_true_or_false() -> None:
    text = """
        name: traps
        on: yes
        env: {A: no, B: off, C: true}
        times: [1:30, 010, 1_000, 0x1f, 2027-01-01, 1.5, -3, ~]
        """

    [job] = parse_definitions(text, "jobs.yaml")

    assert job["on"] == "yes"
    assert job["env"] == {"A": "no", "B": "off", "C": True}
    assert job["times"] == ["1:30", "010", "1_000", "0x1f", "2027-01-01", 1.5, -3, None]


def test_json_may_be_indented_with_tabs() -> None:
    assert parse_definitions('{\n\t"name": "x"\n}', "job.json") == [{"name": "x"}]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("schedule: */5 * * * *", 'quote it: schedule: "*/5 * * * *"'),
        ("a: 1\nb:\n  c: 1\n  c: 2", "jobs.yaml:4: there is a second 'c' here"),
        ("1: x", "the key 1 is not text; quote it"),
        ("- a", "'a' is not a job"),
        ("", "there is no job in it"),
        ('{"a": 1]', "JSON is malformed"),
        ("a: [", "jobs.yaml:1:"),
        ("x: !!python/object/apply:os.system [true]", "could not determine a constructor"),
    ],
)
def test_a_file_that_cannot_be_understood_says_where_and_why(text: str, said: str) -> None:
    with pytest.raises(InvalidFile) as caught:
        parse_definitions(text, "jobs.yaml")

    assert said in str(caught.value)


def test_a_missing_file_exits_with_9(rota: Rota) -> None:
    ran = rota("jobs", "create", "-f", "/nowhere/job.yaml")

    assert (ran.status, ran.err) == (9, "error: /nowhere/job.yaml: No such file or directory\n")


# -- times as people say them ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0004, "0.4ms"),
        (0.34, "340ms"),
        (3.42, "3.4s"),
        (59.4, "59s"),
        (125, "2m 5s"),
        (3600, "1h"),
        (3725, "1h 2m"),
        (86_400 * 9 + 59, "9d"),
        (-2, "-2.0s"),
    ],
)
def test_a_duration_is_said_shortly(seconds: float, text: str) -> None:
    assert span(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0B"),
        (640, "640B"),
        (1_000, "1.0KiB"),
        (64 << 20, "64MiB"),
        (1_023 << 20, "1.0GiB"),
        (5 << 50, "5120TiB"),
    ],
)
def test_a_size_is_said_shortly(count: int, text: str) -> None:
    assert size(count) == text


@pytest.mark.parametrize(
    ("when", "text"),
    [
        ("2027-01-01T00:00:00.900000Z", "now"),
        ("2026-12-31T23:59:55Z", "5s ago"),
        ("2027-01-01T02:03:04Z", "in 2h 3m"),
        (None, ""),
    ],
)
def test_a_time_is_said_as_seen_from_now(when: str | None, text: str) -> None:
    assert relative(when, parse_instant("2027-01-01T00:00:00Z")) == text
