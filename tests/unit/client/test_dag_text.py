"""Drawings of graphs of tasks: lines of text, and flowcharts of Mermaid."""

import re
from typing import Any

import pytest

from rota.client.cli.jobs.dag_text import WIDTH, in_order, kind_of, mermaid_lines, text_lines
from rota.wire.documents import (
    ApprovalBody,
    CaseBody,
    ForeachBody,
    RepeatBody,
    RunJobBody,
    SleepBody,
    StepsView,
    TaskSpecView,
    TaskView,
)

AT = "2027-01-04T12:00:00.000000Z"


def task(name: str, *needs: str, rule: str = "all_success", **more: Any) -> TaskSpecView:
    """A task as defined, by default with a command."""
    fields: dict[str, Any] = {"type": "process", "command": "true", "retries": 0, "timeout": "0s"}
    return TaskSpecView(name=name, needs=list(needs), trigger_rule=rule, **(fields | more))


LOAD = task("load", "list", foreach=ForeachBody(items="results.list"))
LONG = "w" * 90
FLOW = [
    task("report", "large", "small", rule="none_failed_min_one_success"),
    task("list"),
    LOAD,
    task("large", "load", when="results.load | sum > 15"),
    task("small", "load", when="not results.load | sum > 15"),
]


def test_each_task_has_a_line_below_those_that_it_needs() -> None:
    assert text_lines(FLOW) == [
        "list          command",
        "  load        foreach  of results.list; needs list",
        "    large     command  when results.load | sum > 15; needs load",
        "    small     command  when not results.load | sum > 15; needs load",
        "      report  command  none_failed_min_one_success; needs large, small",
    ]


def test_a_loop_names_what_each_item_does_unless_that_is_a_command() -> None:
    runs = task("runs", foreach=ForeachBody(items=[1, 2]), run_job=RunJobBody(job="load"))
    polls = task("polls", repeat=RepeatBody(until="last.done", limit=3), type="http")

    assert text_lines([runs, polls]) == [
        "runs   foreach  of 2 items; each job load",
        "polls  repeat   until last.done; each http",
    ]
    assert any("foreach: of 2 items<br/>each job load" in line for line in mermaid_lines([runs]))


def test_an_execution_has_the_status_of_each_task_and_the_counts_of_a_loop() -> None:
    steps = StepsView(total=100, begun=20, open=8, failed=1, skipped=0)
    states = {
        "list": TaskView(status="success", attempts=[]),
        "load": TaskView(status="waiting", attempts=[], steps=steps),
        "load[0]": TaskView(status="success", attempts=[]),
    }

    lines = text_lines([FLOW[1], LOAD], states)

    assert lines == [
        "list    command  success",
        "  load  foreach  waiting  12 of 100 done, 1 failed, 8 open; needs list",
    ]


def test_a_repetition_counts_its_rounds() -> None:
    poll = task("poll", repeat=RepeatBody(until="last.done", limit=20))
    steps = StepsView(total=20, begun=3, open=0, failed=0, skipped=0)

    (line,) = text_lines([poll], {"poll": TaskView(status="success", attempts=[], steps=steps)})

    assert line == "poll  repeat  success  3 rounds done, at most 20"


def test_a_waiting_task_shows_what_it_waits_for() -> None:
    tasks = [task("pause", sleep="1h"), task("check", approval=ApprovalBody(message="{{ x }}"))]
    states = {
        "pause": TaskView(status="waiting", attempts=[], retry_at=AT),
        "check": TaskView(
            status="waiting", attempts=[], reason="waits for approval: ship 1.4?", retry_at=AT
        ),
    }

    lines = text_lines(tasks, states)

    assert lines == [
        "pause  sleep     waiting  until 2027-01-04 12:00:00",
        "check  approval  waiting  waits for approval: ship 1.4?",
    ]


@pytest.mark.parametrize(
    ("more", "kind"),
    [
        ({}, "command"),
        ({"type": "user"}, "command"),
        ({"type": "python"}, "python"),
        ({"type": "container"}, "container"),
        ({"type": "http"}, "http"),
        ({"type": "python", "foreach": ForeachBody(items=[1, 2])}, "foreach"),
        ({"repeat": RepeatBody(until="true", limit=2)}, "repeat"),
        ({"sleep": SleepBody(until="params.start")}, "sleep"),
        ({"approval": ApprovalBody()}, "approval"),
    ],
)
def test_a_task_is_named_after_its_loop_its_wait_or_its_work(
    more: dict[str, Any], kind: str
) -> None:
    assert kind_of(task("a", **more)) == kind


