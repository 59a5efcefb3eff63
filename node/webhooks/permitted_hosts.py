"""Hosts that webhooks may be sent to.

A definition of a job must not make a node post to services that trust their own machine, such as
etcd on loopback or a cloud's metadata service on a link-local address. The addresses of a name are
checked when the request is sent, because the owner of a name may change them at any time.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

ANY = "*"
"""Admits every host and address."""

Address = IPv4Address | IPv6Address

_LOCALHOST = "localhost"
_HERE = "an address of this machine or link"
_TRANSLATED = (IPv6Network("64:ff9b::/96"), IPv6Network("::/96"))
"""Networks whose addresses end with one of IPv4, to which a gateway may send (RFC 6052, 4291)."""
_METADATA = frozenset(
    map(ip_address, ("fd00:ec2::254", "100.100.100.200", "192.0.0.192", "168.63.129.16"))
)
"""Services of clouds for their machines that are on no link-local address."""


@dataclass(frozen=True, slots=True)
class PermittedHosts:
    """The hosts of the setting ``webhook_hosts``.

    Attributes:
        names: Names, ``*.`` and a domain for all names below it, or `ANY`. Empty for all hosts
            whose addresses are neither loopback nor link-local.
    """

    names: tuple[str, ...] = ()

    def fault_of(self, host: str) -> str:
        """Return why no webhook may be sent to *host*, a name or an address; empty if one may."""
        host = host.lower().removesuffix(".")
        address = _address_in(host)
        if self._is_named(host):
            return ""
        if self.names:
            return f"{host} is not in webhook_hosts of this node; add it on all nodes"
        if host == _LOCALHOST or host.endswith(f".{_LOCALHOST}"):
            return _blocked(host, _HERE)  # RFC 6761: these names are those of loopback.
        return self._fault_of_address(address) if address else ""

    def fault_of_addresses(self, host: str, found: Iterable[str]) -> str:
        """Return why no webhook may be sent to *host* with the addresses *found*; empty if may."""
        if self._is_named(host.lower().removesuffix(".")):
            return ""
        faults = (self._fault_of_address(ip_address(text.partition("%")[0])) for text in found)
        return next((fault for fault in faults if fault), "")

    def _is_named(self, host: str) -> bool:
        if ANY in self.names or host in self.names:
            return True
        return any(
            name.startswith("*.") and host.endswith(name[1:]) and len(host) > len(name) - 1
            for name in self.names
        )

    def _fault_of_address(self, address: Address) -> str:
        plain = _plain(address)
        if plain in _METADATA:
            return _blocked(plain, "the service of a cloud for its machines")
        if plain.is_loopback or plain.is_link_local or plain.is_unspecified or plain.is_multicast:
            return _blocked(plain, _HERE)
        return ""


def _blocked(host: object, what: str) -> str:
    return f"{host} is {what}; add it to webhook_hosts of all nodes"


def _plain(address: Address) -> Address:
    """Return the address of IPv4 that one of IPv6 stands for; any other as it is."""
    if isinstance(address, IPv4Address) or address.is_loopback or address.is_unspecified:
        return address
    if any(address in each for each in _TRANSLATED):
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.ipv4_mapped or address.sixtofour or address


def _address_in(host: str) -> Address | None:
    try:
        return ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return None
