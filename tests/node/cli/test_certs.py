"""``rota certs``: files, refusals, and the exit status of expiring certificates."""

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from rota.client.certificates import certificate_files as files
from rota.client.certificates.issuing import issue_node
from rota.core.model.certificate_names import tls_name
from rota.core.model.ids import NodeId
from support.rota_program import Rota


@pytest.fixture
def folder(rota_alone: Rota, tmp_path: Path) -> Path:
    """A folder with an authority."""
    folder = tmp_path / "certs"
    assert rota_alone("certs", "init", "--dir", str(folder), "--cluster", "prod").status == 0
    return folder


def test_authority_nodes_and_clients_are_made_and_shown(rota_alone: Rota, folder: Path) -> None:
    node = rota_alone("certs", "node", "n1", "--host", "10.0.0.11", "--dir", str(folder))
    client = rota_alone("certs", "client", "alice", "--dir", str(folder))
    shown = rota_alone("certs", "show", "--dir", str(folder), "-o", "json")

    assert (node.status, client.status, shown.status) == (0, 0, 0)
    rows = {Path(each["file"]).name: each for each in shown.json}
    assert list(rows) == ["alice.crt", "ca.crt", "n1.crt"]
    names = ["URI:rota://prod/node/n1", f"DNS:{tls_name(NodeId('n1'))}", "IP:10.0.0.11"]
    assert rows["n1.crt"]["names"] == names
    assert rows["alice.crt"]["subject"] == "CN=alice"
    assert rows["n1.crt"]["daysLeft"] in (364, 365)


def test_nothing_is_overwritten(rota_alone: Rota, folder: Path) -> None:
    before = (folder / "ca.key").read_bytes()

    again = rota_alone("certs", "init", "--dir", str(folder))

    assert again.status == 9
    assert again.err == f"error: {folder}/ca.crt exists, and is not overwritten\n"
    assert (folder / "ca.key").read_bytes() == before


def test_a_certificate_that_ends_soon_is_reported_and_renewed(
    rota_alone: Rota, folder: Path
) -> None:
    made_at = datetime.now(UTC) - timedelta(days=355)  # noqa: TID251 - as the command reads it
    authority = files.read_authority(folder)
    files.write_new(folder, "n1", issue_node(authority, NodeId("n1"), [], made_at))
    key = (folder / "n1.key").read_bytes()

    soon = rota_alone("certs", "show", "--dir", str(folder))
    renewed = rota_alone("certs", "renew", "n1", "--dir", str(folder))
    after = rota_alone("certs", "show", "--dir", str(folder))

    assert soon.status == 8
    assert f"{folder}/n1.crt ends within 14 days" in soon.err
    assert (renewed.status, after.status) == (0, 0)
    assert (folder / "n1.key").read_bytes() == key


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["node", "n 1"], "'n 1' is not a name"),
        (["client", "a/b"], "'a/b' is not a name of a client"),
        (["renew", "ca"], "the authority is not renewed"),
    ],
)
def test_wrong_names_are_wrong_usage(
    rota_alone: Rota, folder: Path, argv: list[str], message: str
) -> None:
    ran = rota_alone("certs", *argv, "--dir", str(folder))

    assert ran.status == 2
    assert message in ran.err


def test_a_folder_without_an_authority_is_reported_with_the_remedy(
    rota_alone: Rota, tmp_path: Path
) -> None:
    ran = rota_alone("certs", "node", "n1", "--dir", str(tmp_path))

    assert ran.status == 9
    assert f"make one with `rota certs init --dir {tmp_path}`" in ran.err


def test_without_cryptography_the_error_names_the_command_that_installs_it(
    rota_alone: Rota, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    monkeypatch.delitem(sys.modules, "rota.client.certificates.issuing", raising=False)

    ran = rota_alone("certs", "init", "--dir", str(tmp_path))

    assert ran.status == 2
    assert "pip install 'rota[node]'" in ran.err
