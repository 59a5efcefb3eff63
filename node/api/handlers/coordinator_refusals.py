"""Errors of the coordinator as refusals of requests."""

import logging
from collections.abc import Generator
from contextlib import contextmanager

from rota.core.errors import Kind, Refused
from rota.node.coordination.coordinator_errors import (
    CoordinatorError,
    CoordinatorRefused,
    CoordinatorUnavailable,
    OutcomeUnknown,
)

log = logging.getLogger(__name__)


@contextmanager
def coordinator_refusals(advice: str) -> Generator[None]:
    """Turn errors of the coordinator in the body into refusals.

    Args:
        advice: What to do if the outcome is unknown, such as ``read it again``.

    Raises:
        Refused: Code ``outcome_unknown``; or ``coordinator_unavailable``: nothing was changed.
    """
    try:
        yield
    except OutcomeUnknown as error:
        detail = f"{error}; the change may or may not have been made; {advice}"
        raise Refused(Kind.UNAVAILABLE, "outcome_unknown", detail, retry_after_s=1) from error
    except CoordinatorRefused as error:
        raise _undone(f"etcd refused the request, and nothing was changed: {error}") from error
    except CoordinatorUnavailable as error:
        log.warning("etcd does not answer", extra={"reason": str(error)})
        detail = (
            "etcd does not respond, and nothing was changed; check that a majority of its members "
            "is running and that this node can reach them, and run the command again"
        )
        raise _undone(detail) from error
    except CoordinatorError as error:
        raise _undone(str(error)) from error


def _undone(detail: str) -> Refused:
    return Refused(Kind.UNAVAILABLE, "coordinator_unavailable", detail, retry_after_s=1)
