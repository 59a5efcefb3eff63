"""`rotad auth-reset`: a key of an administrator without an existing key."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from rota.wire.tokens import ID_BYTES, SECRET_BYTES, mint
from support.cluster import Cluster
from support.etcd import EtcdCluster, free_ports, needs_etcd
from support.rotad import Json, Refusal, Rotad

TOKEN = mint(bytes([9]) * (ID_BYTES + SECRET_BYTES)).text
API = "/api/v1"
EX_USAGE, EX_UNAVAILABLE, EX_TEMPFAIL = 64, 69, 75


def reset(data_dir: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "rota.node", "auth-reset", "--data-dir", str(data_dir)]
    return subprocess.run([*command, *flags], capture_output=True, text=True, timeout=60)


def key_flags(folder: Path) -> tuple[str, ...]:
    file = folder / "first.token"
    file.write_text(TOKEN)
    return ("--auth", "keys", "--bootstrap-key-file", str(file))


def whoami(node: Rotad, token: str) -> Json:
    """Return the caller of a token; None if it is refused."""
    headers = {"Authorization": f"Bearer {token}"}
    try:
        return node.call("GET", f"{API}/whoami?verb=admin", headers=headers)
    except Refusal as refusal:
        if refusal.status != 401:
            raise
        return None


def lose_all_keys(node: Rotad) -> None:
    """Delete the only key, as an administrator could by mistake."""
    headers = {"Authorization": f"Bearer {TOKEN}"}
    node.wait_until(lambda: whoami(node, TOKEN) is not None)
    node.call("DELETE", f"{API}/keys/bootstrap", headers=headers)
    assert whoami(node, TOKEN) is None


def assert_reset(node: Rotad, printed: str) -> None:
    """Check that the printed token is that of an administrator, with its author on record."""
    token = printed.strip()
    node.wait_until(lambda: whoami(node, token) is not None)
    caller = whoami(node, token)
    name = f"reset-{caller['tokenId']}"
    assert (caller["principal"], caller["allowed"]) == (name, True)
    headers = {"Authorization": f"Bearer {token}"}
    for kind in ("keys", "bindings"):
        found = node.call("GET", f"{API}/{kind}/{name}/changes", headers=headers)
        authors = [change["by"] for change in found["items"]]
        assert authors == [f"rotad auth-reset@{os.uname().nodename}"]


# -- a node alone ----------------------------------------------------------------------------------


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Rotad]:
    with Rotad(tmp_path / "data", *key_flags(tmp_path)) as node:
        lose_all_keys(node.start())
        yield node


def test_a_stopped_node_gets_a_key_of_an_administrator(alone: Rotad) -> None:
    alone.stop()

    ran = reset(alone.data_dir)

    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip() not in ran.stderr
    alone.start()
    assert_reset(alone, ran.stdout)
    assert whoami(alone, TOKEN) is None


def test_a_node_that_runs_alone_has_to_be_stopped(alone: Rotad) -> None:
    ran = reset(alone.data_dir)

    assert (ran.returncode, ran.stdout) == (EX_TEMPFAIL, "")
    assert "is in use by process" in ran.stderr


def test_a_directory_that_no_node_has_used_stays_as_it_is(tmp_path: Path) -> None:
    ran = reset(tmp_path / "other")

    assert (ran.returncode, ran.stdout) == (EX_USAGE, "")
    assert "no node has used the data directory" in ran.stderr
    assert not (tmp_path / "other").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act for another user")
def test_files_that_root_writes_belong_to_the_user_of_the_node(alone: Rotad) -> None:
    alone.stop()
    place = Path(tempfile.mkdtemp(dir="/tmp"))
    try:
        place.chmod(0o755)
        data = Path(shutil.move(alone.data_dir, place / "data"))
        subprocess.run(["chown", "-R", "65534:65534", str(data)], check=True)

        ran = reset(data)

        assert ran.returncode == 0, ran.stderr
        assert {each.stat().st_uid for each in data.rglob("*")} == {65534}
        assert (data / "COORDINATION").stat().st_mode & 0o077 == 0
    finally:
        shutil.rmtree(place)


# -- a cluster -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, etcd: EtcdCluster) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("reset")
    with Cluster(folder, etcd, 3, *key_flags(folder)) as cluster:
        for node in cluster:
            node.token = TOKEN
        yield cluster.start()


@needs_etcd
def test_a_running_cluster_gets_a_key_of_an_administrator(cluster: Cluster) -> None:
    first = cluster.nodes[0]
    lose_all_keys(first)

    ran = reset(first.data_dir, *cluster.flags_of("n1"))

    assert ran.returncode == 0, ran.stderr
    for node in cluster:
        assert_reset(node, ran.stdout)


@needs_etcd
def test_a_node_resets_its_own_cluster_alone(cluster: Cluster) -> None:
    flags = (*cluster.flags_of("n1"), "--cluster", "another")

    ran = reset(cluster.nodes[0].data_dir, *flags)

    assert (ran.returncode, ran.stdout) == (EX_USAGE, "")
    assert "etcd has no record under the name 'another'" in ran.stderr


@needs_etcd
def test_without_an_answer_of_etcd_no_token_is_printed(cluster: Cluster) -> None:
    flags = (*cluster.flags_of("n1"), "--etcd", f"http://127.0.0.1:{free_ports(1)[0]}")

    ran = reset(cluster.nodes[0].data_dir, *flags)

    assert (ran.returncode, ran.stdout) == (EX_UNAVAILABLE, "")
