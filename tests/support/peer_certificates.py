"""Certificates of nodes for tests, as `rota certs` makes them."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from rota.client.certificates import certificate_files as files
from rota.client.certificates.issuing import (
    Authority,
    issue_client,
    issue_node,
    load_certificate,
    load_key,
    make_authority,
    renew,
)
from rota.core.model.ids import NodeId
from rota.node.system.tls_files import TlsFiles


@dataclass(frozen=True, slots=True, repr=False)
class _OfTwoClusters(Authority):
    """An authority that signs for another cluster, too."""

    other: str

    @property
    def cluster(self) -> str:
        """The other cluster."""
        return self.other


class PeerAuthority:
    """The authority of a cluster, with its files in a folder of its own.

    Args:
        folder: The folder; made here.
        cluster: The name of the cluster.
    """

    def __init__(self, folder: Path, cluster: str = "default") -> None:
        self.folder = folder
        made = make_authority(cluster, _now())
        files.write_new(folder, "ca", made)
        self._authority = Authority.load(made)

    @property
    def certificate(self) -> Path:
        """The file of the authority's certificate."""
        return self.folder / "ca.crt"

    def node(self, node_id: str, *hosts: str, name: str = "") -> TlsFiles:
        """Return the files of a new certificate of a node; *name* is that of the files."""
        name = name or node_id
        files.write_new(
            self.folder, name, issue_node(self._authority, NodeId(node_id), hosts, _now())
        )
        return self._files_of(name)

    def node_of_cluster(self, cluster: str, node_id: str) -> TlsFiles:
        """Return the files of a certificate of another cluster's node, by the same authority."""
        both = _OfTwoClusters(self._authority.certificate, self._authority.key, cluster)
        name = f"{node_id} of {cluster}"
        files.write_new(self.folder, name, issue_node(both, NodeId(node_id), [], _now()))
        return self._files_of(name)

    def client(self, name: str) -> TlsFiles:
        """Return the files of a new certificate of a client."""
        files.write_new(self.folder, name, issue_client(self._authority, name, _now()))
        return self._files_of(name)

    def renew(self, name: str, *, has_new_key: bool = False) -> None:
        """Renew a certificate in its files."""
        path = files.certificate_file(self.folder, name)
        earlier = load_certificate(path.read_bytes())
        key = None if has_new_key else load_key(files.key_file(self.folder, name).read_bytes())
        issued = renew(self._authority, earlier, _now(), key=key)
        files.replace(self.folder, name, issued, has_new_key=has_new_key)

    def flags(self, node_id: str, *, mode: str = "require") -> tuple[str, ...]:
        """Return the flags of a node with a new certificate."""
        made = self.node(node_id)
        return (
            *("--peer-cert", str(made.certificate), "--peer-key", str(made.key)),
            *("--peer-ca", str(made.authority), "--peer-tls", mode),
        )

    def api_flags(self, name: str) -> tuple[str, ...]:
        """Return the flags of a node whose API has a new certificate for the loopback."""
        made = self.node(name, "127.0.0.1", "localhost")
        return (
            *("--tls-cert", str(made.certificate), "--tls-key", str(made.key)),
            *("--tls-client-ca", str(made.authority)),
        )

    def _files_of(self, name: str) -> TlsFiles:
        return TlsFiles(
            files.certificate_file(self.folder, name),
            files.key_file(self.folder, name),
            self.certificate,
        )


def _now() -> datetime:
    return datetime.now(UTC)  # noqa: TID251 - real programs compare it with the clock
