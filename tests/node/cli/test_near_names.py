"""Suggestions of jobs with near names in errors about jobs that do not exist."""

import pytest

from support.rota_program import Rota

NEAR = (
    "error: there is no job 'near/repotr'; check the name and the namespace: `rota jobs` lists the "
    "jobs\nhint: did you mean 'near/report'?\n"
)


@pytest.fixture(autouse=True)
def jobs(rota: Rota) -> None:
    """A job in each of two namespaces."""
    rota("jobs", "create", "report", "-n", "near", "--", "true")
    rota("jobs", "create", "backup", "-n", "nearer", "--", "true")


@pytest.mark.parametrize(
    "argv",
    [
        ["jobs", "show", "repotr"],
        ["jobs", "delete", "repotr"],
        ["trigger", "repotr"],
        ["executions", "list", "repotr"],
        ["output", "repotr@latest"],
        ["ledger", "repotr"],
        ["next", "repotr"],
    ],
)
def test_a_near_name_of_the_namespace_is_suggested(rota: Rota, argv: list[str]) -> None:
    ran = rota(*argv, "-n", "near")

    assert (ran.status, ran.err) == (3, NEAR)


def test_a_suggestion_has_the_namespace_that_was_typed(rota: Rota) -> None:
    ran = rota("jobs", "show", "near/repotr")

    assert (ran.status, ran.err) == (3, NEAR)


def test_the_namespace_of_a_suggestion_comes_from_the_environment_too(
    rota: Rota, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROTA_NAMESPACE", "near")

    assert rota("jobs", "show", "repotr").err == NEAR


def test_a_near_name_of_a_document_is_suggested(rota: Rota) -> None:
    rota("namespace", "set", "storage", "--owner", "ann")

    ran = rota("namespace", "get", "storgae")

    assert "did you mean 'storage'?" in ran.err


def test_jobs_of_other_namespaces_and_other_names_are_not_suggested(rota: Rota) -> None:
    elsewhere = rota("jobs", "show", "repotr", "-n", "nearer")
    far = rota("jobs", "show", "thumbnails", "-n", "near")

    assert (elsewhere.status, far.status) == (3, 3)
    assert "did you mean" not in elsewhere.err + far.err
    assert "`rota jobs` lists the jobs" in elsewhere.err
