"""The pages Coming from another scheduler, and Alerts: their commands print what is shown."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import cast

import pytest

from rota.client.definitions import read_definitions
from rota.core.timing.cron import parse_cron
from support.pages import Block, blocks, is_as_shown, sections
from support.rota_program import PATIENCE_S, Rota
from support.rotad import Json, Rotad
from support.webhook_receiver import Receiver

HOW_TO = Path(__file__).parents[3] / "docs/how-to"
COMING_FROM = sections((HOW_TO / "coming-from.md").read_text())
ALERTS = (HOW_TO / "alerts.md").read_text()
HOSTS = ("https://hooks.slack.com", "https://alerts.example.com")
IMPORTED = {
    "cron": ("crontab", "crontab.txt"),
    "Airflow": ("airflow", "dag.py"),
    "Kubernetes CronJob": ("cronjob", "cronjob.yaml"),
    "Dkron": ("dkron", "jobs.json"),
    "APScheduler": ("apscheduler", "schedule.py"),
}
"""The format of each section's foreign example for ``rota import``, and a name for its file."""
COMPARED = ("timezone", "misfire", "overlap", "nodeSelector", "limits")
"""Fields of an imported job that ours has with the same value."""


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    receiver.start()
    yield receiver
    receiver.stop()


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rotad]:
    """A node with the label of Dkron's example and a sendmail, which may post to loopback."""
    folder = tmp_path_factory.mktemp("node")
    mailer = folder / "bin" / "sendmail"
    mailer.parent.mkdir()
    mailer.write_text(f"#!/bin/sh\ncat > {folder}/mail.txt\n")
    mailer.chmod(0o755)
    flags = ("--drain", "0s", "--label", "role=web", "--webhook-hosts", "127.0.0.1")
    with pytest.MonkeyPatch.context() as patch, Rotad(folder / "data", *flags) as rotad:
        patch.setenv("PATH", f"{mailer.parent}:{os.environ['PATH']}")
        yield rotad.start()


@pytest.fixture
def follow(
    rota: Rota, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[list[Block]], None]]:
    """Follow blocks in an empty folder: save files, run commands, compare what they print."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    known = set(sys.modules)

    def followed(inside: list[Block]) -> None:
        for block in inside:
            if block.file:
                block.save(tmp_path)
            for command, shown in block.steps:
                printed = _printed(rota, command)
                assert is_as_shown(shown, printed), f"$ {command}\n{printed}"

    yield followed
    for name in set(sys.modules) - known:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


@pytest.mark.parametrize("heading", COMING_FROM)
def test_a_job_of_another_scheduler_runs(
    follow: Callable[[list[Block]], None], heading: str
) -> None:
    theirs, *ours = COMING_FROM[heading]
    assert theirs.language == "text"
    assert any(block.steps for block in ours)

    follow(ours)


@pytest.mark.parametrize("heading", IMPORTED)
def test_the_foreign_example_is_imported_as_the_job_beside_it(
    rota_alone: Rota, tmp_path: Path, heading: str
) -> None:
    theirs, *beside = COMING_FROM[heading]
    form, name = IMPORTED[heading]
    (tmp_path / name).write_text(theirs.content)
    [file] = [block for block in beside if block.language == "yaml"]
    file.save(tmp_path)
    ours = read_definitions(tmp_path / file.file)[0]

    ran = rota_alone("import", form, str(tmp_path / name), "--json")

    [imported] = [job["definition"] for job in ran.json["jobs"]]
    assert parse_cron(_schedule(imported)) == parse_cron(_schedule(ours))
    compared = {field: imported[field] for field in COMPARED if field in imported}
    assert compared == {field: ours.get(field) for field in compared}


def test_alerts_reach_their_receivers(
    follow: Callable[[list[Block]], None], node: Rotad, receiver: Receiver
) -> None:
    page = ALERTS
    for host in HOSTS:
        page = page.replace(host, receiver.url(""))

    follow(blocks(page))

    expected = [json.loads(each.content) for each in blocks(page) if each.language == "json"]
    assert len(expected) == 3
    for document in expected:
        node.wait_until(partial(_has_arrived, document, receiver))
    node.wait_until(lambda: len(receiver.at("/ping/f0a1")) == 1)
    texts = [each["text"] for each in _received(receiver) if "text" in each]
    assert [text.splitlines()[0] for text in texts if ": test\n" not in text] == [
        "Job default/backup failed",
        "Job default/backup succeeded again",
    ]
    mail = (node.data_dir.parent / "mail.txt").read_text()
    assert mail in [each.content for each in blocks(page) if each.language == "text"]


def _printed(rota: Rota, command: str) -> str:
    """Return what a command prints: one of ``rota`` in this process, ``|| echo`` as the shell."""
    command, _, otherwise = command.partition(" || echo ")
    words = shlex.split(command)
    if words[0] == "rota":
        ran = rota(*words[1:])
        if ran.status == 0:
            return ran.out
        assert otherwise, f"$ {command}\n{ran.out}{ran.err}"
        return f"{ran.out}{otherwise}\n"
    assert words[0] == "python"
    done = subprocess.run(
        [sys.executable, *words[1:]], stdout=subprocess.PIPE, text=True, timeout=PATIENCE_S,
        check=True,
    )  # fmt: skip
    return done.stdout


def _received(receiver: Receiver) -> list[Json]:
    return [json.loads(each.body) for each in list(receiver.requests)]


def _has_arrived(shown: Json, receiver: Receiver) -> bool:
    return any(_is_within(shown, each) for each in _received(receiver))


def _is_within(shown: Json, real: Json) -> bool:
    """Return True if a document has all that *shown* has."""
    if not isinstance(shown, dict):
        return bool(shown == real)
    parts = cast("dict[str, Json]", shown)  # isinstance cannot say of what.
    return all(name in real and _is_within(part, real[name]) for name, part in parts.items())


def _schedule(job: Json) -> str:
    """Return the only schedule of a definition, in one of its two forms."""
    return str(job["schedule"] if "schedule" in job else job["schedules"][0]["schedule"])