def test_no_line_is_longer_than_a_terminal_is_wide() -> None:
    names = [f"{number:03}-{'n' * 100}" for number in range(40)]
    tasks = [
        task(
            name, *names[:number], rule="none_failed_min_one_success", type="x" * 60, when="w" * 90
        )
        for number, name in enumerate(names)
    ]
    states = {name: TaskView(status="backing_off", attempts=[]) for name in names}

    for lines in (text_lines(tasks), text_lines(tasks, states)):
        assert len(lines) == len(tasks)
        assert max(map(len, lines)) == WIDTH
        assert all(re.search(r"\d{3}-n+\.\.\.  x+\.\.\. ", line) for line in lines)


def test_a_long_chain_is_drawn() -> None:
    tasks = [task("t0"), *(task(f"t{n}", f"t{n - 1}") for n in range(1, 5_000))]

    lines = text_lines(tasks[::-1])

    assert [line.split()[0] for line in lines] == [f"t{n}" for n in range(5_000)]


def test_a_task_follows_all_that_it_needs() -> None:
    tasks = [task("d", "b", "c"), task("a"), task("b", "a"), task("c", "b", "a"), task("e")]

    assert [(level, each.name) for level, each in in_order(tasks)] == [
        (0, "a"),
        (1, "b"),
        (2, "c"),
        (3, "d"),
        (0, "e"),
    ]


def test_a_job_without_tasks_has_no_lines() -> None:
    assert text_lines([]) == []
    assert mermaid_lines([]) == ["flowchart TD"]


def test_mermaid_has_a_node_for_each_task_and_an_edge_for_each_need() -> None:
    assert mermaid_lines(FLOW) == [
        "flowchart TD",
        '  t0["list<br/>command"]',
        '  t1[["load<br/>foreach: of results.list"]]',
        '  t2["large<br/>command<br/>when results.load | sum #gt; 15"]',
        '  t3["small<br/>command<br/>when not results.load | sum #gt; 15"]',
        '  t4["report<br/>command"]',
        "  t0 --> t1",
        "  t1 --> t2",
        "  t1 --> t3",
        "  t2 -->|none_failed_min_one_success| t4",
        "  t3 -->|none_failed_min_one_success| t4",
    ]


def test_mermaid_has_a_class_for_each_status() -> None:
    states = {
        "end": TaskView(status="success", attempts=[]),
        "class": TaskView(status="failed", attempts=[]),
    }

    lines = mermaid_lines([task("end"), task("class", "end")], states)

    assert lines[1:4] == [
        '  t0["end<br/>command"]:::success',
        '  t1["class<br/>command"]:::failed',
        "  t0 --> t1",
    ]
    assert [line.split()[:2] for line in lines[4:]] == [
        ["classDef", "success"],
        ["classDef", "failed"],
    ]


def test_text_cannot_end_a_label_of_mermaid() -> None:
    label = mermaid_lines([task("a", when='x == "a"]; <b> #35; `')])[1]
    waiting = TaskView(status="waiting", attempts=[], reason='"]\n<script>`#')
    asked = mermaid_lines([task("a", approval=ApprovalBody())], {"a": waiting})[1]

    assert label == '  t0["a<br/>command<br/>when x == #quot;a#quot;]; #lt;b#gt; #35;35; #96;"]'
    assert asked == '  t0{{"a<br/>approval: #quot;] #lt;script#gt;#96;#35;"}}:::waiting'


def test_switches_matrices_and_teardowns_are_named() -> None:
    cases = [CaseBody(when="params.x", to=["test"]), CaseBody()]
    tasks = [
        task("pick", type="", command=None, switch=cases),
        task("test", "pick", foreach=ForeachBody(matrix={"os": ["a"], "version": "params.v"})),
        task("end", "pick", teardown=True),
    ]

    assert text_lines(tasks) == [
        "pick    switch   of 2 cases",
        "  test  foreach  of each os and version; needs pick",
        "  end   command  teardown; needs pick",
    ]
