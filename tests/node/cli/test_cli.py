"""Behaviour that all commands of ``rota`` share: wrong usage, terminals, times and sizes."""

import re

import pytest

from rota.client.cli.human import relative, size, span
from rota.core.timing.instants import parse_instant
from support.rota_program import NO_NODE, Rota, on_terminal

# -- options of every command ----------------------------------------------------------------------


def test_version_shows_client_and_node(rota: Rota, url: str) -> None:
    shown = rota("version", "-o", "json")
    alone = rota("version", "--url", NO_NODE)

    assert shown.json["url"] == url
    assert shown.json["client"] == shown.json["node"]
    assert alone.status == 6
    assert alone.out.startswith("client")


@pytest.mark.parametrize("argv", [["jobs"], ["trigger", "x"], ["executions"], ["ledger", "x"]])
def test_an_unreachable_node_is_reported_with_a_hint(rota: Rota, argv: list[str]) -> None:
    ran = rota(*argv, "--url", NO_NODE)

    assert (ran.status, ran.out) == (6, "")
    assert ran.err == (
        "error: no answer from http://127.0.0.1:1: Connection refused\n"
        "hint: check that the node is running and that this is its address; give other URLs with "
        "--url or $ROTA_URL\n"
    )


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["jbos"], "Did you mean 'jobs'?"),
        (["jobs", "craete"], "Did you mean 'create' or 'resume' or 'delete'?"),
        (["zzzz"], "The commands are: dev, jobs,"),
        (["jobs", "--naemspace", "x"], "'--namespace'?"),
        (["trigger", "x", "--wiat"], "'--wait'?"),
        (["jobs", "create", "x"], "after two dashes, its command"),
        (["jobs", "create", "x", "--env", "A", "--", "true"], "'A' is not KEY=VALUE"),
        (["jobs", "create", "x", "-f", "y"], "not both"),
        (["jobs", "--url", "nonsense"], "'nonsense' is not the URL of a node"),
        (["next"], "give either a job or --schedule"),
        (["executions", "list", "--since", "yesterday"], "such as 90m or 2d"),
        (["executions", "wait", "x", "--timeout", "soon"], "is not a duration"),
        (["executions", "show", "x@first"], "after the @ write 'latest'"),
    ],
)
def test_wrong_usage_exits_with_2_and_a_correction(rota: Rota, argv: list[str], said: str) -> None:
    ran = rota(*argv)

    assert (ran.status, ran.out) == (2, "")
    assert said in " ".join(ran.err.split())


def test_what_is_not_there_exits_with_3(rota: Rota) -> None:
    rota("jobs", "create", "never-ran", "--", "true")

    assert rota("trigger", "absent").status == 3
    assert rota("executions", "show", "nothing").status == 3
    never = rota("executions", "show", "never-ran@latest")
    assert never.status == 3
    assert never.err.startswith(
        "error: the job never-ran has no executions yet\nhint: `rota trigger"
    )


# -- terminals -------------------------------------------------------------------------------------


def test_a_terminal_gets_colours_unless_it_wants_none(rota: Rota, url: str) -> None:
    rota("jobs", "create", "colourful", "--", "true")
    rota("trigger", "colourful", "--wait")
    argv = ["executions", "list", "colourful", "--url", url]

    with on_terminal(*argv) as terminal:
        coloured = terminal.rest()
    with on_terminal(*argv, environment={"NO_COLOR": "1"}) as terminal:
        plain = terminal.rest()

    assert "\x1b[32msuccess" in coloured
    assert "success" in plain
    assert "\x1b" not in plain


@pytest.mark.parametrize("colours", [{}, {"NO_COLOR": "1"}], ids=["coloured", "plain"])
def test_a_table_is_as_wide_as_the_terminal_unless_it_is_wide(
    rota: Rota, url: str, colours: dict[str, str]
) -> None:
    name = f"a-job-with-a-name-that-is-{'very-' * 10}long"
    rota("jobs", "create", name, "--", "exit 3")
    execution = rota("trigger", name, "--wait", "-o", "name").out.strip()
    argv = ["executions", "list", name, "--url", url]
    environment = {"COLUMNS": "80", **colours}

    with on_terminal(*argv, environment=environment) as terminal:
        fitted = re.sub(r"\x1b\[[0-9;]*m", "", terminal.rest()).splitlines()
    with on_terminal(*argv, "-o", "wide", environment=environment) as terminal:
        wide = terminal.rest()

    assert max(map(len, fitted)) <= 80
    assert fitted[0].split()[:3] == ["EXECUTION", "JOB", "STATUS"]
    assert fitted[1].split()[0] == execution
    assert name in wide
    assert name in rota(*argv[:-2]).out


def test_control_characters_of_users_do_not_reach_the_terminal(rota: Rota) -> None:
    rota("jobs", "create", "sly", "--description", "red \x1b[31malert", "--", "echo \x1b[31m x")

    assert "\x1b" not in rota("jobs", "show", "sly").out


# -- formatted times and sizes ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0004, "0.4ms"),
        (0.34, "340ms"),
        (3.42, "3.4s"),
        (59.4, "59s"),
        (125, "2m 5s"),
        (3600, "1h"),
        (3725, "1h 2m"),
        (86_400 * 9 + 59, "9d"),
        (-2, "-2.0s"),
    ],
)
def test_a_duration_is_formatted_briefly(seconds: float, text: str) -> None:
    assert span(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0B"),
        (640, "640B"),
        (1_000, "1.0KiB"),
        (64 << 20, "64MiB"),
        (1_023 << 20, "1.0GiB"),
        (5 << 50, "5120TiB"),
    ],
)
def test_a_size_is_formatted_briefly(count: int, text: str) -> None:
    assert size(count) == text


@pytest.mark.parametrize(
    ("when", "text"),
    [
        ("2027-01-01T00:00:00.900000Z", "now"),
        ("2026-12-31T23:59:55Z", "5s ago"),
        ("2027-01-01T02:03:04Z", "in 2h 3m"),
        (None, ""),
    ],
)
def test_a_time_is_formatted_relative_to_now(when: str | None, text: str) -> None:
    assert relative(when, parse_instant("2027-01-01T00:00:00Z")) == text
