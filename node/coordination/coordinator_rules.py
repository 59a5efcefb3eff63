"""Rules of sessions, formats and swaps that every implementation of the coordinator enforces."""

from collections.abc import Mapping, Sequence

from rota.core.model.ids import NodeId, Session, ShardId
from rota.core.vocabulary.shard_configuration import Swap, first_epoch, generation_of
from rota.node.coordination.coordinator import Claim, Cluster, Life
from rota.node.coordination.coordinator_errors import NodeIdTaken, OtherCluster, StoreIdTaken


def predecessor(lives: Mapping[NodeId, Life], claim: Claim) -> Session | None:
    """Return the session that ends when *claim* begins one; None if there is none.

    The process of that session has ended, because *claim* holds the lock that the process held. Any
    other process may still run: on another machine, on a copy of the directory, or on this
    directory through a file system that does not share locks between machines. No other sign is
    proof, since machines made from one image have the same machine id and host name.

    Raises:
        NodeIdTaken: The node has a session under another lock or with another data directory.
        StoreIdTaken: Another node has a session with that data directory.
    """
    for node_id, other in lives.items():
        if other.store_id == claim.store_id and node_id != claim.node_id:
            raise StoreIdTaken(
                f'node "{node_id}" is alive with this data directory or a copy of it: start this '
                f"node with an empty data directory (--data-dir). If this is that node, stop the "
                f"other process, and start this one with --node-id {node_id}"
            )
    life = lives.get(claim.node_id)
    if life is None:
        return None
    if life.store_id != claim.store_id:
        raise NodeIdTaken(
            f'another process is alive as node "{claim.node_id}", with another data directory: '
            "give each node its own id, or stop the other process and wait until its session has "
            "expired"
        )
    if not claim.lock or life.lock != claim.lock:
        raise NodeIdTaken(
            f'node "{claim.node_id}" is alive with this data directory or a copy of it: stop the '
            "other process. If it has ended with its machine, this node starts when the other "
            "session has expired"
        )
    return life.session


def still_taken(claim: Claim) -> NodeIdTaken:
    """Return the error for a claim that repeatedly found new sessions of other processes."""
    return NodeIdTaken(
        f'other processes begin sessions as node "{claim.node_id}", or with its data directory: '
        "give each node its own id and its own data directory"
    )


def check_format(found: Cluster, wanted: Cluster) -> None:
    """Check that a cluster can be shared by a node that would have founded it as *wanted*.

    Raises:
        OtherCluster: The formats are different.
    """
    if found.format != wanted.format:
        raise OtherCluster(
            f"the cluster was founded in format {found.format}, but this version of rota reads "
            f"format {wanted.format}: use the version that the other nodes run"
        )


def check_swaps(swaps: Sequence[Swap]) -> None:
    """Check the conditions that swaps must meet.

    Raises:
        ValueError: A fresh epoch is not the expected epoch plus 1 (for a first configuration, the
            first epoch of a generation; for a repair, a higher epoch; PROTOCOL R1, I6); or a shard
            has two swaps, whose result would depend on their order.
    """
    seen: set[ShardId] = set()
    for swap in swaps:
        before = swap.expected.epoch if swap.expected else 0
        follows = swap.fresh.epoch == before + 1 or (
            not before and swap.fresh.epoch == first_epoch(generation_of(swap.fresh.epoch))
        )
        if not (follows or (swap.is_repair and swap.fresh.epoch > before)):
            raise ValueError(f"epoch {swap.fresh.epoch} does not follow {before}")
        if swap.shard in seen:
            raise ValueError(f"shard {swap.shard} is to be swapped twice at once")
        seen.add(swap.shard)
