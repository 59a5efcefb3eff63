"""``rota secret`` and ``rota keyring``."""

import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from rota.wire.key_rings import read_key_ring
from support.key_rings import key_ring_file
from support.rota_program import Rota
from support.rotad import Rotad

VALUE = "correct horse battery staple"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rotad]:
    """A node with a key ring."""
    folder = tmp_path_factory.mktemp("node")
    with Rotad(folder / "data", "--keyring", str(key_ring_file(folder))) as rotad:
        yield rotad.start()


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A value on standard input."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(VALUE.encode())))


@pytest.mark.usefixtures("typed")
def test_a_secret_is_set_from_standard_input_listed_used_and_deleted(
    rota: Rota, node: Rotad
) -> None:
    made = rota("secret", "set", "db", "-n", "team-a")
    job = {"name": "uses", "namespace": "team-a", "secrets": {"files": {"pg.pass": "db"}}}
    node.create(**job, command="true")
    listed = rota("secret", "list", "-n", "team-a", "-o", "json")
    hook = {"format": "github", "namespace": "team-a", "secret": "db"}
    node.call("PUT", "/api/v1/webhooks/deliveries", hook)
    uses = rota("secret", "uses", "db", "-n", "team-a")
    node.call("DELETE", "/api/v1/webhooks/deliveries")
    deleted = rota("secret", "delete", "db", "-n", "team-a")
    after = rota("secret", "list", "-A", "-o", "json")

    assert (made.status, deleted.status) == (0, 0), made.err
    assert "secret team-a/db set, version 1" in made.out + made.err
    assert [each["name"] for each in listed.json] == ["db"]
    assert "uses  main" in uses.out
    assert "pg.pass" in uses.out
    assert uses.out.splitlines()[-1].split() == ["-", "-", "-", "-", "deliveries"]
    assert after.json == []
    for ran in (made, listed, uses, deleted):
        assert VALUE not in ran.out + ran.err


def test_uses_of_a_secret_that_does_not_exist_are_an_error(rota: Rota) -> None:
    ran = rota("secret", "uses", "none")

    assert ran.status == 3
    assert "rota secret list" in ran.err


def test_an_empty_value_is_refused(rota: Rota, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"")))

    assert rota("secret", "set", "db").status == 2


def test_keys_of_a_key_ring_are_added_used_and_removed(rota: Rota, tmp_path: Path) -> None:
    file = tmp_path / "keyring"

    assert rota("keyring", "init", str(file)).status == 0
    first = read_key_ring(file).in_use
    assert rota("keyring", "add", str(file)).status == 0
    both = read_key_ring(file)
    [second] = both.keys.keys() - {first}
    assert (both.in_use, list(both.keys)) == (first, [first, second])
    assert rota("keyring", "use", str(file), second).status == 0
    assert rota("keyring", "remove", str(file), second).status == 9  # It is in use.
    assert rota("keyring", "remove", str(file), first).status == 0

    ring = read_key_ring(file)
    assert (ring.in_use, list(ring.keys)) == (second, [second])
    assert file.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["keyring"]


@pytest.mark.usefixtures("typed")
def test_a_key_that_secrets_need_is_not_removed(rota: Rota, node: Rotad, tmp_path: Path) -> None:
    rota("secret", "set", "kept")
    needed = node.call("GET", "/api/v1/keyring")["inUse"]
    file = tmp_path / "copy"
    file.write_bytes((node.data_dir.parent / "keyring").read_bytes())
    file.chmod(0o600)
    rota("keyring", "add", str(file))
    [other] = read_key_ring(file).keys.keys() - {needed}
    rota("keyring", "use", str(file), other)

    refused = rota("keyring", "remove", str(file), needed)

    assert refused.status == 9
    assert "rota keyring rewrap" in refused.err
    assert needed in read_key_ring(file).keys


def test_an_existing_key_ring_is_not_replaced(rota_alone: Rota, tmp_path: Path) -> None:
    file = key_ring_file(tmp_path)
    before = file.read_bytes()

    assert rota_alone("keyring", "init", str(file)).status == 9
    assert file.read_bytes() == before


def test_status_and_rewrap_show_ids_and_no_keys(rota: Rota, node: Rotad) -> None:
    rewrapped = rota("keyring", "rewrap")
    status = rota("keyring", "status")

    keys = json.loads((node.data_dir.parent / "keyring").read_text())["keys"]
    assert (rewrapped.status, status.status) == (0, 0)
    assert f"{keys[0]['id']}  " in status.out + status.err
    assert "in use" in status.out + status.err
    assert keys[0]["key"] not in status.out + status.err
