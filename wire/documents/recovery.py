"""The recovery of a cluster or a shard: what nodes have, and what was written."""

from rota.wire.documents.document import View


class CopyView(View, frozen=True):
    """A copy that counts.

    Attributes:
        node_id: Where it is.
        allocation: Tells the copy from every other one on the same node.
    """

    node_id: str
    allocation: str


class ConfigurationView(View, frozen=True):
    """The configuration of a shard under an epoch.

    Attributes:
        epoch: Of the configuration.
        primary: The node that decides.
        primary_session: The life of that node which does; empty if none does.
        copies: Those that count, in order of node.
    """

    epoch: int
    primary: str
    primary_session: str
    copies: list[CopyView]


class HeldView(View, frozen=True):
    """What a node has of a shard.

    Attributes:
        shard: Its number.
        seen: The newest configuration that etcd was seen to have; null if none was.
        promised: The highest epoch that the node promised to obey.
        allocation: Of the node's whole copy; null without one.
        before: Number of the entry before the oldest one that the copy keeps.
        committed: Number of the entry up to which all are known to be committed.
        tip_epoch: Epoch of the last entry of the copy.
        tip_index: Number of that entry; 0 without any.
        tip_hash: Of that entry, in hexadecimal.
        tip_at: Its instant; null without any.
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
    """What a node has of all shards.

    Attributes:
        node_id: Which node.
        lost: etcd lost what it had in generations up to this one; null: nothing is lost, as far as
            the node has learned.
        shards: By number; those of which the node has nothing are left out.
    """

    node_id: str
    lost: int | None
    shards: list[HeldView]


class HashesView(View, frozen=True):
    """What entries a node's copies have: two with the same hash have all before that in common.

    Attributes:
        hashes: In hexadecimal, in the order of the question; null for an entry that is not kept.
    """

    hashes: list[str | None]


class ShardRecoveryView(View, frozen=True):
    """The recovery of a shard, as a part of that of the cluster.

    Attributes:
        shard: Its number.
        outcome: ``recovered``; ``founded``: no node had anything of it; ``changed``: its
            configuration changed meanwhile, run the recovery again; or why it stays closed:
            ``no_copy``, ``unknown_configuration``, ``forked``, ``unsure``.
        epoch_before: Of the newest configuration that is known, or of the one that has everything
            where the shard has forked; 0 if none is.
        epoch: Of the configuration that was written; null if none was.
        primary: The node that is to decide; null if no configuration was written.
        copies: The nodes whose copies count in the configuration that was written.
        missing: The nodes whose copies counted and are not there.
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
        generation: Of the new epochs.
        shards: Those that needed a recovery, by number.
        without: The nodes that were left out.
    """

    generation: int
    shards: list[ShardRecoveryView]
    without: list[str]


class ShardLossView(View, frozen=True):
    """The recovery of a shard from a copy that did not count.

    Attributes:
        shard: Its number.
        node_id: The node whose copy is now the only one that counts.
        epoch_before: Of the newest configuration that is known; 0 if none is.
        epoch: Of the configuration that was written.
        last_index: Number of the copy's last entry: what was acknowledged after it is lost.
        last_at: Instant of that entry; null if the copy has none.
        missing: The nodes whose copies counted.
        recorded_on: The node that has the record, in ``RECOVERIES`` of its data directory.
    """

    shard: int
    node_id: str
    epoch_before: int
    epoch: int
    last_index: int
    last_at: str | None
    missing: list[str]
    recorded_on: str
