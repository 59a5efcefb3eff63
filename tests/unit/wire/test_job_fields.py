"""The table of a job's fields: it has all of them, and what is generated from it is current."""

import json
import shutil
import subprocess
import sys
from enum import Enum
from pathlib import Path

import msgspec
import pytest

from rota.core.model.job import JobSpec
from rota.wire.documents import JobBody, TaskBody
from rota.wire.job_fields import JOB_FIELDS, STORED, Form, JobField

ROOT = Path(__file__).resolve().parents[3]
REFERENCE = ROOT / "docs/reference"
BY_CONVERSION = {
    "name", "namespace", "tasks", "schedules", "dependencies", "hooks", "parameters", "job_type",
    "is_one_off", "policies", "triggers",
}  # fmt: skip


def names_of(struct: type[msgspec.Struct]) -> set[str]:
    return {field.name for field in msgspec.structs.fields(struct)}


def test_the_table_has_each_field_of_a_body_once() -> None:
    names = [field.name for field in JOB_FIELDS]

    assert len(names) == len(set(names))
    assert set(names) == names_of(JobBody)


def test_each_field_of_a_stored_job_is_a_row_or_named_by_a_conversion() -> None:
    assert names_of(JobSpec) == {field.name for field in STORED} | BY_CONVERSION


def test_the_fields_that_tasks_have_too_are_fields_of_tasks() -> None:
    assert {field.name for field in JOB_FIELDS if field.is_of_tasks} <= names_of(TaskBody)


@pytest.mark.parametrize(
    "field", [field for field in STORED if field.form is Form.CHOICE], ids=lambda each: each.name
)
def test_a_choice_permits_what_can_be_stored(field: JobField) -> None:
    stored: type[Enum] = field.stored_default.__class__

    assert set(field.choices) == {each.value for each in stored}


def test_the_table_and_the_schema_of_the_documentation_are_current(tmp_path: Path) -> None:
    page = tmp_path / "jobs.md"
    shutil.copy(REFERENCE / "jobs.md", page)

    subprocess.run([sys.executable, "-m", "tools.job_page", page], cwd=ROOT, check=True, timeout=60)

    for name in ("jobs.md", "job.schema.json"):
        assert (tmp_path / name).read_text() == (REFERENCE / name).read_text()


def test_the_schema_describes_jobs_and_refuses_unknown_fields() -> None:
    schema = json.loads((REFERENCE / "job.schema.json").read_text())

    assert schema["additionalProperties"] is False
    assert set(schema["properties"]) == {field.key for field in JOB_FIELDS}
    assert "#/components" not in json.dumps(schema)
