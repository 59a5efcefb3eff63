"""Real nodes on a real etcd: started, stopped, killed, and always ended."""

import json
import time
from base64 import b64decode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rota.core.model.ids import NodeId, slot_of
from rota.ring.assignment import assign
from rota.ring.membership import Member
from rota.ring.placement import shard_of
from support.etcd import EtcdCluster, free_ports
from support.rotad import Refusal, Rotad, processes_of

Json = Any  # Any: JSON answers of nodes; each test reads the fields that it checks.

SHARDS = 8
COPIES = 3
FAST = (
    "--shards", str(SHARDS), "--session-ttl", "2s", "--peer-lease", "600ms",
    "--attempt-lease", "3s", "--drain", "0s",
)  # fmt: skip
"""Takeovers within seconds; a session's TTL of 2 s is the least that etcd has."""


class Cluster:
    """Nodes of one cluster, on ports of their own that they keep.

    Args:
        folder: Folder of the nodes' data and logs; its name is the cluster's name.
        etcd: The etcd cluster that the nodes use.
        size: Number of nodes.
        flags: Further flags of each node.
    """

    def __init__(self, folder: Path, etcd: EtcdCluster, size: int = 3, *flags: str) -> None:
        self.name = folder.name
        self.folder = folder
        self.etcd = etcd
        self.nodes = [self._node(f"n{number}", *flags) for number in range(1, size + 1)]

    def _node(self, node_id: str, *flags: str) -> Rotad:
        return Rotad(self.folder / node_id, *self.flags_of(node_id), *flags)

    def add(self, node_id: str, *flags: str) -> Rotad:
        """Return one more node of this cluster, to be ended with the others; not started."""
        self.nodes.append(self._node(node_id, *flags))
        return self.nodes[-1]

    def flags_of(self, node_id: str) -> tuple[str, ...]:
        """Return the flags of a node, with ports of its own."""
        listen, peer_listen = free_ports(2)
        return (
            "--listen", f"127.0.0.1:{listen}", "--peer-listen", f"127.0.0.1:{peer_listen}",
            "--etcd", ",".join(self.etcd.urls), "--cluster", self.name, "--node-id", node_id,
            *FAST,
        )  # fmt: skip

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(self, *_: object) -> None:
        # Nodes that are stopped one after the other hand their shards over, which takes time.
        for node in self.nodes:
            if node.process is not None and node.process.poll() is None:
                node.kill()
        for node in self.nodes:
            node.__exit__()

    def __iter__(self) -> Iterator[Rotad]:
        return iter(self.nodes)

    def start(self) -> "Cluster":
        """Start all nodes, and wait until every shard is where the ring wants it."""
        for node in self.nodes:
            node.spawn()
        self.wait_whole()
        return self

    def wait_whole(self) -> None:
        """Wait until all nodes are ready and every shard is where the ring wants it."""
        for node in self.nodes:
            node.wait_ready(60)  # Three begin at once, on a machine that may be busy.
        self.wait_until(self.is_whole, "shards are not where the ring wants them")

    @property
    def ids(self) -> list[NodeId]:
        """The nodes' ids."""
        return [NodeId(node.data_dir.name) for node in self.nodes]

    def configurations(self) -> dict[int, Json]:
        """Return the shards' configurations in etcd, by shard."""
        return {int(key): value for key, value in self._records("shard").items()}

    def member(self, node_id: str) -> Json:
        """Return a node's own record in etcd."""
        return self._records("node")[node_id]

    def sessions(self) -> dict[str, Json]:
        """Return the sessions in etcd, by node id."""
        return self._records("sess")

    def documents(self, kind: str) -> dict[str, Json]:
        """Return the shared documents of a kind in etcd, by name."""
        return self._records(f"~/{kind}")

    def _records(self, kind: str) -> dict[str, Json]:
        prefix = f"/rota/{self.name}/{kind}/"
        request = {"key": prefix.encode(), "range_end": f"{prefix[:-1]}0".encode()}
        answer = self.etcd.members[0].ask("/v3/kv/range", request)
        pairs = [
            (b64decode(each["key"]), b64decode(each["value"])) for each in answer.get("kvs", ())
        ]
        return {key.decode().removeprefix(prefix): json.loads(value) for key, value in pairs}

    def is_whole(self) -> bool:
        """Return True if every shard's primary and copies are where the ring wants them."""
        wanted = assign((Member(id=node_id) for node_id in self.ids), SHARDS, COPIES).replica_sets
        held = self.configurations()
        return len(held) == SHARDS and all(
            held[shard]["primary"] == nodes[0]
            and {node_id for node_id, _ in held[shard]["sync"]} == set(nodes)
            for shard, nodes in enumerate(wanted)
        )

    def primary_of(self, name: str, namespace: str = "default") -> Rotad:
        """Return the primary of a job's shard, as recorded in etcd."""
        shard = shard_of(slot_of(namespace, name), SHARDS)
        return self.node(self.configurations()[shard]["primary"])

    def node(self, node_id: str) -> Rotad:
        """Return a node by its id."""
        return next(node for node in self.nodes if node.data_dir.name == node_id)

    def wait_until(self, is_so: Callable[[], bool], otherwise: str, timeout_s: float = 30) -> None:
        """Wait until *is_so*, or fail with the logs of all nodes."""
        deadline = time.monotonic() + timeout_s
        while not is_so():
            assert time.monotonic() < deadline, f"{otherwise}\n{self.logs()}"
            time.sleep(0.02)

    def drain(self, node: Rotad) -> None:
        """Drain a node, and wait until it is primary of no shard."""
        node_id = node.data_dir.name
        record = {**self.member(node_id), "state": "draining"}
        self.etcd.members[0].put(f"/rota/{self.name}/node/{node_id}", json.dumps(record))
        self.wait_until(
            lambda: all(each["primary"] != node_id for each in self.configurations().values()),
            f"{node_id} does not hand its shards over",
        )

    def left_over(self) -> list[int]:
        """Return the remaining processes of attempts."""
        made = [node.data_dir for node in self.nodes if (node.data_dir / "FORMAT").exists()]
        return [pid for data_dir in made for pid in processes_of(data_dir)]

    def logs(self) -> str:
        """Return the end of each node's log."""
        return "\n".join(f"--- {node.data_dir.name}\n{node.log()[-3_000:]}" for node in self.nodes)


def answer(node: Rotad, method: str, path: str, body: Json = None, **headers: str) -> Json:
    """Return a node's answer; the request is repeated for 30 s while the status is 503."""
    deadline = time.monotonic() + 30
    while True:
        try:
            return node.call(method, path, body, headers)
        except Refusal as refusal:
            if refusal.status != 503 or time.monotonic() > deadline:
                raise
        time.sleep(0.05)
