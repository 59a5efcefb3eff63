"""Airflow's examples in docs/how-to/flows.md: the core ends each as the table of the page says."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rota.client.definitions import parse_definitions
from rota.core.model.attempt import Outcome
from rota.core.model.execution import UPSTREAM_FAILED
from rota.core.vocabulary.effects import Launch
from rota.wire import documents
from rota.wire.bodies.job_bodies import job_spec
from unit.core.shard import Shard

Json = Any  # Any, as definitions are.

PAGE = (Path(__file__).parents[4] / "docs/how-to/flows.md").read_text()
SECTION = PAGE.partition("\n## From Airflow\n")[2]
JOBS = {
    job["name"]: job
    for block in re.findall(r"^```yaml\n(.*?)^```$", SECTION, re.MULTILINE | re.DOTALL)
    for job in parse_definitions(block, "flows.md")
}
HEADER, _, *ROWS = (
    [cell.strip(" `*") for cell in line.strip("|").split("|")]
    for line in SECTION.splitlines()
    if line.startswith("|")
)


def test_every_job_has_a_row_and_every_page_a_link() -> None:
    links = re.findall(r"^\[(.*)\]: https://airflow\.apache\.org/", SECTION, re.MULTILINE)

    assert [row[0] for row in ROWS] == list(JOBS)
    assert {row[1].strip("[]") for row in ROWS} <= set(links)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_an_example_of_airflow_ends_as_the_table_says(row: list[str]) -> None:
    cells = dict(zip(HEADER, row, strict=True))
    job = JOBS[cells["job"]]
    shard = Shard()
    execution_id = shard.trigger(shard.save_spec(job_spec(msgspec.convert(job, documents.JobBody))))
    orders = [launch.order for launch in shard.all_effects(Launch)]

    while orders:
        order = orders.pop(0)
        code, result = end_of(order.work.shell)
        outcome = Outcome.FAILED if code else Outcome.SUCCEEDED
        shard.finish(execution_id, order.key.task, outcome, code, result)
        orders += [launch.order for launch in shard.all_effects(Launch)]

    ends: dict[str, str] = {}
    for name in (task["name"] for task in job["tasks"]):
        task = shard.task(execution_id, name)
        ends[name] = task.reason if task.reason == UPSTREAM_FAILED else task.status.value
    shown = {
        name: state
        for state in ("success", "skipped", "failed", "upstream_failed")
        for name in filter(None, cells[state].split(", "))
    }
    assert ends == shown
    assert shard.status(execution_id) == cells["execution in rota"]


def end_of(command: str) -> tuple[int, bytes]:
    """Return the exit status and the result of a command of the page."""
    code = re.fullmatch(r"exit (\d+)", command)
    result = re.fullmatch(r"echo '?(.*?)'? > \$ROTA_RESULT", command)
    return int(code[1]) if code else 0, result[1].encode() if result else b""
