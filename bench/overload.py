"""Test whether an overloaded machine is taken for a lost one: ``python -m bench.overload``.

    python -m bench.overload                            two minutes beside four busy loops
    python -m bench.overload --writers 2 --forks 2      with disk writers and fork storms
    python -m bench.overload --early                    the hogs run before the nodes start

Three real nodes and an etcd run scheduled jobs while hogs (`bench.hogs`) overload the machine. No
process is stopped and no link is cut, so any end of a session and any takeover is caused by the
load. All changes are read from etcd's own history, which lists each of them. The exit status is 1
if there was a takeover, if a session ended, or if a fire was missed.
"""

import argparse
import asyncio
import os
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, aclosing
from dataclasses import dataclass, field
from pathlib import Path

from bench.api import now
from bench.hogs import hogs
from bench.machine import busy, look
from bench.processes import end_on_term
from bench.report import figure, heading
from rota.client.async_client import AsyncClient
from rota.client.dev.local_cluster import SESSION_TTL, LocalCluster
from rota.client.dev.local_etcd import USER
from rota.client.errors import TooBusy, Unreachable
from rota.client.slo.fire_load import FireLoad, Fires, Window
from rota.core.model.ids import NodeId, Session, ShardId
from rota.core.timing.instants import (
    MINUTE,
    SECOND,
    Duration,
    Instant,
    format_instant,
    parse_instant,
)
from rota.core.vocabulary.shard_configuration import Configuration
from rota.node.coordination.coordinator import News
from rota.node.coordination.credentials import Credentials
from rota.node.coordination.etcd import EtcdCoordinator
from rota.node.coordination.etcd_gateway import GatewayOptions
from rota.node.system.entropy import SystemEntropy
from rota.wire.documents import Json

