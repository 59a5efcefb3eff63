"""Tasks that run as the node's user cannot look into the node, its warden and its files."""

import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.rotad import Json, Rotad, warden_of

NO_SESSION = 65534
SECRET = "the combination is 1 2 3 4 5"
TASK_UMASK = "0027"

needs_root = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("setpriv") is None,
    reason="not root, or no setpriv: root is needed to start a node as another user",
)

PEEK = """
peek() {{ {what} && echo $1 is open; }}
{setup}
for pid in {pids}; do peek $pid; done 2>/dev/null; true
"""
WAYS = {
    "environment": "grep -q . /proc/$1/environ",
    "memory": "(exec 3< /proc/$1/mem)",
    "descriptors": "ls /proc/$1/fd/0",
    "working directory": "readlink /proc/$1/cwd",
}


@pytest.fixture(scope="module")
def node() -> Iterator[Rotad]:
    """A node of an unprivileged user, with a secret in its environment and a umask of its own."""
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        os.chown(name, NO_SESSION, NO_SESSION)
        patch.setenv("NODE_SECRET", SECRET)
        with Rotad(Path(name) / "data", "--drain", "0s") as rotad:
            rotad.prefix = (
                *(
                    "setpriv",
                    "--reuid",
                    str(NO_SESSION),
                    "--regid",
                    str(NO_SESSION),
                    "--clear-groups",
                ),
                *("sh", "-c", f'umask {TASK_UMASK}; exec "$@"', "sh"),
            )
            yield rotad.start()


def own_processes(node: Rotad) -> list[int]:
    """Return the process ids of node, warden and guard."""
    assert node.process is not None
    guard = int((node.data_dir / "warden.lock").read_text())
    pids = [node.process.pid, warden_of(node.data_dir), guard]
    assert all(pids)
    return pids


def output_of(node: Rotad, name: str, **job: Json) -> str:
    execution = node.run(name=name, **job)
    assert execution["status"] == "success", execution
    path = f"/api/v1/executions/{execution['executionId']}/tasks/main/output"
    return str(node.call("GET", path))


@needs_root
@pytest.mark.parametrize("way", WAYS)
def test_a_task_of_the_same_user_cannot_look_into_rotas_processes(node: Rotad, way: str) -> None:
    pids = own_processes(node)
    # A process of the task shows that the way is open where nothing is done about it.
    # It is looked at once it runs: a shell closes descriptor 0 for a moment before that.
    setup = "sleep 60 & own=$!; until grep -q sleep /proc/$own/comm; do :; done"
    shell = PEEK.format(what=WAYS[way], setup=setup, pids=f"$own {' '.join(map(str, pids))}")

    output = output_of(node, way.replace(" ", "-"), command=f"{shell}echo own is $own")

    own = output.split("own is ")[1].strip()
    assert [line for line in output.splitlines() if line.endswith("is open")] == [f"{own} is open"]


@needs_root
def test_the_warden_has_none_of_the_nodes_secrets(node: Rotad) -> None:
    of_node, *others = (Path(f"/proc/{pid}/environ").read_bytes() for pid in own_processes(node))

    assert SECRET.encode() in of_node
    assert not any(SECRET.encode() in each for each in others)


@needs_root
def test_tasks_have_the_umask_that_the_node_was_started_with(node: Rotad) -> None:
    sandboxed = {"sandbox": {"profile": "default", "network": False}}
    python = {"function": "subprocess:call", "args": ["umask"], "kwargs": {"shell": True}}

    masks = [
        output_of(node, "umask", command="umask"),
        output_of(node, "umask-limited", command="umask", limits={"pids": 20}),
        output_of(node, "umask-sandboxed", command="umask", **sandboxed),
        output_of(node, "umask-python", python=python),
    ]

    assert [mask.strip() for mask in masks] == [TASK_UMASK] * 4


@needs_root
def test_tasks_without_a_sandbox_are_counted_and_warned_of_once(node: Rotad) -> None:
    def counted() -> float:
        [count] = re.findall(r"^rota_attempts_unsandboxed_total (\S+)", page(), re.MULTILINE)
        return float(count)

    def page() -> str:
        return str(node.call("GET", "/metrics"))

    before = counted()
    node.run(name="free", command="true")
    node.run(name="free-python", python="os:getpid")
    node.run(name="kept", command="true", sandbox="strict")

    assert counted() - before == 2
    [warning] = [line for line in node.log().splitlines() if "without a sandbox" in line]
    assert "the node's user" in warning


@needs_root
def test_all_that_a_node_writes_is_for_its_user_alone(node: Rotad) -> None:
    output_of(node, "writes", command="yes | head -c 100000; echo 1 > $ROTA_RESULT")
    node.run(name="writes-python", python="os:getpid")

    paths = [node.data_dir, *node.data_dir.rglob("*")]

    assert {path.name for path in paths} >= {"CURRENT", "warden.journal", "warden.log", "FORMAT"}
    assert [path for path in paths if stat.S_IMODE(path.stat().st_mode) & 0o077] == []
