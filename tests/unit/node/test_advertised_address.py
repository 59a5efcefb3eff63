"""Automatic choice of the advertised address: the one from which a node reaches etcd."""

import socket
from ipaddress import ip_address

import pytest

from rota.core.errors import Refused
from rota.node.system.advertised_address import NoOwnAddress, with_own_addresses
from rota.node.system.config import load_config
from rota.node.system.config_values import AUTO

ETCD = "http://192.0.2.7:2379"
"""An address for documentation (RFC 5737): it has a route and no host."""


def has_route(host: str) -> bool:
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
            end.connect((host, 1))
    except OSError:
        return False
    return True


needs_route = pytest.mark.skipif(
    not has_route("192.0.2.7"), reason="this machine has no network but its loopback"
)
EVERYWHERE = {
    "listen": "0.0.0.0:7400", "peer_listen": "0.0.0.0:7401", "insecure": True,
    "advertise": AUTO, "peer_advertise": AUTO,
}  # fmt: skip


@needs_route
def test_the_address_towards_etcd_is_advertised_with_the_listening_ports() -> None:
    config = load_config(None, {}, {**EVERYWHERE, "etcd": f"http://127.0.0.1:1,{ETCD}"})

    found = with_own_addresses(config)

    host, _, port = found.advertise.rpartition(":")
    assert not ip_address(host).is_loopback
    assert port == "7400"
    assert found.peer_advertise == f"{host}:7401"


@needs_route
def test_an_unresolved_member_of_etcd_is_passed_over() -> None:
    config = load_config(None, {}, {**EVERYWHERE, "etcd": f"http://no-host.invalid:2379,{ETCD}"})

    found = with_own_addresses(config)

    assert found.advertise.endswith(":7400")


def test_unresolved_members_of_etcd_raise_a_lookup_error() -> None:
    config = load_config(None, {}, {**EVERYWHERE, "etcd": "http://no-host.invalid:2379"})

    with pytest.raises(socket.gaierror):
        with_own_addresses(config)


def test_a_listening_address_is_advertised_unchanged() -> None:
    listening = {"listen": "192.0.2.1:7000", "peer_listen": "192.0.2.1:7001"}
    config = load_config(None, {}, {**EVERYWHERE, **listening, "etcd": ETCD})

    found = with_own_addresses(config)

    assert (found.advertise, found.peer_advertise) == ("192.0.2.1:7000", "192.0.2.1:7001")


def test_an_etcd_on_this_machine_shows_no_address_for_other_nodes() -> None:
    config = load_config(None, {}, {**EVERYWHERE, "etcd": "http://127.0.0.1:2379"})

    with pytest.raises(NoOwnAddress, match="--peer-advertise"):
        with_own_addresses(config)


def test_an_unknown_port_cannot_be_advertised() -> None:
    flags = {**EVERYWHERE, "listen": "0.0.0.0:0", "etcd": ETCD}

    with pytest.raises(
        Refused, match=r"listen: 0\.0\.0\.0:0 is not an address that other nodes can use"
    ):
        load_config(None, {}, flags)
