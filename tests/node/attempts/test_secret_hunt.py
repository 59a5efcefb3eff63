"""A search for the values of secrets on a real node: they are nowhere but in the tasks."""

import base64
import json
import os
import re
import signal
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rota.executor.launch.secret_files import folders_of
from support.key_rings import key_ring_file
from support.rotad import Json, Rotad, end_warden, warden_of

ENV_VALUE = 'MARKER-env-7f3a"/&+\u00e9-value'
FILE_VALUE = "MARKER-file-91c2\nMARKER-second-line-55d0\n"
MARKED = re.compile(
    rb"MARKER-(env|file|second)|"
    + b"|".join(
        re.escape(base64.b64encode(bytes(shift) + b"MARKER-")[start:-4])
        for shift, start in ((0, 0), (1, 2), (2, 3))
    )
)
NAMED = {"env": {"DB_PASSWORD": "db"}, "files": {"pg.pass": "pg"}}
ECHO = """\
echo "env: $DB_PASSWORD"
cat "$ROTA_SECRETS/pg.pass"
printf %s "app:$DB_PASSWORD" | base64 -w0
printf %s "$DB_PASSWORD" | head -c 9; sleep 0.2; printf %s "$DB_PASSWORD" | tail -c +10
head -c 20000 /dev/zero | tr '\\0' x
echo; cat "$ROTA_SECRETS/pg.pass" >&2
printf '{"url": "%s"}' "$(head -1 $ROTA_SECRETS/pg.pass)" >$ROTA_RESULT
"""
LEAKY = """
import os

def run():
    print(dict(os.environ), flush=True)
    with open(os.environ["ROTA_SECRETS"] + "/pg.pass") as file:
        raise RuntimeError(os.environ["DB_PASSWORD"] + file.read())
"""

PARSING = """
import os

def run(password):
    raise RuntimeError(f"{password} is {os.environ['URL']}")
"""


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Rotad]:
    data = tmp_path / "data"
    with Rotad(data, "--keyring", str(key_ring_file(tmp_path)), "--access-log", "all") as node:
        node.start()
        node.call("PUT", "/api/v1/secrets/default/db", {"value": ENV_VALUE})
        encoded = base64.b64encode(FILE_VALUE.encode()).decode()
        node.call("PUT", "/api/v1/secrets/default/pg", {"base64": encoded})
        yield node
        end_warden(data)


def cmdlines() -> bytes:
    found = b""
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        try:
            found += Path(f"/proc/{pid}/cmdline").read_bytes() + b"\n"
        except OSError:
            continue
    return found


def files_below(folder: Path) -> Iterator[tuple[Path, bytes]]:
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield path, path.read_bytes()


def hits_on_disk(node: Rotad) -> list[str]:
    found = [str(path) for path, content in files_below(node.data_dir) if MARKED.search(content)]
    if MARKED.search(node.log_path.read_bytes()):
        found.append(str(node.log_path))
    return found


def raw(node: Rotad, path: str) -> bytes:
    with urllib.request.urlopen(f"{node.url}{path}", timeout=10) as answer:
        return bytes(answer.read())


def store_of(node: Rotad) -> str:
    cmdline = Path(f"/proc/{warden_of(node.data_dir)}/cmdline").read_bytes().split(b"\0")
    return cmdline[cmdline.index(b"--store-id") + 1].decode()


def secret_folders(store: str) -> list[Path]:
    """Return the folders of attempts with secrets."""
    return [each.parent for root in folders_of(store) for each in root.glob("*/pg.pass")]


def answers_about(node: Rotad, execution: Json, job: str) -> Iterator[tuple[str, bytes]]:
    identity = execution["executionId"]
    for path in (
        f"/api/v1/executions/{identity}",
        f"/api/v1/executions/{identity}/tasks/main/output",
        f"/api/v1/jobs/{job}?namespace=default",
        "/api/v1/jobs",
        "/api/v1/executions",
        "/api/v1/secrets",
        "/api/v1/secrets/default/db",
        "/api/v1/keyring",
        "/api/v1/changes",
        "/api/v1/cluster",
        "/metrics",
        "/openapi.json",
    ):
        try:
            yield path, raw(node, path)
        except urllib.error.HTTPError as error:
            yield path, error.read()


@pytest.mark.parametrize("sandbox", ["none", "default", "strict"])
def test_values_that_a_command_writes_are_found_nowhere(node: Rotad, sandbox: str) -> None:
    job = {"name": "echoes", "command": ECHO, "sandbox": sandbox, "secrets": NAMED}
    node.create(**job)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(lambda: node.ended(node.trigger("echoes")))
        seen = b""
        while not running.done():
            seen += cmdlines()
        execution = running.result()

    output = raw(node, f"/api/v1/executions/{execution['executionId']}/tasks/main/output")

    assert execution["status"] == "success", execution
    assert output.startswith(b"env: ***\n***"), output[:200]
    assert b"x" * 20_000 in output  # It is in a file of the data directory.
    assert execution["tasks"]["main"]["attempts"][0]["result"] == {"url": "***"}
    assert [
        path for path, answer in answers_about(node, execution, "echoes") if MARKED.search(answer)
    ] == []
    assert not MARKED.search(seen)
    assert hits_on_disk(node) == []
    assert secret_folders(store_of(node)) == []


def test_values_in_an_exception_of_a_function_are_found_nowhere(
    node: Rotad, tmp_path: Path
) -> None:
    (tmp_path / "leaky.py").write_text(LEAKY)
    function = {"function": "leaky:run", "path": [str(tmp_path)]}
    node.create(name="raises", python=function, secrets=NAMED)

    execution = node.ended(node.trigger("raises"))

    attempt = execution["tasks"]["main"]["attempts"][0]
    assert execution["status"] == "failed"
    assert "***" in json.dumps(attempt)
    found = answers_about(node, execution, "raises")
    assert [path for path, answer in found if MARKED.search(answer)] == []
    assert hits_on_disk(node) == []


def test_a_request_with_a_mistake_does_not_show_the_value(node: Rotad) -> None:
    for body in (
        {"value": ENV_VALUE, "base64": "x"},
        {"base64": ENV_VALUE},
        {"value": [ENV_VALUE]},
        {"value": ENV_VALUE, "more": 1},
        {"valu": ENV_VALUE},
        {"value": ENV_VALUE * 3_000},
    ):
        request = urllib.request.Request(
            f"{node.url}/api/v1/secrets/default/bad",
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
            method="PUT",
        )
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request, timeout=10)
        assert refused.value.code == 422
        assert not MARKED.search(refused.value.read())
    assert hits_on_disk(node) == []


def test_files_of_secrets_do_not_outlive_a_killed_warden_or_its_guard(node: Rotad) -> None:
    node.create(name="sleeps", command="cat $ROTA_SECRETS/pg.pass; sleep 60", secrets=NAMED)
    node.trigger("sleeps")
    store = store_of(node)
    node.wait_until(lambda: len(secret_folders(store)) == 1)
    [folder] = secret_folders(store)
    node.wait_until(lambda: any(MARKED.search(content) for _, content in files_below(folder)))
    modes = {path.stat().st_mode & 0o777 for path in (folder.parent, *folder.rglob("pg.pass"))}
    assert modes == {0o700, 0o400}

    os.kill(warden_of(node.data_dir), signal.SIGKILL)

    # The node starts the attempt again on the next warden, with files of its own.
    node.wait_until(lambda: not folder.parent.exists() and len(secret_folders(store)) == 1)
    assert hits_on_disk(node) == []
    node.stop()
    end_warden(node.data_dir)
    assert folders_of(store) == []
