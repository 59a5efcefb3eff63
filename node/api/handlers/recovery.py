"""The recovery of a cluster whose etcd lost its state, and of a shard whose copies are lost."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from aiohttp import web

from rota.core.errors import Kind, Refused, invalid
from rota.core.model.ids import Index, NodeId, ShardId
from rota.node.api.handlers.cluster import AGREEING, agreeing, shard_in, told_by_others
from rota.node.api.requests.access import Verb, check
from rota.node.api.requests.operations import Operations, Success
from rota.node.api.requests.parameters import DRY_RUN, IS_DRY_RUN, Parameter, Repeatable, flag, text
from rota.node.api.requests.request_reader import CONTEXT, document
from rota.node.api.routing.forwarding import READS_NO_SHARD, ask_part, question_headers
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
from rota.wire.documents import HashesView, InventoryView, RecoveryView, ShardLossView

operations = Operations("Recovery")
INVENTORY = "/api/v1/cluster/inventory"
INVENTORY_S = 10.0
"""How long a node has to answer; 16,384 shards are 6 MB."""
HASHES = f"{INVENTORY}/hashes"
HASHES_S = 10.0
"""How long a node has to answer; 128 hashes are 128 reads of its disk."""
ENTRY_DIGITS_MAX = 18
NODE_ID_MAX = 256
WITHOUT = Repeatable(
    "without",
    "A node that is lost for good, and that is not waited for; may be given several times.",
    str,
    "",
    {"type": "string", "maxLength": NODE_ID_MAX},
)
ACCEPT_LOSS = flag("acceptLoss", "Go on where acknowledged writes may be lost.")
FROM_NODE = text("from", "The node whose copy is to count.")


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
            f"write at most {HASHES_AT_ONCE} entries as 17:4711, of shard and index, with commas "
            "between"
        )
    return [(ShardId(int(shard)), Index(int(index))) for shard, index in pairs]


ENTRIES: Parameter[Sequence[tuple[ShardId, Index]]] = Parameter(
    "entries",
    f"At most {HASHES_AT_ONCE} entries: shard and index, as `17:4711,18:12`.",
    _entries,
    [],
    {"type": "string", "pattern": r"^[0-9]{1,18}:[0-9]{1,18}(,[0-9]{1,18}:[0-9]{1,18}){0,127}$"},
    length_max=HASHES_AT_ONCE * (2 * ENTRY_DIGITS_MAX + 2),
)
PLANNING = ("nodes_unreached", "node_alive", "node_not_found", "epochs_exhausted", "other_cluster")
"""Of both recoveries."""
WRITING = ("recovery_overtaken", *AGREEING)
"""Likewise."""


@operations.declare("GET", INVENTORY, Success(200, "What it has.", InventoryView))
async def show_inventory(request: web.Request) -> web.Response:
    """Show what the node that is asked has of all shards.

    For a recovery: the newest configuration that the node has seen of each shard, its copy, and
    whether it found that etcd lost its state.
    """
    request[READS_NO_SHARD] = True
    check(request, Verb.READ, "*")
    return document(await _inventory(request.app[CONTEXT]))


@operations.declare("GET", HASHES, Success(200, "Their hashes.", HashesView), query=(ENTRIES,))
async def show_hashes(request: web.Request) -> web.Response:
    """Show the hashes of journal entries that the node that is asked keeps.

    For a recovery: each entry has the hash of the one before, so where two copies have one entry in
    common they have all before that in common.
    """
    request[READS_NO_SHARD] = True
    check(request, Verb.READ, "*")
    context = request.app[CONTEXT]
    entries = [EntryOf(context.config.node_id, *each) for each in ENTRIES.of(request)]
    hashes = await hashes_in(context.shards, entries)
    return document(HashesView(hashes=[each.hex() if each else None for each in hashes]))


@operations.declare(
    "POST",
    "/api/v1/cluster/recovery",
    Success(200, "The recovery.", RecoveryView),
    query=(DRY_RUN, WITHOUT, ACCEPT_LOSS),
    problems=("coordination_sound", "nodes_unaware", *PLANNING, *WRITING),
)
async def recover_coordination(request: web.Request) -> web.Response:
    """Give etcd back what it lost: the configurations of all shards, as nodes have seen them.

    All nodes are asked what they have. Of each shard the newest configuration that any of them has
    seen is written under a new epoch, with those of its copies that are there; all of them have
    everything that was acknowledged. Where a part of the nodes went on before the others came,
    journals are compared: those copies count that have everything. A shard for which that is not
    certain stays closed, and its `outcome` says why. One of which no node has anything is founded
    by the node that is asked. It is refused where no node found a loss, and while a node that may
    know more does not answer, unless `without` names it.

    With `acceptLoss` shards whose outcome would be `unsure` are recovered, too: so many nodes are
    missing that they alone may have acknowledged the last writes.
    """
    with agreeing(request) as context:
        recovery = await _begun(request, context)
        view = await recover_cluster(recovery, accepts_loss=ACCEPT_LOSS.of(request))
    return document(view)


@operations.declare(
    "POST",
    "/api/v1/shards/{shard}:recover",
    Success(200, "The recovery.", ShardLossView),
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
async def recover_lost_shard(request: web.Request) -> web.Response:
    """Open a shard from a copy that does not count, where none that counts is left.

    The copy of the node `from` becomes the only one that counts. **What was acknowledged after the
    last entry of that copy is lost**: `lastIndex` and `lastAt` name it. It needs `acceptLoss`,
    except as a dry run, and is refused while a copy that counts is on a node that answers. The node
    that is asked keeps a record, the file `RECOVERIES` of its data directory.
    """
    with agreeing(request) as context:
        shard, source = shard_in(request), FROM_NODE.of(request)
        if source is None:
            raise invalid("invalid_query", "from: name the node whose copy is to count")
        if not (request[IS_DRY_RUN] or ACCEPT_LOSS.of(request)):
            raise Refused(
                Kind.CONFLICT,
                "loss_not_accepted",
                f"what was acknowledged after the last entry of the copy on {source} is lost by "
                "this: see by --dry-run (`dryRun`) what that is, and add --accept-loss "
                "(`acceptLoss`)",
            )
        recovery = await _begun(request, context)
        view = await recover_shard(recovery, shard.id, NodeId(source))
    return document(view)


async def _begun(request: web.Request, context: NodeContext) -> Recovery:
    """Return what a recovery needs to know: what etcd has, read first, and what nodes have."""
    config = context.config
    view = await context.coordinator.view()
    told = await told_by_others(request, INVENTORY, InventoryView, within_s=INVENTORY_S)
    identity = identity_in(config.data_dir)
    assert identity is not None, "a node that runs has a data directory"
    return Recovery(
        coordinator=context.coordinator,
        name=config.cluster,
        cluster=cluster_of(config, identity.cluster),
        node_id=config.node_id,
        data_dir=Path(config.data_dir),
        least=context.copies.least,
        now=context.clock.now,
        view=view,
        told={**told, config.node_id: await _inventory(context)},
        session=lambda: context.membership.session,
        read_hashes=partial(_read_hashes, request),
        found=context.membership.found,
        without=frozenset(map(NodeId, WITHOUT.all_of(request))),
        is_dry=request[IS_DRY_RUN],
    )


async def _inventory(context: NodeContext) -> InventoryView:
    return await inventory_of(context.shards, context.config.node_id, context.continuity)


async def _read_hashes(
    request: web.Request, node_id: NodeId, entries: Sequence[EntryOf]
) -> list[bytes | None] | None:
    """Return the hashes of a node's entries; None if it does not answer."""
    context = request.app[CONTEXT]
    if node_id == context.config.node_id:
        return await hashes_in(context.shards, entries)
    hashes: list[bytes | None] = []
    with suppress(Refused, TimeoutError):
        for start in range(0, len(entries), HASHES_AT_ONCE):
            asked = entries[start : start + HASHES_AT_ONCE]
            listed = ",".join(f"{each.shard}:{each.number}" for each in asked)
            question = PeerRequest(
                method="GET",
                target=f"{HASHES}?entries={listed}",
                headers=question_headers(request),
            )
            async with asyncio.timeout(HASHES_S):
                answer = await ask_part(request, node_id, question, HashesView)
            hashes += [bytes.fromhex(each) if each else None for each in answer.hashes]
        return hashes
    return None
