"""Names of nodes in certificates.

A certificate of a node has two names. The URI states the cluster and the id of the node, for
people and for the check after the handshake of TLS. The *TLS name* is a DNS name that follows from
the id, so that the usual check of host names in TLS proves the id too: the ids of nodes are not
DNS names, and the addresses of nodes may change.
"""

import re
from hashlib import sha256
from typing import NamedTuple

from rota.core.model.ids import NodeId

TLS_DOMAIN = "node.rota"
"""The end of all TLS names; nothing resolves it."""
_DIGITS = 32
_URI = re.compile(r"rota://([^/]+)/node/([^/]+)")
_CLUSTER_URI = re.compile(r"rota://([^/]+)")


class CertifiedNode(NamedTuple):
    """The node that a certificate names.

    Attributes:
        cluster: The name of the cluster.
        node_id: The id of the node.
    """

    cluster: str
    node_id: NodeId


def tls_name(node_id: NodeId) -> str:
    """Return the DNS name of a node in its certificate; not an address."""
    return f"{sha256(node_id.encode()).hexdigest()[:_DIGITS]}.{TLS_DOMAIN}"


def node_uri(cluster: str, node_id: NodeId) -> str:
    """Return the URI of a node in its certificate."""
    return f"rota://{cluster}/node/{node_id}"


def cluster_uri(cluster: str) -> str:
    """Return the URI of a cluster in the certificate of its authority."""
    return f"rota://{cluster}"


def node_in(uri: str) -> CertifiedNode | None:
    """Return the node of a URI; None if the URI is not one of `node_uri`."""
    found = _URI.fullmatch(uri)
    return CertifiedNode(found[1], NodeId(found[2])) if found else None


def cluster_in(uri: str) -> str | None:
    """Return the cluster of a URI; None if the URI is not one of `cluster_uri`."""
    found = _CLUSTER_URI.fullmatch(uri)
    return found[1] if found else None
