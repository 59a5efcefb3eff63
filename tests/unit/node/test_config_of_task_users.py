"""The setting of users as which tasks may run."""

import pytest

from rota.core.errors import Refused
from rota.node.system import config as config_module
from rota.node.system.config import load_config


def test_a_node_of_root_may_name_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config_module, "why_not_as_others", str)

    config = load_config(None, {}, {"task_users": "batch, www-data"})

    assert config.task_users == ("batch", "www-data")


@pytest.mark.parametrize(
    ("why", "names", "problem"),
    [
        ("only a node of root can", "batch", "only a node of root can"),
        ("", "Batch", "'Batch' is not the name of a user such as batch"),
        ("", "0", "'0' is not the name of a user such as batch"),
    ],
)
def test_a_setting_that_cannot_work_is_refused(
    monkeypatch: pytest.MonkeyPatch, why: str, names: str, problem: str
) -> None:
    monkeypatch.setattr(config_module, "why_not_as_others", lambda: why)

    with pytest.raises(Refused, match=problem):
        load_config(None, {}, {"task_users": names})
