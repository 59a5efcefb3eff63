"""Values that are written in Python files."""

import ast
from datetime import timedelta

import pytest

from rota.client.definitions import InvalidFile
from rota.client.imports.drafts import Findings, Source
from rota.client.imports.python_source import (
    VALUES_MAX,
    Unknown,
    is_written,
    names_of,
    parse_python,
    value_of,
    zone_name,
)
from unit.client.imports.accepted import import_text


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("[1, ('a', None)]", [1, ["a", None]]),
        ("{'a': -1, **{'b': 2}}", {"a": -1, "b": 2}),
        ("dict(a=True)", {"a": True}),
        ("60 * 60 / 2 + 1 - 1", 1800.0),
        ("'a' + 'b'", "ab"),
        ("timedelta(hours=1, minutes=2)", timedelta(minutes=62)),
        ("SIZE * 2", 6),
        ("OTHER", Unknown("OTHER")),
        ("1 / 0", Unknown("1 / 0")),
        ("9 ** 9", Unknown("9 ** 9")),
        ("timedelta(days=1e99)", Unknown("timedelta(days=1e+99)")),
        ("f'{x}'", Unknown("f'{x}'")),
    ],
)
def test_values_are_those_that_are_written(expression: str, value: object) -> None:
    assert value_of(ast.parse(expression, mode="eval").body, {"SIZE": 3}) == value


@pytest.mark.parametrize("form", ["[n{0}, n{0}]", "n{0} + n{0}"])
def test_names_of_names_do_not_repeat_values_without_bound(form: str) -> None:
    lines = ["n0 = 'a'", *(f"n{n + 1} = {form.format(n)}" for n in range(22))]

    last = names_of(ast.parse("\n".join(lines)))["n22"]

    # Without a bound it would have four million values.
    assert len(repr(last)) < 10 * VALUES_MAX


@pytest.mark.parametrize("kind", ["celery-beat", "airflow"])
@pytest.mark.parametrize("text", ["(" * 500, f"x = {'-' * 50_000}1", f"x = {'1+' * 5000}1"])
def test_expressions_that_are_nested_too_deeply_are_refused(kind: str, text: str) -> None:
    with pytest.raises(InvalidFile, match="file:1: "):
        import_text(kind, text)


def test_warnings_of_python_are_not_shown(recwarn: pytest.WarningsRecorder) -> None:
    parse_python(Source("a.py", r"x = '\d'"), Findings("a.py"))

    assert not recwarn.list


def test_a_name_that_is_not_written_is_no_text() -> None:
    node = ast.parse("{KEY: 1, OTHER: 2, 'a': 3}", mode="eval").body

    value = value_of(node, {"KEY": "k"})

    assert value == {"k": 1, "OTHER": Unknown("{OTHER: 2}"), "a": 3}
    assert not is_written(value)


@pytest.mark.parametrize(
    ("expression", "name"),
    [
        ("'Asia/Tokyo'", "Asia/Tokyo"),
        ("ZoneInfo('Asia/Tokyo')", "Asia/Tokyo"),
        ("tz.tzutc()", "UTC"),
        ("datetime.UTC", "UTC"),
        ("timezone(timedelta(hours=1))", None),
        ("os.environ.get('TZ', 'UTC')", None),
        ("not_utc", None),
    ],
)
def test_a_time_zone_has_its_name(expression: str, name: str | None) -> None:
    assert zone_name(value_of(ast.parse(expression, mode="eval").body, {})) == name


@pytest.mark.parametrize(
    "text", ["A = 2", "if x:\n  A = 2", "for A in x:\n  pass", "A += 1", "A, C = x"]
)
def test_a_name_with_several_values_has_none(text: str) -> None:
    names = names_of(ast.parse(f"A = 1\nB = A\n{text}\ndef f():\n  B = 3"))

    assert value_of(ast.parse("[A, B]", mode="eval").body, names) == [Unknown("A"), Unknown("A")]
