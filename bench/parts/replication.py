"""Benchmark of replication: entries per second of three replicas, without disk and network.

    python -m bench.parts.replication            one entry per message, then 32

It measures the CPU of one core for all steps of an entry at the primary and both backups: append,
send, check the chain, respond, count, commit. Messages are passed in one process without encoding,
and writes count as durable at once. A primary alone does less than half of this work.
"""

import argparse
from time import process_time

from rota.core.model.ids import AllocationId, Epoch, Index, NodeId, Session, ShardId
from rota.core.replication.authority.liveness import Liveness
from rota.core.replication.coordinator_continuity import CoordinatorContinuity
from rota.core.replication.local_copy import Rows, Stored
from rota.core.replication.messages import Message
from rota.core.replication.primary import WINDOW, Copies
from rota.core.replication.quiet_beats import QuietBeats
from rota.core.replication.replica import Replica
from rota.core.replication.timeouts import Timing
from rota.core.replication.transfer_limits import TransferLimits
from rota.core.timing.instants import HOUR, Instant
from rota.core.vocabulary.journal import ORIGIN, EntryKind
from rota.core.vocabulary.shard_configuration import Configuration, Copy

NAMES = [NodeId("a"), NodeId("b"), NodeId("c")]
BODY = bytes(400)
SESSION = Session("s")
NOW = Instant(HOUR)


class Nothing:
    """A store that is never read: all entries in flight are in memory."""

    applied = Index(0)

    def entry(self, index: Index) -> bytes:
        """Fail: no entry is read."""
        raise AssertionError(index)

    def rows(self, after: bytes | None, size_max: int) -> Rows:
        """Fail: no rows are read."""
        raise AssertionError((after, size_max))


def main() -> None:
    """Measure, and print a line for each size of batch."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, default=50_000)
    options = parser.parse_args()
    for batch in (1, 32):
        replicas = make_replicas()
        began = process_time()
        replicate(replicas, options.entries, batch)
        took = process_time() - began
        rate = options.entries / took
        print(
            f"{batch:2} entries per message: {rate:8,.0f} entries/s, "
            f"{1e6 / rate:5.1f} us of CPU each"
        )


def make_replicas() -> dict[NodeId, Replica]:
    """Return three replicas that count; the first is the active primary."""
    configuration = Configuration(
        epoch=Epoch(1),
        primary=NAMES[0],
        primary_session=SESSION,
        sync=tuple(Copy(name, AllocationId(name)) for name in NAMES),
    )
    replicas: dict[NodeId, Replica] = {}
    for name in NAMES:
        stored = Stored(
            epoch=Epoch(0),
            allocation=AllocationId(name),
            before_first=ORIGIN,
            tip=ORIGIN,
            committed=Index(0),
        )
        liveness = Liveness(name, born_at=Instant(0), session_end=Instant(2 * HOUR))
        liveness.session = SESSION if name == NAMES[0] else Session(name)
        replicas[name] = Replica(
            ShardId(0),
            stored,
            Nothing(),
            liveness=liveness,
            continuity=CoordinatorContinuity(),
            timing=Timing(),
            transfers=TransferLimits(),
            quiet_beats=QuietBeats(liveness, Timing()),
            copies=Copies(),
        )
        replicas[name].learn(configuration, NOW)
    settle(replicas)
    assert replicas[NAMES[0]].is_active
    return replicas


def replicate(replicas: dict[NodeId, Replica], count: int, batch: int) -> None:
    """Commit *count* entries, *batch* per message, half of the window at a time."""
    primary = replicas[NAMES[0]]
    at = NOW
    goal = primary.copy.committed + count
    while primary.copy.committed < goal:
        left = min(goal - primary.copy.tip.index, WINDOW // 2)
        for _ in range(0, left, batch):
            for _ in range(batch):
                at = Instant(at + 1)
                primary.propose(BODY, at, NOW, EntryKind.CHANGES)
            turn(replicas, NAMES[0])
        settle(replicas)


MAIL: list[tuple[NodeId, NodeId, Message]] = []


def turn(replicas: dict[NodeId, Replica], name: NodeId) -> None:
    """Carry out the writes and sends of a replica; its writes are durable at once."""
    ready = replicas[name].take_ready()
    MAIL.extend((name, receiver, message) for receiver, message in ready.sends)
    if ready.writes:
        replicas[name].made_durable(ready.number)
        ready = replicas[name].take_ready()
        MAIL.extend((name, receiver, message) for receiver, message in ready.sends)


def settle(replicas: dict[NodeId, Replica]) -> None:
    """Deliver messages until there are none."""
    for name in replicas:
        turn(replicas, name)
    while MAIL:
        batch = MAIL.copy()
        MAIL.clear()
        for sender, receiver, message in batch:
            replicas[receiver].receive(message, sender, NOW)
            turn(replicas, receiver)


if __name__ == "__main__":
    main()
