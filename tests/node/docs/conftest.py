"""A node, and the shell of a user who follows a page."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from rota.client.dev.local_node import LocalNode
from support.page_shell import PageShell


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PageShell]:
    """The shell of a user with the token of a node, in an empty home."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with LocalNode(tmp_path / "data", flags=("--drain", "0s")) as node:
        yield PageShell(tmp_path, node.url)
