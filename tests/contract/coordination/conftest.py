"""Fixtures of the tests of etcd."""

from collections.abc import AsyncGenerator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from contract.coordination.etcd_clients import Connect
from rota.node.coordination.etcd import EtcdCoordinator
from rota.node.coordination.etcd_gateway import GatewayOptions
from rota.node.system.entropy import SystemEntropy
from support.etcd import EtcdCluster


@pytest.fixture
async def connect(tmp_path: Path) -> AsyncGenerator[Connect]:
    """A factory of coordinators of one cluster, from endpoints and further options."""
    made: list[EtcdCoordinator] = []

    def coordinator(*endpoints: str, **options: object) -> EtcdCoordinator:
        settings = replace(GatewayOptions(endpoints=endpoints), **options)  # type: ignore[arg-type]  # as the test gives them
        made.append(EtcdCoordinator(settings, cluster=tmp_path.name, entropy=SystemEntropy()))
        return made[-1]

    yield coordinator
    for each in made:
        await each.close()


@pytest.fixture
def prefix(tmp_path: Path) -> str:
    return f"/rota/{tmp_path.name}/"


@pytest.fixture
def own_etcd(tmp_path: Path) -> Iterator[EtcdCluster]:
    """An etcd for this test alone, which may kill it and change its data."""
    with EtcdCluster(tmp_path) as cluster:
        yield cluster
