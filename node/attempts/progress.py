"""Progress reports of running attempts, merged and sent to their shards at a limited rate.

An attempt may report its progress a thousand times per second. Its shard gets at most one report
per `PACE`, and none before it has confirmed the previous one; all reports made in between are
merged into one.
"""

from dataclasses import dataclass

from rota.core.model.attempt import AttemptKey, Order, Report
from rota.core.timing.instants import SECOND, Duration, Instant
from rota.core.vocabulary.commands import ReportAttempt
from rota.executor.executor import merged
from rota.node.attempts.delivery import Delivery
from rota.node.shards.local_shards import Shards
from rota.node.system.clock import Clock

PACE = Duration(SECOND)


@dataclass(slots=True)
class _Progress:
    """The reports of one attempt.

    Attributes:
        order: The order of the attempt.
        unsent: The merged reports since the newest report was sent; None if there are none.
        sent_at: The elapsed time at which the newest report was sent.
        is_under_way: Whether the newest report is not confirmed yet.
    """

    order: Order
    unsent: Report | None = None
    sent_at: Instant = Instant(-PACE)
    is_under_way: bool = False

    def add(self, report: Report) -> None:
        """Merge *report* into the unsent report."""
        self.unsent = merged(self.unsent, report)

    def take(self, now: Instant) -> Report | None:
        """Return the report to be sent at *now*, which is then under way; None if none is due."""
        report = self.unsent
        if report is None or self.is_under_way or now - self.sent_at < PACE:
            return None
        self.unsent, self.sent_at, self.is_under_way = None, now, True
        return report

    def delivered(self, refusal: str) -> None:
        """Allow the next report."""
        del refusal  # A report is refused if its attempt has ended, which is reported separately.
        self.is_under_way = False


class ProgressRelay:
    """Reports of this node's running attempts.

    Args:
        shards: The shards of this node.
        delivery: Delivers reports to the shards of the attempts.
        clock: The clock by which the rate is limited.
    """

    def __init__(self, shards: Shards, delivery: Delivery, clock: Clock) -> None:
        self._shards = shards
        self._delivery = delivery
        self._clock = clock
        self._progress: dict[AttemptKey, _Progress] = {}

    def reported(self, order: Order, report: Report) -> None:
        """Send a report to the attempt's shard, now or soon."""
        progress = self._progress.setdefault(order.key, _Progress(order))
        progress.add(report)
        self._send(progress)

    def ended(self, key: AttemptKey) -> Report | None:
        """Remove an attempt, and return its unsent report; None if there is none."""
        progress = self._progress.pop(key, None)
        return progress.unsent if progress else None

    def tick(self) -> None:
        """Send the reports whose `PACE` has passed."""
        for progress in list(self._progress.values()):
            self._send(progress)

    def _send(self, progress: _Progress) -> None:
        report = progress.take(self._clock.elapsed())
        if report is not None:
            order = progress.order
            command = ReportAttempt(attempt=order.key, token=order.token, report=report)
            shard = self._shards.of_id(order.key.execution_id)
            self._delivery.deliver(shard, (command,), progress.delivered)
