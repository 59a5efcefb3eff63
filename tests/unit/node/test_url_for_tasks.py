"""The address of the node's API for its own tasks."""

from pathlib import Path

import pytest

from rota.node.runtime.node import url_for_tasks
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
