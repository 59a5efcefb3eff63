"""The export of changes by the primaries of the shards, to a file, syslog or a webhook.

The last exported change of each shard and destination is in the state of the shard, so that a new
primary continues where the last one ended. A change is exported once or more: the position is
stored after the delivery.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence

import msgspec

from rota.core.model.ids import Epoch, ShardId
from rota.core.timing.instants import SECOND, Instant
from rota.core.vocabulary.change_chain import position_of
from rota.core.vocabulary.commands import NoteExported
from rota.node.api.documents.change_views import change_view
from rota.node.shards.local_shards import Shards
from rota.node.shards.shard import Answer, Shard
from rota.node.system.change_sinks import ChangeFile, ExportedLine, Sink, SinkAway, Syslog
from rota.node.system.clock import Clock
from rota.node.system.config import NodeConfig
from rota.node.system.metrics import Metrics
from rota.node.webhooks.change_webhook import ChangeWebhook
from rota.node.webhooks.webhook_request import PostWebhook
from rota.storage.user_changes import StoredChange, UserChanges

log = logging.getLogger(__name__)

LOOK_S = 1.0
AWAY_S_MAX = 30.0
"""The longest pause between two tries of a destination that is away."""
ROWS_PER_BATCH = 200


def sinks_of(
    config: NodeConfig, post: PostWebhook, clock: Clock, keys: Sequence[bytes]
) -> Mapping[str, Sink]:
    """Return the destinations in the settings, by name; *post* sends webhooks, signed by *keys*."""
    sinks: dict[str, Sink] = {}
    if config.changes_file is not None:
        sinks["file"] = ChangeFile(config.changes_file)
    if config.changes_syslog is not None:
        sinks["syslog"] = Syslog(config.changes_syslog, config.node_id)
    if config.changes_webhook:
        sinks["webhook"] = ChangeWebhook(config.changes_webhook, post, clock, keys=keys)
    return sinks


class ChangeExport:
    """The export of the changes of the shards of which this node is the primary.

    Args:
        shards: The shards of this node.
        changes: The changes in their history.
        sinks: The destinations by name.
        clock: The clock of this node.
        metrics: The metrics of this node.
    """

    def __init__(
        self,
        shards: Shards,
        changes: UserChanges,
        sinks: Mapping[str, Sink],
        clock: Clock,
        metrics: Metrics,
    ) -> None:
        self._shards = shards
        self._changes = changes
        self._sinks = sinks
        self._clock = clock
        self._counts = dict.fromkeys(sinks, 0)
        self._sent: dict[tuple[str, ShardId], tuple[Epoch, str]] = {}
        """The key of the newest change that this process has exported, and when it was primary:
        after a recovery from an older copy, the shard makes changes with earlier keys."""
        metrics.counters("rota_changes_exported_total", lambda: self._counts)
        metrics.gauges("rota_changes_export_lag_seconds", self._lags)

    async def run(self) -> None:
        """Export changes until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                for name, sink in self._sinks.items():
                    group.create_task(self._follow(name, sink))
        finally:
            for sink in self._sinks.values():
                sink.close()

    async def _follow(self, name: str, sink: Sink) -> None:
        pause, is_away = LOOK_S, False
        while True:
            await asyncio.sleep(pause)
            try:
                for shard in self._shards:
                    await self._export(name, sink, shard)
            except SinkAway as away:
                if not is_away:
                    log.error("changes not exported", extra={"sink": name, "reason": str(away)})
                pause, is_away = min(2 * pause, AWAY_S_MAX), True
                continue
            if is_away:
                log.info("changes exported again", extra={"sink": name})
            pause, is_away = LOOK_S, False

    async def _export(self, name: str, sink: Sink, shard: Shard) -> None:
        """Export the new changes of a shard, if it is open.

        Raises:
            SinkAway: The destination did not take them.
        """
        while self._is_behind(name, shard):
            epoch = shard.epoch
            rows = self._changes.after(shard.id, self._position(name, shard), ROWS_PER_BATCH)
            if not rows:
                return  # The newest changes are not committed yet.
            await sink.send([_line(each) for each in rows])
            last = rows[-1].position.key
            self._sent[name, shard.id] = epoch, last
            self._counts[name] += len(rows)
            self._shards.submit(shard, NoteExported(sink=name, key=last), _ignore)
            await asyncio.sleep(0)

    def _is_behind(self, name: str, shard: Shard) -> bool:
        if not shard.is_open:
            return False
        position = self._position(name, shard)
        return (position_of(position)[1] if position else 0) < shard.state.chain.last

    def _position(self, name: str, shard: Shard) -> str:
        """Return the key of the last exported change; empty if none was exported."""
        stored = shard.state.exported.get(name, "")
        epoch, sent = self._sent.get((name, shard.id), (None, ""))
        return max(stored, sent) if epoch == shard.epoch else stored

    def _lags(self) -> Mapping[str, float]:
        return {name: self._lag(name) for name in self._sinks}

    def _lag(self, name: str) -> float:
        """Return the age of the oldest change that is not exported, in seconds."""
        oldest: Instant | None = None
        for shard in self._shards:
            if self._is_behind(name, shard):
                rows = self._changes.after(shard.id, self._position(name, shard), 1)
                if rows and (oldest is None or rows[0].position.at < oldest):
                    oldest = rows[0].position.at
        return 0.0 if oldest is None else max(self._clock.now() - oldest, 0) / SECOND


def _ignore(answer: Answer) -> None:
    del answer  # If it was refused, another primary exports the changes again.


def _line(stored: StoredChange) -> ExportedLine:
    view = change_view(stored)
    return ExportedLine(view.at, msgspec.json.encode(view))
