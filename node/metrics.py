"""What Prometheus may ask; names are part of the interface, see docs/reference/metrics.md.

Gauges are read when they are asked for. Nothing on the path of an execution does more than count.
"""

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from rota.core.instants import SECOND

_LATENESS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60, 600)
_ROUND_TRIP_S = (0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5)
_SYNC_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5)


class Metrics:
    """The metrics of one node."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self.lateness = Histogram(
            "rota_start_lateness_seconds",
            "From the fire time of an execution to the start of its first attempt.",
            registry=self._registry,
            buckets=_LATENESS_S,
        )
        self.sync = Histogram(
            "rota_journal_sync_seconds",
            "How long making the journal durable takes.",
            registry=self._registry,
            buckets=_SYNC_S,
        )
        self.commit = Histogram(
            "rota_commit_seconds",
            "From the decision of a journal entry to its commit on all copies.",
            registry=self._registry,
            buckets=_SYNC_S,
        )
        self.role_changes = Counter(
            "rota_role_changes",
            "Shards for which this node began, or ceased, to decide.",
            ["to"],
            registry=self._registry,
        )
        self.executions = Counter(
            "rota_executions",
            "Executions that ended.",
            ["status"],
            registry=self._registry,
        )
        self.requests = Counter(
            "rota_http_requests",
            "Requests answered.",
            ["method", "status"],
            registry=self._registry,
        )
        self.fenced = Gauge(
            "rota_fenced",
            "1 while the node is unfit to be primary.",
            ["reason"],
            registry=self._registry,
        )
        self.fences = Counter(
            "rota_fences",
            "How often it became unfit.",
            ["reason"],
            registry=self._registry,
        )
        self.links = LinkMetrics(self._registry)

    def gauge(self, name: str, text: str, read: Callable[[], float]) -> None:
        """Add a gauge that is read when asked for."""
        Gauge(name, text, registry=self._registry).set_function(read)

    def counter(self, name: str, text: str, read: Callable[[], float]) -> None:
        """Add a counter kept elsewhere, read when asked for."""
        self._registry.register(_Read(name, text, read))

    def gauges(
        self, name: str, text: str, label: str, read: Callable[[], Mapping[str, float]]
    ) -> None:
        """Add a gauge with one label, whose values are read when asked for."""
        self._registry.register(_ReadEach(name, text, label, read))

    def text(self) -> bytes:
        """Return everything in Prometheus' text format."""
        return generate_latest(self._registry)


class LinkMetrics:
    """What goes over the links to other nodes, all of them together.

    Args:
        registry: Where it is asked for.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        ways = ["direction"]
        self._frames = Counter("rota_peer_frames", "Frames.", ways, registry=registry)
        self._bytes = Counter("rota_peer_bytes", "Bytes of frames.", ways, registry=registry)
        self._dropped = Counter(
            "rota_peer_messages_dropped",
            "Messages that found no link to their receiver, or no room.",
            ["reason"],
            registry=registry,
        )
        self._made = Counter("rota_peer_links_made", "Links made.", registry=registry)
        self._links = Gauge("rota_peer_links", "Links to other nodes.", registry=registry)
        self._round_trip = Histogram(
            "rota_peer_round_trip_seconds",
            "From a ping on a link to its answer.",
            registry=registry,
            buckets=_ROUND_TRIP_S,
        )

    def sent(self, size: int) -> None:
        """Count a frame that went."""
        self._frames.labels("sent").inc()
        self._bytes.labels("sent").inc(size)

    def received(self, size: int) -> None:
        """Count a frame that came."""
        self._frames.labels("received").inc()
        self._bytes.labels("received").inc(size)

    def dropped(self, reason: str) -> None:
        """Count a message that was not sent, for ``no_link`` or ``no_room``."""
        self._dropped.labels(reason).inc()

    @contextmanager
    def linked(self) -> Generator[None]:
        """Count a link while the body runs."""
        self._made.inc()
        with self._links.track_inprogress():
            yield

    def round_trip(self, duration: int) -> None:
        """Take note of how long an answer took, in microseconds."""
        self._round_trip.observe(max(0, duration) / SECOND)


class _Read:
    def __init__(self, name: str, text: str, read: Callable[[], float]) -> None:
        self._name, self._text, self._read = name, text, read

    def collect(self) -> list[Metric]:
        return [CounterMetricFamily(self._name, self._text, value=self._read())]


class _ReadEach:
    def __init__(
        self, name: str, text: str, label: str, read: Callable[[], Mapping[str, float]]
    ) -> None:
        self._name, self._text, self._label, self._read = name, text, label, read

    def collect(self) -> list[Metric]:
        family = GaugeMetricFamily(self._name, self._text, labels=[self._label])
        for value, number in self._read().items():
            family.add_metric([value], number)
        return [family]
