"""Record of each shard's configurations in etcd for the judge, also after etcd was set back.

    configurations.jsonl    every value that each shard's key had, with its revision
    restores.jsonl          {"revision": 812, "epochs": {"0": 7, ...}}: etcd was set back after it,
                            to these epochs of the shards

A restore takes etcd's last revisions away, and the next writes get their numbers again. Here all
revisions grow: after a restore they continue from the last one that was taken away.
"""

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from chaos.judge.collect import collect_configurations, epochs_in
from support.etcd import Etcd

Json = Any  # Any: answers of etcd.


class EtcdHistory:
    """The history of the configurations of one cluster, in two files that grow.

    Args:
        member: The member of etcd that is queried.
        cluster: The cluster's name.
        folder: Folder of the files.
    """

    def __init__(self, member: Etcd, cluster: str, folder: Path) -> None:
        self._member = member
        self._cluster = cluster
        self._folder = folder
        self._kept = 0
        """The last recorded revision of etcd, as etcd counts now."""
        self._ahead = 0
        """Added to etcd's revisions."""
        self._cut_at = 0
        for name in ("configurations.jsonl", "restores.jsonl"):
            (folder / name).touch()

    def number(self, revision: int) -> int:
        """Return the recorded number of a revision of etcd."""
        return revision + self._ahead

    def keep(self) -> None:
        """Record the revisions of etcd that are not recorded yet."""
        ahead, since = self._ahead, self._kept + 1
        last = self._revision()
        collect_configurations(
            self._member.ask, self._watch, self._cluster, self._folder, since=since, ahead=ahead
        )
        self._kept = last

    def cut(self) -> None:
        """Record etcd's revisions; no node may reach etcd from now on until `resume`."""
        self.keep()
        self._cut_at = self.number(self._kept)

    def resume(self) -> None:
        """Continue with an etcd that was set back, before any node reaches it."""
        restore = {
            "revision": self._cut_at,
            "epochs": epochs_in(self._member.ask, self._cluster),
        }
        with (self._folder / "restores.jsonl").open("a") as file:
            file.write(json.dumps(restore) + "\n")
        self._kept = self._revision()
        self._ahead = self._cut_at - self._kept

    def _revision(self) -> int:
        answer = self._member.ask("/v3/kv/range", {"key": b"/", "count_only": True})
        return int(answer["header"]["revision"])

    def _watch(self, request: Json) -> Iterator[Json]:
        url, body = f"{self._member.url}/v3/watch", json.dumps(request).encode()
        with urllib.request.urlopen(urllib.request.Request(url, body), timeout=10) as answers:
            for line in answers:
                yield json.loads(line)["result"]
