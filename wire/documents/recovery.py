"""Recovery of a cluster or a shard: inventories of nodes, and results."""

from rota.wire.documents.document import View


class CopyView(View, frozen=True):
    """A copy that counts.

    Attributes:
        node_id: The node that has it.
        allocation: The id of the copy, which distinguishes it from other copies on the same node.
    """

    node_id: str
    allocation: str


class ConfigurationView(View, frozen=True):
    """The configuration of a shard under an epoch.

    Attributes:
        epoch: The epoch of the configuration.
        primary: The node that is the primary.
        primary_session: The session under which that node is the primary; empty if there is none.
        copies: The copies that count, ordered by node.
    """

    epoch: int
    primary: str
    primary_session: str
    copies: list[CopyView]


class HeldView(View, frozen=True):
    """The copy of a shard on one node.

    Attributes:
        shard: The number of the shard.
        seen: The newest configuration that the node has seen in etcd; null if it has seen none.
        promised: The highest epoch that the node promised to obey.
        allocation: The id of its copy, if the copy is complete; null otherwise.
        before: The index of the entry before the oldest entry in the copy's journal.
        committed: The index up to which entries are known to be committed.
        tip_epoch: The epoch of the last entry of the copy.
        tip_index: The index of that entry; 0 without entries.
        tip_hash: The hash of that entry, in hexadecimal.
        tip_at: The instant of that entry; null without entries.
    """

    shard: int
    seen: ConfigurationView | None
    promised: int
    allocation: str | None
    before: int
    committed: int
    tip_epoch: int
    tip_index: int
    tip_hash: str
    tip_at: str | None


class InventoryView(View, frozen=True):
    """The copies of all shards on one node.

    Attributes:
        node_id: The node.
        lost: The generation up to which etcd lost its state; null if the node has detected no loss.
        shards: The copies by number of the shard; shards without any data on the node are omitted.
    """

    node_id: str
    lost: int | None
    shards: list[HeldView]


class HashesView(View, frozen=True):
    """Hashes of journal entries; two copies with a common hash have all earlier entries in common.

    Attributes:
        hashes: The hashes in hexadecimal, in the order of the request; null for a missing entry.
    """

    hashes: list[str | None]


class ShardRecoveryView(View, frozen=True):
    """The recovery of a shard, as a part of the recovery of the cluster.

    Attributes:
        shard: The number of the shard.
        outcome: ``recovered``; ``founded``: no node had any data of the shard,
            or nothing of the shard can have been committed; ``changed``: the
            configuration changed during the recovery, which must be run again; or the reason why
            the shard stays closed: ``no_copy``, ``unknown_configuration``, ``forked``, ``unsure``.
        epoch_before: The epoch of the newest known configuration or, if the shard has forked, of
            the one with every acknowledged write; 0 if there is none.
        epoch: The epoch of the new configuration; null if none was written.
        primary: The primary in the new configuration; null if none was written.
        copies: The nodes whose copies count in the new configuration.
        missing: The nodes whose copies counted before and are missing.
    """

    shard: int
    outcome: str
    epoch_before: int
    epoch: int | None
    primary: str | None
    copies: list[str]
    missing: list[str]


class RecoveryView(View, frozen=True):
    """The recovery of a cluster whose etcd lost its state.

    Attributes:
        generation: The generation of the new epochs.
        shards: The shards that needed a recovery, by number.
        without: The nodes that were declared lost.
    """

    generation: int
    shards: list[ShardRecoveryView]
    without: list[str]


class ShardLossView(View, frozen=True):
    """The recovery of a shard from a copy that did not count.

    Attributes:
        shard: The number of the shard.
        node_id: The node whose copy is now the only one that counts.
        epoch_before: The epoch of the newest known configuration; 0 if there is none.
        epoch: The epoch of the new configuration.
        last_index: The index of the copy's last entry; later acknowledged writes are lost.
        last_at: The instant of that entry; null without entries.
        missing: The nodes whose copies counted before.
        recorded_on: The node that recorded the recovery, in ``RECOVERIES`` of its data directory.
    """

    shard: int
    node_id: str
    epoch_before: int
    epoch: int
    last_index: int
    last_at: str | None
    missing: list[str]
    recorded_on: str
