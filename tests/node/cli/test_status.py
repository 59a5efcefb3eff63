"""Rules of every command of ``rota``: exit statuses, standard output and error, colours."""

import json
import os
import re
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from rota.client import errors
from rota.client.cli.failures import STATUSES
from rota.core.errors import RotaError
from support.rota_program import NO_NODE, PROGRAM, Rota, interrupted, on_terminal, running

COLOUR = re.compile(r"\x1b\[[\d;]*m")
PROBLEM = {
    "type": "urn:rota:problem:forbidden",
    "title": "Forbidden",
    "status": 403,
    "code": "forbidden",
    "detail": "reader may not see these jobs",
}


@pytest.fixture(autouse=True)
def jobs(rota: Rota, tmp_path: Path) -> Path:
    """Jobs that succeed, fail and run long, and a file with another definition of one."""
    rota("jobs", "create", "good", "--", "true")
    rota("jobs", "create", "bad", "--", "false")
    rota("jobs", "create", "long", "--", "sleep 600")
    file = tmp_path / "good.yaml"
    file.write_text("name: good\ncommand: sleep 1\n")
    return file


@pytest.fixture(scope="module")
def refusing_url() -> Iterator[str]:
    """Address of a server that refuses every request, as a proxy before a node may do."""

    class Refusing(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(PROBLEM).encode()
            self.send_response(403)
            self.send_header("Content-Type", "application/problem+json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its parent's name
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("jobs show good", 0),
        ("jobs apply -f FILE --dry-run", 0),
        ("trigger good --wait", 0),
        ("trigger bad --wait", 1),
        ("executions wait bad@latest", 1),
        ("jobs show", 2),
        ("jobs show absent", 3),
        ("executions show nothing", 3),
        ("output good@latest nothing", 3),
        ("jobs --url REFUSING", 4),
        ("jobs create -f FILE", 5),
        ("jobs --url NO_NODE", 6),
        ("trigger long --wait --timeout 20ms", 7),
        ("executions wait long@latest --timeout 20ms", 7),
        ("jobs diff -f FILE", 8),
        ("jobs create a/b -- true", 9),
        ("jobs create -f /nowhere.yaml", 9),
    ],
)
def test_each_outcome_has_its_exit_status(
    rota: Rota, jobs: Path, refusing_url: str, line: str, status: int
) -> None:
    words = {"FILE": str(jobs), "REFUSING": refusing_url, "NO_NODE": NO_NODE}
    for name in ("good", "bad", "long"):
        rota("trigger", name)

    ran = rota(*(words.get(word, word) for word in line.split()))

    assert ran.status == status, ran.err
    if status in (2, 3, 4, 5, 6, 9):
        assert ran.out == ""
        assert "error: " in ran.err.lower()
    for execution in rota("executions", "--status", "running", "-o", "name").out.split():
        rota("executions", "cancel", execution)


def test_every_error_of_the_client_has_an_exit_status() -> None:
    kinds = [each for each in vars(errors).values() if isinstance(each, type)]
    raised = {
        each
        for each in kinds
        if issubclass(each, RotaError) and each not in (RotaError, errors.RequestFailed)
    }

    assert len(raised) > 7
    assert raised - {kind for kind, _ in STATUSES} == set()


def test_ctrl_c_exits_with_130_and_the_execution_continues(rota: Rota) -> None:
    with running("trigger", "long", "--wait") as waiting:
        assert waiting.stderr is not None
        execution = waiting.stderr.readline().split()[1]
        waiting.stderr.readline()
        ended = interrupted(waiting)

    assert ended.status == 130
    assert (
        f"the execution continues; end it with: rota executions cancel {execution}\n" in ended.err
    )
    assert rota("executions", "cancel", execution).status == 0


@pytest.mark.parametrize("line", ["jobs", "output wordy@latest", "jobs -o yaml"])
@pytest.mark.parametrize(("is_full", "status"), [(False, 141), (True, 74)])
def test_output_that_cannot_be_written_gives_an_exit_status(
    rota: Rota, line: str, *, is_full: bool, status: int
) -> None:
    rota("jobs", "create", "wordy", "--", "echo something")
    rota("trigger", "wordy", "--wait")
    unread, pipe = os.pipe()
    os.close(unread)
    with open(pipe, "wb") as broken, open("/dev/full", "wb") as full:
        ran = subprocess.run(
            [*PROGRAM, *line.split()],
            stdout=full if is_full else broken,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )

    assert ran.returncode == status, ran.stderr
    assert ran.stderr == ("error: [Errno 28] No space left on device\n" if is_full else "")


def test_closed_output_is_not_an_error() -> None:
    ran = subprocess.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", *PROGRAM, "jobs"],
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )

    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.parametrize(
    "line",
    ["jobs", "jobs show good", "jobs diff -f FILE", "jobs -w", "executions", "trigger bad --wait"],
)
def test_colours_are_for_terminals_that_want_them(rota: Rota, jobs: Path, line: str) -> None:
    rota("trigger", "good", "--wait")
    argv = [word.replace("FILE", str(jobs)) for word in line.split()]
    seen: list[bool] = []

    for environment in ({}, {"NO_COLOR": "1"}, {"NO_COLOR": ""}):
        with on_terminal(*argv, environment=environment) as terminal:
            if "-w" in argv:
                terminal.until(lambda shown: "bad" in shown)
            else:
                terminal.rest()
            seen.append(COLOUR.search(terminal.shown) is not None)

    assert seen == [True, False, True]


def test_data_goes_to_standard_output_and_words_to_standard_error(rota: Rota) -> None:
    empty = rota("executions", "list", "long", "--status", "failed")
    dry = rota("trigger", "good", "--dry-run", "-o", "json")
    deleted = rota("jobs", "delete", "bad")

    assert (empty.out, empty.err) == ("", "no such executions\n")
    assert dry.json["status"] == "queued"
    assert dry.err == "dry run: nothing is changed\n"
    assert (deleted.out, deleted.err) == ("", "deleted bad\n")
