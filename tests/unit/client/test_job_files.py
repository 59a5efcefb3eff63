"""Jobs in files: the order in which they are sent."""

import json
from pathlib import Path

import click
import pytest

from rota.client.cli.inputs.files import expanded
from rota.client.cli.inputs.parameters import members_of, with_members
from rota.client.cli.jobs.job_files import definitions_in
from rota.client.definitions import InvalidFile

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


def test_a_folder_stands_for_its_files_of_definitions_in_the_order_of_their_names(
    tmp_path: Path,
) -> None:
    for name in ("b.yml", "a.yaml", "c.json", ".d.yaml", "notes.txt"):
        (tmp_path / name).write_text("name: x")
    (tmp_path / "old.yaml").mkdir()

    found = expanded(["-", str(tmp_path), "one.yaml"])

    inside = [str(tmp_path / name) for name in ("a.yaml", "b.yml", "c.json")]
    assert found == ["-", *inside, "one.yaml"]


def test_a_folder_without_definitions_is_refused_with_the_names_that_count(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()

    with pytest.raises(InvalidFile, match=r"definitions \(\*\.yaml, \*\.yml, \*\.json\)"):
        expanded([str(tmp_path)])


def test_of_a_job_as_it_is_shown_the_definition_is_taken(tmp_path: Path) -> None:
    file, definition = tmp_path / "shown.json", {"name": "a", "command": "true"}
    shown = {"jobId": "1", "name": "a", "namespace": "team", "status": "manual"}
    file.write_text(json.dumps({**shown, "definition": definition}))

    (found,) = definitions_in([str(file)], None)

    assert found == {"namespace": "team", **definition}


def test_a_job_from_a_list_is_refused_with_the_command_that_shows_its_definition(
    tmp_path: Path,
) -> None:
    file = tmp_path / "shown.json"
    file.write_text(json.dumps({"jobId": "1", "name": "a", "namespace": "n", "status": "manual"}))

    with pytest.raises(click.UsageError, match="rota jobs show a -o yaml"):
        definitions_in([str(file)], None)


def test_a_member_replaces_one_of_the_parameters() -> None:
    members = members_of(["day=2027-01-01", "n=3", "dry=true", "text=a=b"])

    assert members == {"day": "2027-01-01", "n": 3, "dry": True, "text": "a=b"}
    assert with_members({"n": 1, "kept": 0}, members) == {"kept": 0, **members}
    assert with_members(None, members) == members
    assert with_members([1], {}) == [1]


@pytest.mark.parametrize("word", ["day", "=3"])
def test_a_word_that_is_no_member_is_refused(word: str) -> None:
    with pytest.raises(click.UsageError, match="is not K=V"):
        members_of([word])


def test_parameters_that_are_no_object_have_no_members() -> None:
    with pytest.raises(click.UsageError, match="need"):
        with_members([1], {"a": 1})
