"""Mutual TLS between nodes: contexts, the way to dial a member, and the checks of certificates.

A certificate of a node has two names (`rota.core.model.certificate_names`). The dialler requires
the TLS name of the wanted node in the handshake of TLS. After it, both ends check the URI: it names
the cluster, and the node that the other end claims to be. A certificate alone makes no member: the
proof by the key of the member record follows over the same connection.

The member record states whether a node serves TLS. With ``peer_tls = accept`` a node takes plain
connections, too, and dials TLS where the record says so; nodes can thus change one after another.
"""

import asyncio
import ssl
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple  # Any: the certificate as `ssl` describes it.

from rota.core.model.certificate_names import CertifiedNode, node_in, tls_name
from rota.core.model.ids import NodeId
from rota.node.coordination.coordinator import Member
from rota.node.system.tls_files import LiveTls, TlsFiles, client_context, server_context

ACCEPT, REQUIRE = "accept", "require"


class TlsMismatch(OSError):
    """One of two nodes uses TLS, and the other does not."""


class Dialling(NamedTuple):
    """The way to dial a member: arguments of a request of aiohttp.

    Attributes:
        origin: The scheme and the address.
        ssl: The context; True without TLS.
        server_hostname: The name that the certificate must have; None without TLS.
    """

    origin: str
    ssl: ssl.SSLContext | bool
    server_hostname: str | None


class PeerTls:
    """TLS between this node and the others.

    Args:
        files: The certificate of this node, its key, and the authority of all nodes.
        cluster: The name of the cluster.
        mode: `ACCEPT` or `REQUIRE`.

    Attributes:
        server: The context for accepted connections.
        client: The context for dialled connections.
        mode: As given.
        files: As given.
        live: Follows the files.

    Raises:
        TlsFilesInvalid: The files cannot be used.
    """

    def __init__(self, files: TlsFiles, *, cluster: str, mode: str) -> None:
        self.server = server_context()
        self.client = client_context()
        self.mode = mode
        self.files = files
        self.live = LiveTls("peer", files, (self.server, self.client))
        self._cluster = cluster

    @property
    def takes_plain(self) -> bool:
        """Whether the peer port takes connections without TLS, too."""
        return self.mode == ACCEPT

    def certifies(self, certificate: Any, node_id: NodeId) -> bool:
        """Return True if a certificate names *node_id* of this cluster.

        Args:
            certificate: The certificate as `ssl` describes it, once the handshake has checked it;
                None if the other end has none.
            node_id: The node that the other end claims to be.
        """
        return CertifiedNode(self._cluster, node_id) in certified_nodes(certificate)


def certified_nodes(certificate: Any) -> list[CertifiedNode]:
    """Return the nodes that a certificate names; *certificate* is as `ssl` describes it, or None.

    A certificate of `rota certs` names one.
    """
    fields: Mapping[str, Any] = certificate or {}
    names: Iterable[tuple[str, str]] = fields.get("subjectAltName", ())
    found = (node_in(value) for kind, value in names if kind == "URI")
    return [each for each in found if each is not None]


def is_certified(
    tls: PeerTls | None, transport: asyncio.BaseTransport | None, node_id: NodeId
) -> bool:
    """Return True if the certificate of the other end names a node, or none is needed."""
    if tls is None:
        return True
    if transport is None or transport.get_extra_info("ssl_object") is None:
        return tls.takes_plain
    return tls.certifies(transport.get_extra_info("peercert"), node_id)


def dialling(tls: PeerTls | None, member: Member) -> Dialling:
    """Return the way to dial a member.

    Raises:
        TlsMismatch: This node has no certificate and the member requires TLS, or the reverse.
    """
    if tls is not None and (member.peer_tls or not tls.takes_plain):
        if not member.peer_tls:
            raise TlsMismatch(
                f"{member.node_id} does not serve TLS: set its peer_cert, peer_key and peer_ca, or "
                "peer_tls = accept here until it has them"
            )
        return Dialling(f"https://{member.peer_address}", tls.client, tls_name(member.node_id))
    if member.peer_tls == REQUIRE:
        raise TlsMismatch(
            f"{member.node_id} requires TLS: set peer_cert, peer_key and peer_ca here"
        )
    return Dialling(f"http://{member.peer_address}", True, None)
