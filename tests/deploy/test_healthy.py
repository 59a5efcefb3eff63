"""The health program of the image, with and without TLS of the API."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.programs import DEPLOY
from support.etcd import free_ports
from support.peer_certificates import PeerAuthority
from support.rotad import Rotad


@pytest.fixture(params=["http", "https"])
def node(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Rotad]:
    """A node that is ready."""
    with Rotad(tmp_path / "data", "--drain", "0s") as rotad:
        if request.param == "https":
            authority = PeerAuthority(tmp_path / "certs")
            rotad.flags += authority.api_flags("n1")
            rotad.ca = authority.certificate
        yield rotad.start()


def checked(node: Rotad, port: str = "") -> "subprocess.CompletedProcess[str]":
    """Return the end of the health program for a node."""
    settings = {"ROTA_LISTEN": f"0.0.0.0:{port or node.url.rpartition(':')[2]}"}
    if node.ca is not None:
        settings["ROTA_TLS_CERT"] = str(node.ca)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        [DEPLOY / "docker" / "rota-healthy"],
        env={"PATH": path, **settings}, capture_output=True, text=True, timeout=20, check=False,
    )  # fmt: skip


def test_a_ready_node_is_healthy(node: Rotad) -> None:
    ended = checked(node)

    assert (ended.returncode, ended.stdout) == (0, "")


def test_a_port_without_a_node_is_not_healthy(node: Rotad) -> None:
    [unused] = free_ports(1)

    assert checked(node, str(unused)).returncode == 1


def test_a_node_that_is_not_ready_is_not_healthy_and_its_reason_is_printed(node: Rotad) -> None:
    node.stop()
    node.flags += ("--disk-reserve-mb", "999999")
    node.spawn()
    node.wait_until(lambda: not node.is_ready() and bool(node.url))

    node.wait_until(lambda: "disk" in checked(node).stdout)
    assert checked(node).returncode == 1
