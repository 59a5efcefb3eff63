"""The address of the node's API for its own tasks."""

import pytest

from rota.node.runtime.node import url_for_tasks
from rota.node.system.config import load_config


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
