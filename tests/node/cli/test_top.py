"""``rota top``: the tasks that run now."""

import pytest

from support.rota_program import Rota, interrupted, running, until


def test_the_tasks_that_run_are_shown_with_their_node_until_they_end(rota: Rota) -> None:
    rota("jobs", "create", "long", "-n", "topped", "--", "sleep 60")
    execution = rota("trigger", "long", "-n", "topped", "-o", "name").out.strip()

    def started() -> list[dict[str, str]]:
        found: list[dict[str, str]] = rota("top", "--once", "-n", "topped", "-o", "json").json
        return [each for each in found if each["state"] == "running" and each["nodeId"]]

    [row] = until(started)
    table = rota("top", "--once", "-n", "topped")
    rota("executions", "cancel", "long", "-n", "topped")
    rota("executions", "wait", "long", "-n", "topped")
    ended = rota("top", "--once", "-n", "topped")

    assert (row["job"], row["executionId"], row["task"]) == ("topped/long", execution, "main")
    assert table.out.splitlines()[0].split() == [
        *("JOB", "EXECUTION", "TASK", "NODE", "SINCE", "STATE")
    ]
    assert (ended.out, ended.err) == ("", "nothing runs\n")


@pytest.mark.usefixtures("rota")
def test_it_continues_until_ctrl_c() -> None:
    with running("top") as top:
        assert top.stdout is not None
        titles = top.stdout.readline()
        ended = interrupted(top)

    assert titles.split()[:2] == ["JOB", "EXECUTION"]
    assert ended.status == 130
