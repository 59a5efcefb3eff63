"""The tutorial, as a reader follows it: every command runs and prints the output of the page."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.rota_program import PATIENCE_S, PROGRAM

DOCS = Path(__file__).parents[3] / "docs"
PAGE = (DOCS / "tutorial.md").read_text()
GREETING = "$ rota dev\n"
MARK = "@@@"

Block = tuple[str, str]
"""Language and content."""


def blocks(page: str) -> list[Block]:
    """Return the fenced blocks of a page."""
    return re.findall(r"^```(\w*)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


def steps(block: str) -> list[tuple[str, str]]:
    """Return each command of a block with the output shown below it."""
    context = re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
    return [(command, shown) for command, _, shown in (part.partition("\n") for part in context)]


def script_of(page: list[Block]) -> str:
    """Return the commands that a reader of the page types after the start of the node."""
    lines: list[str] = []
    for language, content in page:
        if language in ("yaml", "python"):
            name = content.partition("\n")[0].removeprefix("# ")
            lines.append(f"cat > {name} <<'END OF FILE'\n{content}END OF FILE")
        elif language == "" and content.startswith("$ ") and not content.startswith(GREETING):
            # The status of a command is for the next one to ask.
            lines += [
                f"{command}\nstatus=$?; echo {MARK}; (exit $status)"
                for command, _ in steps(content)
            ]
    return "\n".join(lines)


def normalized(text: str) -> list[str]:
    """Return lines in which ids have numbers, times are all the same, and gaps of any width one."""
    numbers: dict[str, str] = {}

    def number(found: re.Match[str]) -> str:
        return numbers.setdefault(found[0], f"id-{len(numbers) + 1}")

    text = re.sub(r"\b[0-9a-f]{16}-[0-9a-f]{14}-[0-9a-f]{4}\b", number, text)
    text = re.sub(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.\d]*(Z|[+-]\d\d:\d\d)?", "TIME", text)
    span = r"\d+(\.\d+)?(ms|[smhd])\b( \d+[smhd]\b)?"
    text = re.sub(rf"\bin {span}|{span} ago|\bnow\b|\b{span}", "SPAN", text)
    # Whether a task is seen while it runs is chance, if it is over in a millisecond.
    lines = [line for line in text.splitlines() if not line.endswith(" started")]
    return [re.sub(r"  +", "  ", line).rstrip() for line in lines if line.strip()]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty home directory with the programs of the page."""
    home = tmp_path_factory.mktemp("home")
    (home / "bin").mkdir()
    for name, flags in (("rota", f"-c '{PROGRAM[2]}'"), ("python", "")):
        program = home / "bin" / name
        program.write_text(f'#!/bin/sh\nexec {PROGRAM[0]} {flags} "$@"\n')
        program.chmod(0o755)
    (home / "empty").mkdir()
    return home


@pytest.fixture(scope="module")
def environment(home: Path) -> dict[str, str]:
    """The environment of a new user's shell."""
    ours = {name: text for name, text in os.environ.items() if not name.startswith("ROTA_")}
    return {**ours, "HOME": str(home), "PATH": f"{home / 'bin'}:{os.environ['PATH']}"}


@pytest.fixture(scope="module")
def greeting(home: Path, environment: dict[str, str]) -> Iterator[str]:
    """The greeting of the node in the first terminal, on a port of its own."""
    with subprocess.Popen(
        ["rota", "dev", "--port", "0"],
        env=environment,
        cwd=home,
        stdout=subprocess.PIPE,
        text=True,
        executable=home / "bin" / "rota",
    ) as dev:
        assert dev.stdout is not None
        try:
            yield "".join(iter(dev.stdout.readline, "  rota executions\n"))
        finally:
            dev.terminate()
            dev.wait(PATIENCE_S)


@pytest.mark.skipif(not shutil.which("bash"), reason="bash is not installed")
def test_the_tutorial_shows_what_its_commands_do(
    home: Path, environment: dict[str, str], greeting: str
) -> None:
    page = blocks(PAGE)
    expected = [step for language, block in page if language == "" for step in steps(block)][1:]
    [url] = re.findall(r"API +(\S+)", greeting)

    ran = subprocess.run(
        ["bash", "-c", f"exec 2>&1\n{script_of(page)}"],
        env={**environment, "ROTA_URL": url},
        cwd=home / "empty",
        stdout=subprocess.PIPE,
        text=True,
        timeout=90,
        check=False,
    )

    answers = ran.stdout.split(f"{MARK}\n")[:-1]
    assert len(answers) == len(expected) > 20
    for (command, shown), answer in zip(expected, answers, strict=True):
        assert normalized(answer) == normalized(shown), f"$ {command}\n{answer}"


def test_the_greeting_is_that_of_the_tutorial(home: Path, greeting: str) -> None:
    [shown] = [block for _, block in blocks(PAGE) if block.startswith(GREETING)]

    printed = greeting.replace(str(home), "/home/ada")
    printed = re.sub(r"http://127.0.0.1:\d+", "http://127.0.0.1:7400", printed)
    # This line appears only because the port is not the usual one.
    printed = re.sub(r"^ +export ROTA_URL=.*\n", "", printed, flags=re.MULTILINE)
    assert f"{GREETING}{printed}  rota executions\n" == shown


def test_only_the_installation_is_not_run() -> None:
    assert {language for language, _ in blocks(PAGE)} == {"", "sh", "yaml", "python"}
    assert [block for language, block in blocks(PAGE) if language == "sh"] == [
        "make dev\npip install '.[node]' && rota dev\n"
    ]
    assert all(block.startswith("$ ") for language, block in blocks(PAGE) if language == "")


def test_every_link_of_the_tutorial_leads_somewhere() -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", PAGE):
        assert (DOCS / link).is_file(), link
