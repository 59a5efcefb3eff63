"""Words of other programs for commands of ``rota``: aliases, and advice in errors."""

import re

import pytest

from rota.client.cli.main import ADVICE, ALIASES, COMMANDS
from support.rota_program import Rota

ADVISED = [
    (word, command)
    for word, text in ADVICE.items()
    for command in re.findall(r"`rota ([^`]+)`", text)
]


def test_no_alias_hides_a_command() -> None:
    assert not COMMANDS.keys() & (ALIASES.keys() | ADVICE.keys())
    assert not ALIASES.keys() & ADVICE.keys()


@pytest.mark.parametrize("word", ALIASES)
def test_an_alias_is_its_command(rota_alone: Rota, word: str) -> None:
    shown = rota_alone(word, "--help")

    assert shown.status == 0
    assert shown == rota_alone(*ALIASES[word], "--help")
    assert f"Usage: rota {ALIASES[word][0]}" in shown.out


def test_aliases_are_in_the_help(rota_alone: Rota) -> None:
    shown = " ".join(rota_alone("--help").out.split())

    assert re.search(r"Aliases: .*logs = output, .*diff = jobs diff\.", shown)


@pytest.mark.parametrize("word", ADVICE)
def test_a_word_for_several_commands_is_refused_with_advice(rota_alone: Rota, word: str) -> None:
    ran = rota_alone(word, "report")

    assert (ran.status, ran.out) == (2, "")
    assert f"There is no command '{word}'. {ADVICE[word]}" in " ".join(ran.err.split())


@pytest.mark.parametrize(("word", "command"), ADVISED)
def test_advice_names_existing_commands_and_options(
    rota_alone: Rota, word: str, command: str
) -> None:
    del word
    shown = rota_alone(*command.partition(" -- ")[0].split(), "--help")

    assert shown.status == 0


def test_an_alias_takes_the_arguments_of_its_command(rota: Rota) -> None:
    rota("jobs", "create", "aliased", "--", "echo", "hello")
    execution = rota("trigger", "aliased", "--wait", "-o", "name").out.strip()

    assert rota("logs", "aliased@latest").out == "hello\n"
    assert "default/aliased\n" in rota("ls", "-o", "name").out
    assert rota("ps", "aliased", "-o", "name").out == ""
    assert rota("ps", "aliased", "--status", "success", "-o", "name").out == f"{execution}\n"
