"""The ports that are given to servers: no two get the same, of a test or of a cluster of ours."""

import socket
import subprocess
import sys
from collections.abc import Callable

import pytest

from rota.client.dev.ports import free_port, is_free, kept
from support.etcd import free_ports


def port_of_a_test() -> int:
    [port] = free_ports(1)
    return port


DRAWN = pytest.mark.parametrize("draw", [port_of_a_test, free_port])


@DRAWN
def test_a_port_is_given_only_once(draw: Callable[[], int]) -> None:
    port = draw()

    assert kept(port) is None
    tried = "import socket, sys; socket.socket().bind(('127.0.0.1', int(sys.argv[1])))"
    other = subprocess.run(
        [sys.executable, "-c", tried, str(port)], capture_output=True, text=True, check=False
    )
    assert "Address already in use" in other.stderr


@DRAWN
def test_a_server_listens_on_the_port_that_it_was_given_again_and_again(
    draw: Callable[[], int],
) -> None:
    port = draw()

    for _ in range(2):
        with (
            socket.create_server(("127.0.0.1", port)) as server,
            socket.create_connection(("127.0.0.1", port)),
        ):
            assert not is_free(port)
            server.accept()[0].close()
    assert is_free(port)


@DRAWN
def test_connections_to_a_port_are_refused_until_its_server_listens(
    draw: Callable[[], int],
) -> None:
    port = draw()

    with socket.socket() as client:
        assert client.connect_ex(("127.0.0.1", port)) != 0
