"""A node runs tasks of the types that other installed packages add."""

from pathlib import Path

import pytest

from support.added_executor import add_executor
from support.rotad import Json, Refusal, Rotad


def test_a_task_of_an_added_type_runs_and_its_kind_has_no_sandbox(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = tmp_path / "packages"
    packages.mkdir()
    add_executor(packages, "echo = rota_echo:ROW")
    monkeypatch.setenv("PYTHONPATH", str(packages))

    with Rotad(tmp_path / "data") as node:
        node.start()
        node.create(name="job", type="echo", parameters={"output": "hello"})
        execution_id = node.trigger("job")
        ended = node.ended(execution_id)
        output = node.call("GET", f"/api/v1/executions/{execution_id}/tasks/main/output")
        job: Json = {"name": "other", "type": "echo", "parameters": {}, "sandbox": "strict"}
        with pytest.raises(Refusal) as refused:
            node.call("POST", "/api/v1/jobs", job)

    assert (ended["status"], output) == ("success", "hello")
    assert [each["pointer"] for each in refused.value.problem["errors"]] == ["/sandbox"]
