"""Commands that run until they are stopped: ``--watch`` and ``rota events``."""

import json
import re
from pathlib import Path

import pytest

from support.rota_program import NO_NODE, Rota, interrupted, on_terminal, running
from support.rotad import Rotad

UP = re.compile(r"\x1b\[(\d+)F")


# -- watching --------------------------------------------------------------------------------------


def test_a_watch_prints_a_document_when_it_is_there_and_when_it_has_changed(rota: Rota) -> None:
    rota("jobs", "create", "watched", "--", "true")

    with running("jobs", "show", "-w", "20ms", "watched", "-o", "json") as watch:
        assert watch.stdout is not None
        first = json.loads(watch.stdout.readline())
        rota("jobs", "pause", "watched")
        second = json.loads(watch.stdout.readline())
        rest = interrupted(watch)

    assert [each["status"] for each in (first, second)] == ["manual", "paused"]
    assert (rest.status, rest.out) == (130, "")


def test_a_watched_list_prints_rows_that_are_new_or_have_changed(rota: Rota) -> None:
    rota("jobs", "create", "row-1", "-n", "rows", "--", "true")
    rota("jobs", "create", "row-2", "-n", "rows", "--", "true")

    with running("jobs", "--watch=20ms", "-n", "rows") as watch:
        assert watch.stdout is not None
        lines = [watch.stdout.readline() for _ in range(3)]
        rota("jobs", "pause", "rows/row-2")
        lines.append(watch.stdout.readline())
        rota("jobs", "create", "row-0", "-n", "rows", "--", "true")
        lines.append(watch.stdout.readline())
        interrupted(watch)

    assert [line.split()[:2] for line in lines] == [
        ["JOB", "STATUS"],
        ["rows/row-1", "manual"],
        ["rows/row-2", "manual"],
        ["rows/row-2", "paused"],
        ["rows/row-0", "manual"],
    ]


def test_watched_executions_come_oldest_first(rota: Rota) -> None:
    rota("jobs", "create", "in-order", "--", "true")
    ids = [rota("trigger", "in-order", "--wait", "-o", "name").out for _ in range(3)]

    with running("executions", "list", "in-order", "--watch", "-o", "name") as watch:
        assert watch.stdout is not None
        shown = [watch.stdout.readline() for _ in ids]

    assert shown == ids


def test_a_watch_on_a_terminal_draws_in_the_same_place(rota: Rota) -> None:
    rota("jobs", "create", "drawn-1", "-n", "drawn", "--", "true")

    with on_terminal("jobs", "-n", "drawn", "-w", "20ms") as terminal:
        terminal.until(lambda shown: len(UP.findall(shown)) >= 2)
        rota("jobs", "create", "drawn-2", "-n", "drawn", "--", "true")
        terminal.until(lambda shown: "drawn-2" in shown and UP.findall(shown)[-1] == "3")
        terminal.process.send_signal(2)
        shown = terminal.rest()
        status = terminal.process.wait(20)

    assert status == 130
    assert set(UP.findall(shown)) == {"2", "3"}
    assert shown.startswith("\x1b[?25l\x1b[?7l")
    assert "\x1b[?7h\x1b[?25h" in shown
    assert "\x1b[1m" in shown


def test_a_watch_leaves_out_what_a_terminal_has_no_room_for(rota: Rota) -> None:
    for number in range(12):
        rota("jobs", "create", f"tall-{number:02}", "-n", "tall", "--", "true")

    with on_terminal("jobs", "-n", "tall", "-w", "20ms", environment={"LINES": "6"}) as terminal:
        shown = terminal.until(lambda shown: len(UP.findall(shown)) >= 2)

    assert set(UP.findall(shown)) == {"5"}
    assert "... and 9 more lines" in shown
    assert "tall-02" in shown
    assert "tall-03" not in shown


def test_a_watch_continues_after_a_restart_of_the_node(rota_alone: Rota, tmp_path: Path) -> None:
    rota = rota_alone
    with Rotad(tmp_path / "data", "--drain", "0s") as node:
        node.start()
        at = ("--url", node.url)
        rota("jobs", "create", "lasting", *at, "--", "true")
        with running("jobs", "show", "lasting", "-w", "20ms", "-o", "json", *at) as watch:
            assert watch.stdout is not None
            assert watch.stderr is not None
            first = json.loads(watch.stdout.readline())
            node.stop()
            said = watch.stderr.readline()
            again = Rotad(node.data_dir, "--drain", "0s", "--listen", node.url[len("http://") :])
            with again:
                again.start()
                rota("jobs", "pause", "lasting", *at)
                second = json.loads(watch.stdout.readline())
                interrupted(watch)

    assert [each["status"] for each in (first, second)] == ["manual", "paused"]
    assert said.endswith("; trying again\n")


