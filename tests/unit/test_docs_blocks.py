"""Blocks of code of all pages, without running them: each parses, and each command exists.

Pages whose blocks are run have tests of their own in tests/node/docs.
"""

import ast
import json
import re
import shlex
import tomllib
from collections.abc import Callable, Iterator
from itertools import takewhile
from pathlib import Path

import click
import pytest
import yaml

from rota.client.cli.main import cli

DOCS = Path(__file__).resolve().parents[2] / "docs"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES = [
    str(file.relative_to(DOCS))
    for file in sorted(DOCS.rglob("*.md"))
    if BLOCK.search(file.read_text())
]
COMMAND = re.compile(
    r"^(?:\$ )?(?:.*(?:\| |; |&& ))?rota (?!\d)([^\n]*)|\$\(rota ([^)]*)\)", re.MULTILINE
)
"""The arguments of a command, but not those of a line like `rota 0.1.0`, which one prints."""
ENDS = {"|", ";", "&&", "||", ">", ">>", "&", "<", "<<"}
PARSERS: dict[str, Callable[[str], object]] = {
    "json": json.loads,
    "yaml": lambda text: list(yaml.safe_load_all(text)),
    "toml": tomllib.loads,
    "python": ast.parse,
}


@pytest.mark.parametrize("page", PAGES)
def test_every_block_of_a_known_language_parses(page: str) -> None:
    for language, text in blocks(page):
        if language in PARSERS and not text.startswith(">>> "):
            PARSERS[language](text)


@pytest.mark.parametrize("command", ["job", "jobs lst", "jobs list --no-such", "dag --of x"])
def test_a_misspelt_command_is_found(command: str) -> None:
    [words] = commands_in(f"$ rota {command} | cat\n")

    with pytest.raises(click.UsageError):
        check(words)


@pytest.mark.parametrize("page", PAGES)
def test_every_command_of_a_block_exists_with_its_options(page: str) -> None:
    for language, text in blocks(page):
        if language in {"", "sh"}:
            for words in commands_in(text):
                check(words)


def blocks(page: str) -> Iterator[tuple[str, str]]:
    """Yield the language and the text of each fenced block."""
    yield from BLOCK.findall((DOCS / page).read_text())


def commands_in(text: str) -> Iterator[list[str]]:
    """Yield the arguments of each command `rota` of a block."""
    for found in COMMAND.finditer(re.sub(r"\\\n\s*", "", text)):
        lexer = shlex.shlex(found[1] or found[2], posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        yield list(takewhile(lambda word: word not in ENDS, lexer))


def check(words: list[str]) -> None:
    """Parse the arguments of `rota`.

    Raises:
        click.UsageError: There is no such command or option.
    """
    command: click.Command = cli
    context = click.Context(cli, info_name="rota")
    while isinstance(command, click.Group):
        command.parse_args(context, words)  # Which inserts the default command.
        # What click itself gives to resolve_command; its public name is deprecated.
        left = [*context._protected_args, *context.args]  # pyright: ignore[reportPrivateUsage]
        name, found, words = command.resolve_command(context, left)
        assert found is not None
        command, context = found, click.Context(found, parent=context, info_name=name)
    command.make_parser(context).parse_args(words)
