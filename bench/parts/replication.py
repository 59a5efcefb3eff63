"""Entries per second through three replicas in one process, with no disk and no network.

    python -m bench.parts.replication            one entry per message, and 32

What it costs one core to decide all that is decided for an entry, at the primary and both backups:
append, send, check the chain, answer, count, commit. Messages are handed over as they are, and
count as durable at once. A primary alone does less than half of it.
"""

import argparse
from time import process_time

from rota.core.model.ids import AllocationId, Epoch, Index, NodeId, Session, ShardId
from rota.core.replication.authority.liveness import Liveness
from rota.core.replication.coordinator_continuity import CoordinatorContinuity
from rota.core.replication.local_copy import Rows, Stored
from rota.core.replication.messages import Message
from rota.core.replication.primary import WINDOW, Copies
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
    """A store that is never asked: what is in flight is in memory."""

    applied = Index(0)

    def entry(self, index: Index) -> bytes:
        """Return nothing."""
        raise AssertionError(index)

    def rows(self, after: bytes | None, size_max: int) -> Rows:
        """Return nothing."""
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
            f"{batch:2} entries a message: {rate:8,.0f} entries/s, {1e6 / rate:5.1f} us of CPU each"
        )


def make_replicas() -> dict[NodeId, Replica]:
    """Return three replicas that count, the first of them primary and active."""
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
            copies=Copies(),
        )
        replicas[name].learn(configuration, NOW)
    settle(replicas)
    assert replicas[NAMES[0]].is_active
    return replicas


def replicate(replicas: dict[NodeId, Replica], count: int, batch: int) -> None:
    """Commit *count* entries, *batch* to a message, as many at once as the window admits."""
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
    """Do what a replica wants done: everything is durable at once."""
    ready = replicas[name].take_ready()
    MAIL.extend((name, receiver, message) for receiver, message in ready.sends)
    if ready.writes:
        replicas[name].made_durable(ready.number)
        ready = replicas[name].take_ready()
        MAIL.extend((name, receiver, message) for receiver, message in ready.sends)


def settle(replicas: dict[NodeId, Replica]) -> None:
    """Deliver everything, to the end."""
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
