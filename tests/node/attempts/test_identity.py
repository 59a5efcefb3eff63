"""Tasks that call the API with their own token: processes, sandboxes and Python functions."""

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rota.executor.launch.secret_files import INSIDE, folders_of
from rota.wire.tokens import ID_BYTES, SECRET_BYTES, mint
from support.etcd import free_ports
from support.peer_certificates import PeerAuthority
from support.rotad import Json, Rotad, end_warden, warden_of

ADMIN = mint(bytes([5]) * (ID_BYTES + SECRET_BYTES)).text
PYTHON = shutil.which("python3", path="/usr/local/bin:/usr/bin:/bin") or ""
"""A Python that sandboxes have."""
CALL = """
import json, os, ssl, urllib.request

def who():
    with open(os.environ["ROTA_TOKEN_FILE"]) as file:
        headers = {"Authorization": "Bearer " + file.read()}
    tls = ssl.create_default_context(cafile=os.environ["ROTA_CA"])
    url = os.environ["ROTA_URL"] + "/api/v1/whoami"
    request = urllib.request.Request(url, headers=headers)
    with urllib.request.urlopen(request, context=tls, timeout=20) as answer:
        found = json.load(answer)["principal"]
    return [found, os.environ["ROTA_TOKEN_FILE"], "ROTA_SECRETS" in os.environ]
"""
REPORT = "\nopen(os.environ['ROTA_RESULT'], 'w').write(json.dumps(who()))\n"
ARGUMENTS = ("-I", "-c", CALL + REPORT)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rotad]:
    folder = tmp_path_factory.mktemp("identity")
    (folder / "token").write_text(ADMIN)
    (folder / "calls.py").write_text(CALL)
    authority = PeerAuthority(folder / "certs")
    with Rotad(
        folder / "data",
        *("--auth", "keys", "--bootstrap-key-file", str(folder / "token")),
        *("--listen", f"127.0.0.1:{free_ports(1)[0]}", "--tls-ca", str(authority.certificate)),
        *authority.api_flags("n"),
    ) as node:
        node.ca, node.token = authority.certificate, ADMIN
        yield node.start()
        end_warden(node.data_dir)


def result_of(node: Rotad, **body: Json) -> Json:
    """Return the result of the only task of a job with identity."""
    execution = node.run(identity=True, **body)
    assert execution["status"] == "success", execution
    return execution["tasks"]["main"]["attempts"][-1]["result"]


def test_a_program_calls_the_api(node: Rotad) -> None:
    found, file, has_secrets = result_of(node, name="plain", command=[sys.executable, *ARGUMENTS])

    assert found == "job:default/plain"
    assert Path(file).parent.parent in folders_of(store_of(node))
    assert not has_secrets


@pytest.mark.skipif(not PYTHON or shutil.which("bwrap") is None, reason="no bubblewrap, no Python")
def test_a_program_in_a_sandbox_calls_the_api(node: Rotad) -> None:
    found, file, _ = result_of(node, name="boxed", command=[PYTHON, *ARGUMENTS], sandbox="default")

    assert found == "job:default/boxed"
    assert file.startswith(INSIDE)


def test_a_function_calls_the_api(node: Rotad) -> None:
    function = {"function": "calls:who", "path": [str(node.data_dir.parent)]}

    found, *_ = result_of(node, name="function", python=function)

    assert found == "job:default/function"


def test_a_function_of_another_job_runs_in_another_worker(node: Rotad) -> None:
    """A worker may keep the token of the calls that it has served."""
    function = {"function": "os:getpid"}

    workers = [
        result_of(node, name=name, python=function) for name in ("one", "other", "one", "other")
    ]

    assert len(set(workers)) == 2
    assert workers[0] != workers[1]


def test_the_client_of_a_task_finds_the_token(node: Rotad) -> None:
    script = "from rota.client import Client; print(Client().whoami().principal)"
    execution = node.run(name="client", command=[sys.executable, "-P", "-c", script], identity=True)

    path = f"/api/v1/executions/{execution['executionId']}/tasks/main/output"
    assert node.call("GET", path) == "job:default/client\n"


