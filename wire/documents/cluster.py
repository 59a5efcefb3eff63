"""The cluster: nodes, shards, and pending moves of copies."""

from rota.wire.documents.document import View


class LoadView(View, frozen=True):
    """The load of a node.

    Attributes:
        running: The number of attempts that run on the node, or whose outcomes are not recorded
            yet.
        slots: The highest number of attempts that the node runs at the same time.
        waiting: The number of tasks that wait for a slot on the node.
    """

    running: int
    slots: int
    waiting: int


class NodeView(View, frozen=True):
    """A node of the cluster.

    Attributes:
        node_id: Its permanent id.
        state: ``active``; ``draining``: its copies move to other nodes; ``gone``: it has no
            session.
        is_draining: Whether the node is drained, even if it is gone.
        session: Its session in etcd; null if it is gone.
        zone: Its failure domain: nodes with the same zone may fail together.
        weight: Its share of the copies, relative to other nodes.
        labels: Its configured labels.
        address: Its address for clients.
        peer_address: Its address for other nodes.
        version: Its version of rota.
        load: Its load; null if the node did not respond or was not asked.
        troubles: The reasons why the node is not ready, as in `/readyz`, and whether it has lost
            its connection to etcd; null if the node did not respond or was not asked.
        primaries: The number of shards of which it is the primary.
        backups: The number of its other copies that count.
        auth: Its mode of access control: ``keys``, ``observe`` or ``open``; empty if it is unknown.
    """

    node_id: str
    state: str
    is_draining: bool
    session: str | None
    zone: str
    weight: float
    labels: dict[str, str]
    address: str
    peer_address: str
    version: str
    load: LoadView | None
    primaries: int
    backups: int
    troubles: list[str] | None = None
    auth: str = ""


class ReplicaView(View, frozen=True):
    """A copy of a shard.

    Attributes:
        node_id: The node that has the copy.
        role: ``primary``, ``backup``, or ``learner``, which does not count yet.
        lag: The number of journal entries that it lacks, by its last response to the primary; null
            if it is unknown, or while a snapshot is being copied.
    """

    node_id: str
    role: str
    lag: int | None


class ShardView(View, frozen=True):
    """A shard and its copies.

    Attributes:
        shard: The number of the shard.
        epoch: The epoch of its configuration; 0 if it has none yet.
        primary: The node that is its primary; null if it never had one.
        is_open: Whether the primary accepts commands now; null if the primary did not respond.
        replicas: Its copies, that of the primary first.
        target: The nodes on which the ring places its copies, the primary first.
    """

    shard: int
    epoch: int
    primary: str | None
    is_open: bool | None
    replicas: list[ReplicaView]
    target: list[str]


class MoveView(View, frozen=True):
    """A pending change of the copies of a shard.

    Attributes:
        shard: The number of the shard.
        change: ``copy``: a copy is made; ``handover``: another node becomes the primary;
            ``removal``: a copy is removed.
        source: The node that loses the copy or the role; null for a copy.
        target: The node that gets the copy or the role; null for a removal.
        is_running: Whether the change has started. Otherwise it waits for its turn, for another
            change of the shard, or for a node that is not connected.
        lag: The number of journal entries that the new copy still lacks; null if it is unknown, or
            while a snapshot is being copied.
    """

    shard: int
    change: str
    source: str | None
    target: str | None
    is_running: bool
    lag: int | None = None


class ClusterView(View, frozen=True):
    """The nodes and shards of a cluster, as known to the node that received the request.

    Attributes:
        cluster: The name of the cluster.
        node_id: The node that received the request.
        replicas: The wanted number of copies of each shard.
        nodes: The nodes, by id.
        shards: The shards, by number.
        moves: The pending changes, by shard; empty if every copy is on its target node.
    """

    cluster: str
    node_id: str
    replicas: int
    nodes: list[NodeView]
    shards: list[ShardView]
    moves: list[MoveView]


class PromiseView(View, frozen=True):
    """The epochs of a shard on one node.

    Attributes:
        node_id: The node.
        promised: The highest epoch that the node promised to obey, stored on its disk.
        written: The epoch of the last entry of the node's copy; 0 if the copy has no entries.
        known: The epoch of the newest configuration that the node has received from etcd since its
            start; 0 if it has received none.
    """

    node_id: str
    promised: int
    written: int
    known: int


class RepairView(View, frozen=True):
    """The repair of a shard.

    Attributes:
        shard: The number of the shard.
        epoch_before: The epoch of its configuration before the repair.
        epoch: The epoch of its configuration after the repair, above all promises.
        promises: The epochs on the nodes that responded, by node.
        unasked: The nodes that did not respond; no copy on them counts.
    """

    shard: int
    epoch_before: int
    epoch: int
    promises: list[PromiseView]
    unasked: list[str]


class VersionView(View, frozen=True):
    """The version of a node.

    Attributes:
        version: The version of rota.
        node_id: The permanent id of the node.
        cluster: The name of its cluster.
        shards: The number of shards.
        python: The version of Python.
    """

    version: str
    node_id: str
    cluster: str
    shards: int
    python: str
