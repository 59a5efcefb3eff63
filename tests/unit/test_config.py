"""Settings that say under which names and for which pages the API answers."""

import pytest

from rota.core.errors import Refused
from rota.node.config import load_config


def test_names_and_origins_are_read_in_small_letters_and_joined_by_commas() -> None:
    config = load_config(
        None,
        {"ROTA_ALLOWED_HOSTS": "Rota, *.Example.org.", "ROTA_ALLOWED_ORIGINS": "HTTPS://Rota:8443"},
        {},
    )

    assert config.allowed_hosts == ("rota", "*.example.org")
    assert config.allowed_origins == ("https://rota:8443",)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("allowed_hosts", each) for each in ("*", "rota:7400", "http://rota", "a.*.b", "a b")),
        *(
            ("allowed_origins", each)
            for each in ("*", "rota", "null", "https://rota/", "https://*")
        ),
    ],
)
def test_what_is_no_name_or_no_origin_is_refused(name: str, value: str) -> None:
    with pytest.raises(Refused, match=f"{name}: '.*' is not"):
        load_config(None, {}, {name: value})


def test_a_node_is_reached_under_the_names_that_it_listens_on_and_tells_others() -> None:
    flags = {
        "listen": "Node:7400",
        "insecure": True,
        "advertise": "Rota-0.nodes.:7400",
        "allowed_hosts": "rota",
    }

    config = load_config(None, {}, flags)

    assert set(config.own_names) == {"node", "rota-0.nodes", "rota"}