NODES = 3
NAMESPACE = "overload"
COMMAND: Mapping[str, Json] = {"command": ["/bin/true"]}
SPREAD = 1.5
"""Primaries count as spread while no node has more than this multiple of its share."""
LATE_MS = 1_000
PATIENCE_S = 60.0
"""The timeout of a request on an overloaded machine."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """A change of etcd's keys.

    Attributes:
        at_s: The time from the start of the recording to the arrival of the change, in seconds.
        news: The new values.
    """

    at_s: float
    news: News


@dataclass(kw_only=True)
class Judgement:
    """The changes of sessions and shards during a run.

    Attributes:
        sessions_lost: The number of sessions that ended.
        sessions_restarted: The number of sessions that nodes began after their first.
        takeovers: The number of changes of a primary after the session of the old one had ended.
        restarts: The number of times that a primary continued in another session.
        handovers: The number of changes of a primary whose session had not ended.
        removals: The number by which counting copies decreased.
        spread_s: The time in seconds at which primaries were spread for the first time; None if
            they never were.
        uneven_s: The time in seconds for which they were not spread after that.
    """

    sessions_lost: int = 0
    sessions_restarted: int = 0
    takeovers: int = 0
    restarts: int = 0
    handovers: int = 0
    removals: int = 0
    spread_s: float | None = None
    uneven_s: float = 0.0


@dataclass
class Judge:
    """Follows the changes of a cluster in which no node stops or is stopped.

    Args:
        shards: The number of shards.
        nodes: The number of nodes.
        found: The changes so far.
    """

    shards: int
    nodes: int
    found: Judgement = field(default_factory=Judgement)
    _sessions: dict[NodeId, Session] = field(default_factory=dict[NodeId, Session])
    _seen: set[NodeId] = field(default_factory=set[NodeId])
    _configurations: dict[ShardId, Configuration] = field(
        default_factory=dict[ShardId, Configuration]
    )
    _uneven_since: float | None = None

    def take(self, step: Step) -> None:
        """Add the next change to the result."""
        for shard, fresh in step.news.configurations.items():
            if fresh is not None:
                self._compare(self._configurations.get(shard), fresh)
                self._configurations[shard] = fresh
        for node_id, life in step.news.lives.items():
            self._follow(node_id, life.session if life else None)
        self._measure_spread(step.at_s)

    def end(self, at_s: float) -> Judgement:
        """Return the result, as of *at_s*."""
        if self._uneven_since is not None:
            self.found.uneven_s += at_s - self._uneven_since
            self._uneven_since = at_s
        return self.found

    def _compare(self, old: Configuration | None, fresh: Configuration) -> None:
        if old is None:
            return
        if fresh.primary_session != old.primary_session:
            # etcd carries out a takeover only after that session has ended, and a handover before.
            is_alive = self._sessions.get(old.primary) == old.primary_session
            if fresh.primary == old.primary:
                self.found.restarts += 1
            elif is_alive:
                self.found.handovers += 1
            else:
                self.found.takeovers += 1
        self.found.removals += max(0, len(old.sync) - len(fresh.sync))

    def _follow(self, node_id: NodeId, session: Session | None) -> None:
        before = self._sessions.pop(node_id, None)
        self.found.sessions_lost += before not in {None, session}
        if session is not None:
            self.found.sessions_restarted += node_id in self._seen and session != before
            self._seen.add(node_id)
            self._sessions[node_id] = session

    def _measure_spread(self, at_s: float) -> None:
        primaries = Counter(each.primary for each in self._configurations.values())
        is_whole = len(self._configurations) == self.shards
        most = max(primaries.values(), default=0)
        is_spread = is_whole and most <= SPREAD * self.shards / self.nodes
        if self.found.spread_s is None:
            self.found.spread_s = at_s if is_spread else None
        elif is_spread and self._uneven_since is not None:
            self.found.uneven_s += at_s - self._uneven_since
            self._uneven_since = None
        elif not is_spread and self._uneven_since is None:
            self._uneven_since = at_s


@dataclass(frozen=True, kw_only=True)
class Report:
    """The result of a run.

    Attributes:
        judgement: The changes of sessions and shards.
        expected: The number of fire times.
        lateness_ms: The lateness of each start, in ascending order.
        unstarted: The numbers of fire times without a start, by their outcome in the ledger; fire
            times that the ledger does not have count as "missed".
    """

    judgement: Judgement
    expected: int
    lateness_ms: Sequence[float]
    unstarted: Mapping[str, int]

    def faults(self) -> list[str]:
        """Return the reasons why the run failed; empty if it did not."""
        counts = {
            "sessions ended": self.judgement.sessions_lost,
            "takeovers": self.judgement.takeovers,
            "fires missed": self.unstarted.get("missed", 0),
        }
        return [f"{count} {name}" for name, count in counts.items() if count]

    def lines(self, fires: Fires) -> list[str]:
        """Return the figures as lines of text."""
        found, late = self.judgement, sum(each > LATE_MS for each in self.lateness_ms)
        spread = (
            "never" if found.spread_s is None else f"{figure(found.spread_s)} s after the start"
        )
        p50, p99 = (figure(fires.lateness_ms_at(share)) for share in (0.5, 0.99))
        unstarted = ", ".join(f"{count} {name}" for name, count in self.unstarted.items())
        return [
            f"sessions: {found.sessions_lost} ended, {found.sessions_restarted} begun again",
            (
                f"shards: {found.takeovers} takeovers, {found.restarts} continued in another "
                f"session, {found.handovers} handovers, {found.removals} removals of copies"
            ),
            f"primaries: spread {spread}, uneven for {figure(found.uneven_s)} s after that",
            (
                f"fires: {self.expected} expected, {len(self.lateness_ms)} started, not started: "
                f"{unstarted or 'none'}"
            ),
            (
                f"lateness: p50 {p50} ms, p99 {p99} ms, most "
                f"{figure(max(self.lateness_ms, default=0.0))} ms, {late} later than {LATE_MS} ms"
            ),
        ]


class Recorder:
    """Follows a cluster's keys in etcd from their beginning, without a request to the nodes."""

    def __init__(self, cluster: LocalCluster, judge: Judge) -> None:
        self._judge = judge
        self._began_s = time.perf_counter()
        credentials = Credentials(user=USER, password_file=cluster.etcd.password_file)
        options = GatewayOptions(endpoints=(cluster.etcd.url,), credentials=credentials)
        self._etcd = EtcdCoordinator(options, cluster="dev", entropy=SystemEntropy())

    @property
    def elapsed_s(self) -> float:
        """The time since the construction, in seconds."""
        return time.perf_counter() - self._began_s

    async def run(self) -> None:
        """Follow the changes until cancelled."""
        try:
            async with aclosing(self._etcd.watch(0)) as news:
                async for each in news:
                    self._judge.take(Step(at_s=self.elapsed_s, news=each))
        finally:
            await self._etcd.close()

    def end(self) -> Judgement:
        """Return the result as of now."""
        return self._judge.end(self.elapsed_s)


