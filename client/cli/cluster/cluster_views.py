"""Views of a cluster: nodes, shards and moves as tables, and a summary of its state."""

from collections import Counter
from collections.abc import Iterable

import msgspec

from rota.client.cli.display.show import Column, Look
from rota.client.cli.human import counted
from rota.wire.documents import ClusterView, MoveView, NodeView, ReplicaView, ShardView

UNKNOWN = "?"
OPEN_MODES = {
    "open": "every request has all rights",
    "observe": "refusals are only logged, and every request has all rights",
}
"""The modes of access control in which nothing is refused, with their effect."""


class StatusView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The summary of a cluster.

    Attributes:
        cluster: The name of the cluster.
        node_id: The node that answered.
        is_whole: Whether every node is alive and reports no problem, and every shard is open and on
            its target nodes.
        replicas: The configured number of copies.
        active: The nodes that are alive and not draining.
        draining: The nodes that are alive and draining.
        gone: The nodes that are not alive.
        shards: The number of shards.
        open: The number of shards with a primary that decides.
        closed: The number of shards without such a primary.
        unknown: The number of shards whose primary did not answer.
        short_of_copies: The number of shards with fewer copies that count than *replicas*.
        lag_max: The largest lag of a copy, in entries; None if no lag is known.
        copies: The number of moves that make a copy.
        handovers: The number of moves that change the primary.
        removals: The number of moves that remove a copy.
        kept: The number of copies that stay on draining nodes, because no other node can take them
            and too few would remain.
        troubles: The problems that nodes report, each with the names of these nodes.
        warnings: Modes of access control that refuse nothing, or that differ between nodes; they do
            not count for *is_whole*, as they are intended during a change of the mode.
    """

    cluster: str
    node_id: str
    is_whole: bool
    replicas: int
    active: list[str]
    draining: list[str]
    gone: list[str]
    shards: int
    open: int
    closed: int
    unknown: int
    short_of_copies: int
    lag_max: int | None
    copies: int
    handovers: int
    removals: int
    kept: int
    troubles: list[str]
    warnings: list[str]


def status_of(view: ClusterView) -> StatusView:
    """Return the summary of a cluster."""
    by_state: dict[str, list[str]] = {"active": [], "draining": [], "gone": []}
    for node in view.nodes:
        by_state.setdefault(node.state, []).append(node.node_id)
    is_open = Counter(_state(shard) for shard in view.shards)
    lags = [each.lag for shard in view.shards for each in _backups(shard) if each.lag is not None]
    moves = Counter(move.change for move in view.moves)
    troubles = _troubles(view)
    return StatusView(
        cluster=view.cluster,
        node_id=view.node_id,
        is_whole=not (view.moves or by_state["gone"] or troubles)
        and is_open["open"] == len(view.shards),
        replicas=view.replicas,
        active=by_state["active"],
        draining=by_state["draining"],
        gone=by_state["gone"],
        shards=len(view.shards),
        open=is_open["open"],
        closed=is_open["closed"],
        unknown=is_open[UNKNOWN],
        short_of_copies=sum(is_short(shard, view.replicas) for shard in view.shards),
        lag_max=max(lags, default=None),
        copies=moves["copy"],
        handovers=moves["handover"],
        removals=moves["removal"],
        kept=sum(_kept(view, node) for node in view.nodes if node.state == "draining"),
        troubles=troubles,
        warnings=_warnings(view.nodes),
    )


def _troubles(view: ClusterView) -> list[str]:
    """Return each problem once, with the nodes that report it."""
    nodes: dict[str, list[str]] = {}
    for node in view.nodes:
        for trouble in node.troubles or ():
            nodes.setdefault(trouble, []).append(node.node_id)
    return [f"{', '.join(names)}: {trouble}" for trouble, names in nodes.items()]


def _warnings(nodes: Iterable[NodeView]) -> list[str]:
    """Return the warnings about the modes of access control of the nodes that are alive."""
    by_mode: dict[str, list[str]] = {}
    for node in nodes:
        if node.auth and node.state != "gone":
            by_mode.setdefault(node.auth, []).append(node.node_id)
    named = {mode: f"{', '.join(by_mode[mode])}: auth = {mode}" for mode in sorted(by_mode)}
    warnings = [f"{named[mode]}: {OPEN_MODES[mode]}" for mode in named if mode in OPEN_MODES]
    if len(named) > 1:
        warnings.append(
            f"the nodes have different modes ({'; '.join(named.values())}); give all the same"
        )
    return warnings


def _kept(view: ClusterView, node: NodeView) -> int:
    """Return the number of copies that stay on a draining node."""
    removals = [each for each in view.moves if each.change == "removal"]
    return node.primaries + node.backups - sum(each.source == node.node_id for each in removals)


def left_to_drain(view: ClusterView, name: str) -> str:
    """Return the remaining work of a draining node; empty if there is none."""
    node = node_in(view, name)
    if node is None or not node.is_draining:
        return "not all nodes have received the request"
    moves = Counter(move.change for move in view.moves if move.source == name)
    running = node.load.running if node.load else 0
    left = (
        (moves["handover"], "shard to be handed over", "shards to be handed over"),
        (moves["removal"], "copy to be removed", "copies to be removed"),
        (running, "attempt running", "attempts running"),
    )
    return ", ".join(counted(*each) for each in left if each[0])


def node_in(view: ClusterView, name: str) -> NodeView | None:
    """Return the node with an id; None if there is none."""
    return next((each for each in view.nodes if each.node_id == name), None)


def is_short(shard: ShardView, copies: int) -> bool:
    """Return True if fewer than *copies* copies of a shard count."""
    return sum(each.role != "learner" for each in shard.replicas) < copies


def is_well(shard: ShardView, copies: int) -> bool:
    """Return True if a shard has a primary that decides, and all of its copies."""
    return shard.is_open is True and not is_short(shard, copies)


def _backups(shard: ShardView) -> list[ReplicaView]:
    return [each for each in shard.replicas if each.role == "backup"]


def _state(shard: ShardView) -> str:
    if shard.is_open is None:
        return UNKNOWN if shard.primary else "closed"
    return "open" if shard.is_open else "closed"


def _known(value: int | None) -> str:
    return UNKNOWN if value is None else str(value)


def _labels(node: NodeView) -> str:
    return " ".join(f"{key}={value}" for key, value in node.labels.items())


def _replicas(shard: ShardView, role: str) -> str:
    """Return the nodes of the copies with *role*, each with its lag unless the lag is 0."""
    return " ".join(
        each.node_id if each.lag == 0 else f"{each.node_id}(-{_known(each.lag)})"
        for each in shard.replicas
        if each.role == role
    )


MEMBER: Look[NodeView] = Look(
    name=lambda node: node.node_id,
    columns=(
        Column("NODE", lambda node, _: node.node_id),
        Column("STATE", lambda node, _: node.state),
        Column("ZONE", lambda node, _: node.zone, is_optional=True),
        Column("PRIMARY", lambda node, _: str(node.primaries)),
        Column("BACKUP", lambda node, _: str(node.backups)),
        Column("RUNNING", lambda node, _: _known(node.load.running if node.load else None)),
        Column("SLOTS", lambda node, _: _known(node.load.slots if node.load else None)),
        Column("WAITING", lambda node, _: _known(node.load.waiting if node.load else None)),
        Column("ADDRESS", lambda node, _: node.address),
        Column("PEER ADDRESS", lambda node, _: node.peer_address, is_wide=True),
        Column("WEIGHT", lambda node, _: f"{node.weight:g}", is_wide=True),
        Column("LABELS", lambda node, _: _labels(node), is_wide=True),
        Column("VERSION", lambda node, _: node.version, is_wide=True),
        Column("AUTH", lambda node, _: node.auth, is_wide=True),
        Column("SESSION", lambda node, _: node.session or "", is_wide=True),
    ),
)

SHARD: Look[ShardView] = Look(
    name=lambda shard: str(shard.shard),
    columns=(
        Column("SHARD", lambda shard, _: str(shard.shard)),
        Column("EPOCH", lambda shard, _: str(shard.epoch)),
        Column("STATE", lambda shard, _: _state(shard)),
        Column("PRIMARY", lambda shard, _: shard.primary or ""),
        Column("BACKUPS", lambda shard, _: _replicas(shard, "backup")),
        Column("LEARNERS", lambda shard, _: _replicas(shard, "learner"), is_optional=True),
        Column("TARGET", lambda shard, _: " ".join(shard.target), is_wide=True),
    ),
)

MOVE: Look[MoveView] = Look(
    name=lambda move: str(move.shard),
    columns=(
        Column("SHARD", lambda move, _: str(move.shard)),
        Column("CHANGE", lambda move, _: move.change),
        Column("FROM", lambda move, _: move.source or ""),
        Column("TO", lambda move, _: move.target or ""),
        Column("STATE", lambda move, _: "running" if move.is_running else "waiting"),
        Column("BEHIND", lambda move, _: "" if move.lag is None else str(move.lag)),
    ),
)

STATUS: Look[StatusView] = Look(name=lambda status: status.cluster, columns=())
