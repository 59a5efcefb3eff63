"""Fixtures of several suites."""

import subprocess
from collections.abc import Iterator

import pytest

from support.docker import RECIPE, Dockerd
from support.etcd import EtcdCluster


@pytest.fixture(scope="session")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdCluster]:
    """One etcd for all tests that keep it running; each test has a key prefix of its own."""
    with EtcdCluster(tmp_path_factory.mktemp("etcd")) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def dockerd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dockerd]:
    """One container engine for all tests; each removes its containers."""
    engine = Dockerd(tmp_path_factory.mktemp("docker"))
    try:
        engine.open()
    except (AssertionError, OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"dockerd does not start here, so {RECIPE}: {error}")
    yield engine
    engine.close()
