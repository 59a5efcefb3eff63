"""`LocalNode`: errors at its start."""

from pathlib import Path

import pytest

from rota.client.dev.local_node import LocalNode, NodeNotStarted


def test_a_second_node_on_a_data_directory_is_refused(tmp_path: Path) -> None:
    with LocalNode(tmp_path / "data"):
        second = LocalNode(tmp_path / "data")

        with pytest.raises(NodeNotStarted, match="another node uses its data directory"):
            second.start()


def test_a_port_in_use_is_reported(url: str, tmp_path: Path) -> None:
    taken = int(url.rpartition(":")[2])

    with pytest.raises(NodeNotStarted, match="address is in use"):
        LocalNode(tmp_path / "data", port=taken).start()
