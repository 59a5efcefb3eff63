"""Nodes for tests."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cluster import Cluster
from support.etcd import EtcdCluster
from support.rota_program import Rota
from support.rotad import Rotad

# A shell has what it starts in the background ignore Ctrl-C, and all that those start.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rotad]:
    """One node for the tests of a module, which must not get in each other's way."""
    with Rotad(tmp_path_factory.mktemp("node") / "data", "--drain", "0s") as rotad:
        yield rotad.start()


@pytest.fixture
def own_node(tmp_path: Path) -> Iterator[Rotad]:
    """A node for one test; not started."""
    with Rotad(tmp_path / "data", "--drain", "0s") as rotad:
        yield rotad


@pytest.fixture(scope="session")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdCluster]:
    """One etcd for all clusters; each has a name of its own."""
    with EtcdCluster(tmp_path_factory.mktemp("etcd")) as etcd:
        yield etcd


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory, etcd: EtcdCluster) -> Iterator[Cluster]:
    """Three nodes for the tests that do them no harm, and do not get in each other's way."""
    with Cluster(tmp_path_factory.mktemp("cluster"), etcd) as cluster:
        yield cluster.start()


@pytest.fixture
def own_cluster(tmp_path: Path, etcd: EtcdCluster) -> Iterator[Cluster]:
    """Three nodes for one test; not started."""
    with Cluster(tmp_path, etcd) as cluster:
        yield cluster
    assert cluster.left_over() == []


@pytest.fixture
def rota_alone(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Rota:
    """The command ``rota`` where no node is, with neither variables nor a file of its own."""
    for name in ("URL", "NAMESPACE", "OUTPUT", "PROFILE", "TIMEOUT", "TOKEN_FILE"):
        monkeypatch.delenv(f"ROTA_{name}", raising=False)
    monkeypatch.setenv("ROTA_CLIENT_CONFIG", str(tmp_path / "client.toml"))
    return Rota(capfd)


@pytest.fixture
def rota(rota_alone: Rota, node: Rotad, monkeypatch: pytest.MonkeyPatch) -> Rota:
    """The command ``rota``, talking to the module's node."""
    monkeypatch.setenv("ROTA_URL", node.url)
    return rota_alone
