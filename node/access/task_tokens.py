"""Authentication of running tasks by the tokens of their attempts.

A token is void when its attempt has ended. The node that runs the attempt has the proof of that,
and so has the primary of its shard; any other node accepts the token until it expires.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from rota.core.model.ids import NodeId
from rota.node.access.access_table import AccessTable
from rota.node.access.attempt_identity import AttemptIdentity, parse
from rota.node.access.principal import Principal
from rota.node.system.clock import Clock


class TaskTokenInvalid(Exception):
    """A token proves nothing; the text is a word for the log."""


class MembersUnknown(Exception):
    """This node has not read the members of the cluster yet, and so has no keys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFacts:
    """The facts about nodes and attempts that this node has.

    Attributes:
        cluster: The id of the cluster.
        key_of: Returns the key of a node for tokens of tasks, empty if there is none; None if this
            node has not read the members yet.
        is_running: Returns whether an attempt runs; None if this node cannot know.
    """

    cluster: str
    key_of: Callable[[NodeId], bytes | None]
    is_running: Callable[[AttemptIdentity], bool | None]


class TaskTokens:
    """The principals of tokens of tasks.

    Args:
        table: The table of access.
        clock: The clocks of the node; tokens end by the wall clock.
        facts: The facts with which tokens are verified.
    """

    def __init__(self, table: AccessTable, clock: Clock, facts: AttemptFacts) -> None:
        self._table = table
        self._clock = clock
        self._facts = facts

    def principal(self, text: str) -> Principal:
        """Return the principal that a token proves.

        Raises:
            TaskTokenInvalid: The token proves none.
            MembersUnknown: This node cannot verify tokens yet.
        """
        found = parse(text)
        if found is None:
            raise TaskTokenInvalid("form")
        key = self._facts.key_of(found.identity.node_id)
        if key is None:
            raise MembersUnknown
        if not found.is_proven(key, self._facts.cluster):
            raise TaskTokenInvalid("forged")
        if not self.is_valid(found.identity):
            raise TaskTokenInvalid("ended")
        return self.principal_of(found.identity)

    def principal_of(self, identity: AttemptIdentity) -> Principal:
        """Return the principal of a proven *identity*, with the grants of its job."""
        subject = identity.subject
        return replace(self._table.principal(subject, "", (subject,)), attempt=identity)

    def is_valid(self, identity: AttemptIdentity) -> bool:
        """Return False if a proven *identity* has expired, or its attempt has ended."""
        is_over = self._clock.now() >= identity.expires_at
        return not is_over and self._facts.is_running(identity) is not False
