"""``--namespace`` and ``--output`` before the command."""

import pytest

from support.rota_program import Rota


@pytest.fixture(autouse=True)
def jobs(rota: Rota) -> None:
    """A job in a namespace of its own."""
    rota("jobs", "create", "report", "-n", "before", "--", "true")


@pytest.mark.parametrize(
    "argv",
    [
        ["-n", "before", "-o", "name", "jobs"],
        ["--namespace=before", "--output=name", "jobs", "list"],
        ["-nbefore", "jobs", "-oname"],
        ["jobs", "-n", "before", "-o", "name"],
        ["jobs", "-n", "before", "-oname", "list"],
        ["jobs", "--output=name", "--namespace", "before", "show", "report"],
        ["-n", "before", "jobs", "-o", "name", "show", "report"],
        ["-n", "before", "-o", "name", "ls"],
        ["-n", "other", "jobs", "show", "report", "-n", "before", "-o", "name"],
        ["-n", "before", "jobs", "--status", "manual", "-o", "name"],
    ],
)
def test_options_before_a_command_are_those_of_the_command(rota: Rota, argv: list[str]) -> None:
    ran = rota(*argv)

    assert (ran.status, ran.out) == (0, "before/report\n"), ran.err


def test_options_before_a_command_are_refused_where_the_command_has_none(rota: Rota) -> None:
    no_namespace = rota("-n", "before", "cluster", "status")
    no_form = rota("-o", "yamlish", "jobs", "list")
    other_form = rota("-o", "wide", "version")

    assert (no_namespace.status, no_form.status, other_form.status) == (2, 2, 2)
    assert "No such option '--namespace'" in no_namespace.err
    assert "'yamlish' is not one of" in no_form.err
    assert "'wide' is not one of" in other_form.err


@pytest.mark.parametrize(
    "argv",
    [
        ["cluster", "members"],
        ["config", "show"],
        ["ring", "show", "--nodes", "3"],
        ["version"],
    ],
)
def test_each_group_passes_the_form_on(rota: Rota, argv: list[str]) -> None:
    group, *rest = argv

    assert rota("-o", "json", *argv).json
    if rest:
        assert rota(group, "-o", "json", *rest).json


def test_help_of_a_group_is_shown_after_its_options(rota: Rota) -> None:
    shown = rota("jobs", "-n", "before", "--help")

    assert shown.status == 0
    assert shown.out == rota("jobs", "--help").out
