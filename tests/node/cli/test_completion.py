"""``rota completion``: words and scripts for shells."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from rota.wire.tokens import ID_BYTES, SECRET_BYTES, mint
from support.rota_program import NO_NODE, PROGRAM, Rota

Complete = Callable[..., list[str]]


@pytest.fixture
def complete(rota: Rota) -> Complete:
    """Return a function that gives the completions for bash."""
    del rota

    def ask(*words: str, **environment: str) -> list[str]:
        ran = subprocess.run(
            PROGRAM,
            env={
                **os.environ,
                "_ROTA_COMPLETE": "bash_complete",
                "COMP_WORDS": " ".join(["rota", *words]),
                "COMP_CWORD": str(len(words)),
                **environment,
            },
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        )
        assert ran.stderr == ""
        return [line.partition(",")[2] for line in ran.stdout.split()]

    return ask


def test_commands_and_options_are_completed(complete: Complete) -> None:
    assert complete("exe") == ["executions"]
    assert complete("jobs", "re") == ["resume"]
    assert complete("jobs", "--lab") == ["--label"]
    assert complete("jobs", "create", "--mis") == ["--misfire"]
    assert complete("jobs", "create", "--misfire", "l") == ["latest"]


def test_names_of_jobs_are_completed(rota: Rota, complete: Complete) -> None:
    for job in ("comp-1", "comp-2", "de-comp-4", "else/comp-3"):
        namespace, _, name = job.rpartition("/")
        rota("jobs", "create", name, "-n", namespace or "default", "--", "true")

    assert complete("jobs", "show", "comp") == ["comp-1", "comp-2"]
    assert complete("trigger", "else/") == ["else/comp-3"]
    assert complete("trigger", "comp", ROTA_NAMESPACE="else") == ["comp-3"]
    assert complete("trigger", "-n", "else", "comp") == ["comp-3"]
    assert complete("-n", "else", "trigger", "comp") == ["comp-3"]
    assert complete("jobs", "-n", "else", "show", "comp") == ["comp-3"]
    assert complete("jobs", "delete", "comp-1", "comp-2") == ["comp-2"]
    assert complete("next", "comp-1") == ["comp-1"]

    rota("run", "-n", "once", "--", "true")
    assert rota("jobs", "-n", "once", "--all", "-o", "name").out != ""
    assert complete("jobs", "-n", "once", "show", "") == []


def test_completion_prints_no_warning(complete: Complete, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(mint(bytes(ID_BYTES + SECRET_BYTES)).text)

    # Another command would warn that the token is sent without TLS.
    found = complete("trigger", "comp", ROTA_URL="http://192.0.2.1:1", ROTA_TOKEN_FILE=str(file))

    assert found == []


def test_executions_are_completed_by_their_job(rota: Rota, complete: Complete) -> None:
    rota("jobs", "create", "comp-x", "--", "true")

    assert complete("output", "comp-x") == ["comp-x@latest"]
    assert complete("output", "@") == ["@latest"]


def test_profiles_are_completed(rota: Rota, complete: Complete) -> None:
    rota("config", "set", "--profile", "work", "output", "table")

    assert complete("jobs", "--profile", "w") == ["work"]
    assert complete("config", "use", "w") == ["work"]


def test_nothing_is_said_where_nothing_can_be_found(
    rota: Rota, complete: Complete, tmp_path: Path
) -> None:
    assert complete("jobs", "show", "x", ROTA_URL=NO_NODE) == []
    assert complete("jobs", "show", "x", ROTA_URL="nonsense") == []
    assert complete("jobs", "show", "x", ROTA_PROFILE="absent") == []
    damaged = tmp_path / "damaged.toml"
    damaged.write_text("[")
    assert complete("jobs", "show", "x", ROTA_CLIENT_CONFIG=str(damaged)) == []
    assert complete("jbos", "x") == []
    assert rota("completion", "tcsh").status == 2


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_its_script(rota: Rota, shell: str) -> None:
    printed = rota("completion", shell)

    assert printed.status == 0
    assert f"_ROTA_COMPLETE={shell}_complete" in printed.out


@pytest.mark.skipif(not shutil.which("bash"), reason="bash is not installed")
def test_bash_completes_with_the_script(rota: Rota, tmp_path: Path) -> None:
    script = tmp_path / "rota.bash"
    script.write_text(rota("completion", "bash").out)
    program = tmp_path / "rota"
    program.write_text(f"#!/bin/sh\nexec {PROGRAM[0]} -c '{PROGRAM[2]}' \"$@\"\n")
    program.chmod(0o755)
    typed = 'COMP_WORDS=(rota jobs pau); COMP_CWORD=2; _rota_completion rota; echo "$COMPREPLY"'

    ran = subprocess.run(
        ["bash", "--norc", "-c", f". {script}; {typed}"],
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )

    assert ran.stdout == "pause\n"
