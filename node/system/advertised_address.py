"""Detection of the address by which other nodes can reach this machine (setting ``auto``).

The address is the source address of packets to etcd: all nodes reach etcd, so they share its
network. Containers and pods get another address at each start, which thus need not be configured.
"""

import socket
from dataclasses import replace
from urllib.parse import urlsplit

from rota.core.errors import RotaError
from rota.node.system.config import NodeConfig
from rota.node.system.config_values import AUTO, Address


class NoOwnAddress(RotaError):
    """This machine has no address that other nodes can reach."""

    code = "no_own_address"


def with_own_addresses(config: NodeConfig) -> NodeConfig:
    """Return *config* with the addresses that are set to ``auto``.

    The call blocks while names are resolved, for seconds if no name server responds.

    Raises:
        NoOwnAddress: All members of etcd are reached on this machine's loopback.
        OSError: The name of a member cannot be resolved or there is no route to the member, and no
            other member is reached on another machine; a later call may succeed.
    """
    return replace(
        config,
        advertise=_found(config.advertise, config.listen, config.etcd),
        peer_advertise=_found(config.peer_advertise, config.peer_listen, config.etcd),
    )


def _found(advertised: str, listen: Address, etcd: tuple[str, ...]) -> str:
    if advertised != AUTO:
        return advertised
    if listen.is_specific:
        return str(listen)
    return str(Address(_host_towards(etcd), listen.port))


def _host_towards(etcd: tuple[str, ...]) -> str:
    """Return the source address of packets to the first of *etcd* on another machine."""
    failure = None
    for url in etcd:
        parts = urlsplit(url)
        try:
            host = _host_before(parts.hostname or "", parts.port or 2379)
        except OSError as error:
            failure = error  # The name of a container that has ended cannot be resolved.
            continue
        if not Address(host, 0).is_loopback:
            return host
    if failure is not None:
        raise failure
    raise NoOwnAddress(
        f"etcd ({', '.join(etcd)}) is reached on this machine's loopback, so the address for other "
        "nodes cannot be detected: set it with --advertise and --peer-advertise"
    )


def _host_before(host: str, port: int) -> str:
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind, protocol) as end:
        end.connect(address)  # Sends nothing: the kernel only selects the route.
        return str(end.getsockname()[0])
