"""A shell in which tests follow the commands of a page, with ``rota`` and ``rotad``."""

import os
import subprocess
from pathlib import Path

from support.pages import Block, is_as_shown
from support.rota_program import PATIENCE_S, PROGRAM


class PageShell:
    """Runs commands with bash, as a user with an empty home.

    Args:
        root: An empty folder, for the home and the programs.
        url: The URL of the node.

    Attributes:
        folder: The folder in which commands run, which is the home.
        environment: The variables of the commands.
    """

    def __init__(self, root: Path, url: str = "") -> None:
        self.folder = root / "home"
        self.folder.mkdir(exist_ok=True)
        add_programs(root / "bin")
        self.environment = {
            **{name: text for name, text in os.environ.items() if not name.startswith("ROTA_")},
            "HOME": str(self.folder),
            "PATH": f"{root / 'bin'}:{os.environ['PATH']}",
            "ROTA_URL": url,
        }

    def run(self, command: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a command; errors end it, as those of a step of a pipeline do."""
        return subprocess.run(
            ["bash", "-e", "-c", command], cwd=self.folder, capture_output=True, text=True,
            env={**self.environment, **variables}, timeout=PATIENCE_S, check=False,
        )  # fmt: skip

    def must_run(self, command: str, **variables: str) -> str:
        """Return what a command prints, which has to succeed."""
        ran = self.run(command, **variables)
        assert ran.returncode == 0, f"$ {command}\n{ran.stdout}{ran.stderr}"
        return ran.stdout

    def follow(self, inside: list[Block]) -> int:
        """Save the files of blocks, run their commands, and return the number of these.

        A command prints what the page shows; without anything shown, it only has to succeed.
        """
        count = 0
        for block in inside:
            if block.file:
                block.save(self.folder)
            for command, shown in block.steps:
                printed = self.must_run(command)
                assert not shown or is_as_shown(shown, printed), f"$ {command}\n{printed}"
                count += 1
        return count


def add_programs(folder: Path) -> None:
    """Write ``rota`` and ``rotad`` of this checkout into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, flags in (("rota", f"-c '{PROGRAM[2]}'"), ("rotad", "-P -m rota.node")):
        program = folder / name
        program.write_text(f'#!/bin/sh\nexec {PROGRAM[0]} {flags} "$@"\n')
        program.chmod(0o755)
