"""The address of this machine that others can reach, for a node that is told to find it (``auto``).

It is the one that packets to etcd leave from: all nodes reach etcd, so that its network is the one
that they share. Containers and pods get another one at every start, and nobody has to tell it.
"""

import socket
from dataclasses import replace
from urllib.parse import urlsplit

from rota.core.errors import RotaError
from rota.node.system.config import NodeConfig
from rota.node.system.config_values import AUTO, Address


class NoOwnAddress(RotaError):
    """No address of this machine can be told to other nodes."""

    code = "no_own_address"


def with_own_addresses(config: NodeConfig) -> NodeConfig:
    """Return *config* with the addresses that it leaves to be found.

    Blocks while names are looked up, for seconds if nobody answers.

    Raises:
        NoOwnAddress: etcd is on this machine only.
        OSError: One of its members could not be found, or there is no way there, and no other is
            elsewhere: it may be otherwise the next time.
    """
    return replace(
        config,
        advertise=_found(config.advertise, config.listen, config.etcd),
        peer_advertise=_found(config.peer_advertise, config.peer_listen, config.etcd),
    )


def _found(told: str, listen: Address, etcd: tuple[str, ...]) -> str:
    if told != AUTO:
        return told
    if listen.is_specific:
        return str(listen)
    return str(Address(_host_towards(etcd), listen.port))


def _host_towards(etcd: tuple[str, ...]) -> str:
    """Return the address that packets to the first of *etcd* that is elsewhere leave from."""
    failure = None
    for url in etcd:
        parts = urlsplit(url)
        try:
            host = _host_before(parts.hostname or "", parts.port or 2379)
        except OSError as error:
            failure = error  # A container that has gone takes its name along.
            continue
        if not Address(host, 0).is_loopback:
            return host
    if failure is not None:
        raise failure
    raise NoOwnAddress(
        f"etcd ({', '.join(etcd)}) is reached on this machine's loopback, so the address by which "
        "other nodes reach this one cannot be found: name it with --advertise and --peer-advertise"
    )


def _host_before(host: str, port: int) -> str:
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind, protocol) as end:
        end.connect(address)  # Sends nothing: it only asks the kernel for the way.
        return str(end.getsockname()[0])
