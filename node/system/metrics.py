"""Prometheus metrics of a node, as in `rota.node.system.metric_definitions`.

Gauges are read at each scrape. The path of an execution only increments counters.
"""

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from rota.core.timing.instants import SECOND
from rota.node.system.metric_definitions import METRICS, MetricDefinition


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
        self.fires = _counter("rota_fires_total", registry)
        self.hooks = _counter("rota_hooks_total", registry)
        self.possible_duplicates = _counter("rota_possible_duplicates_total", registry)
        self.requests = _counter("rota_http_requests_total", registry)
        self.access_would_refuse = _counter("rota_access_would_refuse_total", registry)
        self.access_refused = _counter("rota_access_refused_total", registry)
        self.connections_closed = _counter("rota_http_connections_closed_total", registry)
        self.fenced = _gauge("rota_fenced", registry)
        self.fences = _counter("rota_fences_total", registry)
        self.links = LinkMetrics(self._registry)

    def gauge(self, name: str, read: Callable[[], float]) -> None:
        """Add a gauge; *read* returns its value at each scrape."""
        _gauge(name, self._registry).set_function(read)

    def counter(self, name: str, read: Callable[[], float]) -> None:
        """Add a counter; *read* returns its value at each scrape."""
        self._registry.register(_Read(METRICS[name], read))

    def gauges(self, name: str, read: Callable[[], Mapping[str, float]]) -> None:
        """Add a gauge with one label; *read* returns its values by label at each scrape."""
        self._registry.register(_ReadEach(METRICS[name], read))

    def counters(self, name: str, read: Callable[[], Mapping[str, float]]) -> None:
        """Add a counter with one label; *read* returns its values by label at each scrape."""
        self._registry.register(_ReadEach(METRICS[name], read, CounterMetricFamily))

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self._registry)


class LinkMetrics:
    """Metrics of the links to other nodes, as sums over all links.

    Args:
        registry: Registry of the node.
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
        """Count a frame of *size* bytes that was sent."""
        self._frames.labels("sent").inc()
        self._bytes.labels("sent").inc(size)

    def received(self, size: int) -> None:
        """Count a frame of *size* bytes that was received."""
        self._frames.labels("received").inc()
        self._bytes.labels("received").inc(size)

    def waits(self, read: Callable[[], float]) -> None:
        """Add the gauge of waiting bytes; *read* returns those of all links at each scrape."""
        self._waiting.set_function(read)

    def dropped(self, reason: str) -> None:
        """Count a message that was not sent; *reason* is ``no_link`` or ``no_room``."""
        self._dropped.labels(reason).inc()

    def garbage(self) -> None:
        """Count a link that ended because of a frame that no node sends."""
        self._garbage.inc()

    def partials(self, read: Callable[[], float]) -> None:
        """Add the gauge of the bytes of incomplete messages, which *read* returns."""
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
        """Record the time from a ping to its answer, in microseconds."""
        self._round_trip.observe(max(0, duration) / SECOND)


class _Read:
    def __init__(self, definition: MetricDefinition, read: Callable[[], float]) -> None:
        self._definition, self._read = definition, read

    def collect(self) -> list[Metric]:
        name, meaning = self._definition.name, self._definition.meaning
        return [CounterMetricFamily(name, meaning, value=self._read())]


class _ReadEach:
    def __init__(
        self,
        definition: MetricDefinition,
        read: Callable[[], Mapping[str, float]],
        kind: type[CounterMetricFamily | GaugeMetricFamily] = GaugeMetricFamily,
    ) -> None:
        self._definition, self._read, self._kind = definition, read, kind

    def collect(self) -> list[Metric]:
        name, meaning = self._definition.name, self._definition.meaning
        family = self._kind(name, meaning, labels=_labels(self._definition))
        for value, number in self._read().items():
            family.add_metric([value], number)
        return [family]


def _gauge(name: str, registry: CollectorRegistry) -> Gauge:
    definition = METRICS[name]
    return Gauge(name, definition.meaning, _labels(definition), registry=registry)


def _counter(name: str, registry: CollectorRegistry) -> Counter:
    definition = METRICS[name]
    return Counter(name, definition.meaning, _labels(definition), registry=registry)


def _histogram(name: str, registry: CollectorRegistry) -> Histogram:
    definition = METRICS[name]
    labels = _labels(definition)
    return Histogram(
        name, definition.meaning, labels, registry=registry, buckets=definition.buckets
    )


def _labels(definition: MetricDefinition) -> list[str]:
    return [label.name for label in definition.labels]