async def measure(folder: Path, chosen: argparse.Namespace) -> tuple[Report, Fires]:
    """Run a cluster with its load beside the hogs, and judge it."""
    # The settings are those of `rota dev`.
    cluster = LocalCluster(
        folder, NODES, port=0, slots=None, log_level="info", session_ttl=SESSION_TTL
    )
    with ExitStack() as undo:
        undo.callback(cluster.stop)
        cluster.etcd.start()
        beside = ExitStack()
        undo.push(beside)
        load = hogs(folder, busy=chosen.busy, writers=chosen.writers, forks=chosen.forks)
        if chosen.early:
            beside.enter_context(load)
        recorder = Recorder(cluster, Judge(shards=chosen.shards, nodes=NODES))
        async with asyncio.TaskGroup() as group:
            following = group.create_task(recorder.run())
            await _start(cluster, chosen.apart)
            urls = [node.url for node in cluster.nodes.values()]
            async with AsyncClient(urls, timeout_s=PATIENCE_S) as client:
                fire_load = FireLoad(client, NAMESPACE, chosen.rate, body=COMMAND)
                await _create(fire_load)
                if not chosen.early:
                    beside.enter_context(load)
                window = fire_load.window(now(), Duration(round(chosen.minutes * MINUTE)))
                await asyncio.sleep((window.until - now()) / SECOND)
                print(f"load average {os.getloadavg()[0]:.1f}", flush=True)
                judgement = recorder.end()
                beside.close()
                fires = await fire_load.fires(window)
                unstarted = await _outcomes(client, window, fires)
            following.cancel()
    report = Report(
        judgement=judgement,
        expected=fires.expected_count,
        lateness_ms=fires.lateness_ms,
        unstarted=unstarted,
    )
    return report, fires


async def _start(cluster: LocalCluster, apart_s: float) -> None:
    for number, node in enumerate(cluster.nodes.values()):
        await asyncio.sleep(apart_s if number else 0)
        node.launch()
    for node in cluster.nodes.values():
        await asyncio.to_thread(node.wait_ready)


async def _create(load: FireLoad) -> None:
    """Create the jobs; try again while nodes refuse some, because shards are moving."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                return await load.create()
            except (TooBusy, Unreachable):
                await load.delete()


async def _outcomes(client: AsyncClient, window: Window, fires: Fires) -> Counter[str]:
    """Return the recorded outcomes of the fire times that started no execution."""
    by_job: dict[str, set[Instant]] = {}
    for job, fire_at in fires.missed:
        by_job.setdefault(job, set()).add(fire_at)
    found: Counter[str] = Counter()
    for job, fire_times in by_job.items():
        entries = client.ledger(
            job,
            namespace=NAMESPACE,
            since=format_instant(window.since),
            until=format_instant(window.until),
        )
        async for entry in entries:
            first, last = parse_instant(entry.fire_time), parse_instant(entry.until)
            recorded = {at for at in fire_times if first <= at <= last}
            found[entry.outcome] += len(recorded)
            fire_times -= recorded
        found["missed"] += len(fire_times)
    return +found


def main() -> None:
    """Measure, print the result, and exit with 1 if the load had the effect of a fault."""
    end_on_term()
    chosen = _arguments()
    with tempfile.TemporaryDirectory(prefix="rota-overload-", dir=chosen.folder) as name:
        folder = Path(name)
        print(heading(look(folder)))
        print(
            f"{chosen.busy} busy loops, {chosen.writers} writers, {chosen.forks} fork storms, "
            f"{chosen.minutes:g} minutes, {chosen.rate:g} fires a second; others use "
            f"{busy():.0%} of the processors, load average {os.getloadavg()[0]:.1f}",
            flush=True,
        )
        report, fires = asyncio.run(measure(folder, chosen))
        print("\n".join(report.lines(fires)))
    if faults := report.faults():
        raise SystemExit(f"the load alone had the effects of a fault: {'; '.join(faults)}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.overload", description="Measure a cluster on an overloaded machine."
    )
    parser.add_argument("--minutes", type=float, default=2.0, help="default: 2")
    parser.add_argument("--rate", type=float, default=20.0, help="fires a second; default: 20")
    parser.add_argument("--busy", type=int, default=4, help="busy loops; default: 4")
    parser.add_argument("--writers", type=int, default=0, help="processes that write and sync")
    parser.add_argument("--forks", type=int, default=0, help="processes that start processes")
    parser.add_argument("--early", action="store_true", help="hogs run before the nodes start")
    parser.add_argument("--apart", type=float, default=0.0, help="seconds between starts of nodes")
    parser.add_argument("--shards", type=int, default=256, help="shards; default: 256")
    parser.add_argument("--folder", type=Path, help="folder for the nodes' data; default: /tmp")
    return parser.parse_args()


if __name__ == "__main__":
    main()
