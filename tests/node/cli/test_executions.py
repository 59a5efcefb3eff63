"""Executions, output, fire times and the ledger on the command line, against a node."""

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from rota.client.cli.jobs import recent_output
from rota.client.cli.jobs.output import last_lines
from support.rota_program import PROGRAM, Rota, until
from support.rotad import Rotad

# -- executions ------------------------------------------------------------------------------------


def test_a_trigger_prints_the_execution(rota: Rota) -> None:
    rota("jobs", "create", "printed", "--", "true")

    table = rota("trigger", "printed")
    name = rota("trigger", "printed", "-o", "name")

    assert table.out.splitlines()[0].split() == ["EXECUTION", "STATUS"]
    assert re.fullmatch(r"[0-9a-f]{16}-[0-9a-f]{14}-[0-9a-f]{4}\n", name.out)


def test_a_trigger_that_is_waited_for_follows_the_tasks(rota: Rota) -> None:
    rota("jobs", "create", "followed", "--", "echo", "hello")

    ran = rota("trigger", "followed", "--wait")

    assert ran.status == 0
    assert re.search(r"status +success", ran.out)
    assert "main: success after" in ran.err


def test_a_trigger_that_is_waited_for_prints_the_output_of_a_single_task(rota: Rota) -> None:
    rota("jobs", "create", "speaks", "--", "echo hello; echo there")

    ran = rota("trigger", "speaks", "--wait")
    named = rota("trigger", "speaks", "--wait", "-o", "name")

    assert ran.out.endswith("hello\nthere\n")
    assert "--- output of main ---" in ran.err
    assert "hello" not in named.out + named.err


def test_long_output_is_printed_in_part(rota: Rota) -> None:
    rota("jobs", "create", "speaks-long", "--", "seq 5000")

    ran = rota("trigger", "speaks-long", "--wait")

    assert ran.out.endswith("4999\n5000\n")
    assert re.search(r"--- end of the output; for all: rota output [0-9a-f-]+ ---", ran.err)


DAG = """
name: dag
retries: {limit: 1, delay: 0}
tasks:
- {name: one, command: 'echo 1; printf rest'}
- {name: two, needs: [one], command: 'echo 2; test "$ROTA_ATTEMPT" = 2'}
"""


def test_the_output_of_all_tasks_is_followed_with_their_names(rota: Rota, tmp_path: Path) -> None:
    (tmp_path / "dag.yaml").write_text(DAG)
    rota("jobs", "apply", "-f", str(tmp_path / "dag.yaml"))

    ran = rota("trigger", "dag", "--follow")
    later = rota("output", "dag", "--follow")

    assert ran.status == 0
    lines = ran.out.splitlines()
    # Tasks and attempts are followed at the same time, and later ones may be read first.
    assert [line for line in lines if line.startswith("one ")] == ["one | 1", "one | rest"]
    assert sorted(line for line in lines if line.startswith("two")) == ["two | 2", "two#2 | 2"]
    assert "two: failed with exit code 1" in ran.err
    assert ran.err.splitlines()[-1].startswith("success after ")
    assert sorted(later.out.splitlines()) == sorted(ran.out.splitlines())


def test_output_that_is_not_there_is_explained(rota: Rota, tmp_path: Path) -> None:
    job = "{name: waits, command: echo 1, nodeSelector: {gpu: none-here}}"
    (tmp_path / "waits.yaml").write_text(job)
    rota("jobs", "apply", "-f", str(tmp_path / "waits.yaml"))
    rota("trigger", "waits")
    rota("jobs", "create", "prints-nothing", "--", "exit 3")
    rota("trigger", "prints-nothing", "--wait")

    waiting, silent = rota("output", "waits"), rota("output", "prints-nothing")

    assert (waiting.status, waiting.out) == (3, "")
    assert re.search(r"task main has not started: .*gpu.*; follow it with: rota", waiting.err)
    assert (silent.status, silent.out) == (0, "")
    assert "no output (failed: exited with code 3)" in silent.err
    rota("executions", "cancel", "waits@latest")


