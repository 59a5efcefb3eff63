"""Decisions, and the situation that a decision is based on."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from rota.core.model.attempt import Token
from rota.core.model.ids import ExecutionId, JobId, NodeId, Session
from rota.core.model.job_state import StateEntry
from rota.core.model.work import Selector
from rota.core.timing.instants import Duration, Instant
from rota.core.vocabulary.changes import Change
from rota.core.vocabulary.disk_space import DiskSpace
from rota.core.vocabulary.effects import Consequence
from rota.core.vocabulary.facts import NO_FACTS, Facts
from rota.core.vocabulary.quotas import NO_USE, Use
from rota.core.vocabulary.shard_configuration import NO_SESSION


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one shard; at a limit, requests are refused and fires wait."""

    executions: int = 10_000
    jobs: int = 1_000_000
    requests: int = 100_000


class FreeSlots(NamedTuple):
    """Free slots of one node: the primary's own, or slots that another node lends.

    Attributes:
        node_id: The node.
        session: Its current session.
        labels: The node's labels.
        free: The number of attempts that may start.
    """

    node_id: NodeId
    session: Session
    labels: Mapping[str, str]
    free: int

    def matches(self, selector: Selector) -> bool:
        """Return True if the node has all labels of *selector*."""
        return all(self.labels.get(name) == value for name, value in selector)


NO_SLOTS = FreeSlots(NodeId(""), NO_SESSION, {}, 0)
"""No attempt may start: ready tasks wait."""


def no_use(namespace: str) -> Use:
    """Return that nothing in the namespace is elsewhere."""
    del namespace
    return NO_USE


class Situation(msgspec.Struct, frozen=True):
    """The inputs of a decision besides the state and the command.

    Attributes:
        now: Shard time: the wall clock, but never earlier than the last entry (PROTOCOL R7).
        entropy: 64 random bits.
        position: The journal position of the entry that will hold this decision; it is the fencing
            token of the attempts that the decision starts.
        slots: The free slots in which these attempts may start.
        limits: The limits of the shard.
        lead: How far `now` is ahead of the wall clock, which was set back, or was ahead on another
            node. Fire times follow the wall clock.
        decide_ahead: The time by which a fire may be decided before its fire time.
        disk_space: The level of free space on the disk of the deciding node.
        facts: What the shared documents say that the deciding node has received.
        use_elsewhere: Returns the use of a namespace with a quota in all other shards. The use on
            other nodes is that of their last reports.
    """

    now: Instant
    entropy: int
    position: Token
    slots: FreeSlots
    limits: Limits = Limits()
    lead: Duration = Duration(0)
    decide_ahead: Duration = Duration(0)
    disk_space: DiskSpace = DiskSpace.AMPLE
    facts: Facts = NO_FACTS
    use_elsewhere: Callable[[str], Use] = no_use


class JobSaved(msgspec.Struct, frozen=True):
    """The saved job.

    Attributes:
        version: The version after the command; 0 for a repeated request whose recorded reply does
            not have it.
        is_new: Whether the command created the job.
        replaced: The version that it replaced; 0 for none.
    """

    job_id: JobId
    version: int
    is_new: bool
    replaced: int = 0


class Triggered(msgspec.Struct, frozen=True):
    """The created execution."""

    execution_id: ExecutionId


class Done(msgspec.Struct, frozen=True):
    """The reply to a command without a result."""


class StateSaved(msgspec.Struct, frozen=True):
    """The value of a job's state that was saved, as the command left it."""

    entry: StateEntry


class Received(msgspec.Struct, frozen=True):
    """The number of jobs that an event from outside was sent to."""

    jobs: int


Reply = JobSaved | Triggered | Done | StateSaved | Received


class Decision(msgspec.Struct, frozen=True):
    """The result of a command.

    Attributes:
        cause: The command in a few words, stored in the entry to make the journal readable.
        changes: The changes, at most one for each key; empty if nothing is to be recorded.
        effects: The effects, to be carried out in this order once the changes are committed.
        reply: The reply to the sender of the command, once the changes are committed.
        started: The number of attempts that this decision starts; each takes a slot.
    """

    cause: str
    changes: tuple[Change, ...]
    effects: tuple[Consequence, ...]
    reply: Reply
    started: int = 0
