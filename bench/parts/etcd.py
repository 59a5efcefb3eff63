"""What coordination through a real etcd costs: swaps, renewals, the list of everything.

Needs ``etcd`` on the PATH; it is started here with its files in a temporary folder, which should be
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
    """Return a configuration of the size that a cluster's have."""
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
    """Print how long *call* takes, one after the other."""
    took_ms: list[float] = []
    for _ in range(count):
        began = time.perf_counter()
        await call()
        took_ms.append((time.perf_counter() - began) * 1e3)
    p99 = statistics.quantiles(took_ms, n=100)[98]
    print(f"  {what}: median {statistics.median(took_ms):.2f} ms, p99 {p99:.2f} ms")


async def measure(endpoints: tuple[str, ...]) -> None:
    """Measure one cluster."""
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
    """Measure etcd with one member and with three."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--folder", help="Where etcd's files go.")
    given = arguments.parse_args()
    for size in (1, 3):
        with tempfile.TemporaryDirectory(dir=given.folder) as folder:
            print(f"etcd of {size}, all on this machine:")
            with EtcdCluster(Path(folder), size) as cluster:
                asyncio.run(measure(cluster.urls))


if __name__ == "__main__":
    main()
