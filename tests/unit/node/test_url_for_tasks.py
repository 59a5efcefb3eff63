"""The address and the authority of the node's API for its own tasks, and for other nodes."""

from pathlib import Path

import pytest

from rota.node.runtime.node import member_of, url_for_tasks
from rota.node.system.config import load_config
from support.peer_certificates import PeerAuthority


@pytest.mark.parametrize(
    ("listen", "url"),
    [
        ("127.0.0.1:7400", "http://127.0.0.1:7400"),
        ("192.0.2.1:7000", "http://192.0.2.1:7000"),
        ("0.0.0.0:7400", "http://127.0.0.1:7400"),
        ("[::]:7400", "http://[::1]:7400"),
        ("127.0.0.1:0", ""),
    ],
)
def test_tasks_reach_the_api_on_their_own_machine(listen: str, url: str) -> None:
    config = load_config(None, {}, {"listen": listen, "insecure": True})

    assert url_for_tasks(config) == url


@pytest.mark.parametrize(
    ("advertise", "url"),
    [
        ("", "https://127.0.0.1:7400"),
        ("auto", "https://127.0.0.1:7400"),
        ("n1.example:7400", "https://n1.example:7400"),
    ],
)
def test_tasks_use_the_name_of_the_certificate(tmp_path: Path, advertise: str, url: str) -> None:
    files = PeerAuthority(tmp_path / "certs").node("n1")
    settings = {"tls_cert": str(files.certificate), "tls_key": str(files.key)}
    config = load_config(None, {}, {"listen": "0.0.0.0:7400", "advertise": advertise, **settings})

    assert url_for_tasks(config) == url


def test_tasks_trust_the_authority_of_the_certificate(tmp_path: Path) -> None:
    authority = PeerAuthority(tmp_path / "certs")
    own, other = authority.node("n1"), authority.node("n1", name="api")
    between = {
        "peer_cert": str(own.certificate),
        "peer_key": str(own.key),
        "peer_ca": str(own.authority),
    }
    same = {"tls_cert": str(own.certificate), "tls_key": str(own.key)}
    of_company = {"tls_cert": str(other.certificate), "tls_key": str(other.key)}
    ca = str(authority.certificate)

    assert ca_of(**between, **same) == ca
    assert ca_of(**between, **of_company) == ""
    assert ca_of(**between, **of_company, tls_ca=ca) == ca
    assert ca_of(**between) == ""


def ca_of(**settings: str) -> str:
    """Return what tasks of a node in a cluster get."""
    config = load_config(None, {}, {"etcd": "http://127.0.0.1:2379", "node_id": "n1", **settings})
    return str(config.api_authority or "")


def test_a_node_announces_whether_its_api_has_tls(tmp_path: Path) -> None:
    files = PeerAuthority(tmp_path / "certs").node("n1")
    settings = {"advertise": "n1.example:7400", "node_id": "n1"}
    secured = {**settings, "tls_cert": str(files.certificate), "tls_key": str(files.key)}

    urls = [member_of(load_config(None, {}, each), "s").url for each in (settings, secured)]

    assert urls == ["http://n1.example:7400", "https://n1.example:7400"]
