"""Certificates of the nodes of the Compose files, made and renewed by a program of the image."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from deploy.programs import DEPLOY
from rota.node.system.config import load_config

PROGRAM = DEPLOY / "docker" / "rota-certificates"


class Folders:
    """The two folders of the program."""

    def __init__(self, folder: Path) -> None:
        self.authority, self.nodes = folder / "authority", folder / "nodes"
        self.authority.mkdir()
        self.nodes.mkdir()

    def make(self, count: int) -> None:
        """Run the program for a number of nodes."""
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        subprocess.run(
            [PROGRAM, self.authority, self.nodes, "my_rota-node", str(count)],
            check=True, timeout=60, env={**os.environ, "PATH": path},
        )  # fmt: skip

    def given(self) -> dict[str, bytes]:
        """Return the files of the nodes."""
        return {path.name: path.read_bytes() for path in self.nodes.iterdir()}


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return Folders(tmp_path)


def test_nodes_get_certificates_and_not_the_key_of_the_authority(folders: Folders) -> None:
    folders.make(2)

    assert folders.given().keys() == {
        "ca.crt", "my-rota-node-1.crt", "my-rota-node-1.key",
        "my-rota-node-2.crt", "my-rota-node-2.key",
    }  # fmt: skip
    assert {stat.S_IMODE(each.stat().st_mode) for each in folders.nodes.iterdir()} == {0o600}
    assert (folders.authority / "ca.key").exists()


def test_a_further_run_renews_certificates_with_their_keys_and_adds_nodes(folders: Folders) -> None:
    folders.make(1)
    before = folders.given()

    folders.make(2)

    after = folders.given()
    assert after["ca.crt"] == before["ca.crt"]
    assert after["my-rota-node-1.key"] == before["my-rota-node-1.key"]
    assert after["my-rota-node-1.crt"] != before["my-rota-node-1.crt"]
    assert "my-rota-node-2.crt" in after


def test_a_node_accepts_its_certificate_and_requires_those_of_others(folders: Folders) -> None:
    folders.make(1)
    node = folders.nodes / "my-rota-node-1"

    config = load_config(
        None, {},
        {
            "etcd": "http://127.0.0.1:2379", "node_id": node.name,
            "peer_ca": str(folders.nodes / "ca.crt"),
            "peer_cert": f"{node}.crt", "peer_key": f"{node}.key",
        },
    )  # fmt: skip

    assert config.peer_tls == "require"


def test_nodes_of_compose_have_no_access_to_the_authority() -> None:
    found = yaml.safe_load((DEPLOY / "docker" / "compose.tls.yaml").read_text())["services"]
    plain = yaml.safe_load((DEPLOY / "docker" / "compose.yaml").read_text())["services"]

    volumes = {name: each.get("volumes", []) for name, each in [*found.items(), *plain.items()]}
    with_authority = [name for name, each in volumes.items() if "authority" in str(each)]
    assert with_authority == ["certificates"]
    assert found["node"]["volumes"] == ["certificates:/var/lib/rota-certificates:ro"]
