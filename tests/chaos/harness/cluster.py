"""The cluster of a run: hosts, members of etcd, nodes, and their state."""

import json
import time
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import rota
from chaos.harness.builds import next_build
from chaos.harness.etcd_history import EtcdHistory
from chaos.harness.hosts import Node, member_of_etcd
from chaos.harness.network import Host, Network
from chaos.harness.security import Security
from chaos.judge.own_requests import context, headers
from support.etcd import EtcdCluster
from support.rotad import Refusal

Json = Any  # Any: answers of nodes and etcd; the shape depends on the request.
NAME = "chaos"
INSTALLED = Path(rota.__file__).parent.resolve()
TENDED_S = 0.5
BEGUN_S = 180.0
LOOK_S = 0.5
"""Until the next look at the cluster: each takes time of all nodes that fires wait for."""


class NeverHappened(Exception):
    """An expected condition did not hold in time; the text names it."""


class Cluster:
    """Nodes ``n1``, ``n2``, ... and members of etcd ``e1``, ``e2``, ...

    Args:
        folder: Where data and logs are.
        network: What connects them.
        size: How many nodes.
        spare: How many more there are that are not started.
        members: How many members etcd has.
        is_secure: Whether nodes use keys and TLS.
        flags: Of each node.
        package: The rota that nodes run.
    """

    def __init__(
        self,
        folder: Path,
        network: Network,
        size: int,
        *flags: str,
        spare: int,
        members: int,
        package: Path = INSTALLED,
        is_secure: bool = False,
    ) -> None:
        self.network = network
        self._folder = folder
        self._package = package
        self.etcd_hosts = [network.add(f"e{number + 1}") for number in range(members)]
        self.etcd = EtcdCluster(folder, 0)
        self.etcd.members = [member_of_etcd(host, folder) for host in self.etcd_hosts]
        self.etcd_history = EtcdHistory(self.etcd.members[0], NAME, folder)
        self._flags = ("--etcd", ",".join(self.etcd.urls), "--cluster", NAME, *flags)
        hosts = [network.add(f"n{number + 1}") for number in range(size + spare)]
        self.all_nodes = {host.name: Node(host, network, folder, *self._flags) for host in hosts}
        self.nodes = {host.name: self.all_nodes[host.name] for host in hosts[:size]}
        """Those that are members, whether or not they run at the moment."""
        self._clones: dict[str, Node] = {}
        self._security = Security(folder, NAME) if is_secure else None
        if self._security is not None:
            for node in self.all_nodes.values():
                self._security.equip(node, node.name)
        self.spare = [host.name for host in hosts[size:]]
        if package != INSTALLED:
            self._build_all(package.parent)

    @property
    def urls(self) -> list[str]:
        """Where the members' APIs are."""
        scheme = "http" if self._security is None else "https"
        return [f"{scheme}://{node.host.address}:7400" for node in self.nodes.values()]

    def host(self, name: str) -> Host:
        """Return a node's host."""
        return self.all_nodes[name].host

    def clone(self, name: str, node_id: str) -> Node:
        """Return what runs on a copy of a node's disk as *node_id*, on a host of its own."""
        if name not in self._clones:
            host = self.network.add(f"{name}c")
            self._clones[name] = Node(host, self.network, self._folder, *self._flags)
        clone = self._clones[name]
        clone.flags = (*clone.flags, "--node-id", node_id)
        if self._security is not None:
            self._security.equip(clone, node_id)
        return clone

    def other_build(self) -> Path:
        """Return the build that nodes are to run next, and have the spare ones run it.

        The first time that is the next release, then the one before again, and so on.
        """
        following = self._folder / "next"
        if not following.exists():
            next_build(self._package, following)
        first = next(iter(self.nodes.values()))
        build = self._package.parent if first.build == following else following
        for name in self.spare:
            self.all_nodes[name].build = build
        return build

    def _build_all(self, build: Path) -> None:
        for node in self.all_nodes.values():
            node.build = build

    def start(self) -> None:
        """Start etcd and the nodes, and wait until every shard has all its copies."""
        self.etcd.start()
        for node in self.nodes.values():
            node.spawn()
        self.wait_safe(BEGUN_S)

    def view(self) -> Json:
        """Return the cluster's document from any node; None if no node answers."""
        for node in self.nodes.values():
            if node.is_running:
                try:
                    url = f"{node.url}/api/v1/cluster"
                    request = urllib.request.Request(url, headers=headers())
                    with urllib.request.urlopen(request, timeout=3, context=context()) as answer:
                        return json.load(answer)
                except (OSError, ValueError):
                    continue
        return None

    def etcd_revision(self) -> int | None:
        """Return the number of etcd's last write in its history; None if no member answers."""
        for member in self.etcd.members:
            try:
                answer = member.ask("/v3/kv/range", {"key": b"/", "count_only": True}, 1)
            except OSError:
                continue
            return self.etcd_history.number(int(answer["header"]["revision"]))
        return None

    def trouble(self) -> str:
        """Return what is wrong with the cluster; empty if nothing is."""
        for node in self.nodes.values():
            if not node.is_running:
                return f"{node.name} does not run"
            try:
                node.call("GET", "/readyz")
            except (Refusal, OSError) as error:
                return f"{node.name} is not ready: {error}"
        view = self.view()
        if view is not None and view["moves"]:
            return f"{len(view['moves'])} moves, such as {view['moves'][0]}"
        return _thin(view, len(self.nodes))

    def wait_whole(self, timeout_s: float) -> float:
        """Wait until every shard is open where it is wanted, with all copies; return for how long.

        Raises:
            NeverHappened: It is not in time.
        """

        def is_whole() -> bool:
            self.tend()
            return not self.trouble()

        return wait_until(is_whole, timeout_s, self.trouble)

    def wait_safe(self, timeout_s: float) -> None:
        """Wait until every shard has all its copies, so that one disk may be lost.

        Raises:
            NeverHappened: They are not in time.
        """

        def thin() -> str:
            self.tend()
            return _thin(self.view(), len(self.nodes))

        wait_until(lambda: not thin(), timeout_s, thin)

    def tend(self) -> None:
        """Start again what has ended by itself."""
        for node in self.nodes.values():
            node.tend()

    def let_pass(self, seconds: float) -> None:
        """Let time pass, and `tend` meanwhile."""
        until = time.monotonic() + seconds
        while (left_s := until - time.monotonic()) > 0:
            self.tend()
            time.sleep(min(left_s, TENDED_S))

    def heal(self) -> None:
        """Undo all faults: nothing is cut, everything runs, and no disk is damaged.

        Damage that was not detected by now is in data that was not read: that disk is replaced.
        """
        self.network.mend()
        self.etcd.start()
        for node in self.nodes.values():
            node.resume()
            node.obey_nothing()
            if not node.is_running:
                node.spawn()
        with suppress(NeverHappened):  # Then it is not whole, which the judge will say.
            self.replace_damaged_disks()

    def replace_damaged_disks(self) -> None:
        """Have each node whose disk is damaged begin with an empty one; never two at a time."""
        for node in self.nodes.values():
            if node.is_damaged:
                self.wait_safe(BEGUN_S)
                node.wipe_all()
                node.spawn()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.network.mend()
        for node in (*self.all_nodes.values(), *self._clones.values()):
            node.obey_nothing()
            if node.process is not None:
                node.resume()
                node.kill_host()
            node.unmount()
        for member in self.etcd.members:
            member.kill()


def _thin(view: Json, nodes: int) -> str:
    """Return which shard is not open, or has too few copies; empty if none."""
    if view is None:
        return "no node answers"
    for shard in view["shards"]:
        copies = [each for each in shard["replicas"] if each["role"] != "learner"]
        if not shard["isOpen"] or len(copies) < min(view["replicas"], nodes):
            return f"a shard is not whole: {shard}"
    return ""


def wait_until(
    is_so: Callable[[], bool | None], timeout_s: float, why: Callable[[], str] | str
) -> float:
    """Wait until *is_so*; return for how many seconds.

    Raises:
        NeverHappened: With *why*.
    """
    began = time.monotonic()
    while not is_so():
        if time.monotonic() - began > timeout_s:
            text = why if isinstance(why, str) else why()
            raise NeverHappened(f"after {timeout_s:g} s: {text}")
        time.sleep(LOOK_S)
    return time.monotonic() - began
