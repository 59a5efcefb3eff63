"""`LocalNode`: errors at its start."""

import socket
from pathlib import Path

import pytest

from rota.client import Client
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


def test_webhooks_may_go_to_a_receiver_on_the_same_machine(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as receiver, LocalNode(tmp_path / "data") as node:
        receiver.settimeout(20)
        hook = {"webhook": f"http://127.0.0.1:{receiver.getsockname()[1]}/hook"}
        with Client(node.url) as client:
            client.create_job({"name": "hooked", "command": "true", "onSuccess": [hook]})
            client.trigger("hooked")

        connection, _ = receiver.accept()
        with connection:
            assert connection.recv(10) == b"POST /hook"
