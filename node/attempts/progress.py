"""What running attempts tell of themselves, on its way to their shards: the last of it.

An attempt may tell a thousand times a second how far it is. Its shard is told at most once in
`PACE`, and not again before it has answered; what comes meanwhile is one report.
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
class _Telling:
    order: Order
    untold: Report | None = None
    told_at: Instant = Instant(-PACE)
    is_under_way: bool = False


class ProgressRelay:
    """Reports of this node's running attempts.

    Args:
        shards: Of this node.
        delivery: Brings them to their shards.
        clock: Gives the pace.
    """

    def __init__(self, shards: Shards, delivery: Delivery, clock: Clock) -> None:
        self._shards = shards
        self._delivery = delivery
        self._clock = clock
        self._telling: dict[AttemptKey, _Telling] = {}

    def reported(self, order: Order, report: Report) -> None:
        """Have an attempt's shard told, now or soon."""
        telling = self._telling.setdefault(order.key, _Telling(order))
        telling.untold = merged(telling.untold, report)
        self._tell(telling)

    def ended(self, key: AttemptKey) -> Report | None:
        """Forget an attempt, and return what its shard has not been told yet."""
        telling = self._telling.pop(key, None)
        return telling.untold if telling else None

    def tick(self) -> None:
        """Tell what has waited long enough."""
        for telling in list(self._telling.values()):
            self._tell(telling)

    def _tell(self, telling: _Telling) -> None:
        now, report = self._clock.elapsed(), telling.untold
        if report is None or telling.is_under_way or now - telling.told_at < PACE:
            return
        telling.untold, telling.told_at, telling.is_under_way = None, now, True
        order = telling.order

        def told(refusal: str) -> None:
            del refusal  # It has ended meanwhile, which is told by another way.
            telling.is_under_way = False

        command = ReportAttempt(attempt=order.key, token=order.token, report=report)
        self._delivery.bring(self._shards.of_id(order.key.execution_id), (command,), told)
