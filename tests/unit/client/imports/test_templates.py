"""Text of other schedulers as templates."""

import pytest

from rota.client.imports.templates import literal
from rota.core.model.expressions import problem_of_template, rendered
from unit.client.imports.accepted import import_text, only_job


@pytest.mark.parametrize(
    "text",
    ["{{.Names}}", "{% if x %}\n", "a {# b #} {{", "{% raw %}{{ x }}{% endraw %} {%- endraw -%}"],
)
def test_the_value_of_literal_text_is_the_text(text: str) -> None:
    assert problem_of_template(literal(text)) == ""
    assert rendered(literal(text), {}) == text


def test_text_without_braces_stays_as_it_is() -> None:
    assert literal("${HOME} {#}") == "${HOME} {#}"


def test_braces_in_a_crontab_are_no_template() -> None:
    result = import_text("crontab", "F={{.ID}}\n0 1 * * * docker ps --format '{{.Names}}'\n")

    job = only_job(result)
    assert job["env"] == {"F": "{% raw %}{{.ID}}{% endraw %}"}
    assert job["command"][:2] == ["/bin/sh", "-c"]
    assert rendered(job["command"][2], {}) == "docker ps --format '{{.Names}}'"
