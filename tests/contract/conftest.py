"""What several suites share."""

from collections.abc import Iterator

import pytest

from etcd import EtcdCluster


@pytest.fixture(scope="session")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdCluster]:
    """One etcd for all tests that leave it as it is; each has keys under a name of its own."""
    with EtcdCluster(tmp_path_factory.mktemp("etcd")) as cluster:
        yield cluster
