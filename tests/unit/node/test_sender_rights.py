"""Rights to send each kind of message, by role (R42)."""

from typing import get_args

import pytest

from rota.core.model.ids import AllocationId, Epoch, NodeId, Session
from rota.core.replication.messages import Message, QuietMessage
from rota.core.vocabulary.shard_configuration import Configuration, Copy
from rota.node.peers.messages import (
    AskDigest,
    AskLease,
    AskList,
    AskSlots,
    CoordinationLost,
    Deliver,
    DeliveryReceipt,
    Dispatch,
    GiveDigest,
    GiveLease,
    LendSlots,
    ReportUse,
    ReturnSlots,
    Sent,
    Served,
    StandIn,
)
from rota.node.peers.sender_rights import LEAST, Role, may_send, role_of

NEWEST = Configuration(
    epoch=Epoch(4),
    primary=NodeId("a"),
    primary_session=Session("s"),
    sync=(Copy(NodeId("a"), AllocationId("1")), Copy(NodeId("b"), AllocationId("2"))),
)
MEMBERS = {NodeId("a"), NodeId("b"), NodeId("c")}

FROM_MEMBERS = {
    *get_args(Message),
    *get_args(QuietMessage),
    Deliver,
    AskLease,
    AskSlots,
    LendSlots,
    ReturnSlots,
    StandIn,
    CoordinationLost,
    ReportUse,
}
FROM_COPIES = {Served, GiveDigest}
FROM_THE_PRIMARY = {Dispatch, GiveLease, AskList, DeliveryReceipt, AskDigest}


def takers(kind: type[Sent]) -> set[Role]:
    """Return the roles whose messages of that kind are to be taken."""
    if kind in FROM_THE_PRIMARY:
        return {Role.PRIMARY}
    if kind in FROM_COPIES:
        return {Role.COPY, Role.PRIMARY}
    assert kind in FROM_MEMBERS
    return {Role.MEMBER, Role.COPY, Role.PRIMARY}


def kinds() -> list[type[Sent]]:
    """Return all kinds of messages between nodes."""
    return list(get_args(Sent))


def test_every_kind_of_message_is_in_the_table_and_nothing_else() -> None:
    assert set(LEAST) == set(kinds())


@pytest.mark.parametrize(
    ("sender", "role"),
    [("a", Role.PRIMARY), ("b", Role.COPY), ("c", Role.MEMBER), ("d", Role.STRANGER)],
)
@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.__name__)
def test_a_message_is_accepted_from_senders_with_the_right(
    kind: type[Sent], sender: str, role: Role
) -> None:
    assert may_send(kind, NodeId(sender), NEWEST, MEMBERS) is (role in takers(kind))


@pytest.mark.parametrize(
    ("node_id", "newest", "role"),
    [
        ("a", NEWEST, Role.PRIMARY),
        ("b", NEWEST, Role.COPY),
        ("c", NEWEST, Role.MEMBER),
        ("d", NEWEST, Role.STRANGER),
        ("a", None, Role.MEMBER),
        ("d", None, Role.STRANGER),
    ],
)
def test_a_role_is_what_the_coordinator_says(
    node_id: str, newest: Configuration | None, role: Role
) -> None:
    assert role_of(NodeId(node_id), newest, MEMBERS) is role


def test_a_primary_that_is_not_on_record_is_a_stranger() -> None:
    assert role_of(NEWEST.primary, NEWEST, MEMBERS - {NEWEST.primary}) is Role.STRANGER
