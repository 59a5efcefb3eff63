"""Refused access: its log ``rota.audit``, and its metric.

Any machine in the network can cause refusals in any number, so the lines of each event are limited,
and the metric counts all of them. A line has no token, and no value of a body or query.
"""

import logging
import re
from dataclasses import dataclass

from rota.core.model.author import Author
from rota.node.access.verbs import EVERY, Verb
from rota.node.system.clock import Clock
from rota.node.system.metrics import Metrics
from rota.node.system.sampled_log import SampledLog

AUDIT_LOGGER = logging.getLogger("rota.audit")

NO_CREDENTIAL, NO_KEY_YET = "no_credential", "no_key_yet"
HIDDEN = "hidden"
"""The caller may not read the object, and the response is the one for an object that does not
exist."""
OBJECT_MAX = 256
"""The most characters of an object that are logged; every name of the API is shorter."""

_TOKEN = re.compile(r"rota_[a-z]_\w+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why a request, or an item of a batch, was refused.

    Attributes:
        reason: The reason, as the metric counts it: a code of the API or a word of this module.
        verb: The verb that the caller lacks; None if another rule refuses the request.
        namespace: The namespace of the object; `EVERY` for the whole cluster; empty if unknown.
        of: The object; empty for the one in the path.
        token_id: The id of the token that is not accepted, which is no secret; empty without one.
        detail: More about the reason; empty for nothing.
        is_login: Whether a credential is not accepted.
    """

    reason: str
    verb: Verb | None = None
    namespace: str = ""
    of: str = ""
    token_id: str = ""
    detail: str = ""
    is_login: bool = False


class RefusedAccess:
    """The log and the metric of refused access.

    Each event has a limit of its own: requests without a credential, which are the most common, do
    not displace the lines about principals.

    Args:
        metrics: The metrics of the node.
        clock: The clock of the sampled logs.
    """

    def __init__(self, metrics: Metrics, clock: Clock) -> None:
        self._count = metrics.access_refused
        self._denied, self._failed, self._missing = self.logs = tuple(
            SampledLog(AUDIT_LOGGER, event, now=clock.elapsed, level=logging.INFO)
            for event in ("access denied", "login failed", "credential missing")
        )

    def note(self, refusal: Refusal, caller: Author, operation: str, of: str) -> None:
        """Count and log a refusal.

        Args:
            refusal: The refusal.
            caller: The caller of the request.
            operation: Method and path of the operation, without values.
            of: The object in the path.
        """
        self._count.labels(refusal.reason).inc()
        facts = {
            "reason": refusal.reason,
            "principal": caller.principal,
            "token_id": refusal.token_id or caller.key,
            "remote": caller.address,
            "operation": operation,
            "verb": refusal.verb.value if refusal.verb else "",
            # A field of its own for the whole cluster, which is no namespace.
            "namespace": "" if refusal.namespace == EVERY else refusal.namespace,
            "object": _TOKEN.sub("***", refusal.of or of)[:OBJECT_MAX],
            "detail": refusal.detail,
            "request": caller.request,
        }
        self._log_of(refusal).write(**{name: fact for name, fact in facts.items() if fact})

    def _log_of(self, refusal: Refusal) -> SampledLog:
        if refusal.reason in (NO_CREDENTIAL, NO_KEY_YET):
            return self._missing
        return self._failed if refusal.is_login else self._denied
