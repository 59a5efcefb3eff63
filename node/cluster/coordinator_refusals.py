"""Count and log of the coordinator's refusals."""

import logging
from collections.abc import Callable

from rota.core.timing.instants import Instant
from rota.node.coordination.coordinator_errors import (
    CoordinatorError,
    CoordinatorRefused,
    OutOfSpace,
)
from rota.node.system.sampled_log import SampledLog

log = logging.getLogger(__name__)


class CoordinatorRefusals:
    """Calls that the coordinator refused.

    Args:
        now: Returns the elapsed time, by which the number of log lines is limited.

    Attributes:
        count: The number of refused calls.
    """

    def __init__(self, now: Callable[[], Instant]) -> None:
        self.count = 0
        self._log = SampledLog(log, "coordinator refused", now=now, level=logging.ERROR, limit=1)

    def note(self, error: CoordinatorError) -> None:
        """Count and log *error* if it is a refusal; other errors pass by themselves."""
        if isinstance(error, (CoordinatorRefused, OutOfSpace)):
            self.count += 1
            self._log.write(reason=str(error))
