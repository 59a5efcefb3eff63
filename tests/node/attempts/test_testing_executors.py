"""The setting ``testing_executors``: without it a node has no tasks that run no program."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from rota.client import Client
from rota.client.errors import Invalid
from support.rotad import Rotad


@pytest.fixture
def production_node(tmp_path: Path) -> Iterator[Rotad]:
    with Rotad(tmp_path / "data", "--drain", "0s") as node:
        node.flags = ("--auth", "open", "--drain", "0s")
        yield node.start()


def test_a_node_without_the_setting_refuses_tasks_that_run_no_program(
    production_node: Rotad,
) -> None:
    with (
        Client(production_node.url) as client,
        pytest.raises(Invalid, match="no task type or job type 'scripted'; this node has"),
    ):
        client.create_job({"name": "rehearsal", "type": "scripted"})


def test_a_node_with_the_setting_plays_their_endings(node: Rotad) -> None:
    node.create(name="rehearsed", type="scripted", parameters={"output": "played"})

    assert node.ended(node.trigger("rehearsed"))["status"] == "success"
