"""Help texts of ``rota``: they are complete, and their examples work."""

import os
import re
import shlex
import shutil
import signal
import subprocess
from itertools import count
from pathlib import Path

import click
import pytest
import yaml
from click.testing import CliRunner

from rota.client import Client
from rota.client.cli.inputs.command_groups import LazyGroup
from rota.client.cli.main import COMMANDS, SECTIONS, cli
from support.command_tree import commands, examples_of
from support.rota_program import PATIENCE_S, PROGRAM, Rota
from support.rotad import Rotad

DOCUMENTATION = Path(__file__).parents[3] / "docs" / "reference" / "cli.md"
DEFINITIONS = """
name: report
labels: {team: core}
schedule: "@daily"
tasks:
- {name: fetch, command: echo fetched}
- {name: load, needs: [fetch], command: echo loaded}
---
name: flaky
labels: {team: core}
command: test "$ROTA_ATTEMPT" -ge 2
retries: {limit: 3, delay: 10ms}
"""
TYPES = """
kind: type
name: image.render
definition: {template: {command: "true"}}
"""
APP = """
import rota

app = rota.App("shop")


@app.task(schedule="@daily")
def report() -> None: ...
"""
JOBS = ("report", "flaky", "hello")
EXIT_STATUSES = {
    "rota jobs diff -f report.yaml": 8,
    "rota plan -f report.yaml": 8,
    # The job of the tests has no webhook.
    "rota hooks test report": 1,
    "rota hooks test report --hook 2": 1,
    # The days differ from those of the node.
    "rota calendars import bank.ics --name bank --dry-run": 8,
    # A single node: there is no other.
    "rota node drain n3": 3,
    "rota state get report cursor": 3,
    # It has not finished.
    "rota rerun release@latest --mark-success check": 5,
    # It is no task.
    "rota state lock report table --wait 10m": 2,
    "rota node drain n3 --wait": 3,
    "rota node drain n3 --wait --timeout 10m": 3,
    "rota node undrain n3": 3,
    "rota node forget n3": 3,
    "rota shard repair 17": 5,
    "rota shard repair 17 --dry-run": 5,
    "rota cluster recover-coordination": 5,
    "rota cluster recover-coordination --dry-run": 5,
    "rota cluster recover-coordination --without n3": 5,
    "rota shard recover 17 --from n3 --without n1 --without n2 --dry-run": 5,
    "rota shard recover 17 --from n3 --without n1 --without n2 --accept-loss": 5,
    # The directory is in use, or does not exist.
    "rota shard export --data-dir rota-data --output shards.jsonl": 74,
    "rota shard export --data-dir rota-data --output 17.jsonl 17": 74,
}
"""Exit statuses of the examples that do not exit with 0."""
ENDLESS = re.compile(r"^rota (events|top$|changes follow|bench slo|.* (--watch|-w)$)")
"""Examples that run until Ctrl-C, or for longer than a test."""
READS = re.compile(
    r"rota (-|version|doctor|ring|certs|completion|cluster|node|shard|config|events|changes|explain"
    r"|audit|ledger|next|dag|output|top|history|plan|validate|export|get|namespace|import|bench"
    r"|executions(?! cancel)|hooks|state (list|get)|jobs($| -| list| show| diff))"
)
"""Beginnings of examples that leave the jobs and executions of their namespace as they are."""
NEEDS_SHELL = re.compile(r"[|<>$&~]|rota deploy|--python")
"""Examples for a shell, or that import a module; the others run in the process of the test."""


EVERY = list(commands())
ELSEWHERE = re.compile(
    r"rota (dev|mcp|login|logout|auth|key|grant|ungrant|secret|keyring|calendars import-holidays)\b"
    r"|openssl |curl "
)
"""Examples that tests of their own run: with their own node, or with one that requires tokens."""
EXAMPLES = [
    *dict.fromkeys(
        line for _, command in EVERY for line in examples_of(command) if not ELSEWHERE.match(line)
    )
]


@pytest.mark.parametrize(("name", "command"), [pytest.param(*each, id=each[0]) for each in EVERY])
def test_every_help_text_has_an_example_and_explains_every_option(
    name: str, command: click.Command
) -> None:
    shown = CliRunner().invoke(cli, [*name.split()[1:], "--help"], prog_name="rota")

    assert shown.exit_code == 0
    assert re.search(rf"Examples:\n.*{name}", shown.output, re.DOTALL)
    assert not re.search(r"^  \w+ .*\.\.\.$", shown.output, re.MULTILINE)
    undocumented = [
        each.name for each in command.params if isinstance(each, click.Option) and not each.help
    ]
    assert undocumented == []


