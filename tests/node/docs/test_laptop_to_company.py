"""The page From one laptop to a company: every command runs and prints the output of the page."""

import json
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from support.etcd import free_ports, needs_etcd
from support.issuers import SomeIssuer
from support.page_shell import add_programs
from support.rotad import end_warden

PAGE = (Path(__file__).parents[3] / "docs/how-to/from-laptop-to-company.md").read_text()
PROGRAMS = ("bash", "bwrap", "curl", "haproxy", "prometheus", "promtool")
MISSING = [name for name in PROGRAMS if shutil.which(name) is None]
MARK = "@@@"
WAITED_FOR = (
    "curl",
    "promtool",
    "rota auth whoami",
    "rota cluster",
    "rota jobs apply",
    "rota trigger",
)
"""Beginnings of commands that a reader repeats until the programs are as far as the page."""
TRIES = 100

pytestmark = [
    needs_etcd,
    pytest.mark.skipif(bool(MISSING), reason=f"{MISSING} missing, so the page is not walked"),
]


class Shell:
    """A reader's shell, in an empty folder.

    Args:
        folder: The folder.
        environment: Its environment.
    """

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            ["bash"], cwd=folder, env=environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def run(self, command: str) -> str:
        """Return what a command prints."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{command}\necho; echo {MARK}\n")
        self._process.stdin.flush()
        lines = iter(self._process.stdout.readline, f"{MARK}\n")
        return "".join(lines)

    def close(self) -> None:
        """End the programs in the background, and the shell."""
        self.run("kill $(jobs -p); wait")
        self._process.communicate("exit\n", timeout=20)


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    """The shell of a new user with the programs of the page, in the folder ``w``."""
    (tmp_path / "w").mkdir()
    add_programs(tmp_path / "bin")
    ours = {name: text for name, text in os.environ.items() if not name.startswith("ROTA_")}
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    shell = Shell(tmp_path / "w", {**ours, "HOME": str(tmp_path), "PATH": path})
    yield shell
    shell.close()
    for number in (1, 2, 3):
        end_warden(tmp_path / "w" / f"n{number}")


def on_ports(page: str) -> str:
    """Return the page with unused ports."""
    for port, unused in zip((7400, 7401, 2379, 2380, 9090), free_ports(5), strict=True):
        page = page.replace(f":{port}", f":{unused}")
    return page


def steps(block: str) -> list[tuple[str, list[str]]]:
    """Return each command of a block with the lines that are shown below it."""
    parts = re.split(r"^\$ ", block.replace("\\\n", ""), flags=re.MULTILINE)[1:]
    return [
        (command, shown.splitlines())
        for command, _, shown in (part.partition("\n") for part in parts)
    ]


def normalized(text: str) -> str:
    """Return a line without what differs in each walk."""
    text = re.sub(r"token \w{8} of", "token ID of", text)
    text = re.sub(r"as n\d sees it", "as a node sees it", text)
    text = re.sub(r"wrote \d+ lines", "wrote lines", text)
    text = re.sub(r"@\[[\d.]+\]", "@[TIME]", text)
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+", "TIME", text)
    text = re.sub(r"\bin \d+[smhd]( \d+[smhd])?|\b[\d.]+m?s\b", "SPAN", text)
    return re.sub(r"  +", "  ", text).strip()


def missing(shown: list[str], printed: str) -> list[str]:
    """Return the parts of the shown lines that were not printed; `…` stands for any text."""
    answer = [normalized(line) for line in printed.splitlines()]
    lines = [[normalized(part) for part in line.split("…")] for line in shown]
    return [
        "…".join(parts)
        for parts in lines
        if not any(all(part in line for part in parts) for line in answer)
    ]


def run_as_shown(shell: Shell, command: str, shown: list[str]) -> None:
    """Run a command, and check its output."""
    printed = ""
    for _ in range(TRIES if command.startswith(WAITED_FOR) else 1):
        printed = shell.run(command)
        if not missing(shown, printed):
            return
        threading.Event().wait(0.5)

    raise AssertionError(f"$ {command}\n{printed}\nshown: {missing(shown, printed)}")


@pytest.mark.timeout(300)
def test_every_step_prints_what_the_page_shows(shell: Shell, tmp_path: Path) -> None:
    folder, page = tmp_path / "w", on_ports(PAGE)
    issuer = SomeIssuer()
    (folder / "ana.jwt").write_text(issuer.token(groups=["data-team"]))
    (folder / "ana.jwt").chmod(0o600)
    [laptop, *further] = re.findall(r"^## \d+\. .*?(?=^## )", page, re.MULTILINE | re.DOTALL)
    assert len(further) == 9

    [port] = free_ports(1)
    shell.run(f"export ROTA_URL=http://127.0.0.1:{port}")
    walk(shell, folder, laptop.replace("$ rota dev", f"$ rota dev --port {port}"))
    shell.run("kill %1; wait %1; unset ROTA_URL")
    for step in further:
        walk(shell, folder, step, issuer)

    assert "(kept" in (folder / "dev.log").read_text()


def walk(shell: Shell, folder: Path, step: str, issuer: SomeIssuer | None = None) -> None:
    """Write the files of a step, and run its commands."""
    for content in re.findall(r"^```\w*\n(.*?)^```$", step, re.MULTILINE | re.DOTALL):
        if content.startswith("$ "):
            for command, shown in steps(content):
                run_as_shown(shell, command, shown)
            continue
        name = content.partition("\n")[0].removeprefix("# ")
        if name == "corp.yaml" and issuer is not None:
            document = yaml.safe_load(content)
            document["definition"]["keys"] = issuer.public_keys
            content = json.dumps(document)
        (folder / name).write_text(content)
