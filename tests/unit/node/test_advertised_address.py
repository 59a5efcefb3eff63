"""A node that is to find its own address tells others the one from which it reaches etcd."""

import socket
from ipaddress import ip_address

import pytest

from rota.core.errors import Refused
from rota.node.system.advertised_address import NoOwnAddress, with_own_addresses
from rota.node.system.config import load_config
from rota.node.system.config_values import AUTO

ETCD = "http://192.0.2.7:2379"
"""An address of the documentation (RFC 5737): there is a way there, and nobody."""


def has_way(host: str) -> bool:
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
            end.connect((host, 1))
    except OSError:
        return False
    return True


needs_way = pytest.mark.skipif(
    not has_way("192.0.2.7"), reason="this machine has no network but its loopback"
)
EVERYWHERE = {
    "listen": "0.0.0.0:7400", "peer_listen": "0.0.0.0:7401", "insecure": True,
    "advertise": AUTO, "peer_advertise": AUTO,
}  # fmt: skip


@needs_way
def test_the_address_towards_etcd_is_told_with_the_ports_listened_on() -> None:
    config = load_config(None, {}, {**EVERYWHERE, "etcd": f"http://127.0.0.1:1,{ETCD}"})

    found = with_own_addresses(config)

    host, _, port = found.advertise.rpartition(":")
    assert not ip_address(host).is_loopback
    assert port == "7400"
    assert found.peer_advertise == f"{host}:7401"


@needs_way
def test_a_member_of_etcd_that_has_gone_with_its_name_is_passed_over() -> None:
    config = load_config(None, {}, {**EVERYWHERE, "etcd": f"http://nobody.invalid:2379,{ETCD}"})

    found = with_own_addresses(config)

    assert found.advertise.endswith(":7400")


def test_members_that_nobody_knows_may_be_known_the_next_time() -> None:
    config = load_config(None, {}, {**EVERYWHERE, "etcd": "http://nobody.invalid:2379"})

    with pytest.raises(socket.gaierror):
        with_own_addresses(config)


def test_an_address_that_is_listened_on_is_told_as_it_is() -> None:
    listening = {"listen": "192.0.2.1:7000", "peer_listen": "192.0.2.1:7001"}
    config = load_config(None, {}, {**EVERYWHERE, **listening, "etcd": ETCD})

    found = with_own_addresses(config)

    assert (found.advertise, found.peer_advertise) == ("192.0.2.1:7000", "192.0.2.1:7001")


def test_an_etcd_on_this_machine_shows_no_way_to_others() -> None:
    config = load_config(None, {}, {**EVERYWHERE, "etcd": "http://127.0.0.1:2379"})

    with pytest.raises(NoOwnAddress, match="--peer-advertise"):
        with_own_addresses(config)


def test_a_port_that_nobody_knows_cannot_be_told() -> None:
    flags = {**EVERYWHERE, "listen": "0.0.0.0:0", "etcd": ETCD}

    with pytest.raises(
        Refused, match=r"listen: 0\.0\.0\.0:0 is no address that other nodes can use"
    ):
        load_config(None, {}, flags)
