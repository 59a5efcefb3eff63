"""What Prometheus may ask; names are part of the interface, see docs/reference/metrics.md.

Gauges are read when they are asked for. Nothing on the path of an execution does more than count.
"""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, Metric

_LATENESS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60, 600)
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

    def gauge(self, name: str, text: str, read: Callable[[], float]) -> None:
        """Add a gauge that is read when asked for."""
        Gauge(name, text, registry=self._registry).set_function(read)

    def counter(self, name: str, text: str, read: Callable[[], float]) -> None:
        """Add a counter kept elsewhere, read when asked for."""
        self._registry.register(_Read(name, text, read))

    def text(self) -> bytes:
        """Return everything in Prometheus' text format."""
        return generate_latest(self._registry)


class _Read:
    def __init__(self, name: str, text: str, read: Callable[[], float]) -> None:
        self._name, self._text, self._read = name, text, read

    def collect(self) -> list[Metric]:
        return [CounterMetricFamily(self._name, self._text, value=self._read())]
