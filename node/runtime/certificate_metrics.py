"""Gauge of the time until the certificates of this node end."""

from collections.abc import Mapping

from rota.core.timing.instants import SECOND, from_datetime
from rota.node.system.clock import Clock
from rota.node.system.metrics import Metrics
from rota.node.system.tls_files import LiveTls


def measure_certificates(
    metrics: Metrics, clock: Clock, certificates: Mapping[str, LiveTls]
) -> None:
    """Measure the certificates, by their use; nothing is measured without certificates."""
    metrics.gauges(
        "rota_certificate_expiry_seconds",
        lambda: {
            use: (from_datetime(live.expires_at) - clock.now()) / SECOND
            for use, live in certificates.items()
        },
    )
