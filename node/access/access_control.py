"""Access control of a node: the mode, and the parts that authenticate its callers."""

import logging
from enum import Enum

from rota.node.access.access_table import AccessTable
from rota.node.access.authenticator import Authenticator, LoginFailed
from rota.node.access.forwarded_principal import form_of, principal_in
from rota.node.access.oidc.signing_keys import SigningKeys
from rota.node.access.oidc.web_tokens import WebTokens
from rota.node.access.open_streams import OpenStreams
from rota.node.access.principal import Principal
from rota.node.access.refused_access import Refusal, RefusedAccess
from rota.node.access.request_rates import RequestRates
from rota.node.access.task_tokens import AttemptFacts, TaskTokens
from rota.node.access.verbs import EVERY, Verb
from rota.node.cluster.shared_documents import SharedDocuments
from rota.node.system.clock import Clock
from rota.node.system.metrics import Metrics
from rota.node.system.sampled_log import SampledLog

log = logging.getLogger(__name__)


class AuthMode(Enum):
    """The setting ``auth``."""

    KEYS = "keys"
    """Every request needs a credential, except public operations."""
    OBSERVE = "observe"
    """Nothing is refused; what would be refused is logged and counted."""
    OPEN = "open"
    """Every request has all verbs."""


class ObservedRefusals:
    """The requests that the mode `AuthMode.KEYS` would refuse.

    Args:
        metrics: The metrics that count them.
        clock: The clock of the sampled log.
    """

    def __init__(self, metrics: Metrics, clock: Clock) -> None:
        self._count = metrics.access_would_refuse
        self.log = SampledLog(log, "request would be refused", now=clock.elapsed)

    def note(self, principal: str, verb: Verb | None, namespace: str, path: str) -> None:
        """Count and log a request; *verb* is None if the caller is not authenticated."""
        self._count.inc()
        self.log.write(
            principal=principal,
            verb=verb.value if verb else "",
            # A field of its own for the whole cluster, which is no namespace.
            namespace="" if namespace == EVERY else namespace,
            path=path,
        )


class AccessControl:
    """The access control of a node.

    Args:
        mode: The mode.
        documents: The shared documents, which the table of access follows.
        clock: The clocks of the node.
        metrics: The metrics of the node.
        rate: The most requests a second of one principal; 0 for no limit.
        facts: The facts about attempts with which tokens of tasks are verified; None if no such
            token is accepted.

    Attributes:
        mode: The same as the argument.
        table: The table of access.
        authenticator: The authentication.
        signing_keys: The public keys of issuers.
        streams: The open streams of authenticated callers.
        observed: The log of requests that would be refused; None if they are refused.
        refused: The log of requests that were refused.
    """

    def __init__(
        self,
        mode: AuthMode,
        documents: SharedDocuments,
        clock: Clock,
        metrics: Metrics,
        *,
        rate: int,
        facts: AttemptFacts | None = None,
    ) -> None:
        self.mode = mode
        self._rates = RequestRates(rate) if rate else None
        self._elapsed = clock.elapsed
        self.table = AccessTable()
        self.signing_keys = SigningKeys(clock)
        self.table.listen_to_issuers(self.signing_keys.set_issuers)
        self.authenticator = Authenticator(
            self.table,
            clock,
            is_current=lambda: documents.is_current,
            is_trusted=lambda: documents.is_trusted,
            web_tokens=WebTokens(self.table, self.signing_keys, clock),
            task_tokens=None if facts is None else TaskTokens(self.table, clock, facts),
        )
        self.streams = OpenStreams(self._is_alive)
        self.observed = ObservedRefusals(metrics, clock) if mode is AuthMode.OBSERVE else None
        self.refused = RefusedAccess(metrics, clock)
        documents.listen(self.table.changed)
        documents.listen(lambda key, document: self.streams.check_soon())

    def _is_alive(self, principal: Principal) -> bool:
        return self.mode is not AuthMode.KEYS or self.authenticator.is_alive(principal)

    @property
    def logs(self) -> tuple[SampledLog, ...]:
        """The sampled logs, whose omitted lines are to be reported periodically."""
        if self.observed is None:
            return self.refused.logs
        return (*self.refused.logs, self.observed.log)

    def count_request(self, principal: Principal) -> None:
        """Count a request that a client sent to this node.

        Raises:
            TooManyRequests: The principal has sent too many.
        """
        if self._rates is not None and principal.identity:
            self._rates.count(principal.identity, self._elapsed())

    # -- forwarding -----------------------------------------------------------------------------

    def forwarded_form(self, principal: Principal) -> str:
        """Return the header `PRINCIPAL` of a request that this node forwards for *principal*."""
        return form_of(principal, self.table.revision)

    async def principal_from_forwarded_form(self, text: str) -> Principal:
        """Return the principal of a request that another node has forwarded, from its header.

        The caller of this method has proved that the request is from a node of the cluster.

        Raises:
            LoginFailed: The principal is a task whose attempt has ended.
            Refused: The header is malformed.
        """
        principal = await principal_in(text, self.table)
        # The sender may be a node that cannot know the attempt.
        if principal.attempt is not None and not self.authenticator.is_valid(principal.attempt):
            ended = Refusal(reason="task_token", detail="the attempt has ended", is_login=True)
            raise LoginFailed(ended)
        return principal
