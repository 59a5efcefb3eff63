"""Jobs in files: the order in which they are sent."""

import json
from pathlib import Path

import click
import pytest

from rota.client.cli.jobs.job_files import definitions_in

Jobs = tuple[tuple[str, list[str]], ...]


def ordered(folder: Path, *jobs: tuple[str, list[str]], namespace: str | None = None) -> list[str]:
    """Return the order of jobs with their dependencies."""
    file = folder / "jobs.json"
    file.write_text(json.dumps([{"name": name, "dependencies": after} for name, after in jobs]))
    return [each["name"] for each in definitions_in([str(file)], namespace)]


def test_a_job_is_sent_after_those_that_it_depends_on(tmp_path: Path) -> None:
    jobs: Jobs = (
        ("report", ["load", "other/job"]),
        ("plain", []),
        ("load", ["extract"]),
        ("extract", []),
    )

    assert ordered(tmp_path, *jobs) == ["plain", "extract", "load", "report"]
    assert ordered(tmp_path, *jobs, namespace="team") == ["plain", "extract", "load", "report"]


def test_jobs_keep_the_order_of_their_file_where_nothing_else_is_needed(tmp_path: Path) -> None:
    jobs: Jobs = (("c", []), ("a", []), ("b", ["c"]))

    assert ordered(tmp_path, *jobs) == ["c", "a", "b"]


def test_full_names_and_long_chains_are_followed(tmp_path: Path) -> None:
    chain = [(f"j{number}", [f"default/j{number + 1}"]) for number in range(3_000)]

    assert ordered(tmp_path, *chain) == [f"j{number}" for number in reversed(range(3_000))]


def test_jobs_that_depend_on_each_other_stay_in_the_order_of_their_file(tmp_path: Path) -> None:
    """The node names the unknown one of them."""
    jobs: Jobs = (("a", ["b"]), ("b", ["a"]), ("c", []))

    assert ordered(tmp_path, *jobs) == ["a", "b", "c"]


def test_folders_of_python_functions_begin_in_the_folder_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "jobs.json"
    function = {"function": "a:b", "path": ["lib", "/opt/lib", "~/lib", 3]}
    job = {"name": "a", "python": function, "tasks": [{"name": "t", "python": function}]}
    file.write_text(json.dumps(job))

    (found,) = definitions_in([str(file)], None)

    whole = [str(tmp_path / "lib"), "/opt/lib", "~/lib", 3]
    assert found["python"]["path"] == found["tasks"][0]["python"]["path"] == whole


def test_a_shared_document_is_refused_with_the_command_for_it(tmp_path: Path) -> None:
    file = tmp_path / "types.yaml"
    file.write_text("kind: type\nname: image.render\n")

    with pytest.raises(click.UsageError, match=f"not a job; apply it with rota apply -f {file}"):
        definitions_in([str(file)], None)