def test_the_reason_of_a_failure_that_the_output_does_not_have_is_a_message(
    rota: Rota, tmp_path: Path
) -> None:
    rota("jobs", "create", "talks", "--timeout", "1s", "--", "echo begun; exec sleep 60")
    rota("trigger", "talks", "--wait")
    (tmp_path / "two.json").write_text(
        '{"name": "two-silent", "tasks": [{"name": "a", "command": "exit 3"},'
        ' {"name": "b", "command": "exit 4"}]}'
    )
    rota("jobs", "apply", "-f", str(tmp_path / "two.json"))
    rota("trigger", "two-silent", "--wait")

    one, followed = rota("output", "talks"), rota("output", "talks", "--follow")
    two, two_followed = rota("output", "two-silent"), rota("output", "two-silent", "--follow")

    reason = "timed_out: still running after its timeout of 1s\n"
    assert (one.out, one.err) == ("begun\n", reason)
    assert (followed.out, followed.err) == ("begun\n", reason)
    assert two.err.count("no output (failed: exited with code ") == 2
    assert "task a failed: exited with code 3\n" in two_followed.err
    assert "task b failed: exited with code 4\n" in two_followed.err


def test_the_output_of_a_single_task_is_followed_without_its_name(rota: Rota) -> None:
    rota("jobs", "create", "alone", "--", "echo hello; exit 3")

    ran = rota("trigger", "alone", "--follow")

    assert (ran.status, ran.out) == (1, "hello\n")
    assert ran.err.splitlines()[-1].startswith("failed after ")


