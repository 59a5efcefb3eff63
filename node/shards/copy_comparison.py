"""Comparison of the copies of each shard: digests of their rows after the same entry (R43).

    primary                          backup
      AskDigest ------------------->   after entry N, which is the newest on the primary
                <------------------- GiveDigest   the digest; none if a later entry is applied or
                                                  too many digests wait

N is the newest entry when the request is sent, so no copy has applied a later entry, unless the
later entry overtakes the request. A copy that has applied N reads the rows at once. Otherwise the
`Mark` of the shard has the rows read after N and before the next entry
(`rota.node.shards.shard_loop`). The rows are read from a snapshot of the store, in pieces and with
pauses, while other rows are written.

A difference is logged and counted, and the data of all copies stay unchanged, since only an
operator can decide which copy is right.
"""

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from rota.core.model.ids import AllocationId, Epoch, Index, NodeId, ShardId
from rota.core.replication.row_digests import DigestVerdict, Result, RowsDigest, compare
from rota.core.timing.instants import HOUR, SECOND, Duration, Instant, later
from rota.node.peers.messages import AskDigest, GiveDigest
from rota.node.peers.network import Network
from rota.node.shards.local_shards import Shards
from rota.node.shards.shard import Mark, Shard
from rota.node.system.clock import Clock
from rota.node.system.entropy import Entropy
from rota.storage.row_scan import RowScan
from rota.storage.store import Store

log = logging.getLogger(__name__)

COMPARE_EVERY = Duration(6 * HOUR)
"""The duration of a round, in which a node compares all shards, one after the other."""
ANSWERED_SHARE = 36
"""A comparison ends after a round's duration divided by this: 10 min, enough for 20 million
rows."""
TRIES = 3
"""The most comparisons of a shard in one turn, if they are incomplete."""
RETRY_SHARE = 60 * ANSWERED_SHARE
"""The pause between two tries is a round's duration divided by this: 10 s."""
READINGS_MAX = 4
"""The most digests that may wait on one node; each of them keeps old data of the store."""
PIECE_ROWS = 256
"""The most rows read at once, which takes 0.4 ms of the event loop."""
PIECE_BYTES = 64 << 10
PAUSE_S = 0.005
"""The pause between two pieces."""

GiveResult = Callable[[bytes | None], None]
"""Called with the digest after the requested entry; None if there is none."""


@dataclass(frozen=True, slots=True)
class _Reading:
    """Rows to be digested."""

    rows: RowScan
    give: GiveResult


@dataclass(slots=True)
class _Comparison:
    """A comparison under way.

    Attributes:
        copies: The copies that count, by node, including the copy of this node.
        digests: The digests received so far, by node.
        unanswered: The nodes that sent neither a digest nor a refusal.
    """

    shard: Shard
    number: int
    epoch: Epoch
    index: Index
    copies: dict[NodeId, AllocationId]
    unanswered: set[NodeId]
    digests: dict[NodeId, bytes] = field(default_factory=dict[NodeId, bytes])
    answered: asyncio.Event = field(default_factory=asyncio.Event)

    def put(self, node_id: NodeId, digest: bytes | None) -> None:
        """Add the response of a node; one without a digest ends the wait for other responses."""
        self.unanswered.discard(node_id)
        if digest is not None:
            self.digests[node_id] = digest
        if digest is None or not self.unanswered:
            self.answered.set()

    @property
    def is_current(self) -> bool:
        """Whether the configuration is still that of the request."""
        primary = self.shard.replica.primary
        return primary is not None and primary.configuration.epoch == self.epoch


