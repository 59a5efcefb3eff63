"""The built-in task types are the executors; no job type can have their names."""

from pathlib import Path

import pytest

from rota import executor
from rota.executor.testing.scripted_executor import SCRIPTED
from rota.executor.warden.hosted_executors import EXECUTORS
from rota.node.api.kinds.job_types import problems_of
from rota.wire.documents import JobTypeBody


def test_each_package_of_an_executor_has_a_row() -> None:
    assert executor.__file__ is not None
    packages = Path(executor.__file__).parent.glob("*/executor.py")

    own = {name for name, row in EXECUTORS.items() if not row.same_as}
    assert {path.parent.name for path in packages} == own


@pytest.mark.parametrize("name", [*EXECUTORS, SCRIPTED])
def test_no_job_type_has_the_name_of_a_built_in_task_type(name: str) -> None:
    problems = problems_of(name, JobTypeBody(template={"command": "true"}))

    assert [each.pointer for each in problems] == ["/name"]
    assert "is a built-in task type" in problems[0].detail
