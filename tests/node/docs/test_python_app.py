"""The page docs/how-to/python-app.md is followed on a real node."""

import doctest
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rota.client.cli.main import main
from rota.client.dev.local_node import LocalNode

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "python-app.md"
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def blocks(language: str) -> list[str]:
    """Return the fenced blocks of *language*; empty for those of commands."""
    found: list[tuple[str, str]] = re.findall(
        r"^```(\w*)\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL
    )
    return [content for name, content in found if name == language]


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The modules of the page, in a folder from which this program imports, and a node."""
    contents = {block.partition(".py")[0].removeprefix("# "): block for block in blocks("python")}
    for name, content in contents.items():
        (tmp_path / f"{name}.py").write_text(content)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.chdir(tmp_path)
    with LocalNode(tmp_path / "data", flags=("--drain", "0s")) as node:
        monkeypatch.setenv("ROTA_URL", node.url)
        yield tmp_path
    for name in contents:
        sys.modules.pop(name, None)


def test_the_examples_of_the_page_do_what_they_say(
    modules: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["deploy", "sales:app"]) == 0
    capsys.readouterr()
    examples = doctest.DocTestParser().get_doctest(
        "\n".join(blocks("pycon")), {}, modules.name, str(PAGE), 0
    )

    ran = doctest.DocTestRunner(optionflags=OPTIONS).run(examples)

    assert ran.attempted > 10
    assert ran.failed == 0, capsys.readouterr().out


@pytest.mark.usefixtures("modules")
def test_the_commands_of_the_page_print_what_it_shows(capsys: pytest.CaptureFixture[str]) -> None:
    shown_commands = "".join(blocks(""))
    commands = re.findall(r"^\$ rota (.*)\n((?:(?!\$ ).+\n)*)", shown_commands, re.MULTILINE)

    for command, shown in commands:
        assert main(command.split()) == 0
        printed = capsys.readouterr().out
        assert without_times(printed) == without_times(shown)

    assert len(commands) == 6


def without_times(table: str) -> str:
    """Return *table* without the times until the next executions, which differ."""
    return re.sub(r"  (in \w+( \w+)?|now)$", "  TIME", table, flags=re.MULTILINE)
