"""What a command leads to, and what `decide` is told of the world at that moment."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from rota.core.model.attempt import Selector, Token
from rota.core.model.ids import ExecutionId, JobId, NodeId, Session
from rota.core.timing.instants import Duration, Instant
from rota.core.vocabulary.changes import Change
from rota.core.vocabulary.configuration import NOBODY
from rota.core.vocabulary.disk_space import DiskSpace
from rota.core.vocabulary.effects import Consequence


@dataclass(frozen=True, slots=True)
class Limits:
    """What one shard may hold; beyond it requests are refused and fires wait."""

    executions: int = 10_000
    jobs: int = 1_000_000
    requests: int = 100_000


class FreeSlots(NamedTuple):
    """Where attempts may start: on this node, or on another that lends a place.

    Attributes:
        node_id: The node.
        session: Its present life.
        labels: What it says of itself.
        room: Attempts that may start at once.
    """

    node_id: NodeId
    session: Session
    labels: Mapping[str, str]
    room: int

    def suits(self, selector: Selector) -> bool:
        """Tell whether the node is as a task wants it."""
        return all(self.labels.get(name) == value for name, value in selector)


NOWHERE = FreeSlots(NodeId(""), NOBODY, {}, 0)
"""What is ready then, waits."""


class Situation(msgspec.Struct, frozen=True):
    """What a decision may depend on besides the state and the command.

    Attributes:
        now: Shard time: the wall clock, but never earlier than the last entry (PROTOCOL R7).
        entropy: 64 random bits.
        position: Where the entry that holds this decision will stand: the token of the attempts
            that it starts.
        place: Where they start.
        ahead: How long before it is due a fire may be decided.
        space: What is left on the disk of the node that decides.
    """

    now: Instant
    entropy: int
    position: Token
    place: FreeSlots
    limits: Limits = Limits()
    ahead: Duration = Duration(0)
    space: DiskSpace = DiskSpace.AMPLE


class JobSaved(msgspec.Struct, frozen=True):
    """The job that now stands, in *version*; *is_new* unless it was there before.

    Attributes:
        version: 0 in the answer to a repetition whose first answer did not keep it.
    """

    job_id: JobId
    version: int
    is_new: bool


class Triggered(msgspec.Struct, frozen=True):
    """The execution that was made."""

    execution_id: ExecutionId


class Done(msgspec.Struct, frozen=True):
    """It is done, and there is nothing to tell."""


Reply = JobSaved | Triggered | Done


class Decision(msgspec.Struct, frozen=True):
    """What a command leads to.

    Attributes:
        cause: The command in a few words, kept in the entry so that the journal explains itself.
        changes: At most one for each key; empty when nothing is to be recorded.
        effects: To be carried out in this order once the changes are committed.
        reply: For whoever sent the command, once the changes are committed.
        started: Attempts that this decision starts: that much less room is left.
    """

    cause: str
    changes: tuple[Change, ...]
    effects: tuple[Consequence, ...]
    reply: Reply
    started: int = 0
