"""Time until a change of a shared document is on all nodes of a cluster. ``make bench-parts``.

Three nodes and their etcd run on this machine. Each change is sent to another node in turn; then
the document is read from every node, each through a connection of its own, until the answer has the
new version. The time includes the request that makes the change. Keys are deleted in the same way,
and their tokens are used on every node until all have refused them.
"""

import argparse
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rota.client.client import Client
from rota.client.dev.local_cluster import LocalCluster
from rota.client.errors import NotAuthenticated

NODES = 3
KIND, NAME = "types", "bench"
GIVEN_UP_S = 30.0
PAUSE_S = 0.2
"""Failed logins are limited: with fewer of them none is answered later."""


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


def accepted_at(url: str, token: str) -> float:
    """Return the time at which a node first accepts *token*."""
    return _answered_at(url, token, is_accepted=True)


def refused_at(url: str, token: str) -> float:
    """Return the time at which a node first refuses *token*."""
    return _answered_at(url, token, is_accepted=False)


def _answered_at(url: str, token: str, *, is_accepted: bool) -> float:
    deadline = time.perf_counter() + GIVEN_UP_S
    with Client(url, token=token) as client:
        while time.perf_counter() < deadline:
            try:
                client.whoami()
            except NotAuthenticated:
                if not is_accepted:
                    return time.perf_counter()
                time.sleep(PAUSE_S)
            else:
                if is_accepted:
                    return time.perf_counter()
    raise TimeoutError(f"after {GIVEN_UP_S:g} s a token is accepted: {not is_accepted}")


def measure_revocations(urls: list[str], count: int) -> list[float]:
    """Return the milliseconds from the request that deletes a key until all nodes refuse it."""
    clients = [Client(url) for url in urls]
    took_ms: list[float] = []
    with ThreadPoolExecutor(len(clients)) as users:
        for number in range(count):
            one = clients[number % len(clients)]
            name = f"bench-{number}"
            token = one.create_key(name).token
            list(users.map(accepted_at, urls, [token] * len(urls)))
            using = [users.submit(refused_at, url, token) for url in urls]
            time.sleep(PAUSE_S)
            began = time.perf_counter()
            one.delete_document("keys", name)
            took_ms.append((max(each.result() for each in using) - began) * 1e3)
    for client in clients:
        client.close()
    return took_ms


def show(what: str, took_ms: list[float]) -> None:
    """Print the percentiles of *took_ms*."""
    took_ms = sorted(took_ms)
    p50, p99 = (took_ms[int(share * (len(took_ms) - 1))] for share in (0.5, 0.99))
    print(f"{len(took_ms)} {what}:")
    print(f"  p50 {p50:.1f} ms  p99 {p99:.1f} ms  max {took_ms[-1]:.1f} ms", flush=True)


def main() -> None:
    """Measure changes and revocations, and print the percentiles."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--changes", type=int, default=300)
    arguments.add_argument("--revocations", type=int, default=50)
    given = arguments.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="rota-bench-") as folder,
        LocalCluster(Path(folder), NODES, port=0, slots=None, log_level="warning") as cluster,
    ):
        urls = cluster.urls.split(",")
        changes = measure(urls, given.changes)
        show(f"changes on {NODES} nodes, until the last node answers with the new version", changes)
        revocations = measure_revocations(urls, given.revocations)
        show(f"keys deleted on {NODES} nodes, until the last node refuses the token", revocations)


if __name__ == "__main__":
    main()
