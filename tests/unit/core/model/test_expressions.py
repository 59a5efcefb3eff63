"""Expressions and templates: what is refused when a job is saved, and what values become."""

import resource
from typing import Any

import pytest

from rota.core.model.expressions import (
    EXPRESSION_LENGTH_MAX,
    ExpressionError,
    evaluate,
    problem_of_expression,
    problem_of_template,
    rendered,
    rendered_json,
    rendered_line,
)
from rota.core.model.flow import Text
from rota.core.model.flow_checks import _problems_of_text  # pyright: ignore[reportPrivateUsage]

NAMES: dict[str, Any] = {
    "params": {"long": "x" * 100_000, "a": [1, 2], "text": "x y", "none": None, "size": 3},
    "results": {"my-task": {"rows": 5}},
    "item": {"k": "v"},
}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("params.a | length > 1 and results['my-task'].rows == 5", True),
        ("params.missing is defined", False),
        ("params.missing | default(7)", 7),
        ("params.size | times(1024)", 3072),
        ("{'a': {'b': params.a}}", {"a": {"b": [1, 2]}}),
        ("params.text in ['x y', 'z*']", True),
        ("results['my-task']", {"rows": 5}),
    ],
)
def test_the_value_of_an_expression(text: str, value: object) -> None:
    assert problem_of_expression(text) == ""
    assert evaluate(text, NAMES) == value


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("param.x", "names param, which does not exist; the names are execution, index, item, "),
        ("params.x ==", "syntax error"),
        (" ", "is empty; write an expression"),
        ("{{ params.x }}", "is an expression already; write it without {{ and }}"),
        ("x" * (EXPRESSION_LENGTH_MAX + 1), "has 4,097 characters"),
        ("(" * 4_000, "syntax error: template exceeds maximum recursion limits"),
        ("[[1] * 10000] * 10000", "has the operator *"),
        ("debug()", "names debug"),
        ("1) \x03 {{ (2", "is an expression already"),
        ("1 \x03 2", "contains a control character"),
    ],
)
def test_a_wrong_expression_is_refused(text: str, problem: str) -> None:
    assert problem_of_expression(text).startswith(problem)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("echo {{ prams.x }}", "names prams"),
        ("echo {{ params.x", "syntax error"),
        ("docker ps --format '{{.Name}}'", "syntax error"),
        ("{% set a = [1, 1] %}{{ a }}", "has the statement set; the statements are elif, else,"),
        ("{%- include 'x' %}", "has the statement include"),
        ("{% macro m() %}{% endmacro %}", "has the statement macro"),
        ("{{ [1] * 9 }}", "has the operator *"),
        ("{{ params.x" + " ~ params.x" * 17 + " }}", "has 17 operators + and ~"),
        ("{{ '}}' ~ [1] * 9 }}", "has the operator *"),
        ("{% if [1] * 9 %}{% endif %}", "has the operator *"),
    ],
)
def test_a_wrong_template_is_refused(text: str, problem: str) -> None:
    assert problem_of_template(text).startswith(problem)


@pytest.mark.parametrize(
    "text",
    [
        "ls *.csv {{ item.k }}",
        "{% raw %}{{ a * b }}{% endraw %} {{ item.k }}",
        "{% if params.a %}{% for each in params.a %}{{ each }}{% endfor %}{% endif %}",
        "{{ 'a*b' }}",
    ],
)
def test_a_template_that_is_allowed(text: str) -> None:
    assert problem_of_template(text) == ""


def test_values_that_are_no_text_are_json_in_a_template() -> None:
    text = "{{ params.a }} {{ item }} {{ params.none }} {{ params.text }}\n"

    assert rendered(text, NAMES) == '[1,2] {"k":"v"} null x y\n'


def test_values_in_a_line_for_the_shell_are_quoted_unless_they_are_safe() -> None:
    line = rendered_line("{{ params.text }} {{ item.k }} {{ params.text | safe }}", NAMES)

    assert line == "'x y' v x y"


def test_a_text_that_is_one_value_is_that_value_in_json() -> None:
    given = '{"args":["{{ params.a }}","n={{ params.size }}",5]}'

    assert rendered_json(given, NAMES) == '{"args":[[1,2],"n=3",5]}'


@pytest.mark.parametrize(
    "text",
    [
        "params.missing",
        "'{:>999999999}'.format(3)",
        "'%0999999999d' | format(3)",
        "'x' | indent(999999999)",
        "range(100000000)",
        "[1, 2] | batch(1000000000, 0) | list",
        "range(99999) | join('xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx')",
        "params.a | times(9)",
        "1 / 0",
        "'a' | indent(400000000) | length",
        "'a' | indent(width=400000000) | length",
        "params.long | replace('x', params.long) | length",
        "range(9000) | map('string') | join(params.long) | length",
        "params.a | tojson(indent=400000000)",
        "'%400000000s' | format('x') | length",
        "[1] | slice(100000000) | list",
        "params | pprint(400000000)",
    ],
)
def test_an_expression_without_a_value_or_beyond_its_budget_fails(text: str) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    with pytest.raises(ExpressionError):
        evaluate(text, NAMES)

    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # KiB


def test_a_template_does_not_write_a_long_value_again_and_again() -> None:
    text = "{% for each in range(100) %}{{ params.long }}{% endfor %}"

    for render in (rendered, rendered_line):
        with pytest.raises(ExpressionError, match="writes more than 1,048,576 characters"):
            render(text, NAMES)


def test_an_evaluation_of_large_values_has_fewer_steps() -> None:
    text = "{% for each in range(3000) %}{% if params.long %}{% endif %}{% endfor %}"

    assert rendered(text, {"params": {"long": "x"}}) == ""
    with pytest.raises(ExpressionError, match="fuel"):
        rendered(text, {"params": {"long": "x" * 1_000_000}})


@pytest.mark.parametrize(
    ("line", "is_refused"),
    [
        ('echo "{{ params.x }}"', True),
        ("echo 'a {{ params.x }}'", True),
        ('echo "{{ params.x | safe }}"', False),
        ('echo "a" {{ params.x }} "b"', False),
        ('echo \\" {{ params.x }}', False),
        ("echo {{ params['x'] }} {{ params.y }}", False),
        ("docker ps --format '{% raw %}{{.Names}}{% endraw %}' {{ params.x }}", False),
        ("echo '{% raw %}it{% endraw %} {{ params.x }}'", True),
    ],
)
def test_a_value_in_quotes_is_refused_in_a_line_for_the_shell(line: str, is_refused: bool) -> None:
    problems = list(_problems_of_text(Text("/command", line, is_line=True)))

    assert bool(problems) == is_refused
