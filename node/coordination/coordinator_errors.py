"""Errors of the coordinator."""

from rota.core.errors import RotaError


class CoordinatorError(RotaError):
    """The coordinator did not do what was asked; ``str`` says why and what to do."""

    code = "coordinator_error"


class CoordinatorUnavailable(CoordinatorError):
    """It cannot be reached or has no majority; what was asked was certainly not done."""

    code = "coordinator_unavailable"


class CoordinatorRefused(CoordinatorUnavailable):
    """It answers and does not do it: credentials, too many requests; nothing was done.

    For a node that runs the same as a coordinator that is away, but an operator has to act.

    Attributes:
        is_passing: Whether the same call may be done later, with the settings of now.
    """

    code = "coordinator_refused"
    is_passing = False


class OutcomeUnknown(CoordinatorError):
    """No answer came: what was asked may have been done, or may still be."""

    code = "outcome_unknown"


class OutOfSpace(OutcomeUnknown):
    """It refuses what takes space, and may have done it all the same; an operator has to act."""

    code = "coordinator_out_of_space"


class SessionTaken(CoordinatorError):
    """A process that may still run has the session that is asked for."""

    code = "taken"


class NodeIdTaken(SessionTaken):
    """This node has a session already, and its process is not proven to have ended."""

    code = "node_id_taken"


class StoreIdTaken(SessionTaken):
    """Another node has a session with this data directory, or a copy of it."""

    code = "store_id_taken"


class OtherCluster(CoordinatorError):
    """The coordinator was replaced, or this version of rota cannot share it."""

    code = "other_cluster"


class WatchLost(CoordinatorError):
    """A watch cannot continue without a gap: read a view, and watch from there."""

    code = "watch_lost"
