"""Everything that a node measures: `Metrics` counts it, and the page of the reference lists it.

Names and labels are part of the interface: a query or an alert may rest on each.
"""

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from rota.core.model.execution import EXECUTION_MOVES
from rota.core.replication.authority.health_conditions import HealthCondition
from rota.core.replication.row_digests import Result


class Kind(Enum):
    """What Prometheus calls a metric; the value is the word in its text format."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


class Label(NamedTuple):
    """What tells the series of one metric apart.

    Attributes:
        values: All that it can be; none where only `text` can say what that is.
    """

    name: str
    values: tuple[str, ...] = ()
    text: str = ""


class MetricDefinition(NamedTuple):
    """One metric.

    Attributes:
        name: As it is exposed: counters end in ``_total``.
        unit: Of its value; of what is observed, for a histogram.
        meaning: A phrase that a query can be written from.
        see: The page that says more, from ``docs/reference`` on.
        buckets: Their upper bounds, of a histogram.
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
_ILL = Label("reason", tuple(each.value for each in HealthCondition))
_WAY = Label("direction", ("sent", "received"))

_ALL = (
    MetricDefinition(
        "rota_start_lateness_seconds", _HISTOGRAM, _S,
        "from the fire time of an execution, or its trigger, to the start of its first attempt",
        buckets=_LATENESS_S,
    ),
    MetricDefinition(
        "rota_journal_sync_seconds", _HISTOGRAM, _S,
        "how long making the journal durable took",
        buckets=_SYNC_S,
    ),
    MetricDefinition(
        "rota_executions_total", _COUNTER, "executions",
        "executions that ended",
        labels=(_ENDED,),
    ),
    MetricDefinition(
        "rota_attempts_unsandboxed_total", _COUNTER, "attempts",
        "attempts launched here without a sandbox, with all the rights of the node's user",
        see="sandbox.md",
    ),
    MetricDefinition(
        "rota_possible_duplicates_total", _COUNTER, "executions",
        "executions that a stand-in ran besides the shard that is decided for here",
        see="../explanation/available.md",
    ),
    MetricDefinition(
        "rota_http_requests_total", _COUNTER, "requests",
        "requests answered",
        labels=(Label("method", text="such as `GET`"), Label("status", text="such as `200`")),
    ),
    MetricDefinition("rota_http_connections", _GAUGE, "connections", "open connections to the API"),
    MetricDefinition(
        "rota_http_connections_closed_total", _COUNTER, "connections",
        "connections to the API that the node closed: more than there may be in all or of one "
        "address, or without a whole request head for 10 s",
        labels=(Label("reason", ("total", "address", "slow_head")),),
        see="configuration.md#what-they-are-for",
    ),
    MetricDefinition(
        "rota_decisions_total", _COUNTER, "commands",
        "commands decided, those of timers and attempts too",
    ),
    MetricDefinition(
        "rota_events_total", _COUNTER, "events",
        "events published, whether or not anybody follows them",
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
        "from the decision of a journal entry to its commit: durable on all copies that count",
        buckets=_SYNC_S,
    ),
    MetricDefinition(
        "rota_entries_uncommitted", _GAUGE, "entries",
        "journal entries decided here and not yet committed",
    ),
    MetricDefinition(
        "rota_inbox", _GAUGE, "commands",
        "commands that wait to be decided; at 20,000 requests are refused",
    ),
    MetricDefinition(
        "rota_executions_unfinished", _GAUGE, "executions",
        "executions queued or running",
    ),
    MetricDefinition("rota_jobs", _GAUGE, "jobs", "jobs of the shards that this node decides for"),
    MetricDefinition("rota_slots_used", _GAUGE, "slots", "attempts that run or are about to"),
    MetricDefinition("rota_tasks_waiting", _GAUGE, "tasks", "ready tasks, which wait for a slot"),
    MetricDefinition("rota_waits", _GAUGE, "waits", "ends of executions that requests wait for"),
    MetricDefinition(
        "rota_errands", _GAUGE, "errands",
        "outcomes of attempts, and loads of letters between jobs, that their shards are not known "
        "to have recorded",
    ),
    MetricDefinition(
        "rota_letters", _GAUGE, "letters",
        "letters between jobs, of the shards that this node decides for, that wait for the shards "
        "of other jobs",
    ),
    MetricDefinition(
        "rota_letters_full", _GAUGE, "dependencies",
        "dependencies with as many letters as may wait; further successes of the job that is "
        "waited for do not count",
        see="jobs.md#dependencies-between-jobs",
    ),
    MetricDefinition(
        "rota_shards_frozen", _GAUGE, "shards",
        "shards that cannot change hands, because etcd lost its state or a promise is too high: "
        "a primary that runs goes on; 0 unless an operator has to act",
        see="../explanation/coordination.md#faults-of-etcd",
    ),
    MetricDefinition(
        "rota_stand_ins", _GAUGE, "shards",
        "shards for whose primary this node stands in",
        see="../explanation/available.md",
    ),
    MetricDefinition(
        "rota_sides", _GAUGE, "shards",
        "shards of which this node did something as a stand-in that is not all told yet",
        see="../explanation/available.md",
    ),
    MetricDefinition(
        "rota_event_readers", _GAUGE, "requests",
        "requests that follow events",
        see="events.md",
    ),
    MetricDefinition(
        "rota_timers", _GAUGE, "timers",
        "timers in memory; far ones are in the store",
    ),
    MetricDefinition("rota_store_bytes", _GAUGE, _BYTES, "size of the store on disk"),
    MetricDefinition(
        "rota_shards", _GAUGE, "copies",
        "copies on this node that count; opening: it is to decide and does not yet",
        labels=(Label("role", ("primary", "opening", "backup")),),
    ),
    MetricDefinition(
        "rota_role_changes_total", _COUNTER, "shards",
        "shards for which the node began, or ceased, to decide",
        labels=(Label("to", ("primary", "backup")),),
    ),
    MetricDefinition(
        "rota_replication_lag_entries", _GAUGE, "entries",
        "entries that another node is not known to have, of the shard where it is most behind; "
        "only shards that this node decides for",
        labels=(Label("node", text="the other node"),),
    ),
    MetricDefinition(
        "rota_session_age_seconds", _GAUGE, _S,
        "since the renewal of the node's session that was granted last; at session_ttl the session "
        "is over",
    ),
    MetricDefinition(
        "rota_coordinator_refusals_total", _COUNTER, "calls",
        "calls that etcd answered and did not do: quota, permission, too many requests. The node "
        "works on as if etcd were away; an operator has to act",
        see="../explanation/coordination.md#faults-of-etcd",
    ),
    MetricDefinition(
        "rota_etcd_bytes", _GAUGE, _BYTES,
        "size of etcd's database, of the member that is nearest to its quota; not a number while "
        "no member tells it, and on a node that is alone",
        see="../how-to/operate.md#etcd-is-full",
    ),
    MetricDefinition(
        "rota_etcd_quota_bytes", _GAUGE, _BYTES,
        "the quota of that member: once its database is as large, etcd refuses all writes",
        see="../how-to/operate.md#etcd-is-full",
    ),
    MetricDefinition(
        "rota_swaps_waiting", _GAUGE, "changes",
        "changes of configurations that wait to be asked of etcd",
    ),
    MetricDefinition(
        "rota_peer_links", _GAUGE, "links",
        "links to other nodes",
        see="../explanation/links.md",
    ),
    MetricDefinition(
        "rota_peer_links_made_total", _COUNTER, "links",
        "links made; more than there are nodes means that they break",
    ),
    MetricDefinition(
        "rota_peer_refused_total", _COUNTER, "connections",
        "requests and connections to the peer port that were refused: a node without a current "
        "record, a limit for those that are not known yet, a browser",
        labels=(
            Label(
                "reason",
                (
                    *("unproven", "disagreed", "browser", "encoding", "malformed"),
                    *("connections", "bytes", "time"),
                ),
            ),
        ),
        see="../explanation/links.md#refused-connections",
    ),
    MetricDefinition(
        "rota_peer_garbage_total", _COUNTER, "links",
        "links that ended because the other node sent what no node of this version sends, or more "
        "than there is room for",
        see="../explanation/links.md#limits",
    ),
    MetricDefinition(
        "rota_peer_partial_bytes", _GAUGE, _BYTES,
        "bytes of messages in chunks that are not complete, over all links; 256 MiB at most",
        see="../explanation/links.md#limits",
    ),
    MetricDefinition(
        "rota_peer_frames_total", _COUNTER, "frames",
        "frames; one may hold many messages",
        labels=(_WAY,),
    ),
    MetricDefinition(
        "rota_peer_bytes_total", _COUNTER, _BYTES,
        "bytes of frames",
        labels=(_WAY,),
    ),
    MetricDefinition(
        "rota_peer_waiting_bytes", _GAUGE, _BYTES,
        "bytes of messages that wait to be sent to other nodes; 32 MiB for each at most",
        see="../explanation/links.md",
    ),
    MetricDefinition(
        "rota_peer_messages_dropped_total", _COUNTER, "messages",
        "messages that were not sent; the protocol sends again what is still wanted",
        labels=(Label("reason", ("no_link", "no_room")),),
    ),
    MetricDefinition(
        "rota_peer_messages_refused_total", _COUNTER, "messages",
        "messages that were not taken, because their sender had no right to send them or they "
        "answer nothing that was asked; a few after a change of primary, else none",
        labels=(Label("message", text="the kind of message"),),
        see="../explanation/protocol.md",
    ),
    MetricDefinition(
        "rota_state_comparisons_total", _COUNTER, "comparisons",
        "comparisons of the copies of a shard, made by its primary, by result: `incomplete` where "
        "a copy gave no digest in time; `different` never while all is well",
        labels=(Label("result", tuple(each.value for each in Result)),),
        see="../how-to/operate.md#copies-that-differ",
    ),
    MetricDefinition(
        "rota_copies_diverged", _GAUGE, "shards",
        "shards decided for here whose copies had different rows when they were compared last; the "
        "log names shard and nodes",
        see="../how-to/operate.md#copies-that-differ",
    ),
    MetricDefinition(
        "rota_peer_round_trip_seconds", _HISTOGRAM, _S,
        "from a ping on a link to its answer",
        buckets=_ROUND_TRIP_S,
    ),
    MetricDefinition(
        "rota_fenced", _GAUGE, _FLAG,
        "1 while the node is unfit for that reason: it hands its shards over; one that is alone "
        "goes on",
        labels=(_ILL,),
        see="../explanation/protocol.md#when-a-node-misbehaves",
    ),
    MetricDefinition(
        "rota_fences_total", _COUNTER, "times",
        "how often the node became unfit for that reason",
        labels=(_ILL,),
    ),
    MetricDefinition(
        "rota_ready", _GAUGE, _FLAG,
        "1 if requests are taken, 0 if not; /readyz says why",
    ),
)  # fmt: skip

MEASURES: Mapping[str, MetricDefinition] = {measure.name: measure for measure in _ALL}
"""By name, in the order of the page."""
