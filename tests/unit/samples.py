"""Sound messages of every kind: between nodes, and between a node and its warden."""

from typing import Any

import msgspec

from rota.core.model.attempt import AttemptKey, Ending, Order, Outcome, Report, Token
from rota.core.model.hook import HookEvent
from rota.core.model.ids import AllocationId, Epoch, Index, NodeId, Session, ShardId
from rota.core.model.ledger import LedgerEntry
from rota.core.model.work import Work
from rota.core.replication.messages import (
    Append,
    Appended,
    Base,
    Beacon,
    Fenced,
    Holding,
    Mismatch,
    Part,
    PartTaken,
    Query,
    QuietBeat,
    QuietCopy,
    QuietResponse,
    Succeed,
)
from rota.core.replication.row_digests import DIGEST_BYTES
from rota.core.timing.instants import Duration
from rota.core.vocabulary.changes import (
    Hooked,
    Name,
    Occurred,
    StandInExecution,
    Subscribe,
    Succeeded,
    Unsubscribe,
)
from rota.core.vocabulary.codec import encode_record
from rota.core.vocabulary.commands import (
    FinishAttempt,
    ReceiveMessage,
    ReconcileExecution,
    ReconcileFires,
    ReportAttempt,
)
from rota.core.vocabulary.journal import ORIGIN
from rota.core.vocabulary.shard_configuration import Configuration, Copy
from rota.executor.warden import messages as warden
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
from unit.core.vocabulary.test_codec import (
    CALL_MESSAGES,
    EXECUTION,
    FINISHED_TASK,
    JOB,
    NOON,
    RECORDS,
    STOOD_IN_FOR,
)

KEY = AttemptKey(EXECUTION, "main", 1)
TOKEN = Token(Epoch(3), Index(41))
ORDER = Order(key=KEY, token=TOKEN, work=Work(shell="true"), fire_at=NOON)
ENDING = Ending(outcome=Outcome.FAILED, started_at=NOON, finished_at=NOON, exit_code=3)
NODE, ALLOCATION = NodeId("node-a"), AllocationId("a1")
BEACON = Beacon(wall=NOON, at=NOON, echo=None, is_fit=True, free=3)
QUIET_COPY = QuietCopy(ShardId(3), Epoch(7), ALLOCATION, Index(41))
CONFIGURATION = Configuration(
    epoch=Epoch(7),
    primary=NODE,
    primary_session=Session("5e55"),
    sync=(Copy(NODE, ALLOCATION), Copy(NodeId("node-b"), AllocationId("b1"))),
)
NAME = Name(JOB)
[FIRED] = [record for _, record in RECORDS if isinstance(record, LedgerEntry)]

