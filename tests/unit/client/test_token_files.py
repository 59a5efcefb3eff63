"""Files with the token of a temporary node: kept beside its data, and offered to clients."""

import stat
import subprocess
import sys
from pathlib import Path

import pytest

from rota.client.dev.token_files import OfferedToken, TokenNotStored, kept_token, make_key_ring
from rota.client.transport.local_tokens import local_token, path_of
from rota.wire.key_rings import read_key_ring
from rota.wire.tokens import ID_BYTES, SECRET_BYTES, mint

URL = "http://127.0.0.1:7400"
FIRST, SECOND = (mint(bytes([number]) * (ID_BYTES + SECRET_BYTES)) for number in (1, 2))
OFFER_AND_EXIT = """
import os
from rota.client.dev.token_files import OfferedToken
from rota.wire.tokens import mint
offered = OfferedToken(7400, mint(bytes(40)))
os._exit(0)
"""


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


# -- kept ------------------------------------------------------------------------------------------


def test_a_token_is_made_once_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "new" / "token"

    first, again = kept_token(path), kept_token(path)

    assert first == again
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert kept_token(tmp_path / "other") != first


def test_a_kept_token_that_other_users_can_read_is_refused(tmp_path: Path) -> None:
    kept_token(tmp_path / "token")
    (tmp_path / "token").chmod(0o644)

    with pytest.raises(TokenNotStored, match="run chmod 600"):
        kept_token(tmp_path / "token")


@pytest.mark.parametrize("content", [b"", FIRST.text[:-1].encode(), b"\xff", b"x" * 100])
def test_a_file_without_a_token_is_refused_without_its_content(
    tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "token"
    path.touch(mode=0o600)
    path.write_bytes(content)

    with pytest.raises(TokenNotStored, match=str(path)) as caught:
        kept_token(path)

    assert FIRST.text[:-1] not in str(caught.value)


# -- offered ---------------------------------------------------------------------------------------


def test_an_offered_token_is_found_until_it_is_withdrawn() -> None:
    offered = OfferedToken(7400, FIRST)
    found = local_token(URL)
    files = list(path_of(7400).parent.iterdir())

    offered.withdraw()

    assert found == FIRST.text
    assert files == [path_of(7400)]
    assert stat.S_IMODE(path_of(7400).parent.stat().st_mode) == 0o700
    assert local_token(URL) == ""
    assert not path_of(7400).exists()


def test_the_token_of_a_process_that_was_killed_is_not_sent() -> None:
    subprocess.run([sys.executable, "-c", OFFER_AND_EXIT], check=True, timeout=30)

    assert path_of(7400).exists()
    assert local_token(URL) == ""


def test_a_later_node_on_the_port_replaces_the_token_of_an_earlier_one() -> None:
    earlier, later = OfferedToken(7400, FIRST), OfferedToken(7400, SECOND)

    earlier.withdraw()
    found = local_token(URL)
    later.withdraw()

    assert found == SECOND.text


def test_a_folder_that_cannot_be_written_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))

    with pytest.raises(TokenNotStored, match="Not a directory; the token of the node cannot"):
        OfferedToken(7400, FIRST)


def test_a_key_ring_is_made_once_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    path = tmp_path / "state" / "keyring"

    make_key_ring(path)
    made = read_key_ring(path)  # It refuses a file that others can read.
    make_key_ring(path)

    assert read_key_ring(path) == made
    assert [each.name for each in path.parent.iterdir()] == ["keyring"]
