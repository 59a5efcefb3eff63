"""The cluster: its nodes, its shards, and which of these are to move."""

from rota.wire.documents.document import View


class LoadView(View, frozen=True):
    """What a node runs.

    Attributes:
        running: Attempts that run there, or whose outcomes are not yet recorded.
        slots: How many may run at the same time.
        waiting: Tasks that wait there for a slot.
    """

    running: int
    slots: int
    waiting: int


class NodeView(View, frozen=True):
    """A node of the cluster.

    Attributes:
        node_id: Its permanent id.
        state: ``active``; ``draining``: it is to hold nothing; ``gone``: it has no session.
        is_draining: Whether it is to hold nothing; of a node that is gone, too.
        session: Its present life, as etcd has it; null if it is gone.
        zone: What it shares with the nodes that may fail with it.
        weight: How much it is to hold, relative to other nodes.
        labels: As it was configured with.
        address: Where clients reach it.
        peer_address: Where other nodes reach it.
        version: Of rota.
        load: Null if the node did not answer, or was not asked.
        troubles: What is wrong with the node by its own account, as `/readyz` tells it, and whether
            etcd is away; null if the node did not answer, or was not asked.
        primaries: Shards that it decides for.
        backups: Further copies of it that count.
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


class ReplicaView(View, frozen=True):
    """A copy of a shard.

    Attributes:
        node_id: Where it is.
        role: ``primary``, ``backup``, or ``learner``: it does not count yet.
        lag: Entries of the primary's journal that it is not known to have; null if nobody knows,
            or while it is being filled.
    """

    node_id: str
    role: str
    lag: int | None


class ShardView(View, frozen=True):
    """A shard, and who holds it.

    Attributes:
        shard: Its number.
        epoch: Of its configuration; 0 if it has none yet.
        primary: The node that decides for it; null if none ever did.
        is_open: Whether that node does so now; null if it did not answer.
        replicas: Its copies, the primary's first.
        target: The nodes that ought to have copies, by the ring; the primary first.
    """

    shard: int
    epoch: int
    primary: str | None
    is_open: bool | None
    replicas: list[ReplicaView]
    target: list[str]


class MoveView(View, frozen=True):
    """Something that is to change before a shard is where it ought to be.

    Attributes:
        shard: Which.
        change: ``copy``: a copy is to be made; ``handover``: another node is to decide;
            ``removal``: a copy is to go.
        source: The node that loses by it; null for a copy.
        target: The node that gains by it; null for a removal.
        is_running: Whether it has begun. Else it waits: for its turn, for another change of the
            shard, or for a node that is away.
        lag: Entries that a copy still lacks; null if nobody knows, or while it is being filled.
    """

    shard: int
    change: str
    source: str | None
    target: str | None
    is_running: bool
    lag: int | None = None


class ClusterView(View, frozen=True):
    """The nodes and shards of a cluster, as the node that was asked knows them.

    Attributes:
        cluster: Its name.
        node_id: The node that was asked.
        replicas: How many copies of each shard there are to be.
        nodes: By id.
        shards: By number.
        moves: By shard. None: every shard is where it ought to be.
    """

    cluster: str
    node_id: str
    replicas: int
    nodes: list[NodeView]
    shards: list[ShardView]
    moves: list[MoveView]


class PromiseView(View, frozen=True):
    """What a node knows of the epochs of a shard.

    Attributes:
        node_id: Which node.
        promised: The highest epoch that it promised to obey, on its disk.
        written: That of the last entry of its copy; 0 without one.
        known: That of the newest configuration that etcd gave it in this life; 0 without one.
    """

    node_id: str
    promised: int
    written: int
    known: int


class RepairView(View, frozen=True):
    """The repair of a shard.

    Attributes:
        shard: Which.
        epoch_before: That of its configuration before.
        epoch: That of its configuration now, above all promises.
        promises: What the nodes told that could be asked, by node.
        unasked: Nodes that could not be asked; no copy on them counts.
    """

    shard: int
    epoch_before: int
    epoch: int
    promises: list[PromiseView]
    unasked: list[str]


class VersionView(View, frozen=True):
    """What runs here.

    Attributes:
        version: Of rota.
        node_id: This node's permanent id.
        cluster: The cluster it belongs to.
        shards: How many there are.
        python: What it runs on.
    """

    version: str
    node_id: str
    cluster: str
    shards: int
    python: str
