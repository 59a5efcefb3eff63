"""Errors of the coordinator."""

from rota.core.errors import RotaError


class CoordinatorError(RotaError):
    """The coordinator did not carry out a call; ``str`` states the reason and the remedy."""

    code = "coordinator_error"


class CoordinatorUnavailable(CoordinatorError):
    """The coordinator cannot be reached or has no majority; the call was certainly not executed."""

    code = "coordinator_unavailable"


class CoordinatorRefused(CoordinatorUnavailable):
    """The coordinator refuses a call (credentials, too many requests); nothing was changed.

    A running node treats this like a coordinator that cannot be reached, but an operator has to
    act.

    Attributes:
        is_passing: Whether the same call may succeed later with the present settings.
    """

    code = "coordinator_refused"
    is_passing = False


class OutcomeUnknown(CoordinatorError):
    """No answer was received: the call may have been executed, or may still be."""

    code = "outcome_unknown"


class OutOfSpace(OutcomeUnknown):
    """The coordinator has no space and refuses writes; the call may still have been executed.

    An operator has to act.
    """

    code = "coordinator_out_of_space"


class SessionTaken(CoordinatorError):
    """A process that may still run has a session of the same node or data directory."""

    code = "taken"


class NodeIdTaken(SessionTaken):
    """This node already has a session, whose process is not proven to have ended."""

    code = "node_id_taken"


class StoreIdTaken(SessionTaken):
    """Another node has a session with this data directory, or a copy of it."""

    code = "store_id_taken"


class OtherCluster(CoordinatorError):
    """The coordinator was replaced, or this version of rota cannot share it."""

    code = "other_cluster"


class WatchLost(CoordinatorError):
    """A watch cannot continue without a gap; read a view, and begin a watch from its revision."""

    code = "watch_lost"
