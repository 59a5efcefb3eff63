"""The unix socket of the node's own user: created, replaced, removed."""

import asyncio
import socket
import stat
from pathlib import Path

import pytest

from rota.node.api.http.unix_socket import NAME, serving_on_socket


class HangUp(asyncio.Protocol):
    """Closes each connection."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Close the connection."""
        transport.close()


async def is_connectable(path: Path) -> bool:
    """Return True if a server accepts connections at *path*, and closes them."""
    try:
        reader, writer = await asyncio.open_unix_connection(str(path))
    except OSError:
        return False
    assert await reader.read() == b""
    writer.close()
    await writer.wait_closed()
    return True


async def test_the_socket_is_that_of_its_user_alone_and_is_removed_at_the_end(
    tmp_path: Path,
) -> None:
    path = tmp_path / NAME

    async with serving_on_socket(HangUp, tmp_path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert await is_connectable(path)

    assert not path.exists()


async def test_a_socket_that_a_killed_node_left_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / NAME
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    assert not await is_connectable(path)

    async with serving_on_socket(HangUp, tmp_path):
        assert await is_connectable(path)


async def test_a_file_that_is_no_socket_is_not_removed(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text("kept")

    with pytest.raises(OSError, match="in use"):
        async with serving_on_socket(HangUp, tmp_path):
            pass

    assert (tmp_path / NAME).read_text() == "kept"


async def test_a_path_that_is_too_long_gives_no_socket_and_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / ("d" * 100)
    folder.mkdir()

    async with serving_on_socket(HangUp, folder):
        assert not (folder / NAME).exists()

    assert "no unix socket, because its path is too long" in caplog.text
