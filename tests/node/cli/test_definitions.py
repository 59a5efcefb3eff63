"""Files of job definitions: YAML, JSON, and errors with the line."""

import re
from contextlib import suppress
from pathlib import Path

import pytest

from rota.client.definitions import (
    FILE_BYTES_MAX,
    Definition,
    InvalidFile,
    documents_with_lines,
    parse_definitions,
    parse_value,
    read_text,
    with_whole_paths,
)
from support.rota_program import Rota


def test_yaml_words_are_text_unless_they_are_true_or_false() -> None:
    text = """
        name: traps
        on: yes
        env: {A: no, B: off, C: true}
        times: [1:30, 010, 1_000, 0x1f, 2027-01-01, 1.5, -3, ~]
        """

    [job] = parse_definitions(text, "jobs.yaml")

    assert job["on"] == "yes"
    assert job["env"] == {"A": "no", "B": "off", "C": True}
    assert job["times"] == ["1:30", "010", "1_000", "0x1f", "2027-01-01", 1.5, -3, None]


def test_the_own_members_of_a_mapping_count_before_merged_ones() -> None:
    text = """
        - &base {name: base, retries: 1, env: {A: x}}
        - &other
          <<: *base
          name: other
          cwd: /tmp
        - <<: [{retries: 3}, *other]
          name: third
        - *other
        """

    [base, other, third, again] = parse_definitions(text, "jobs.yaml")

    assert base == {"name": "base", "retries": 1, "env": {"A": "x"}}
    assert other == again == {**base, "name": "other", "cwd": "/tmp"}
    assert third == {**other, "name": "third", "retries": 3}


def test_json_may_be_indented_with_tabs() -> None:
    assert parse_definitions('{\n\t"name": "x"\n}', "job.json") == [{"name": "x"}]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("schedule: */5 * * * *", 'quote it: schedule: "*/5 * * * *"'),
        ("a: 1\nb:\n  c: 1\n  c: 2", "jobs.yaml:4: there is a second 'c' here"),
        ("<<: {a: 1}\n<<: {b: 1}", "jobs.yaml:2: there is a second '<<' here"),
        ("<<: {a: 1, a: 2}\na: 3", "jobs.yaml:1: there is a second 'a' here"),
        ('{"name": "x", "env": {"A": "1", "A": "2"}}', "there is a second 'A' in env"),
        ("1: x", "the key 1 is not text; quote it"),
        ("- a", "'a' is not a job"),
        ("", "there is no job in it"),
        ('{"a": 1]', "JSON is malformed"),
        ("a: [", "jobs.yaml:1:"),
        ("a: b\nc: " + "1" * 6_000, "jobs.yaml:2: the number has 6,000 digits; the limit is 309"),
        ('{"a": 1,\n"b": -' + "1" * 6_000 + "}", "jobs.yaml:2: the number has 6,000 digits"),
        ("{a: " + "1" * 6_000 + "}", "jobs.yaml:1: the number has 6,000 digits"),
        ("a: !!int 0x10", "jobs.yaml:1: '0x10' is not a decimal number"),
        ("a: !!float x", "jobs.yaml:1: 'x' is not a decimal number"),
        ("a: !!int [1]", "jobs.yaml:1: expected a scalar node"),
        ("a: 1e400", "jobs.yaml:1: the number 1e400 is larger than 1.8e308"),
        ("x: !!python/object/apply:os.system [true]", "could not determine a constructor"),
    ],
)
def test_an_invalid_file_is_reported_with_line_and_reason(text: str, said: str) -> None:
    with pytest.raises(InvalidFile) as caught:
        parse_definitions(text, "jobs.yaml")

    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"cwd": "site"}, {"cwd": "/srv/web/site"}),
        ({"cwd": "../site/."}, {"cwd": "/srv/site"}),
        ({"cwd": "."}, {"cwd": "/srv/web"}),
        ({"cwd": "/opt"}, {"cwd": "/opt"}),
        ({"cwd": ""}, {"cwd": ""}),
        ({"cwd": "~/site"}, {"cwd": "~/site"}),
        ({"cwd": 3}, {"cwd": 3}),
        ({"cwd": "in", "container": "alpine"}, {"cwd": "in", "container": "alpine"}),
        (
            {"tasks": [{"cwd": "a"}, {"cwd": "b", "container": "alpine"}, "c", {}]},
            {"tasks": [{"cwd": "/srv/web/a"}, {"cwd": "b", "container": "alpine"}, "c", {}]},
        ),
        (
            {"container": "alpine", "tasks": [{"cwd": "a"}, {"cwd": "b", "python": "m:f"}]},
            {
                "container": "alpine",
                "tasks": [{"cwd": "a"}, {"cwd": "/srv/web/b", "python": "m:f"}],
            },
        ),
        (
            {"container": "alpine", "tasks": [{"cwd": "a", "container": ""}]},
            {"container": "alpine", "tasks": [{"cwd": "/srv/web/a", "container": ""}]},
        ),
        ({"tasks": {"a": 1}}, {"tasks": {"a": 1}}),
    ],
)
def test_relative_folders_begin_in_that_of_the_file(
    given: Definition, expected: Definition
) -> None:
    assert with_whole_paths(given, Path("/srv/web")) == expected