class CopyComparison:
    """Comparison of the copies of shards, on the primary and on the nodes of the other copies.

    Args:
        shards: The shards of this node.
        store: The store of the shards.
        network: The network to the other nodes.
        node_id: This node.
        clock: The clock of this node.
        entropy: The source of random numbers of this node.
        every: The duration of a round, in which each shard has one turn; the pause between two
            turns is between 0.5 and 1.5 times an equal share of the round.

    Attributes:
        results: The number of comparisons made as primary, by the value of their `Result`.
    """

    def __init__(
        self,
        shards: Shards,
        store: Store,
        network: Network,
        node_id: NodeId,
        *,
        clock: Clock,
        entropy: Entropy,
        every: Duration,
    ) -> None:
        self.results: Counter[str] = Counter({result.value: 0 for result in Result})
        self._shards = shards
        self._store = store
        self._network = network
        self._node_id = node_id
        self._clock = clock
        self._entropy = entropy
        self._pause_s = every / SECOND / len(shards)
        self._answered_within = Duration(every // ANSWERED_SHARE)
        self._retry_s = every / SECOND / RETRY_SHARE
        self._is_running = False
        self._comparison: _Comparison | None = None
        self._readings: deque[_Reading] = deque()
        self._has_readings = asyncio.Event()
        self._diverged: set[ShardId] = set()

    @property
    def diverged(self) -> frozenset[ShardId]:
        """The shards that are open here and whose copies differed in the last comparison."""
        return frozenset(each for each in self._diverged if self._shards[each].is_open)

    async def run(self) -> None:
        """Compare one shard after the other, and make requested digests, until cancelled."""
        self._is_running = True
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._digest_readings())
                group.create_task(self._take_turns())
        finally:
            self._is_running = False
            for reading in self._readings:
                reading.rows.close()
            self._readings.clear()

    # -- the primary's part ---------------------------------------------------------------------

    async def _take_turns(self) -> None:
        await asyncio.sleep(self._pause_s)
        # A round starts at a random shard, so that a node that often restarts compares all shards.
        number = self._entropy.draw() % len(self._shards)
        while True:
            await self._compare(self._shards[ShardId(number)])
            number = (number + 1) % len(self._shards)
            await asyncio.sleep(self._pause_s * (0.5 + self._entropy.draw() / (1 << 64)))

    async def _compare(self, shard: Shard) -> None:
        for _ in range(TRIES):
            comparison = self._begin(shard)
            if comparison is None:
                return
            self._comparison = comparison
            try:
                async with asyncio.timeout(self._answered_within / SECOND):
                    await comparison.answered.wait()
            except TimeoutError:
                pass  # The digests received so far are compared.
            finally:
                self._comparison = None
            verdict = DigestVerdict(Result.INCOMPLETE)
            if comparison.is_current:
                verdict = compare(comparison.digests, comparison.copies)
            self._note(comparison, verdict)
            if verdict.result is not Result.INCOMPLETE:
                return
            await asyncio.sleep(self._retry_s)

    def _begin(self, shard: Shard) -> _Comparison | None:
        """Request digests of all copies of a shard; None if they are not to be compared now.

        Copies are not compared while a change of copies is under way: the rows of a copy that is
        being added may be ahead of the entry, because its snapshot was.
        """
        primary = shard.replica.primary
        if primary is None or not shard.may_answer(self._clock.elapsed()) or primary.changes:
            return None
        configuration = primary.configuration
        copies = {copy.node_id: copy.allocation for copy in configuration.sync}
        if len(copies) < 2:
            return None
        comparison = _Comparison(
            shard=shard,
            number=self._entropy.draw(),
            epoch=configuration.epoch,
            index=shard.replica.copy.tip.index,
            copies=copies,
            unanswered=set(copies),
        )
        for node_id, allocation in copies.items():
            question = AskDigest(
                epoch=comparison.epoch,
                allocation=allocation,
                index=comparison.index,
                number=comparison.number,
            )
            if node_id == self._node_id:
                self._digest_at(
                    shard, question, lambda digest: comparison.put(self._node_id, digest)
                )
            else:
                self._network.send(node_id, shard.id, question)
        return comparison

    def _note(self, comparison: _Comparison, verdict: DigestVerdict) -> None:
        self.results[verdict.result.value] += 1
        shard = comparison.shard.id
        if verdict.result is Result.EQUAL:
            self._diverged.discard(shard)
        elif verdict.result is Result.DIFFERENT:
            self._diverged.add(shard)
            log.error(
                "copies differ",
                extra={
                    "shard": shard,
                    "index": comparison.index,
                    "digests": {node: each.hex() for node, each in comparison.digests.items()},
                    "odd": verdict.odd,
                },
            )

    def given(self, shard: Shard, sender: NodeId, message: GiveDigest) -> bool:
        """Add a response; return False if it belongs to no request of this node (R42)."""
        comparison = self._comparison
        if (
            comparison is None
            or comparison.shard is not shard
            or comparison.number != message.number
            or sender not in comparison.unanswered
        ):
            return False
        comparison.put(sender, message.digest)
        return True

    # -- the part of each copy ------------------------------------------------------------------

    def asked(self, shard: Shard, sender: NodeId, message: AskDigest) -> None:
        """Handle the request of a primary; the response is sent when the digest is complete."""

        def give(digest: bytes | None) -> None:
            answer = GiveDigest(number=message.number, digest=digest)
            self._network.send(sender, shard.id, answer)

        self._digest_at(shard, message, give)

    def _digest_at(self, shard: Shard, question: AskDigest, give: GiveResult) -> None:
        """Digest the rows after the requested entry, and before the next one."""
        deadline = later(self._clock.elapsed(), self._answered_within)
        if shard.file.applied >= question.index:
            self._read(shard, question, deadline, give)
        else:
            # The mark replaces an earlier one, whose comparison has ended.
            read = partial(self._read, shard, question, deadline, give)
            shard.set_mark(Mark(question.index, read))

    def _read(self, shard: Shard, question: AskDigest, deadline: Instant, give: GiveResult) -> None:
        """Digest the rows as they are now; refuse if they are not the requested ones."""
        newest = shard.replica.newest
        is_meant = (
            newest is not None
            and newest.epoch == question.epoch
            and newest.allocation_of(self._node_id) == question.allocation
            and shard.replica.copy.allocation == question.allocation
            and shard.file.applied == question.index
        )
        has_room = self._is_running and len(self._readings) < READINGS_MAX
        if not is_meant or not has_room or self._clock.elapsed() > deadline:
            give(None)
            return
        self._readings.append(_Reading(RowScan(self._store, shard.id), give))
        self._has_readings.set()

    async def _digest_readings(self) -> None:
        while True:
            await self._has_readings.wait()
            while self._readings:
                reading = self._readings[0]  # Stays until it is done, so that `run` can close it.
                digest = await _digest_of(reading.rows)
                reading.rows.close()
                self._readings.popleft()
                reading.give(digest)
            self._has_readings.clear()


async def _digest_of(scan: RowScan) -> bytes:
    """Return the digest of all rows of *scan*."""
    digest = RowsDigest()
    while rows := scan.piece(PIECE_ROWS, PIECE_BYTES):
        digest.add(rows)
        await asyncio.sleep(PAUSE_S)
    return digest.value()
