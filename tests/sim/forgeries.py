"""Forged messages of replication: without the right to send them, or false (R41, R42)."""

from dataclasses import dataclass

from msgspec.structs import replace

from rota.core.model.ids import AllocationId, Epoch, Index, NodeId, Session
from rota.core.replication.local_copy import LocalCopy
from rota.core.replication.messages import (
    Append,
    Appended,
    Base,
    Fenced,
    Message,
    Part,
    Query,
    Succeed,
)
from rota.core.timing.instants import SECOND, Instant
from rota.core.vocabulary.journal import ORIGIN
from rota.core.vocabulary.shard_configuration import Configuration

FORGED = AllocationId("forged")


@dataclass(frozen=True, slots=True, kw_only=True)
class Party:
    """One of the two ends of a forged message.

    Attributes:
        now: The instant of its own clock.
        born_at: The begin of its life, likewise.
    """

    node_id: NodeId
    session: Session
    copy: LocalCopy
    now: Instant
    born_at: Instant


def forged(current: Configuration, far: int, liar: Party, other: Party) -> list[Message]:
    """Return messages of *liar* that *other* must not obey.

    Args:
        current: The configuration in force; *liar* is not its primary.
        far: Difference of their epoch and that of *current*.
        liar: Sends them.
        other: Receives them.
    """
    copy, epoch = other.copy, Epoch(current.epoch + far)
    mine = replace(current, epoch=epoch, primary=liar.node_id, primary_session=liar.session)
    others = replace(mine, primary=other.node_id, primary_session=other.session, sync=())
    future = Instant(other.now + 3600 * SECOND)
    return [
        Query(epoch=epoch, sent_at=future),
        Append(
            configuration=mine,
            allocation=copy.allocation or FORGED,
            previous=copy.tip.index,
            previous_hash=copy.tip.hash,
            entries=(),
            committed=copy.tip.index,
            sent_at=future,
        ),
        Part(
            configuration=mine,
            allocation=FORGED,
            replaces=copy.allocation,
            number=0,
            base=Base(epoch, Index(0), Instant(0), ORIGIN.hash),
            rows=(),
            is_last=True,
            sent_at=future,
            since=other.born_at,
        ),
        Succeed(configuration=others),
        Fenced(epoch=epoch),
        Appended(
            epoch=epoch,
            allocation=liar.copy.allocation or FORGED,
            match=Index(copy.tip.index + 1),
            gives_lease=True,
            sent_at=future,
        ),
    ]