SENT: list[Sent] = [
    Append(
        configuration=CONFIGURATION,
        allocation=ALLOCATION,
        previous=Index(0),
        previous_hash=ORIGIN.hash,
        entries=(b"entry",),
        committed=Index(0),
        sent_at=NOON,
        beacon=BEACON,
    ),
    Appended(epoch=Epoch(7), allocation=ALLOCATION, match=Index(1), gives_lease=True, sent_at=NOON),
    Mismatch(
        epoch=Epoch(7),
        allocation=ALLOCATION,
        previous=Index(9),
        last=Index(4),
        committed=Index(3),
        gives_lease=False,
        sent_at=NOON,
    ),
    Fenced(epoch=Epoch(8)),
    Query(epoch=Epoch(7), sent_at=NOON),
    Holding(epoch=Epoch(7), allocation=None, committed=Index(0), sent_at=NOON),
    Part(
        configuration=CONFIGURATION,
        allocation=ALLOCATION,
        replaces=None,
        number=0,
        base=Base(Epoch(7), Index(1), NOON, bytes(8)),
        rows=((b"\x02key", encode_record(NAME)),),
        is_last=True,
        sent_at=NOON,
    ),
    PartTaken(epoch=Epoch(7), allocation=ALLOCATION, number=0, sent_at=NOON),
    Succeed(configuration=CONFIGURATION),
    Deliver(
        number=1,
        commands=(
            FinishAttempt(attempt=KEY, token=TOKEN, ending=ENDING),
            ReportAttempt(attempt=KEY, token=TOKEN, report=Report(percent=50, checkpoint=b"7")),
            ReceiveMessage(message=Subscribe(upstream="a/b", dependent="c/d"), sender=ShardId(3)),
            ReceiveMessage(message=Unsubscribe(upstream="a/b", dependent="c/d"), sender=ShardId(3)),
            ReceiveMessage(
                message=Succeeded(upstream="a/b", dependent="c/d", index=Index(9)),
                sender=ShardId(3),
                outbox_key="9/0",
            ),
            ReceiveMessage(
                message=Hooked(
                    upstream="a/b",
                    dependent="a/c",
                    job_id=JOB,
                    execution_id=KEY.execution_id,
                    event=HookEvent.FAILURE,
                    parameters="{}",
                ),
                sender=ShardId(3),
            ),
            ReceiveMessage(
                message=Occurred(upstream="@a/paid", dependent="a/c", event="{}"),
                sender=ShardId(3),
            ),
            *(ReceiveMessage(message=each, sender=ShardId(3)) for each in CALL_MESSAGES),
            ReconcileFires(job_id=JOB, version=1, node_id=NODE, entries=(FIRED,)),
            ReconcileExecution(
                fallback_copy=AllocationId("side-1"),
                ended=StandInExecution(
                    node_id=NODE, execution=STOOD_IN_FOR, tasks=(FINISHED_TASK,)
                ),
            ),
        ),
    ),
    DeliveryReceipt(number=1, refusal="gone"),
    AskLease(incarnation=1, epoch=Epoch(7), attempts=(KEY,), sent_at=NOON),
    GiveLease(stop=(KEY,), sent_at=NOON),
    AskList(),
    Dispatch(order=ORDER),
    AskSlots(incarnation=1, number=1, count=2),
    LendSlots(number=1, count=2, session=Session("5e55")),
    ReturnSlots(count=1),
    StandIn(is_standing=True),
    Served(),
    AskDigest(epoch=Epoch(7), allocation=ALLOCATION, index=Index(41), number=1),
    GiveDigest(number=1, digest=bytes(DIGEST_BYTES)),
    GiveDigest(number=1, digest=None),
    CoordinationLost(generation=1),
    ReportUse(session=Session("5e55"), uses={"team-a": (2, 1)}),
    QuietBeat(session=Session("5e55"), number=1, copies=(QUIET_COPY,), beacon=BEACON),
    QuietResponse(session=Session("5e55"), number=1, refused=(QUIET_COPY.shard,), beacon=BEACON),
]


def fields_of(message: object) -> Any:
    """Return the fields of a message as they are sent."""
    return msgspec.msgpack.decode(msgspec.msgpack.encode(message))


TO_WARDEN: list[warden.ToWarden] = [
    warden.Hello(warden.VERSION),
    warden.Launch("7/s", ORDER),
    warden.Allow({"7/s": NOON}),
    warden.Stop(KEY, Duration(5)),
    warden.Forget(KEY),
    warden.Read(1, "process", KEY, 0, 100, True),
    warden.Expire(2, "process", NOON),
    warden.OnDeath((warden.OnDeathRequest(("http://a:1/",), b"x", {"a": "b"}),)),
    warden.Beat(),
    warden.Retire(Duration(0)),
]
TO_NODE: list[warden.ToNode] = [
    warden.Held(ORDER, ENDING, Report(percent=50, checkpoint=b"\0")),
    warden.Met(1, "abc"),
    warden.Ended(KEY, ENDING),
    warden.Reported(KEY, Report(percent=0)),
    warden.Data(3, True, False, b"xyz"),
    warden.Expired(2, 7),
    warden.Beaten(),
]