@pytest.mark.parametrize(("name", "command"), [pytest.param(*each, id=each[0]) for each in EVERY])
def test_every_command_is_in_the_reference(name: str, command: click.Command) -> None:
    rows = re.findall(r"^\| `(rota[^`]*)`", DOCUMENTATION.read_text(), re.MULTILINE)
    of_groups = {
        f"{row.partition(' [')[0]} {word}".strip()
        for row in rows
        for word in (row.partition("[")[2].partition("]")[0]).split("\\|")
    }

    names = {re.sub(r" [\[A-Z-].*", "", row) for row in rows} | of_groups
    assert name in names | {"rota"}


def test_the_help_of_the_program_fits_a_screen_and_has_every_command(rota_alone: Rota) -> None:
    lines = rota_alone("--help").out.splitlines()

    assert len(lines) <= 45
    assert max(map(len, lines)) <= 80
    named = [
        name for section in SECTIONS.values() for names in section for name in names.split(", ")
    ]
    assert sorted(named) == sorted(COMMANDS)


def test_the_options_of_a_connection_are_in_the_help_of_the_program_alone(rota_alone: Rota) -> None:
    names = ["--url", "--token-file", "--profile", "--request-timeout", "--ca", "--cert", "--key"]

    shown = [rota_alone(*words, "--help").out for words in ([], ["jobs", "list"])]

    found = [[name for name in names if re.search(rf"{name}\b", text)] for text in shown]
    assert list(map(len, found)) == [len(names), 0]


@pytest.mark.parametrize("group", [each for _, each in EVERY if isinstance(each, LazyGroup)])
def test_each_entry_of_a_lazy_group_matches_its_command(group: LazyGroup) -> None:
    for name, entry in group.entries.items():
        command = group.get_command(click.Context(group), name)

        assert command is not None
        assert command.name == name
        assert entry.about.endswith(".")
        assert len(entry.about) < 60


def test_each_exit_status_is_documented_in_the_reference_and_the_code() -> None:
    from rota.client.cli import main as module

    documented = re.findall(r"^\| (\d+) \| ", DOCUMENTATION.read_text(), re.MULTILINE)
    in_code = re.findall(r"(?:^|  )(\d+)  ?\w", module.__doc__ or "", re.MULTILINE)

    assert sorted(map(int, documented)) == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 74, 130, 141]
    assert sorted(map(int, in_code)) == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 74, 130, 141]


# -- examples are run ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home directory with the program and the files of the examples."""
    home = tmp_path_factory.mktemp("home")
    for folder in ("bin", ".config/fish/completions"):
        (home / folder).mkdir(parents=True)
    program = home / "bin" / "rota"
    program.write_text(f"#!/bin/sh\nexec {PROGRAM[0]} -c '{PROGRAM[2]}' \"$@\"\n")
    program.chmod(0o755)
    report, flaky = DEFINITIONS.split("---\n")
    (home / "report.yaml").write_text(report.replace("loaded", "loaded it"))
    (home / "flaky.yaml").write_text(flaky)
    (home / "jobs.yaml").write_text(DEFINITIONS)
    (home / "jobs").mkdir()
    (home / "jobs" / "report.yaml").write_text(report)
    (home / "types.yaml").write_text(TYPES)
    (home / "bank.ics").write_text(ICS)
    (home / "crontab.txt").write_text("0 2 * * * backup\n")
    (home / "settings.json").write_text("{}")
    (home / "shop.py").write_text(APP)
    return home


ICS = """\
BEGIN:VCALENDAR
BEGIN:VEVENT
DTSTART;VALUE=DATE:20271224
END:VEVENT
END:VCALENDAR
"""

NAMESPACES = (f"example-{number}" for number in count())


@pytest.fixture(scope="module")
def read_namespace(node: Rotad) -> str:
    """The namespace of the examples that change none, beside one that all of them may read."""
    with Client(node.url) as client:
        put_jobs(client, "billing")
    return used_namespace(node)


def put_jobs(client: Client, namespace: str) -> None:
    """Put the jobs of the files into a namespace."""
    for definition in yaml.safe_load_all(DEFINITIONS):
        client.put_job({**definition, "namespace": namespace})


