"""Fixtures for the tests of the clients."""

from collections.abc import Iterator

import pytest

from rota.client import Client
from rota.client.dev.local_node import LocalNode


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A node for the tests of this module."""
    data_dir = tmp_path_factory.mktemp("client") / "data"
    with LocalNode(data_dir, flags=("--drain", "0s")) as local_node:
        yield local_node.url


@pytest.fixture
def client(url: str) -> Iterator[Client]:
    with Client(url) as client:
        yield client
