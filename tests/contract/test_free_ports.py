"""The ports that tests give to servers: no two tests get the same."""

import socket
import subprocess
import sys

from etcd import free_ports, is_kept


def test_a_port_that_was_given_is_given_to_nobody_else() -> None:
    [port] = free_ports(1)

    assert not is_kept(port)
    tried = "import socket, sys; socket.socket().bind(('127.0.0.1', int(sys.argv[1])))"
    other = subprocess.run(
        [sys.executable, "-c", tried, str(port)], capture_output=True, text=True, check=False
    )
    assert "Address already in use" in other.stderr


def test_a_server_listens_on_the_port_that_it_was_given_again_and_again() -> None:
    [port] = free_ports(1)

    for _ in range(2):
        with (
            socket.create_server(("127.0.0.1", port)) as server,
            socket.create_connection(("127.0.0.1", port)),
        ):
            server.accept()[0].close()


def test_nobody_answers_on_a_port_before_its_server_does() -> None:
    [port] = free_ports(1)

    with socket.socket() as client:
        assert client.connect_ex(("127.0.0.1", port)) != 0