COUNT = """
def count(ctx):
    ctx.state.update("count", lambda value: value + 1, default=0)
    with ctx.state.lock("turn"):
        assert ctx.state.get("busy") is None
        ctx.state.set("busy", ctx.execution_id)
        ctx.state.delete("busy")
    return ctx.state.get("count")
"""


def test_tasks_share_the_state_of_their_job_and_no_other(node: Rotad) -> None:
    folder = node.data_dir.parent
    (folder / "counts.py").write_text(COUNT)
    function = {"function": "counts:count", "path": [str(folder)]}
    count = {"name": "main", "foreach": "range(5)", "python": function, "identity": True}
    script = "from rota.client import Client; Client().state('default/counter')"

    first = node.run(name="counter", tasks=[count])
    second = node.run(name="counter", tasks=[count])
    other = node.run(name="spy", command=[sys.executable, "-P", "-c", script], identity=True)

    assert [each["status"] for each in (first, second)] == ["success"] * 2, (first, second)
    found = node.call("GET", "/api/v1/jobs/counter/state")["items"]
    assert [(each["key"], each["value"]) for each in found] == [("count", 10)]
    assert found[0]["changedBy"]["principal"] == "job:default/counter"
    assert (other["status"], "job_not_found" in output_of(node, other)) == ("failed", True)


FOREIGN = """
import json, os
from rota.client import Client, NotAllowed

client, statuses = Client(), []
found = [each.execution_id for each in client.executions(job="default/held")]
held = next(each for each in found if each != os.environ["ROTA_EXECUTION_ID"])
for call in (
    lambda: client.put_state("held", "lock", 1, execution_id=held),
    lambda: client.delete_state("held", "lock"),
):
    try:
        call()
        statuses.append("done")
    except NotAllowed:
        statuses.append("refused")
open(os.environ["ROTA_RESULT"], "w").write(json.dumps(statuses))
"""


def test_a_task_makes_and_releases_its_own_locks_alone(node: Rotad) -> None:
    node.call(
        "PUT",
        "/api/v1/bindings/held",
        {
            "subject": "job:default/held",
            "role": "viewer",
            "namespaces": ["default"],
        },
    )
    ask = {"name": "ask", "approval": "continue?"}
    node.create(name="held", tasks=[ask])
    holder = node.trigger("held")
    lock = {"value": 1, "executionId": holder}
    node.call("PUT", "/api/v1/jobs/held/state/lock", lock)
    script = [sys.executable, "-P", "-c", FOREIGN]
    node.call(
        "PUT",
        "/api/v1/jobs/held",
        {"tasks": [{"name": "main", "command": script}], "identity": True},
    )

    second = node.ended(node.trigger("held"))

    assert second["tasks"]["main"]["attempts"][-1]["result"] == ["refused", "refused"], second
    assert [each["value"] for each in node.call("GET", "/api/v1/jobs/held/state")["items"]] == [1]


def output_of(node: Rotad, execution: Json) -> str:
    """Return the output of the only task of an execution."""
    path = f"/api/v1/executions/{execution['executionId']}/tasks/main/output"
    return str(node.call("GET", path))


def test_a_token_outlives_the_process_of_its_node_and_is_on_no_disk(
    node: Rotad, tmp_path: Path
) -> None:
    shown, go = tmp_path / "shown", tmp_path / "go"
    command = (
        f'cat "$ROTA_TOKEN_FILE" >{shown}.new; mv {shown}.new {shown}; '
        f"until [ -e {go} ]; do sleep 0.05; done"
    )
    node.create(name="lasting", command=command, identity=True)
    execution = node.trigger("lasting")
    node.wait_until(shown.exists)
    token = shown.read_text()
    bearer = {"Authorization": f"Bearer {token}"}
    for file in node.data_dir.rglob("*"):
        assert not file.is_file() or token.encode() not in file.read_bytes(), file
    assert b"rota_t_" not in Path(f"/proc/{warden_of(node.data_dir)}/cmdline").read_bytes()

    node.kill()
    node.start()

    assert node.call("GET", "/api/v1/whoami", headers=bearer)["principal"] == "job:default/lasting"
    go.touch()
    node.ended(execution)
    roots = folders_of(store_of(node))
    assert not [each for root in roots for each in root.glob(f"*{execution}*")]


def store_of(node: Rotad) -> str:
    return str(json.loads((node.data_dir / "FORMAT").read_text())["storeId"])
