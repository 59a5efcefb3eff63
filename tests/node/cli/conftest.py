"""Fixtures for the tests of the ``rota`` command."""

import pytest

from support.rotad import Rotad


@pytest.fixture
def url(node: Rotad) -> str:
    """Address of the module's node."""
    return node.url
