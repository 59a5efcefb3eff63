"""Definitions of a node's metrics: name, kind, unit, labels and meaning.

`Metrics` exposes them and docs/reference/metrics.md lists them. Names and labels are part of the
interface: queries and alerts depend on them.
"""

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from rota.core.model.execution import EXECUTION_MOVES
from rota.core.model.hook import HookOutcome
from rota.core.model.ledger import FireOutcome
from rota.core.replication.authority.health_conditions import HealthCondition
from rota.core.replication.row_digests import Result


class Kind(Enum):
    """Type of a metric in Prometheus; the value is the word of its text format."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


class Label(NamedTuple):
    """Label that distinguishes the series of one metric.

    Attributes:
        name: Name of the label.
        values: All values of the label; empty if only `text` can describe them.
        text: Description of the values.
    """

    name: str
    values: tuple[str, ...] = ()
    text: str = ""


class MetricDefinition(NamedTuple):
    """One metric.

    Attributes:
        name: Exposed name; counters end in ``_total``.
        kind: Type of the metric.
        unit: Unit of its value; of the observations, for a histogram.
        meaning: Phrase with enough detail for a query.
        labels: Labels of its series.
        see: Page with details, relative to ``docs/reference``.
        buckets: Upper bounds of the buckets, for a histogram.
    """

    name: str
    kind: Kind
    unit: str
    meaning: str
    labels: tuple[Label, ...] = ()
    see: str = ""
    buckets: tuple[float, ...] = ()


_GAUGE, _COUNTER, _HISTOGRAM = Kind.GAUGE, Kind.COUNTER, Kind.HISTOGRAM
_S, _BYTES, _FLAG = "s", "bytes", "1 or 0"

_LATENESS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60, 600)
_ROUND_TRIP_S = (0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5)
_SYNC_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5)

_ENDED = Label("status", tuple(each.value for each, moves in EXECUTION_MOVES.items() if not moves))
_FIRE_OUTCOME = Label("outcome", tuple(each.value for each in FireOutcome))
_HOOK_OUTCOME = Label("outcome", tuple(each.value for each in HookOutcome))
_CONDITION = Label("reason", tuple(each.value for each in HealthCondition))
_DIRECTION = Label("direction", ("sent", "received"))

_ALL = (
    MetricDefinition(
        "rota_start_lateness_seconds", _HISTOGRAM, _S,
        "time from the fire time of an execution, or from its trigger, to the start of its first "
        "attempt",
        buckets=_LATENESS_S,
    ),
    MetricDefinition(
        "rota_journal_sync_seconds", _HISTOGRAM, _S,
        "duration of a sync of the journal",
        buckets=_SYNC_S,
    ),
    MetricDefinition(
        "rota_executions_total", _COUNTER, "executions",
        "executions that ended",
        labels=(_ENDED,),
    ),
    MetricDefinition(
        "rota_fires_total", _COUNTER, "fire times",
        "fire times of schedules that this node decided, by outcome; outcomes other than `fired` "
        "began no execution of their own",
        labels=(_FIRE_OUTCOME,),
        see="jobs.md#the-ledger",
    ),
    MetricDefinition(
        "rota_hooks_total", _COUNTER, "hooks",
        "hooks of jobs that this node ran to their end; `failed` ones were not delivered within a "
        "day or refused for good, `dropped` ones were not attempted",
        labels=(_HOOK_OUTCOME,),
        see="jobs.md#hooks",
    ),
    MetricDefinition(
        "rota_attempts_unsandboxed_total", _COUNTER, "attempts",
        "attempts launched here without a sandbox, with all the rights of the node's user",
        see="sandbox.md",
    ),
    MetricDefinition(
        "rota_possible_duplicates_total", _COUNTER, "executions",
        "executions of shards whose primary is this node that a stand-in ran as well",
        see="../explanation/available.md",
    ),
    MetricDefinition(
        "rota_http_requests_total", _COUNTER, "requests",
        "requests answered",
        labels=(Label("method", text="such as `GET`"), Label("status", text="such as `200`")),
    ),
    MetricDefinition(
        "rota_access_refused_total", _COUNTER, "requests",
        "requests and items of batches that were refused for reasons of access; the log "
        "`rota.audit` has the callers",
        labels=(Label("reason", text="a code such as `forbidden`, or a reason such as `expired`"),),
        see="access.md#refusals-in-the-log",
    ),
    MetricDefinition(
        "rota_access_would_refuse_total", _COUNTER, "requests",
        "failed checks of access while nothing is refused (`auth = \"observe\"`): missing "
        "credentials, missing verbs, and objects that lists would omit",
        see="access.md#modes",
    ),
    MetricDefinition("rota_http_connections", _GAUGE, "connections", "open connections to the API"),
    MetricDefinition(
        "rota_http_connections_closed_total", _COUNTER, "connections",
        "connections to the API that the node closed: beyond the limit of all connections or of "
        "one address, without a complete request head for 10 s, because responses that clients do "
        "not read exceed 128 MiB together, or because the handshake of TLS failed",
        labels=(Label("reason", ("total", "address", "slow_head", "unread", "tls")),),
        see="configuration.md#details",
    ),
    MetricDefinition(
        "rota_decisions_total", _COUNTER, "commands",
        "commands decided, including commands of timers and attempts",
    ),
    MetricDefinition(
        "rota_events_total", _COUNTER, "events",
        "events published, whether or not a reader follows them",
        see="events.md",
    ),
    MetricDefinition(
        "rota_journal_entries_total", _COUNTER, "entries",
        "journal entries written; one may hold many decisions",
    ),
    MetricDefinition(
        "rota_journal_syncs_total", _COUNTER, "syncs",
        "syncs of the journal; one may cover many entries",
    ),
    MetricDefinition(
        "rota_commit_seconds", _HISTOGRAM, _S,
        "time from the decision of a journal entry to its commit, when it is durable on all copies "
        "that count",
        buckets=_SYNC_S,
    ),
    MetricDefinition(
        "rota_entries_uncommitted", _GAUGE, "entries",
        "journal entries decided here and not yet committed",
    ),
    MetricDefinition(
        "rota_inbox", _GAUGE, "commands",
        "commands that wait for a decision; from 20,000 on requests are refused",
    ),
    MetricDefinition(
        "rota_executions_unfinished", _GAUGE, "executions",
        "executions queued or running",
    ),
    MetricDefinition(
        "rota_jobs_silent", _GAUGE, "jobs",
        "jobs that skip fire times, because fire times were decided while a clock was ahead; "
        "`rota jobs resume` lets them count from now",
    ),
    MetricDefinition("rota_jobs", _GAUGE, "jobs", "jobs of the shards whose primary is this node"),
    MetricDefinition(
        "rota_slots_used", _GAUGE, "slots",
        "slots with an attempt that runs or is about to start",
    ),
    MetricDefinition("rota_tasks_waiting", _GAUGE, "tasks", "ready tasks that wait for a slot"),
    MetricDefinition("rota_waits", _GAUGE, "waits", "executions whose end a request waits for"),
    MetricDefinition(
        "rota_deliveries", _GAUGE, "deliveries",
        "outcomes of attempts, and batches of outbox items, that their shards have not confirmed",
    ),
    MetricDefinition(
        "rota_webhooks_waiting", _GAUGE, "webhooks",
        "webhooks of shards whose primary is this node that are not delivered yet",
        see="jobs.md#hooks",
    ),
    MetricDefinition(
        "rota_outbox_items", _GAUGE, "items",
        "outbox items between jobs that wait for the shards of other jobs; only shards whose "
        "primary is this node",
    ),
    MetricDefinition(
        "rota_outboxes_full", _GAUGE, "dependencies",
        "dependencies with the maximum number of waiting outbox items; further successes of the "
        "upstream job do not count",
        see="jobs.md#dependencies-between-jobs",
    ),
    MetricDefinition(
        "rota_shards_frozen", _GAUGE, "shards",
        "shards whose primary cannot change, because etcd lost its state or a promise is too high; "
        "a running primary continues. Above 0 an operator has to act",
        see="../explanation/coordination.md#faults-of-etcd",
    ),
    MetricDefinition(
        "rota_stand_ins", _GAUGE, "shards",
        "shards for which this node stands in, because they have no reachable primary",
        see="../explanation/available.md",
    ),
    MetricDefinition(
        "rota_fallback_shards", _GAUGE, "shards",
        "fallback shards of this node with records that their primaries have not taken over",
        see="../explanation/available.md",
    ),
    MetricDefinition(
        "rota_event_readers", _GAUGE, "requests",
        "requests that follow events",
        see="events.md",
    ),
    MetricDefinition(
        "rota_timers", _GAUGE, "timers",
        "timers in memory; timers that are due later are in the store",
    ),
    MetricDefinition("rota_store_bytes", _GAUGE, _BYTES, "size of the store on disk"),
    MetricDefinition(
        "rota_shards", _GAUGE, "copies",
        "copies on this node that count; `opening`: this node is the primary and does not decide "
        "yet",
        labels=(Label("role", ("primary", "opening", "backup")),),
    ),
    MetricDefinition(
        "rota_role_changes_total", _COUNTER, "shards",
        "changes of shards on this node to primary or to backup",
        labels=(Label("to", ("primary", "backup")),),
    ),
    MetricDefinition(
        "rota_replication_lag_entries", _GAUGE, "entries",
        "entries that the other node has not acknowledged, for the shard with the largest lag; "
        "only shards whose primary is this node",
        labels=(Label("node", text="the other node"),),
    ),
    MetricDefinition(
        "rota_session_age_seconds", _GAUGE, _S,
        "time since the last successful renewal of the session; at `session_ttl` the session ends",
    ),
    MetricDefinition(
        "rota_coordinator_refusals_total", _COUNTER, "calls",
        "calls that etcd refused: quota, permission, too many requests. The node continues as "
        "during an outage of etcd; an operator has to act",
        see="../explanation/coordination.md#faults-of-etcd",
    ),
    MetricDefinition(
        "rota_etcd_bytes", _GAUGE, _BYTES,
        "size of the database of etcd, on the member that is nearest to its quota; NaN while "
        "no member reports a size, and on a single node",
        see="../how-to/operate.md#etcd-is-full",
    ),
    MetricDefinition(
        "rota_etcd_quota_bytes", _GAUGE, _BYTES,
        "quota of the member of `rota_etcd_bytes`; when the database has this size, etcd refuses "
        "all writes",
        see="../how-to/operate.md#etcd-is-full",
    ),
    MetricDefinition(
        "rota_swaps_waiting", _GAUGE, "changes",
        "changes of configurations that wait to be sent to etcd",
    ),
    MetricDefinition(
        "rota_shared_documents_ratio", _GAUGE, "",
        "used part of the limits of shared documents: of all, of those of namespaces together, and "
        "of the namespace that uses most of its share",
        labels=(Label("share", ("all", "namespaces", "namespace")),),
        see="types.md#shared-documents",
    ),
    MetricDefinition(
        "rota_certificate_expiry_seconds", _GAUGE, _S,
        "time until the certificate in use ends, negative afterwards; only for certificates that "
        "are set",
        labels=(Label("use", ("api", "peer")),),
        see="../explanation/links.md#tls",
    ),
    MetricDefinition(
        "rota_peer_links", _GAUGE, "links",
        "links to other nodes",
        see="../explanation/links.md",
    ),
    MetricDefinition(
        "rota_peer_links_made_total", _COUNTER, "links",
        "links made; a number above that of the other nodes means that links break",
    ),
    MetricDefinition(
        "rota_peer_refused_total", _COUNTER, "connections",
        "requests and connections to the peer port that were refused: a node without a current "
        "record, a limit for unauthenticated connections, a browser, a "
        "failed handshake of TLS",
        labels=(
            Label(
                "reason",
                (
                    *("unproven", "disagreed", "browser", "encoding", "malformed"),
                    *("connections", "bytes", "time", "tls"),
                ),
            ),
        ),
        see="../explanation/links.md#refused-connections",
    ),
    MetricDefinition(
        "rota_peer_garbage_total", _COUNTER, "links",
        "links that ended because the other node sent data that no node of this version sends, or "
        "that exceeds a limit",
        see="../explanation/links.md#limits",
    ),
    MetricDefinition(
        "rota_peer_partial_bytes", _GAUGE, _BYTES,
        "bytes of incomplete messages in chunks, over all links; 256 MiB at most",
        see="../explanation/links.md#limits",
    ),
    MetricDefinition(
        "rota_peer_frames_total", _COUNTER, "frames",
        "frames; one may hold many messages",
        labels=(_DIRECTION,),
    ),
    MetricDefinition(
        "rota_peer_bytes_total", _COUNTER, _BYTES,
        "bytes of frames",
        labels=(_DIRECTION,),
    ),
    MetricDefinition(
        "rota_peer_waiting_bytes", _GAUGE, _BYTES,
        "bytes of messages that wait to be sent to other nodes; 32 MiB for each node at most",
        see="../explanation/links.md",
    ),
    MetricDefinition(
        "rota_peer_messages_dropped_total", _COUNTER, "messages",
        "messages that were dropped and not sent; the protocol repeats messages that are still "
        "needed",
        labels=(Label("reason", ("no_link", "no_room")),),
    ),
    MetricDefinition(
        "rota_peer_messages_refused_total", _COUNTER, "messages",
        "messages that were refused, because their sender had no right to send them or they answer "
        "no request; a few after a change of primary, otherwise none",
        labels=(Label("message", text="the kind of message"),),
        see="../explanation/protocol.md",
    ),
    MetricDefinition(
        "rota_log_lines_dropped_total", _COUNTER, "lines",
        "lines of the log that were dropped, because the reader of standard error did not take "
        "them in time",
    ),
    MetricDefinition(
        "rota_state_comparisons_total", _COUNTER, "comparisons",
        "comparisons of the copies of a shard by its primary; `incomplete`: a copy sent no "
        "digest in time; `different`: only after a fault",
        labels=(Label("result", tuple(each.value for each in Result)),),
        see="../how-to/operate.md#copies-that-differ",
    ),
    MetricDefinition(
        "rota_copies_diverged", _GAUGE, "shards",
        "shards whose primary is this node and whose copies had different rows at the last "
        "comparison; the log names shard and nodes",
        see="../how-to/operate.md#copies-that-differ",
    ),
    MetricDefinition(
        "rota_peer_round_trip_seconds", _HISTOGRAM, _S,
        "time from a ping on a link to its answer",
        buckets=_ROUND_TRIP_S,
    ),
    MetricDefinition(
        "rota_fenced", _GAUGE, _FLAG,
        "1 while the node is unfit for that reason, otherwise 0; an unfit node hands its shards "
        "over, and a single node keeps them",
        labels=(_CONDITION,),
        see="../explanation/protocol.md#when-a-node-misbehaves",
    ),
    MetricDefinition(
        "rota_fences_total", _COUNTER, "times",
        "number of times that the node became unfit for that reason",
        labels=(_CONDITION,),
    ),
    MetricDefinition(
        "rota_ready", _GAUGE, _FLAG,
        "1 if the node accepts requests, otherwise 0; `/readyz` has the reason",
    ),
)  # fmt: skip

METRICS: Mapping[str, MetricDefinition] = {metric.name: metric for metric in _ALL}
"""Definitions by name, in the order of the page."""
