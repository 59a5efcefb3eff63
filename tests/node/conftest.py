"""Nodes for tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from rotad import Rotad


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
