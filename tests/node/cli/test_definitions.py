"""Files of job definitions: YAML, JSON, and errors with the line."""

import pytest

from rota.client.definitions import InvalidFile, parse_definitions
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


def test_json_may_be_indented_with_tabs() -> None:
    assert parse_definitions('{\n\t"name": "x"\n}', "job.json") == [{"name": "x"}]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("schedule: */5 * * * *", 'quote it: schedule: "*/5 * * * *"'),
        ("a: 1\nb:\n  c: 1\n  c: 2", "jobs.yaml:4: there is a second 'c' here"),
        ("1: x", "the key 1 is not text; quote it"),
        ("- a", "'a' is not a job"),
        ("", "there is no job in it"),
        ('{"a": 1]', "JSON is malformed"),
        ("a: [", "jobs.yaml:1:"),
        ("x: !!python/object/apply:os.system [true]", "could not determine a constructor"),
    ],
)
def test_an_invalid_file_is_reported_with_line_and_reason(text: str, said: str) -> None:
    with pytest.raises(InvalidFile) as caught:
        parse_definitions(text, "jobs.yaml")

    assert said in str(caught.value)


def test_a_missing_file_exits_with_9(rota: Rota) -> None:
    ran = rota("jobs", "create", "-f", "/nowhere/job.yaml")

    assert (ran.status, ran.err) == (9, "error: /nowhere/job.yaml: No such file or directory\n")