def test_a_relative_cwd_in_a_file_is_made_absolute(
    rota: Rota, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    (tmp_path / "job.yaml").write_text("{name: whole, command: pwd, cwd: here}")

    applied = rota("jobs", "apply", "-f", "../job.yaml")
    same = rota("jobs", "diff", "-f", str(tmp_path / "job.yaml"))
    given = rota("jobs", "create", "whole-too", "--cwd", ".", "--", "pwd")

    assert (applied.status, same.status, given.status) == (0, 0, 0)
    for name in ("whole", "whole-too"):
        shown = rota("jobs", "show", name, "-o", "json").json
        assert shown["definition"]["cwd"] == str(tmp_path / "here")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("\n".join(
            ["name: bomb", "a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
            + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
        ), "references to this anchor repeat"),
        ("name: self\nparameters: &a {b: *a}", "references to this anchor repeat"),
        ("name: deep\nparameters: " + "[" * 20_000, "nested too deeply"),
        ('{"name": "deep", "parameters": ' + "[" * 200_000, "nested too deeply"),
    ],
)  # fmt: skip
def test_a_file_that_stands_for_more_than_it_has_is_refused(text: str, said: str) -> None:
    with pytest.raises(InvalidFile, match=said):
        parse_definitions(text, "jobs.yaml")


def test_a_file_over_the_limit_is_refused_with_its_name(tmp_path: Path) -> None:
    file = tmp_path / "long.yaml"
    with file.open("wb") as stream:
        stream.truncate(FILE_BYTES_MAX + 1)

    with pytest.raises(InvalidFile) as caught:
        read_text(file)

    assert str(caught.value) == f"{file}: the file has more than 64 MiB, the limit; split it"


def test_a_number_of_too_many_digits_is_no_value() -> None:
    with pytest.raises(InvalidFile, match="the number has 5,000 digits"):
        parse_value("1" * 5_000)


def test_references_to_anchors_are_followed() -> None:
    text = "name: one\nenv: &env {A: b}\ntasks: [{name: x, env: *env}, {name: y, env: *env}]"

    [job] = parse_definitions(text, "jobs.yaml")

    assert [each["env"] for each in job["tasks"]] == [{"A": "b"}, {"A": "b"}]


def test_a_missing_file_exits_with_9(rota: Rota) -> None:
    ran = rota("jobs", "create", "-f", "/nowhere/job.yaml")

    assert (ran.status, ran.err) == (9, "error: /nowhere/job.yaml: No such file or directory\n")


def test_both_parsers_of_yaml_read_the_files_of_the_documentation_alike() -> None:
    # Lines of values are known to the parser in Python alone, the one in C reads the rest.
    pattern = re.compile(r"^```yaml\n(.*?)^```", re.DOTALL | re.MULTILINE)
    texts = [
        text for page in Path("docs").rglob("*.md") for text in pattern.findall(page.read_text())
    ]
    alike = 0
    for text in texts:
        with suppress(InvalidFile):  # Part of a file, or documents other than jobs.
            found = parse_definitions(text, "page")
            with_lines = [value for value, _ in documents_with_lines(text, "page") if value]
            assert found in (with_lines, with_lines[0]), text
            alike += 1

    assert alike > 10
