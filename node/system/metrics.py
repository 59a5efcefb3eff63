"""What Prometheus may ask of this node: each of `rota.node.system.metric_definitions`.

Gauges are read when they are asked for. Nothing on the path of an execution does more than count.
"""

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from rota.core.timing.instants import SECOND
from rota.node.system.metric_definitions import MEASURES, MetricDefinition


class Metrics:
    """The metrics of one node."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        registry = self._registry
        self.lateness = _histogram("rota_start_lateness_seconds", registry)
        self.sync = _histogram("rota_journal_sync_seconds", registry)
        self.commit = _histogram("rota_commit_seconds", registry)
        self.role_changes = _counter("rota_role_changes_total", registry)
        self.executions = _counter("rota_executions_total", registry)
        self.possible_duplicates = _counter("rota_possible_duplicates_total", registry)
        self.requests = _counter("rota_http_requests_total", registry)
        self.connections_closed = _counter("rota_http_connections_closed_total", registry)
        self.fenced = _gauge("rota_fenced", registry)
        self.fences = _counter("rota_fences_total", registry)
        self.links = LinkMetrics(self._registry)

    def gauge(self, name: str, read: Callable[[], float]) -> None:
        """Add a gauge that is read when asked for."""
        _gauge(name, self._registry).set_function(read)

    def counter(self, name: str, read: Callable[[], float]) -> None:
        """Add a counter kept elsewhere, read when asked for."""
        self._registry.register(_Read(MEASURES[name], read))

    def gauges(self, name: str, read: Callable[[], Mapping[str, float]]) -> None:
        """Add a gauge with one label, whose values are read when asked for."""
        self._registry.register(_ReadEach(MEASURES[name], read))

    def counters(self, name: str, read: Callable[[], Mapping[str, float]]) -> None:
        """Add a counter with one label, kept elsewhere and read when asked for."""
        self._registry.register(_ReadEach(MEASURES[name], read, CounterMetricFamily))

    def text(self) -> bytes:
        """Return everything in Prometheus' text format."""
        return generate_latest(self._registry)


class LinkMetrics:
    """What goes over the links to other nodes, all of them together.

    Args:
        registry: Where it is asked for.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._frames = _counter("rota_peer_frames_total", registry)
        self._bytes = _counter("rota_peer_bytes_total", registry)
        self._dropped = _counter("rota_peer_messages_dropped_total", registry)
        self._made = _counter("rota_peer_links_made_total", registry)
        self._refused = _counter("rota_peer_refused_total", registry)
        self._garbage = _counter("rota_peer_garbage_total", registry)
        self._partial = _gauge("rota_peer_partial_bytes", registry)
        self._links = _gauge("rota_peer_links", registry)
        self._waiting = _gauge("rota_peer_waiting_bytes", registry)
        self._round_trip = _histogram("rota_peer_round_trip_seconds", registry)

    def sent(self, size: int) -> None:
        """Count a frame that went."""
        self._frames.labels("sent").inc()
        self._bytes.labels("sent").inc(size)

    def received(self, size: int) -> None:
        """Count a frame that came."""
        self._frames.labels("received").inc()
        self._bytes.labels("received").inc(size)

    def waits(self, read: Callable[[], float]) -> None:
        """Have the bytes that wait on all links read when they are asked for."""
        self._waiting.set_function(read)

    def dropped(self, reason: str) -> None:
        """Count a message that was not sent, for ``no_link`` or ``no_room``."""
        self._dropped.labels(reason).inc()

    def garbage(self) -> None:
        """Count a link that ended because of a frame that no node sends."""
        self._garbage.inc()

    def partials(self, read: Callable[[], float]) -> None:
        """Have the bytes of incomplete messages read when they are asked for."""
        self._partial.set_function(read)

    def refused(self, kind: str) -> None:
        """Count a request or a connection to the peer port that was refused."""
        self._refused.labels(kind).inc()

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
    def __init__(self, measure: MetricDefinition, read: Callable[[], float]) -> None:
        self._measure, self._read = measure, read

    def collect(self) -> list[Metric]:
        name, meaning = self._measure.name, self._measure.meaning
        return [CounterMetricFamily(name, meaning, value=self._read())]


class _ReadEach:
    def __init__(
        self,
        measure: MetricDefinition,
        read: Callable[[], Mapping[str, float]],
        kind: type[CounterMetricFamily | GaugeMetricFamily] = GaugeMetricFamily,
    ) -> None:
        self._measure, self._read, self._kind = measure, read, kind

    def collect(self) -> list[Metric]:
        name, meaning = self._measure.name, self._measure.meaning
        family = self._kind(name, meaning, labels=_labels(self._measure))
        for value, number in self._read().items():
            family.add_metric([value], number)
        return [family]


def _gauge(name: str, registry: CollectorRegistry) -> Gauge:
    measure = MEASURES[name]
    return Gauge(name, measure.meaning, _labels(measure), registry=registry)


def _counter(name: str, registry: CollectorRegistry) -> Counter:
    measure = MEASURES[name]
    return Counter(name, measure.meaning, _labels(measure), registry=registry)


def _histogram(name: str, registry: CollectorRegistry) -> Histogram:
    measure = MEASURES[name]
    labels = _labels(measure)
    return Histogram(name, measure.meaning, labels, registry=registry, buckets=measure.buckets)


def _labels(measure: MetricDefinition) -> list[str]:
    return [label.name for label in measure.labels]