@pytest.mark.parametrize("flag", ["--wait", "--follow"])
def test_a_lost_node_leaves_the_command_that_continues_to_wait(flag: str, own_node: Rotad) -> None:
    own_node.start().create(name="long", command="sleep 60")
    trigger = subprocess.Popen(
        [*PROGRAM, "--url", own_node.url, "trigger", "long", flag, "--request-timeout", "2s"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        own_node.wait_until(lambda: bool(own_node.call("GET", "/api/v1/executions")["items"]))
        [execution] = own_node.call("GET", "/api/v1/executions")["items"]
        own_node.kill_all()
        _, error = trigger.communicate(timeout=30)
    finally:
        trigger.kill()
        trigger.wait()

    assert trigger.returncode == 6
    assert f"wait for it with: rota executions wait {execution['executionId']}" in error


def test_a_follow_that_times_out_says_so(rota: Rota) -> None:
    rota("jobs", "create", "endless", "--", "sleep 60")

    ran = rota("trigger", "endless", "--follow", "--timeout", "100ms")
    rota("executions", "cancel", "endless@latest")

    assert ran.status == 7
    assert "not finished" in ran.err


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
    again = rota("executions", "cancel", "slow@latest", "-o", "name")

    assert (triggered.status, waited.status) == (7, 7)
    assert "continue" in waited.err
    assert (cancelled.status, cancelled.err) == (0, "")
    assert again.status == 0
    assert again.err == f"{again.out.strip()} had ended before (cancelled); it is not changed\n"
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
    assert re.search(r"main +success +1 +success", shown.out)
    since = rota("executions", "list", "seen", "--since", "1h", "--status", "success", "-o", "name")
    assert since.out.split() == [latest, first]
    synonym = rota("executions", "list", "seen", "--status", "succeeded", "-o", "name")
    assert synonym.out == since.out
    assert "default/seen" in rota("jobs", "--last", "succeeded", "-q", "seen").out
    assert "default/seen" in rota("jobs", "--status", "success", "-q", "seen").out
    assert "default/seen" not in rota("jobs", "--status", "failed", "-q", "seen").out
    contradiction = rota("jobs", "--status", "failed", "--last", "success")
    assert contradiction.status == 2
    assert "--status failed contradicts --last success; omit one" in contradiction.err
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
    assert rota("output", execution, "--follow", "--attempt", "1").status == 2
    assert rota("output", execution, "third").status == 3
    assert rota("output", execution, "third", "--follow").status == 3


def test_output_of_a_job_is_that_of_its_latest_execution(rota: Rota) -> None:
    rota("jobs", "create", "spoke", "-n", "latest", "--", 'echo "$ROTA_PARAMETERS"')
    first = rota("trigger", "latest/spoke", "--wait", "--parameters", "1", "-o", "name").out.strip()
    rota("trigger", "latest/spoke", "--wait", "--parameters", "2")

    assert rota("output", "latest/spoke").out == "2\n"
    assert rota("output", "spoke", "main", "-n", "latest").out == "2\n"
    assert rota("output", first).out == "1\n"
    missing = rota("output", "silent")
    assert missing.status == 3
    assert missing.err.startswith("error: there is no job 'default/silent'; check the name")


def test_a_job_stands_for_its_latest_execution_in_all_commands(rota: Rota) -> None:
    rota("jobs", "create", "meant", "--label", "of=names", "--", "true")
    rota("trigger", "meant", "--wait")
    latest = rota("trigger", "meant", "--wait", "-o", "name").out.strip()

    shown = rota("executions", "show", "meant", "-o", "name")
    waited = rota("executions", "wait", "default/meant", "-o", "name")
    cancelled = rota("executions", "cancel", "meant", "--dry-run", "-o", "name")
    rerun = rota("rerun", "meant", "--dry-run", "-o", "json")
    events = rota("events", "--execution", "meant", "--for", "1ms")
    changes = rota("changes", "list", "--of", "meant@latest")

    assert [shown.out, waited.out, cancelled.out] == [f"{latest}\n"] * 3
    assert (rerun.status, events.status) == (0, 0)
    assert (changes.status, changes.err) == (0, "no such changes\n")


def test_a_job_without_executions_and_an_incomplete_id_are_told_apart(rota: Rota) -> None:
    rota("jobs", "create", "never-ran", "--", "true")

    none, unknown = rota("executions", "show", "never-ran"), rota("output", "no-such-job")
    incomplete = rota("output", "37dc00724d8e09bf-0660c2306ace3c-85")

    assert (none.status, unknown.status, incomplete.status) == (3, 3, 3)
    assert none.err.splitlines() == [
        "error: the job never-ran has no executions yet",
        "hint: `rota trigger JOB` starts one",
    ]
    assert "there is no job 'default/no-such-job'" in unknown.err
    assert "execution" in incomplete.err.splitlines()[0]


def test_the_tail_of_output_is_its_last_lines(rota: Rota, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(
        "name: long\n"
        "tasks:\n"
        "- {name: first, command: seq 3}\n"
        "- {name: second, needs: [first], command: 'printf \"4\\n5\\n6\"'}\n"
    )
    rota("jobs", "create", "-f", str(file))
    rota("trigger", "long", "--wait")

    assert rota("output", "long", "first", "--tail", "1").out == "3\n"
    assert rota("output", "long", "second", "--tail", "2").out == "5\n6"
    assert rota("output", "long", "--tail", "2").out == "2\n3\n5\n6"
    assert rota("output", "long", "first", "--tail", "9").out == "1\n2\n3\n"
    followed = rota("output", "long", "first", "--tail", "1", "--follow")
    assert (followed.status, followed.out) == (2, "")


def test_output_since_a_time_is_that_of_all_attempts_that_ended_later(
    rota: Rota, tmp_path: Path
) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(
        "name: recent\n"
        "tasks:\n"
        "- {name: first, command: 'echo $ROTA_PARAMETERS; test $ROTA_ATTEMPT = 2',\n"
        "   retries: {limit: 1, delay: 10ms}}\n"
        "- {name: second, needs: [first], command: [echo, done]}\n"
    )
    rota("jobs", "create", "-f", str(file))
    ids: list[str] = []
    for number in ("1", "2"):
        ran = rota("trigger", "recent", "--wait", "--parameters", number, "-o", "name")
        ids.append(ran.out.strip())
    first, second = ids
    second_began = rota("executions", "show", second, "-o", "json").json["startedAt"]

    of_job = rota("output", "recent", "--since", "1h")
    later = rota("output", "recent", "first", "--since", second_began, "--tail", "1")
    of_execution = rota("output", first, "second", "--since", "1h")
    none = rota("output", first, "--since", second_began)

    assert of_job.out == "1\n1\ndone\n2\n2\ndone\n"
    assert of_job.err.splitlines() == [
        f"==> {execution} {attempt} <=="
        for execution in ids
        for attempt in ("first, attempt 1", "first, attempt 2", "second, attempt 1")
    ]
    assert later.out == "2\n2\n"
    assert (of_execution.out, of_execution.err) == (
        "done\n",
        f"==> {first} second, attempt 1 <==\n",
    )
    assert (none.status, none.out) == (0, "")
    assert none.err == f"no attempt ran since {second_began}\n"


def test_output_since_a_time_is_that_of_running_attempts_too(rota: Rota, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    command = f"echo first; while [ ! -e {gate} ]; do sleep 0.02; done; echo last"
    rota("jobs", "create", "runs-on", "--", command)
    execution = rota("trigger", "runs-on", "-o", "name").out.strip()
    until(lambda: rota("output", execution).out)

    running = rota("output", "runs-on", "--since", "2999-01-01T00:00:00Z")
    gate.touch()

    assert running.out == "first\n"
    assert rota("executions", "wait", execution).status == 0


def test_output_since_a_time_is_that_of_the_latest_executions(
    rota: Rota, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recent_output, "EXECUTIONS_MAX", 2)
    rota("jobs", "create", "often", "--", 'echo "$ROTA_PARAMETERS"')
    for number in ("1", "2", "3"):
        rota("trigger", "often", "--wait", "--parameters", number)

    limited = rota("output", "often", "--since", "1h")

    assert limited.out == "2\n3\n"
    assert limited.err.startswith("more than 2 executions ran since then; these are the latest.")


def test_output_since_a_time_needs_a_task_that_exists_and_no_other_selection(rota: Rota) -> None:
    rota("jobs", "create", "since-refused", "--", "true")
    rota("trigger", "since-refused", "--wait")

    assert rota("output", "since-refused", "third", "--since", "1h").status == 3
    assert rota("output", "since-nothing", "--since", "1h").status == 3
    assert rota("output", "since-refused", "--since", "1h", "--follow").status == 2
    assert rota("output", "since-refused", "--since", "1h", "--attempt", "1").status == 2
    assert rota("output", "since-refused", "--since", "soon").status == 2


@pytest.mark.parametrize(
    ("content", "count", "expected"),
    [
        (b"", 1, b""),
        (b"a", 1, b"a"),
        (b"a\n\n", 1, b"\n"),
        (b"a\nb\n", 1, b"b\n"),
        (b"a\nb\n", 2, b"a\nb\n"),
        (b"10 %\r20 %\rdone\n", 1, b"10 %\r20 %\rdone\n"),
        (b"a\nb", None, b"a\nb"),
    ],
)
def test_last_lines_end_with_line_feeds_alone(
    content: bytes, count: int | None, expected: bytes
) -> None:
    assert last_lines(content, count) == expected


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


def test_the_next_fires_are_an_icalendar_file(rota: Rota) -> None:
    rota("jobs", "create", "in-a-feed", "--schedule", "0 3 * * *", "--", "true")

    one = rota("next", "in-a-feed", "--count", "2", "-o", "ical")
    every = rota("next", "--all", "--count", "1", "-o", "ical")

    assert one.out.count("SUMMARY:default/in-a-feed") == 2
    assert every.out.count("SUMMARY:default/in-a-feed") == 1


def test_next_shows_fire_times_of_several_jobs_together(rota: Rota) -> None:
    for name, schedule in (("early", "0 1 1 1 *"), ("late", "0 2 1 1 *")):
        rota("jobs", "create", name, "-n", "together", "--schedule", schedule, "--", "true")

    table = rota("next", "--all", "-n", "together", "--count", "3")

    assert [line.split()[2] for line in table.out.splitlines()[1:]] == [
        "together/early",
        "together/late",
        "together/early",
    ]


def test_next_of_files_and_of_several_schedules_needs_no_node(rota: Rota, tmp_path: Path) -> None:
    file = tmp_path / "jobs.yaml"
    file.write_text(
        """\
name: once-more
command: "true"
schedules: [{schedule: "0 3 * * *", maxExecutions: 2}]
---
name: workdays
command: "true"
schedule: "0 4 * * *"
onlyCalendars: [workdays]
---
kind: calendar
name: workdays
definition: {weekdays: [MON-FRI]}
"""
    )
    since = ("--from", "2027-01-01T12:00:00Z", "--url", "http://127.0.0.1:1")

    of_files = rota("next", "-f", str(file), *since, "--count", "5", "-o", "json")
    texts = ("--schedule", "0 6 1 * *", "--schedule", "0 5 1 * *")
    of_texts = rota("next", *texts, *since, "--count", "2")

    fires = [(fire["at"][5:16], fire["job"], bool(fire["excluded"])) for fire in of_files.json]
    assert fires == [
        ("01-02T03:00", "default/once-more", False),
        ("01-02T04:00", "default/workdays", True),
        ("01-03T03:00", "default/once-more", False),
        ("01-04T04:00", "default/workdays", False),
        ("01-05T04:00", "default/workdays", False),
    ]
    assert [re.split("  +", line)[1] for line in of_texts.out.splitlines()] == [
        "SCHEDULE",
        "0 5 1 * *",
        "0 6 1 * *",
    ]


@pytest.mark.parametrize("more", [("--all",), ("--schedule", "@daily"), ("-f", "none.yaml")])
def test_next_shows_fire_times_of_one_kind(rota: Rota, more: tuple[str, ...]) -> None:
    refused = rota("next", "--all", "-f", "jobs.yaml", *more)

    assert (refused.status, "give only one of" in refused.err) == (2, True)


def test_next_says_that_a_job_is_paused(rota: Rota) -> None:
    rota("jobs", "create", "resting", "-n", "rest", "--schedule", "@every 1h", "--", "true")
    awake = rota("next", "resting", "-n", "rest")
    rota("jobs", "pause", "resting", "-n", "rest", "--reason", "moving house")

    one = rota("next", "resting", "-n", "rest")
    every = rota("next", "--all", "-n", "rest", "-o", "json")

    assert (awake.err, len(one.out.splitlines())) == ("", 11)
    for each in (one, every):
        assert each.err.startswith("rest/resting is paused since ")
        assert each.err.endswith("by operator: moving house; it does not run until it is resumed\n")


def test_next_shows_fire_times_of_a_job(rota: Rota) -> None:
    rota("jobs", "create", "coming", "--schedule", "@every 1h", "--", "true")

    table = rota("next", "coming", "--count", "3")
    data = rota("next", "coming", "--count", "2", "--after", "2027-01-01T00:30:00Z", "-o", "json")

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


def test_next_of_a_hashed_schedule_is_that_of_the_job_with_this_name(rota: Rota) -> None:
    rota("jobs", "create", "spread-out", "--schedule", "H H * * *", "--", "true")

    stored = rota("next", "spread-out", "-o", "json")
    named = rota("next", "spread-out", "--schedule", "H H * * *", "-o", "json")
    nameless = rota("next", "--schedule", "H H * * *", "-o", "json")

    assert [fire["at"] for fire in named.json] == [fire["at"] for fire in stored.json]
    assert nameless.json[0]["at"] != stored.json[0]["at"]


def test_next_of_a_job_without_a_schedule_is_reported(rota: Rota) -> None:
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


def test_fire_times_of_all_jobs_that_began_no_execution_are_listed(rota: Rota) -> None:
    rota(
        "jobs", "create", "slept", "-n", "nights", "--schedule", "@at 2026-01-01T00:00:00Z",
        "--misfire", "skip", "--", "true",
    )  # fmt: skip
    until(lambda: "missed" in rota("ledger", "--all", "-n", "nights").out)

    table = rota("ledger", "--all", "-n", "nights", "--outcome", "missed")
    none = rota("ledger", "--all", "-n", "nights", "--outcome", "skipped")

    assert table.out.splitlines()[1].split()[2:5] == ["nights/slept", "1", "missed"]
    assert (none.out, none.status) == ("", 0)
    assert rota("ledger").status == rota("ledger", "slept", "--all").status == 2
    assert "--outcome is for --all" in rota("ledger", "slept", "--outcome", "missed").err


def test_output_of_a_task_that_runs_another_job_names_its_execution(
    rota: Rota, tmp_path: Path
) -> None:
    rota("jobs", "create", "called", "--", "echo called")
    file = tmp_path / "calls.yaml"
    file.write_text(
        "name: calls\ntasks:\n- {name: own, command: echo own}\n- {name: call, runJob: called}\n"
    )
    rota("jobs", "apply", "-f", str(file))
    rota("trigger", "calls", "--wait")

    one = rota("output", "calls", "call")
    whole = rota("output", "calls")
    command = one.err.splitlines()[-1].split()
    followed = rota(*command[1:])

    assert command[:2] == ["rota", "output"]
    assert followed.out == "called\n"
    assert (whole.out, command[-1] in whole.err) == ("own\n", True)


def test_an_event_is_sent_once_and_one_for_no_job_is_warned_of(rota: Rota, node: Rotad) -> None:
    file_of = {"name": "on-sold", "command": "true", "triggers": [{"event": "cli.sold"}]}
    node.create(**file_of)

    node.wait_until(lambda: "to 1 job" in rota("emit", "cli.sold", "--dry-run").err)
    sent = [rota("emit", "cli.sold", "--source", "s", "--id", "7").err for _ in range(2)]
    lost = rota("emit", "cli.slod").err

    assert sent == [
        "sent cli.sold 7 to 1 job of default\n",
        "cli.sold 7 of s was received before; nothing was changed\n",
    ]
    assert "warning: no job of default has a trigger for cli.slod" in lost


def test_next_says_that_fire_times_are_left_out_and_refuses_an_end_before_the_begin(
    rota: Rota,
) -> None:
    second = ("next", "--schedule", "* * * * * *", "-o", "name")

    cut = rota(*second, "--until", "in 1h")
    past = rota(*second, "--until", "2d")

    assert "only the first 1,000 fire times; there are more until then" in cut.err
    assert (past.status, "is not after the begin" in past.err) == (2, True)


def test_next_ends_at_a_given_time(rota: Rota) -> None:
    given = ("next", "--schedule", "0 0 * * *", "--from", "2027-01-01T12:00:00Z")

    shown = rota(*given, "--until", "2027-01-04T00:00:00Z", "-o", "name")
    none = rota(*given, "--until", "2027-01-01T13:00:00Z")
    ahead = rota("next", "--schedule", "@every 1h", "--until", "in 150m", "-o", "name")

    assert [each[:10] for each in shown.out.split()] == ["2027-01-02", "2027-01-03", "2027-01-04"]
    assert none.err == "no fire time until 2027-01-01T13:00:00.000000Z\n"
    assert len(ahead.out.split()) in (2, 3)
