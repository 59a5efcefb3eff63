"""Key rings in files: what is read, and what is refused without showing a key."""

import base64
from pathlib import Path

import pytest

from rota.wire.key_rings import KEY_BYTES, KeyRingInvalid, content_of, id_of, read_key_ring
from support.key_rings import key_ring_file, new_key, ring_of


def test_a_key_ring_is_read_as_it_was_written(tmp_path: Path) -> None:
    ring = ring_of(new_key(), new_key(), in_use=1)

    assert read_key_ring(key_ring_file(tmp_path, ring)) == ring


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602])
def test_a_file_that_others_can_access_is_refused(tmp_path: Path, mode: int) -> None:
    file = key_ring_file(tmp_path)
    file.chmod(mode)

    with pytest.raises(KeyRingInvalid, match=f"{mode:04o}.*chmod 600"):
        read_key_ring(file)


def test_a_file_that_only_its_owner_can_read_is_accepted(tmp_path: Path) -> None:
    file = key_ring_file(tmp_path)
    file.chmod(0o400)

    assert read_key_ring(file).keys


def test_a_damaged_key_is_refused_and_not_shown(tmp_path: Path) -> None:
    key, other = new_key(), new_key()
    file = key_ring_file(tmp_path, ring_of(key))
    before, after = (base64.b64encode(each).decode() for each in (key, other))
    file.write_text(file.read_text().replace(before, after))

    with pytest.raises(KeyRingInvalid, match="damaged") as refused:
        read_key_ring(file)
    assert after not in str(refused.value)


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        (b'"format": 1', b'"format": 2', "format 2"),
        (b'"inUse": "k', b'"inUse": "x', "not among the keys"),
        (b"{", b"[", "not a key ring in JSON"),
        (b'"format"', b'"more": 1, "format"', "not a key ring in JSON"),
    ],
)
def test_other_content_is_refused(tmp_path: Path, before: bytes, after: bytes, reason: str) -> None:
    file = key_ring_file(tmp_path)
    file.write_bytes(file.read_bytes().replace(before, after, 1))

    with pytest.raises(KeyRingInvalid, match=reason):
        read_key_ring(file)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KeyRingInvalid, match="cannot be read"):
        read_key_ring(tmp_path / "none")


def test_the_text_of_a_key_ring_in_a_log_has_no_key() -> None:
    key = new_key()
    ring = ring_of(key)

    assert len(key) == KEY_BYTES
    assert repr(key)[2:-1] not in repr(ring)
    assert id_of(key) in repr(ring)
    assert base64.b64encode(key) in content_of(ring)
