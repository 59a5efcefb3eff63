"""The warning about secrets in plain text: the names that look like one, and no value."""

import json

import pytest

from rota.core.model.job import JobSpec, TaskSpec
from rota.core.model.work import Work
from rota.node.api.documents.plain_secret_warnings import plain_secret_warnings

VALUE = "hunter2-and-more"


def job(env: dict[str, str] | None = None, parameters: str = "", typed: str = "") -> JobSpec:
    work = Work(argv=("true",), env=tuple(sorted((env or {}).items())), parameters=typed)
    task = TaskSpec(name="main", work=work)
    return JobSpec(namespace="team-a", name="j", tasks=(task,), parameters=parameters)


@pytest.mark.parametrize(
    "name", ["PASSWORD", "PGPASSWORD", "db_passwd", "API_TOKEN", "clientSecret", "apiKey", "KEY"]
)
def test_a_variable_with_the_name_of_a_secret_has_a_warning_without_its_value(name: str) -> None:
    (warning,) = plain_secret_warnings(job({name: VALUE}))

    assert name in warning
    assert "rota secret set NAME -n team-a" in warning
    assert VALUE not in warning


@pytest.mark.parametrize("name", ["PATH", "TOKEN_FILE", "MONKEY", "KEYBOARD", "PASSWORD_LENGTH"])
def test_other_variables_have_no_warning(name: str) -> None:
    assert plain_secret_warnings(job({name: VALUE})) == []


@pytest.mark.parametrize("value", ["", "/run/secrets/db"])
def test_a_variable_without_a_value_or_with_the_path_of_a_file_has_no_warning(value: str) -> None:
    assert plain_secret_warnings(job({"PASSWORD": value})) == []


def test_parameters_of_jobs_and_of_types_are_checked_on_their_first_level() -> None:
    inner = json.dumps({"password": VALUE, "max_token": 5, "region": "eu"})

    assert "'password'" in plain_secret_warnings(job(parameters=inner))[0]
    assert "'password'" in plain_secret_warnings(job(typed=inner))[0]
    assert plain_secret_warnings(job(parameters='["password"]')) == []


def test_several_names_have_one_warning() -> None:
    (warning,) = plain_secret_warnings(job({f"T{number}_TOKEN": VALUE for number in range(5)}))

    assert "and 2 more" in warning
