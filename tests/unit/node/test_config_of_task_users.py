"""The setting of users as which tasks may run."""

import pytest

from rota.core.errors import Refused
from rota.node.system import config as config_module
from rota.node.system.config import load_config


def test_a_node_with_the_capabilities_may_name_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config_module, "lacks_permitted", list[str])

    config = load_config(None, {}, {"task_users": "batch, www-data"})

    assert config.task_users == ("batch", "www-data")


@pytest.mark.parametrize(
    ("lacking", "names", "problem"),
    [
        (["CAP_KILL"], "batch", "needs root, or these capabilities too: CAP_KILL"),
        ([], "Batch", "'Batch' is not the name of a user such as batch"),
        ([], "0", "'0' is not the name of a user such as batch"),
    ],
)
def test_a_setting_that_cannot_work_is_refused(
    monkeypatch: pytest.MonkeyPatch, lacking: list[str], names: str, problem: str
) -> None:
    monkeypatch.setattr(config_module, "lacks_permitted", lambda: lacking)

    with pytest.raises(Refused, match=problem):
        load_config(None, {}, {"task_users": names})
