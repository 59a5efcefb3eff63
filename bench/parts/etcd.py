"""Benchmark of coordination through a real etcd: swaps, renewals, and the list of configurations.

It needs ``etcd`` on the PATH, and starts it with its files in a temporary folder, which should be
on a real disk: etcd syncs every change. ``.venv/bin/python -m bench.parts.etcd``
"""

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
from rota.core.model.ids import AllocationId, Epoch, NodeId, Session, ShardId
from rota.core.vocabulary.shard_configuration import Configuration, Copy, Swap
from rota.node.coordination.coordinator import Claim
from rota.node.coordination.etcd import EtcdCoordinator
from rota.node.coordination.etcd_gateway import GatewayOptions
from rota.node.system.entropy import SystemEntropy
from support.etcd import EtcdCluster

NODES = tuple(NodeId(f"node-{name}") for name in "abc")
SHARDS = 512


def fresh(expected: Configuration | None, session: Session) -> Configuration:
    """Return the next configuration of a shard, of the size that is usual in a cluster."""
    return Configuration(
        epoch=Epoch(expected.epoch + 1 if expected else 1),
        primary=NODES[0],
        primary_session=session,
        sync=tuple(Copy(node, AllocationId("0123456789abcdef")) for node in NODES),
    )


async def swap_all(coordinator: EtcdCoordinator, session: Session) -> None:
    """Raise the epoch of every shard."""
    held = (await coordinator.view()).configurations
    shards = [ShardId(number) for number in range(SHARDS)]
    swaps = [
        Swap(
            shard=shard,
            expected=held.get(shard),
            fresh=fresh(held.get(shard), session),
            by=NODES[0],
            session=session,
        )
        for shard in shards
    ]
    began = time.perf_counter()
    swapped = await coordinator.swap(swaps)
    took_s = time.perf_counter() - began
    assert all(each.is_done for each in swapped)
    print(f"  {SHARDS} swaps in {took_s * 1e3:.0f} ms: {SHARDS / took_s:,.0f} a second")


async def timed(what: str, count: int, call: Callable[[], Awaitable[object]]) -> None:
    """Print the times that *count* calls take, one after the other."""
    took_ms: list[float] = []
    for _ in range(count):
        began = time.perf_counter()
        await call()
        took_ms.append((time.perf_counter() - began) * 1e3)
    p99 = statistics.quantiles(took_ms, n=100)[98]
    print(f"  {what}: median {statistics.median(took_ms):.2f} ms, p99 {p99:.2f} ms")


async def measure(endpoints: tuple[str, ...]) -> None:
    """Measure an etcd cluster."""
    coordinator = EtcdCoordinator(
        GatewayOptions(endpoints=endpoints), cluster="bench", entropy=SystemEntropy()
    )
    grant = await coordinator.begin_session(Claim(node_id=NODES[0], store_id="store", lock=""), 60)
    for _ in range(5):
        await swap_all(coordinator, grant.session)
    await timed("renewal", 500, lambda: coordinator.renew(grant.session))
    await timed(f"list of {SHARDS} configurations", 100, coordinator.view)
    await coordinator.close()


def main() -> None:
    """Measure an etcd of one member, and one of three."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--folder", help="folder for etcd's files")
    given = arguments.parse_args()
    for size in (1, 3):
        with tempfile.TemporaryDirectory(dir=given.folder) as folder:
            print(f"etcd of {size}, all on this machine:")
            with EtcdCluster(Path(folder), size) as cluster:
                asyncio.run(measure(cluster.urls))


if __name__ == "__main__":
    main()
