"""Collection of all records of the cluster, over plain HTTP, into the run's folder."""

import http.client
import json
import threading
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from chaos.judge.own_requests import context, headers

Json = Any  # Any: answers, written as they are.

ASKERS = 16
"""Threads: with slow nodes most of the time is spent waiting for answers."""
PAGE = 1_000
PATIENCE_S = 180.0


class Nodes:
    """The APIs of the nodes, used alternatively. Each thread has its own connection."""

    def __init__(self, urls: list[str]) -> None:
        self._urls = urls
        self._local = threading.local()

    def get(self, path: str, *, may_lack: bool = False) -> Json:
        """Return a document, with repeated requests; None for status 404 if *may_lack*."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                status, body = self._ask(path)
            except (OSError, http.client.HTTPException):
                status, body = 0, b""
                self._local.connection = None
            if status == 200:
                return json.loads(body)
            if status == 404 and may_lack:
                return None
            if status not in (0, 503) or time.monotonic() > deadline:
                raise RuntimeError(f"{path}: {status} {body.decode(errors='replace')}")
            time.sleep(0.1)

    def pages(self, path: str) -> Iterator[Json]:
        """Yield all items of a list."""
        cursor = ""
        while True:
            page = self.get(f"{path}limit={PAGE}{cursor}")
            yield from page["items"]
            if not page["nextCursor"]:
                return
            cursor = f"&cursor={quote(page['nextCursor'])}"

    def _ask(self, path: str) -> tuple[int, bytes]:
        connection: http.client.HTTPConnection | None
        connection = getattr(self._local, "connection", None)
        if connection is None:
            url = self._urls[threading.get_ident() % len(self._urls)]
            connection = _connection_to(url)
            self._local.connection = connection
        connection.request("GET", path, headers=headers())
        answer = connection.getresponse()
        return answer.status, answer.read()


def _connection_to(url: str) -> http.client.HTTPConnection:
    place = urlsplit(url)
    if place.scheme == "http":
        return http.client.HTTPConnection(place.netloc, timeout=PATIENCE_S)
    return http.client.HTTPSConnection(place.netloc, timeout=PATIENCE_S, context=context())


def collect(urls: list[str], folder: Path) -> None:
    """Write jobs, their ledgers, and all executions with their attempts."""
    nodes = Nodes(urls)
    jobs = list(nodes.pages("/api/v1/jobs?"))
    _write(folder / "jobs.jsonl", jobs)
    with ThreadPoolExecutor(ASKERS) as askers:
        scheduled = [job["jobId"] for job in jobs if job["schedules"]]
        ledgers = askers.map(partial(_ledger, nodes), scheduled)
        _write(folder / "ledger.jsonl", chain.from_iterable(ledgers))
        listed = [each["executionId"] for each in nodes.pages("/api/v1/executions?")]
        # Executions that only a stand-in ran are not listed; they can be read by id.
        others = sorted(_said_to_run(folder) - set(listed))
        details = askers.map(partial(_execution, nodes, may_lack=False), listed)
        found = askers.map(partial(_execution, nodes, may_lack=True), others)
        _write(folder / "executions.jsonl", chain(details, filter(None, found)))


def unfinished(urls: list[str]) -> list[str]:
    """Return the executions that have not ended."""
    nodes = Nodes(urls)
    return [
        each["executionId"]
        for status in ("queued", "running")
        for each in nodes.pages(f"/api/v1/executions?status={status}&")
    ]


def collect_configurations(
    ask: Callable[[str, Json], Json],
    watch: Callable[[Json], Iterator[Json]],
    cluster: str,
    folder: Path,
    *,
    since: int = 1,
    ahead: int = 0,
) -> None:
    """Add every value that a shard's key in etcd had from revision *since*, oldest first.

    etcd keeps all revisions, because no run compacts it. *ahead* is added to the revisions in the
    file, so that they grow although etcd was set back.
    """
    prefix, range_of = _shards_of(cluster)
    last = int(ask("/v3/kv/range", {**range_of, "count_only": True})["header"]["revision"])
    newest = max(
        (int(each["mod_revision"]) for each in ask("/v3/kv/range", range_of).get("kvs", ())),
        default=0,
    )
    assert newest <= last, (newest, last)
    if newest < since:
        return
    request = {"create_request": {**range_of, "start_revision": since}}
    with (folder / "configurations.jsonl").open("a") as file:
        for answer in watch(request):
            for event in answer.get("events", ()):
                pair = event["kv"]
                shard = b64decode(pair["key"]).decode().removeprefix(prefix)
                value = json.loads(b64decode(pair["value"]))
                revision = int(pair["mod_revision"])
                line = {"shard": int(shard), "revision": revision + ahead, "value": value}
                file.write(json.dumps(line) + "\n")
                if revision >= newest:
                    newest = -1
            if newest < 0:
                return


def epochs_in(ask: Callable[[str, Json], Json], cluster: str) -> dict[str, int]:
    """Return the epoch that etcd has of each shard, by its number."""
    prefix, range_of = _shards_of(cluster)
    return {
        b64decode(pair["key"]).decode().removeprefix(prefix): json.loads(b64decode(pair["value"]))[
            "epoch"
        ]
        for pair in ask("/v3/kv/range", range_of).get("kvs", ())
    }


def _shards_of(cluster: str) -> tuple[str, Json]:
    """Return the prefix of the keys of a cluster's shards, and the range of all of them."""
    prefix = f"/rota/{cluster}/shard/"
    return prefix, {
        "key": b64encode(prefix.encode()).decode(),
        "range_end": b64encode(f"{prefix[:-1]}0".encode()).decode(),
    }


def _ledger(nodes: Nodes, job_id: str) -> Iterator[Json]:
    return nodes.pages(f"/api/v1/jobs/{job_id}/ledger?")


def _execution(nodes: Nodes, execution_id: str, *, may_lack: bool) -> Json:
    return nodes.get(f"/api/v1/executions/{execution_id}", may_lack=may_lack)


def _said_to_run(folder: Path) -> set[str]:
    return {line.split(" ", 1)[0] for line in (folder / "said").read_text().splitlines()}


def _write(path: Path, documents: Iterable[Json]) -> None:
    with path.open("w") as file:
        for document in documents:
            file.write(json.dumps(document) + "\n")
