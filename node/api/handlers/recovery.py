"""Recovery of a cluster whose etcd lost its state, and of a shard whose copies are lost."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from aiohttp import web

from rota.core.errors import Kind, Refused, invalid
from rota.core.model.ids import Index, NodeId, ShardId
from rota.node.access.verbs import Verb
from rota.node.api.forwarding.peer_requests import ask_peer, peer_headers
from rota.node.api.handlers.cluster import (
    COORDINATING,
    coordinating,
    responses_of_others,
    shard_in,
)
from rota.node.api.requests.operations import Operations, Success
from rota.node.api.requests.parameters import DRY_RUN, Parameter, Repeatable, flag, text
from rota.node.api.requests.permissions import in_cluster
from rota.node.api.requests.request_context import RequestContext
from rota.node.api.requests.request_reader import document
from rota.node.cluster.joining import cluster_of
from rota.node.context import NodeContext
from rota.node.peers.peer_apis import PeerRequest
from rota.node.recovery.configuration_lineage import EntryOf
from rota.node.recovery.procedure import (
    HASHES_AT_ONCE,
    Recovery,
    hashes_in,
    inventory_of,
    recover_cluster,
    recover_shard,
)
from rota.storage.directory import identity_in
from rota.wire import operations as api
from rota.wire.documents import HashesView, InventoryView

operations = Operations("Recovery")
INVENTORY = "/api/v1/cluster/inventory"
INVENTORY_S = 10.0
"""The time within which a node must send its inventory; that of 16,384 shards has 6 MB."""
HASHES = f"{INVENTORY}/hashes"
HASHES_S = 10.0
"""The time within which a node must send hashes; 128 hashes need 128 reads from its disk."""
ENTRY_DIGITS_MAX = 18
NODE_ID_MAX = 256
WITHOUT = Repeatable(
    "without",
    "A node that is lost for good and is not required to respond. May be repeated.",
    str,
    "",
    {"type": "string", "maxLength": NODE_ID_MAX},
)
ACCEPT_LOSS = flag("acceptLoss", "Accept that acknowledged writes may be lost.")
FROM_NODE = text("from", "The node whose copy is to be used.")


def _entries(given: str) -> list[tuple[ShardId, Index]]:
    pairs = [each.split(":") for each in given.split(",")]
    numbers = [number for pair in pairs for number in pair]
    if (
        len(pairs) > HASHES_AT_ONCE
        or any(len(pair) != 2 for pair in pairs)
        or not all(each.isascii() and each.isdecimal() for each in numbers)
        or max(map(len, numbers)) > ENTRY_DIGITS_MAX
    ):
        raise ValueError(
            f"the entries are malformed; write at most {HASHES_AT_ONCE} entries as shard:index, "
            "separated by commas, such as 17:4711,18:12"
        )
    return [(ShardId(int(shard)), Index(int(index))) for shard, index in pairs]


ENTRIES: Parameter[Sequence[tuple[ShardId, Index]]] = Parameter(
    "entries",
    f"At most {HASHES_AT_ONCE} entries: shard and index, such as `17:4711,18:12`.",
    _entries,
    [],
    {"type": "string", "pattern": r"^[0-9]{1,18}:[0-9]{1,18}(,[0-9]{1,18}:[0-9]{1,18}){0,127}$"},
    length_max=HASHES_AT_ONCE * (2 * ENTRY_DIGITS_MAX + 2),
)
PLANNING = ("nodes_unreached", "node_alive", "node_not_found", "epochs_exhausted", "other_cluster")
"""Codes with which the plan of either recovery is refused."""
WRITING = ("recovery_overtaken", *COORDINATING)
"""Codes with which the change of etcd by either recovery fails."""


@operations.declare(
    api.INVENTORY,
    Success(200, "The inventory."),
    permission=in_cluster(Verb.READ),
)
async def show_inventory(request: RequestContext) -> web.Response:
    """Show the copies of shards on this node, for a recovery.

    The response has the newest configuration of each shard that the node has seen, the node's copy,
    and whether the node has detected that etcd lost its state.
    """
    return document(await _inventory(request.node))


@operations.declare(
    api.INVENTORY_HASHES,
    Success(200, "The hashes."),
    permission=in_cluster(Verb.READ),
    query=(ENTRIES,),
)
async def show_hashes(request: RequestContext) -> web.Response:
    """Show the hashes of journal entries on this node, for a recovery.

    Each entry contains the hash of the entry before it. If two copies have one entry in common,
    they have all earlier entries in common.
    """
    context = request.node
    entries = [EntryOf(context.config.node_id, *each) for each in ENTRIES.of(request)]
    hashes = await hashes_in(context.shards, entries)
    return document(HashesView(hashes=[each.hex() if each else None for each in hashes]))


@operations.declare(
    api.RECOVER_COORDINATION,
    Success(200, "The recovery."),
    permission=in_cluster(Verb.OPERATE),
    query=(DRY_RUN, WITHOUT, ACCEPT_LOSS),
    problems=("coordination_sound", "nodes_unaware", *PLANNING, *WRITING),
)
async def recover_coordination(request: RequestContext) -> web.Response:
    """Restore the configurations of all shards in etcd from the nodes, after etcd lost its state.

    All nodes send their inventories. For each shard, the newest configuration that any node has
    seen is written under a new epoch, with those of its copies that still exist; each of them has
    every acknowledged write. If some nodes continued with older configurations, journals are
    compared, and the copies with every acknowledged write are used. If these copies cannot be
    determined with certainty, the shard stays closed, and its `outcome` has the reason. A shard of
    which no node has any data is founded on this node. The request is refused if no node has
    detected a loss, and while a node that may have newer configurations does not respond, unless
    that node is in `without`.

    With `acceptLoss`, shards with the outcome `unsure` are recovered too. For these shards, so many
    nodes are missing that the missing nodes alone may have acknowledged the last writes.
    """
    with coordinating(request) as context:
        recovery = await _recovery(request, context)
        view = await recover_cluster(recovery, accepts_loss=ACCEPT_LOSS.of(request))
    return document(view)


@operations.declare(
    api.RECOVER_SHARD,
    Success(200, "The recovery."),
    permission=in_cluster(Verb.OPERATE),
    query=(DRY_RUN, FROM_NODE, WITHOUT, ACCEPT_LOSS),
    problems=(
        "shard_not_found",
        "loss_not_accepted",
        "copies_alive",
        "copy_missing",
        "coordination_lost",
        *PLANNING,
        *WRITING,
    ),
)
async def recover_lost_shard(request: RequestContext) -> web.Response:
    """Open a shard from a copy that does not count, after all copies that count are lost.

    The copy on the node `from` becomes the only one that counts. **Writes that were acknowledged
    after its last entry are lost**; `lastIndex` and `lastAt` identify that entry. The request needs
    `acceptLoss`, unless it is a dry run. It is refused while a node with a copy that counts
    responds. This node records the recovery in the file `RECOVERIES` of its data directory.
    """
    with coordinating(request) as context:
        shard, source = shard_in(request), FROM_NODE.of(request)
        if source is None:
            raise invalid(
                "invalid_query",
                "the parameter from is missing; send from=NODE, the node whose copy is to be used",
            )
        if not (request.is_dry_run or ACCEPT_LOSS.of(request)):
            raise Refused(
                Kind.CONFLICT,
                "loss_not_accepted",
                f"writes acknowledged after the last entry of the copy on {source} will be lost; "
                "check that entry with --dry-run (`dryRun`), and accept the loss with "
                "--accept-loss (`acceptLoss`)",
            )
        recovery = await _recovery(request, context)
        view = await recover_shard(recovery, shard.id, NodeId(source))
    return document(view)


async def _recovery(request: RequestContext, context: NodeContext) -> Recovery:
    """Return a recovery based on the state of etcd, which is read first, and on the inventories."""
    config = context.config
    view = await context.coordinator.view()
    inventories = await responses_of_others(request, INVENTORY, InventoryView, within_s=INVENTORY_S)
    identity = identity_in(config.data_dir)
    assert identity is not None, "a running node has a data directory"
    return Recovery(
        coordinator=context.coordinator,
        name=config.cluster,
        cluster=cluster_of(config, identity.cluster),
        node_id=config.node_id,
        data_dir=Path(config.data_dir),
        least=context.copies.least,
        now=context.clock.now,
        view=view,
        inventories={**inventories, config.node_id: await _inventory(context)},
        session=lambda: context.membership.session,
        read_hashes=partial(_read_hashes, request),
        found=context.membership.found,
        without=frozenset(map(NodeId, WITHOUT.all_of(request))),
        is_dry=request.is_dry_run,
    )


async def _inventory(context: NodeContext) -> InventoryView:
    return await inventory_of(context.shards, context.config.node_id, context.continuity)


async def _read_hashes(
    request: RequestContext, node_id: NodeId, entries: Sequence[EntryOf]
) -> list[bytes | None] | None:
    """Return the hashes of a node's entries; None if the node does not respond."""
    context = request.node
    if node_id == context.config.node_id:
        return await hashes_in(context.shards, entries)
    hashes: list[bytes | None] = []
    with suppress(Refused, TimeoutError):
        for start in range(0, len(entries), HASHES_AT_ONCE):
            chunk = entries[start : start + HASHES_AT_ONCE]
            listed = ",".join(f"{each.shard}:{each.number}" for each in chunk)
            sent = PeerRequest(
                method="GET",
                target=f"{HASHES}?entries={listed}",
                headers=peer_headers(request),
            )
            async with asyncio.timeout(HASHES_S):
                response = await ask_peer(request, node_id, sent, HashesView)
            hashes += [bytes.fromhex(each) if each else None for each in response.hashes]
        return hashes
    return None
