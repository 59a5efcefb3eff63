"""Time until a change of a shared document is on all nodes of a cluster. ``make bench-parts``.

Three nodes and their etcd run on this machine. Each change is sent to another node in turn; then
the document is read from every node, each through a connection of its own, until the answer has the
new version. The time includes the request that makes the change.
"""

import argparse
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rota.client.client import Client
from rota.client.dev.local_cluster import LocalCluster

NODES = 3
KIND, NAME = "types", "bench"
GIVEN_UP_S = 30.0


def seen_at(client: Client, version: int) -> float:
    """Return the time at which a node first answers with *version* or a later one."""
    deadline = time.perf_counter() + GIVEN_UP_S
    while time.perf_counter() < deadline:
        if client.document(KIND, NAME).version >= version:
            return time.perf_counter()
    raise TimeoutError(f"version {version} is not on every node after {GIVEN_UP_S:g} s")


def measure(urls: list[str], changes: int) -> list[float]:
    """Return the milliseconds of each change, in order."""
    clients = [Client(url) for url in urls]
    took_ms: list[float] = []
    with ThreadPoolExecutor(len(clients)) as readers:
        for number in range(changes + 1):
            body = {"template": {"command": f"echo {number}"}}
            began = time.perf_counter()
            version = clients[number % len(clients)].put_document(KIND, NAME, body).version
            seen = list(readers.map(seen_at, clients, [version] * len(clients)))
            took_ms.append((max(seen) - began) * 1e3)
    for client in clients:
        client.close()
    return took_ms[1:]


def main() -> None:
    """Measure the changes, and print the percentiles."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--changes", type=int, default=300)
    changes: int = arguments.parse_args().changes
    with (
        tempfile.TemporaryDirectory(prefix="rota-bench-") as folder,
        LocalCluster(Path(folder), NODES, port=0, slots=None, log_level="warning") as cluster,
    ):
        took_ms = sorted(measure(cluster.urls.split(","), changes))
    p50, p99 = (took_ms[int(share * (len(took_ms) - 1))] for share in (0.5, 0.99))
    print(f"{changes} changes on {NODES} nodes, until the last node answers with the new version:")
    print(f"  p50 {p50:.1f} ms  p99 {p99:.1f} ms  max {took_ms[-1]:.1f} ms")


if __name__ == "__main__":
    main()
