"""Settings of a node for its etcd."""

import pytest

from rota.core.errors import Refused
from rota.node.system.config import load_config

URL = "https://127.0.0.1:2379"
USER = {"etcd_user": "rota", "etcd_password_file": "/etc/rota/password"}
PAIR = {"etcd_cert": "/etc/rota/a.crt", "etcd_key": "/etc/rota/a.key"}


def test_credentials_are_read_from_settings() -> None:
    config = load_config(None, {"ROTA_ETCD_CA": "/etc/rota/ca.crt"}, {"etcd": URL, **USER, **PAIR})

    files = (config.etcd_password_file, config.etcd_ca, config.etcd_cert, config.etcd_key)
    assert config.etcd_user == "rota"
    assert [str(each) for each in files] == [
        "/etc/rota/password", "/etc/rota/ca.crt", "/etc/rota/a.crt", "/etc/rota/a.key",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"etcd_user": "rota"}, "etcd_user: has no effect without etcd_password_file"),
        ({"etcd_password_file": "/p"}, "etcd_password_file: has no effect without etcd_user"),
        ({"etcd_cert": "/c"}, "etcd_cert: has no effect without etcd_key"),
        ({"etcd_key": "/k"}, "etcd_key: has no effect without etcd_cert"),
        ({"etcd": "", **USER}, "etcd_user: has no effect without etcd:"),
        ({"etcd": "http://a:1", "etcd_ca": "/c"}, "etcd_ca: has no effect without an https://"),
        ({"etcd": "http://a:1", **PAIR}, "etcd_cert: has no effect without an https://"),
    ],
)
def test_half_of_what_credentials_need_is_refused(settings: dict[str, str], problem: str) -> None:
    with pytest.raises(Refused) as refused:
        load_config(None, {}, {"etcd": URL, **settings})

    assert problem in refused.value.detail


def test_a_password_itself_is_no_setting() -> None:
    with pytest.raises(Refused, match="did you mean etcd_password_file"):
        load_config(None, {"ROTA_ETCD_PASSWORD": "secret"}, {"etcd": URL})
