"""Keys, TLS between nodes and TLS of the API, for a run with ``--secure``.

The harness itself is a client: it gets the authority and the token by the environment variables of
rota's client.
"""

import os
from pathlib import Path

from chaos.harness.hosts import Node
from rota.wire.tokens import ID_BYTES, SECRET_BYTES, mint
from support.peer_certificates import PeerAuthority

TOKEN = mint(bytes([3]) * (ID_BYTES + SECRET_BYTES)).text


class Security:
    """The authority and the token of a run.

    Args:
        folder: Where their files are made.
        cluster: The name of the cluster.
    """

    def __init__(self, folder: Path, cluster: str) -> None:
        self._authority = PeerAuthority(folder / "certs", cluster)
        self._token_file = folder / "token"
        self._token_file.write_text(TOKEN)
        self._token_file.chmod(0o600)
        os.environ["ROTA_CA"] = str(self._authority.certificate)
        os.environ["ROTA_TOKEN_FILE"] = str(self._token_file)

    def equip(self, node: Node, node_id: str) -> None:
        """Have a node use keys and TLS; its certificate is for *node_id*."""
        name = f"{node.name} as {node_id}"
        if not (self._authority.folder / f"{name}.crt").exists():
            self._authority.node(node_id, node.host.address, name=name)
        certificate, key = (str(self._authority.folder / f"{name}.{end}") for end in ("crt", "key"))
        node.ca, node.token = self._authority.certificate, TOKEN
        node.flags += (
            *("--auth", "keys", "--bootstrap-key-file", str(self._token_file)),
            *("--peer-cert", certificate, "--peer-key", key, "--peer-ca", str(node.ca)),
            *("--tls-cert", certificate, "--tls-key", key),
        )
