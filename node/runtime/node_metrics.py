"""Metrics of a whole node that are read when they are requested."""

import math

from rota.core.decide.outbox import OUTBOX_ITEMS_MAX
from rota.node.cluster.shard_metrics import measure_shards
from rota.node.runtime.wiring import NodeWiring
from rota.node.shards.interfaces import Commit
from rota.node.shards.shard import Shard
from rota.node.system.logs import dropped_lines


def measure_node(wiring: NodeWiring, commit: Commit) -> None:
    """Register the metrics of a node.

    Args:
        wiring: The parts of the node.
        commit: The group commit of the node's shards.
    """
    context, cluster, attempts = wiring.context, wiring.cluster, wiring.attempts
    metrics, shards = context.metrics, wiring.shards
    slot_table, events, etcd = wiring.foundation.slot_table, wiring.feeds.events, cluster.etcd_guard
    measure_shards(metrics, shards, cluster.membership, context.config.node_id)
    gauge, counter = metrics.gauge, metrics.counter
    gauge("rota_inbox", lambda: shards.inbox_length)
    gauge("rota_executions_unfinished", lambda: shards.execution_count)
    gauge("rota_jobs", lambda: sum(len(each.state.jobs) for each in shards.opened))
    gauge("rota_slots_used", lambda: slot_table.used)
    gauge("rota_tasks_waiting", lambda: slot_table.waiting)
    gauge("rota_waits", lambda: wiring.feeds.waiters.count)
    gauge("rota_deliveries", lambda: len(attempts.delivery))
    gauge("rota_outbox_items", lambda: sum(len(each.state.outbox) for each in shards.opened))
    gauge("rota_outboxes_full", lambda: sum(map(_full_count, shards.opened)))
    gauge("rota_webhooks_waiting", lambda: len(wiring.webhooks))
    gauge("rota_shards_frozen", lambda: shards.frozen_count)
    gauge("rota_stand_ins", lambda: wiring.fallback.stand_ins.standing_count)
    gauge("rota_fallback_shards", lambda: len(wiring.fallback_shards.open_numbers))
    gauge("rota_event_readers", lambda: events.reader_count)
    gauge("rota_timers", lambda: len(wiring.timers))
    gauge("rota_etcd_bytes", lambda: etcd.used_bytes if etcd else math.nan)
    gauge("rota_etcd_quota_bytes", lambda: etcd.quota_bytes if etcd else math.nan)
    gauge("rota_store_bytes", wiring.foundation.environment.store.size_bytes)
    gauge("rota_ready", lambda: float(context.unready() is None))
    counter("rota_events_total", lambda: events.count)
    counter("rota_decisions_total", lambda: shards.decision_count)
    counter("rota_attempts_unsandboxed_total", lambda: attempts.local.unsandboxed_count)
    counter("rota_journal_entries_total", lambda: shards.entry_count)
    counter("rota_journal_syncs_total", lambda: commit.sync_count)
    counter("rota_log_lines_dropped_total", dropped_lines)
    metrics.counters("rota_peer_messages_refused_total", lambda: wiring.router.refused)
    gauge("rota_copies_diverged", lambda: len(wiring.digests.diverged))
    metrics.counters("rota_state_comparisons_total", lambda: wiring.digests.results)


def _full_count(shard: Shard) -> int:
    return sum(count >= OUTBOX_ITEMS_MAX for count in shard.state.outbox_counts.values())