def test_a_watch_that_finds_no_node_at_first_ends(rota_alone: Rota) -> None:
    assert rota_alone("jobs", "-w", "20ms", "--url", NO_NODE).status == 6


def test_a_watch_of_what_is_gone_ends(rota: Rota) -> None:
    rota("jobs", "create", "passing", "--", "true")

    with running("jobs", "show", "passing", "-w", "20ms", "-o", "name") as watch:
        assert watch.stdout is not None
        assert watch.stdout.readline() == "default/passing\n"
        rota("jobs", "delete", "passing")
        status = watch.wait(20)

    assert status == 3


# -- events ----------------------------------------------------------------------------------------


def test_events_are_shown_as_they_happen_until_there_are_enough(rota: Rota) -> None:
    rota("jobs", "create", "eventful", "--", "true")

    with running("events", "eventful", "--count", "6") as events:
        assert events.stderr is not None
        assert events.stderr.readline() == "listening\n"
        execution = rota("trigger", "eventful", "--wait", "-o", "name").out.strip()
        rota("jobs", "pause", "eventful")
        out, err = events.communicate(timeout=20)

    titles, *rows = (re.split(r"  +", line) for line in out.splitlines())
    assert (events.returncode, err) == (0, "")
    assert titles == ["AT (UTC)", "EVENT", "JOB", "EXECUTION", "TASK", "DETAIL"]
    assert {row[2] for row in rows} == {"default/eventful"}
    assert {row[3] for row in rows if row[1] != "job.paused"} == {execution}
    assert [row[1] for row in rows][-3:] == ["task.success", "execution.success", "job.paused"]


def test_events_end_after_the_time_given(rota: Rota) -> None:
    shown = rota("events", "--namespace", "void", "--for", "50ms")

    assert (shown.status, shown.out, shown.err) == (0, "", "listening\n")


def test_events_end_with_ctrl_c(rota: Rota) -> None:
    with running("events") as events:
        assert events.stderr is not None
        events.stderr.readline()
        ended = interrupted(events)

    assert ended.status == 130
    assert ended.err.split() == ["interrupted"]


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["--type", "execution.success"], {"execution.success"}),
        (["--type", "task", "--status", "failed"], {"task.failed"}),
        (["--status", "failed"], {"task.failed", "execution.failed"}),
        (["--type", "task.success", "--type", "job"], {"task.success", "job.deleted"}),
    ],
)
def test_events_are_those_asked_for(rota: Rota, flags: list[str], expected: set[str]) -> None:
    name = f"f{abs(hash(str(flags)))}"
    for job, command in ((f"{name}-good", "true"), (f"{name}-bad", "false")):
        rota("jobs", "create", job, "-n", "asked", "--", command)

    count = str(len(expected))
    with running("events", "-n", "asked", *flags, "--count", count, "-o", "jsonl") as events:
        assert events.stderr is not None
        events.stderr.readline()
        rota("trigger", f"asked/{name}-good", "--wait")
        rota("trigger", f"asked/{name}-bad", "--wait")
        rota("jobs", "delete", f"asked/{name}-good")
        out, _ = events.communicate(timeout=20)
    rota("jobs", "delete", f"asked/{name}-bad")

    assert {json.loads(line)["type"] for line in out.splitlines()} == expected


def test_events_begin_after_the_one_named(rota: Rota) -> None:
    rota("jobs", "create", "resumed", "--", "true")
    with running("events", "resumed", "--count", "1", "-o", "name") as events:
        assert events.stderr is not None
        events.stderr.readline()
        rota("jobs", "pause", "resumed")
        first = events.communicate(timeout=20)[0].strip()
    rota("jobs", "resume", "resumed")

    after = rota("events", "resumed", "--after", first, "--count", "1", "-o", "json")
    gap = rota("events", "resumed", "--after", "00000000-1", "--for", "50ms")

    assert after.json["type"] == "job.resumed"
    assert (
        "events may have been missed; list jobs and executions to see their current state\n"
        in gap.err
    )


def test_events_of_no_job_are_not_found(rota: Rota) -> None:
    assert rota("events", "absent", "--for", "50ms").status == 3
    assert rota("events", "--type", "exec", "--for", "50ms").status == 9
