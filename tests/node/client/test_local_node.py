"""`LocalNode`: errors at its start, and its token."""

import socket
from pathlib import Path

import pytest

from rota.client import Client, NotAuthenticated
from rota.client.dev import local_node
from rota.client.dev.local_node import LocalNode, NodeNotStarted, TokenNotAccepted
from rota.client.transport.local_tokens import path_of


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


def test_clients_of_the_same_user_find_the_token_while_the_node_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LocalNode(tmp_path / "data") as node:
        offered = path_of(node.port)
        with Client(node.url) as client:
            principal = client.whoami().principal
        with Client(node.url.replace("127.0.0.1", "localhost")) as client:
            by_name = client.whoami().principal
        is_offered = offered.exists()
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "other"))
        with Client(node.url) as client, pytest.raises(NotAuthenticated, match="no token was sent"):
            client.whoami()

    assert principal == by_name
    assert is_offered
    assert not offered.exists()


def test_the_token_is_kept_for_the_next_start_on_the_data(tmp_path: Path) -> None:
    with LocalNode(tmp_path / "data") as node:
        first = node.token

    with LocalNode(tmp_path / "data") as node, Client(node.url) as client:
        client.whoami()

    assert node.token == first
    assert first is not None


def test_a_client_that_outlives_a_restart_uses_the_token_of_the_new_data(tmp_path: Path) -> None:
    first = LocalNode(tmp_path / "first")
    with first, Client(first.url) as client:
        client.whoami()
        first.stop()
        with LocalNode(tmp_path / "second", port=first.port) as second:
            assert client.whoami().principal
            assert second.token != first.token


def test_data_with_other_keys_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with LocalNode(tmp_path / "data") as node:
        pass
    node.token_file.unlink()
    monkeypatch.setattr(local_node, "REFUSALS_MAX", 10)

    with pytest.raises(TokenNotAccepted, match="restore that file"):
        LocalNode(tmp_path / "data").start()

    with LocalNode(tmp_path / "data", is_open=True) as node, Client(node.url) as client:
        assert node.token is None
        assert list(client.jobs()) == []


def test_a_node_does_not_read_the_variable_of_the_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROTA_TOKEN_FILE", str(tmp_path / "absent"))

    with LocalNode(tmp_path / "data") as node:
        assert node.client().ready()
