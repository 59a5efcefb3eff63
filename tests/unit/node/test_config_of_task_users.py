"""The setting of users as which tasks may run."""

import os

import pytest

from rota.core.errors import Refused
from rota.node.system.config import load_config


def test_a_node_of_root_may_name_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)

    config = load_config(None, {}, {"task_users": "batch, www-data"})

    assert config.task_users == ("batch", "www-data")


@pytest.mark.parametrize(
    ("uid", "names", "problem"),
    [
        (1_000, "batch", "only a node that runs as root"),
        (0, "Batch", "'Batch' is not the name of a user such as batch"),
        (0, "0", "'0' is not the name of a user such as batch"),
    ],
)
def test_a_setting_that_cannot_work_is_refused(
    monkeypatch: pytest.MonkeyPatch, uid: int, names: str, problem: str
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: uid)

    with pytest.raises(Refused, match=problem):
        load_config(None, {}, {"task_users": names})
