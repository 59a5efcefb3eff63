"""Reset of access: a key of an administrator, created without an existing key.

The right to do so is the right to write the documents themselves: the credentials of etcd, or the
data directory of a node that is alone. No node is asked, and no operation of the API does the same.

The key, its binding and its principal have one name, which no other document has, so that nothing
that exists is changed, and a principal that exists gets no right. The token is returned only when
the key is certainly stored; a key that an interrupted try left behind is of no use.
"""

import os
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from rota.core.model.shared_document import BINDINGS, Definition, DocumentKey, next_version
from rota.node.access.access_table import KEYS
from rota.node.access.verbs import EVERY
from rota.node.cluster.joining import WrongCluster
from rota.node.coordination.coordinator import Coordinator
from rota.node.coordination.embedded import EmbeddedCoordinator
from rota.node.links.identity_proof import draw_bytes
from rota.node.runtime.coordinators import COORDINATION_FILE, etcd_coordinator
from rota.node.system.clock import Clock
from rota.node.system.config import NodeConfig
from rota.node.system.entropy import Entropy
from rota.storage.directory import DataDirectory, Identity, identity_in
from rota.wire.documents import BindingBody, KeyBody, TokenBody
from rota.wire.tokens import ID_BYTES, SECRET_BYTES, Token, mint

ROLE = "cluster-admin"
PREFIX = "reset-"


class NoData(WrongCluster):
    """The settings name a data directory that no node has used."""

    code = "no_data"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetKey:
    """The key that a reset created.

    Attributes:
        name: The name of the key, of its binding and of its principal.
        token: The token of the key.
    """

    name: str
    token: Token


async def reset_access(config: NodeConfig, clock: Clock, entropy: Entropy) -> ResetKey:
    """Create a key with the role cluster-admin.

    Args:
        config: The settings of a node of the cluster.
        clock: The clock that dates the change.
        entropy: The source of the token; a cryptographic one.

    Raises:
        WrongCluster: The data directory was never used, or belongs to another cluster than the one
            that the settings name.
        StoreLocked: The node is alone, and runs.
        StoreError: The data directory cannot be used.
        CoordinatorError: The coordinator was not reached, or refuses the change.
    """
    identity = identity_in(config.data_dir)
    if identity is None:
        raise NoData(
            f"no node has used the data directory {config.data_dir.absolute()}: run this command "
            "on the machine of a node, with the settings of the node (--config, or ROTA_CONFIG)"
        )
    async with _coordinator(config, identity, entropy) as coordinator:
        token = mint(draw_bytes(entropy, ID_BYTES + SECRET_BYTES))
        name = PREFIX + token.id
        binding = BindingBody(subject=f"principal:{name}", role=ROLE, namespaces=[EVERY])
        key = KeyBody(principal=name, tokens=[TokenBody(id=token.id, hash=token.hash)])
        # The binding is first, so that a key without rights is never left over.
        for kind, body in ((BINDINGS, binding), (KEYS, key)):
            await _create(
                coordinator, DocumentKey(kind, name), msgspec.to_builtins(body), clock=clock
            )
    return ResetKey(name=name, token=token)


async def _create(
    coordinator: Coordinator, key: DocumentKey, definition: Definition, *, clock: Clock
) -> None:
    """Create a document; a cluster that has the most documents gets it, too."""
    by = f"rotad auth-reset@{socket.gethostname()}"
    fresh = next_version(key, None, definition, at=clock.now(), by=by)
    if not await coordinator.change_document(key, None, fresh):
        raise WrongCluster(f"there is a document {key.name!r} already: run the command again")


@asynccontextmanager
async def _coordinator(
    config: NodeConfig, identity: Identity, entropy: Entropy
) -> AsyncGenerator[Coordinator]:
    """Return the coordinator of a node, which has the record of the node's cluster."""
    if not config.etcd:
        _become_owner(config.data_dir)
        # The lock excludes the node, which would overwrite the file.
        with DataDirectory.open(
            config.data_dir,
            store_id=identity.store_id,
            shard_count=identity.shard_count,
            cluster=identity.cluster,
        ) as directory:
            yield EmbeddedCoordinator(directory.path / COORDINATION_FILE, entropy)
        return
    coordinator = etcd_coordinator(config, entropy)
    try:
        found = (await coordinator.view()).cluster
        if found is None or found.id != identity.cluster:
            raise WrongCluster(
                f"the data directory {config.data_dir.absolute()} belongs to cluster "
                f"{identity.cluster}, and etcd has {found.id if found else 'no record'} under the "
                f"name {config.cluster!r}: use the settings of the node. If etcd has lost its "
                "data, run `rota cluster recover-coordination` first"
            )
        yield coordinator
    finally:
        await coordinator.close()


def _become_owner(folder: Path) -> None:
    """Continue as the owner of *folder* if this process is root's, for good.

    A file of root's would keep the node from starting.
    """
    found = folder.stat()
    if os.geteuid() == 0 and found.st_uid != 0:
        os.setgroups([found.st_gid])
        os.setresgid(found.st_gid, found.st_gid, found.st_gid)
        os.setresuid(found.st_uid, found.st_uid, found.st_uid)