def used_namespace(node: Rotad) -> str:
    """Return a new namespace with the jobs of the examples, each with one execution."""
    namespace = next(NAMESPACES)
    with Client(node.url) as client:
        put_jobs(client, namespace)
        client.put_job({"name": "hello", "namespace": namespace, "command": "echo hello"})
        made = [client.trigger(name, namespace=namespace).execution_id for name in JOBS]
        ended = client.wait_many(made, has_tasks=False)
        assert [each.status for each in ended] == ["success"] * len(JOBS)
    return namespace


def is_read(example: str) -> bool:
    """Return True if all commands of an example leave jobs and executions as they are."""
    return all(READS.match(part) for part in re.split(r" \|+ ", example) if "rota " in part)


@pytest.mark.skipif(not shutil.which("bash"), reason="bash is not installed")
@pytest.mark.parametrize("example", EXAMPLES)
def test_every_example_works(
    rota: Rota,
    node: Rotad,
    home: Path,
    read_namespace: str,
    example: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    namespace = read_namespace if is_read(example) else used_namespace(node)
    with Client(node.url) as client:
        latest = next(client.executions(job="report", namespace=namespace, limit=1))
        if "type" in example:
            for name in ("image.render", "a", "b"):
                client.put_document("types", name, yaml.safe_load(TYPES)["definition"])
        if "jobs create" in example:
            for name in JOBS:
                client.delete_job(name, namespace=namespace)
        if "release@latest" in example:
            ask = {"name": "check", "approval": "ship?"}
            client.put_job({"name": "release", "namespace": namespace, "tasks": [ask]})
            client.trigger("release", namespace=namespace)
        if "namespace" in example:
            client.put_document("namespaces", "team-a", {})
        if "BACKFILL" in example:
            example = example.replace("BACKFILL", _backfill(client, namespace, example))
    line = re.sub(r"\bID\b", latest.execution_id, example)
    monkeypatch.chdir(home)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("EDITOR", "true")
    monkeypatch.setenv("PATH", f"{home / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("ROTA_NAMESPACE", namespace)
    if "--profile" in example or "config use" in example:
        assert rota("config", "set", "--profile", "work", "url", node.url).status == 0
    if "rota certs" in example:
        seed_certificates(example, home, rota)

    if NEEDS_SHELL.search(line) or ENDLESS.search(line):
        status, output = run(line)
    else:
        ran = rota(*shlex.split(line)[1:])
        status, output = ran.status, ran.out + ran.err

    expected = 130 if ENDLESS.search(example) else EXIT_STATUSES.get(example, 0)
    assert status == expected, output


def _backfill(client: Client, namespace: str, example: str) -> str:
    """Return the id of a backfill of ``report`` that has not ended, and is paused to be resumed."""
    for each in client.backfills("report", namespace=namespace):
        if each.finished_at is None:
            client.cancel_backfill("report", each.backfill_id, namespace=namespace)
    held = {"command": "sleep 30", "schedule": "0 0 * * *", "overlap": "skip"}
    client.put_job({"name": "report", "namespace": namespace, **held})
    client.trigger("report", namespace=namespace)
    made = client.create_backfill("report", since="2026-10-01T00:00:00Z", namespace=namespace)
    if "resume" in example:
        client.pause_backfill("report", made.backfill_id, namespace=namespace)
    return made.backfill_id


def seed_certificates(example: str, home: Path, rota: Rota) -> None:
    """Create the certificates that an example needs, and no others."""
    shutil.rmtree(home / "certs", ignore_errors=True)
    steps = ["init", "node n1", "client alice"]
    needed = 3 if "renew" in example or "show" in example else "init" not in example
    for step in steps[:needed]:
        assert rota("certs", *step.split()).status == 0


def run(line: str) -> tuple[int, str]:
    """Run a line of bash; send Ctrl-C after the first line of output to an endless one.

    The output of an endless line is read here also if the line sends it to a file.
    """
    is_endless = ENDLESS.search(line) is not None
    line = re.sub(r" >> \S+$", "", line) if is_endless else line
    with subprocess.Popen(
        ["bash", "-c", f"exec {line}" if is_endless else line],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            output = ""
            if is_endless:
                output = process.stdout.readline()  # The command has started.
                process.send_signal(signal.SIGINT)
            output += process.communicate(timeout=PATIENCE_S)[0]
        finally:
            process.kill()
    return process.returncode, output


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_examples_of_itself(name: str) -> None:
    command = cli.get_command(click.Context(cli), name)

    assert command is not None
    assert any(line.find(f"rota {name}") >= 0 for line in examples_of(command))
