"""Transfer of fallback shards to their shards: claims first, then a record of each execution.

One batch at a time is delivered to the primary; when the primary has committed the batch, the
fallback shard deletes its records. The history of a fallback shard thus contains the records that
are still to be transferred; no other state is needed, and a crash loses nothing. An empty fallback
shard is wiped.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from rota.core.decide.fallback import reconciliation_order
from rota.core.model.execution import Execution, Task
from rota.core.model.fallback_ids import outward_task
from rota.core.model.ids import ExecutionId, NodeId, ShardId
from rota.core.model.ledger import LedgerEntry
from rota.core.timing.instants import LATEST_INSTANT, Instant
from rota.core.vocabulary.changes import StandInExecution, Table
from rota.core.vocabulary.codec import Undecodable
from rota.core.vocabulary.commands import (
    Forget,
    Past,
    ReconcileExecution,
    ReconcileFires,
    payload_bytes,
)
from rota.node.attempts.delivery import Delivery
from rota.node.peers.messages import DeliveredCommand
from rota.node.shards.fallback_shards import EXECUTIONS_MAX, FallbackShards
from rota.node.shards.shard import Shard
from rota.storage.history import History

log = logging.getLogger(__name__)

BATCH_MAX = 64
"""The most claims or records in one batch: about 100 KB, unless tasks have large results."""
BATCH_BYTES_MAX = 4 << 20
"""The limit of the users' data in one batch; a single record may have more."""
PIECES_MAX = 4 * EXECUTIONS_MAX
"""The most rows of a fallback shard's history (executions and ledger) that are read at once."""


@dataclass(slots=True)
class _Transfer:
    """The transfer of one fallback shard.

    Attributes:
        unclaimed: The claims that are not confirmed; None before they are listed.
        is_under_way: Whether a batch is being delivered.
    """

    unclaimed: list[ReconcileFires] | None = None
    is_under_way: bool = False

    def restart(self) -> None:
        """List the claims again."""
        self.unclaimed = None

    def set_claims(self, claims: list[ReconcileFires]) -> None:
        """Set the claims that are to be delivered."""
        self.unclaimed = claims

    def claimed(self, count: int) -> None:
        """Remove the first *count* claims, which are confirmed."""
        if self.unclaimed is not None:  # Otherwise they are listed again, since there are more.
            self.unclaimed = self.unclaimed[count:]

    def begin_batch(self) -> None:
        """Record that a batch is being delivered."""
        self.is_under_way = True

    def end_batch(self) -> None:
        """Record that the batch is confirmed."""
        self.is_under_way = False


class Reconciliation:
    """The transfer of the fallback shards of this node to their shards.

    Args:
        node_id: This node.
        fallback_shards: The fallback shards of this node.
        delivery: Delivers batches.
        history: The history of the fallback shards.
    """

    def __init__(
        self, node_id: NodeId, fallback_shards: FallbackShards, delivery: Delivery, history: History
    ) -> None:
        self._node_id = node_id
        self._fallback_shards = fallback_shards
        self._delivery = delivery
        self._history = history
        self._transfers: dict[ShardId, _Transfer] = {}

    def restart(self, fallback: Shard) -> None:
        """Deliver all claims again, because the fallback shard makes further decisions."""
        self._transfers.setdefault(fallback.id, _Transfer()).restart()

    def ended_count(self, fallback: Shard) -> int:
        """Return the number of executions that have ended and are not transferred yet."""
        return len(self._ended(fallback)[0])

    def transfer(self, shard: Shard, fallback: Shard) -> None:
        """Deliver the next batch, or wipe the fallback shard if nothing is left in it."""
        transfer = self._transfers.setdefault(fallback.id, _Transfer())
        if transfer.is_under_way or not fallback.is_open or fallback.unreleased is not None:
            return
        if transfer.unclaimed is None:
            transfer.set_claims(self._claims(fallback))
        if transfer.unclaimed:
            batch = tuple(transfer.unclaimed[:BATCH_MAX])
            self._deliver(shard, transfer, batch, lambda: transfer.claimed(len(batch)))
            return
        pasts, others = self._ended(fallback)
        # Records that cannot be read must not block the other records.
        lost = tuple(
            pasts.pop(each) for each in list(pasts) if not self._is_readable(fallback, each)
        )
        if lost:
            self._fallback_shards.submit(fallback, Forget(pasts=lost))
            return
        if pasts:
            records = self._batch(
                fallback, sorted(pasts, key=lambda past: self._order(fallback, past))
            )
            sent = tuple(pasts[each.ended.execution.id] for each in records)
            forget = Forget(pasts=sent)
            self._deliver(
                shard, transfer, records, lambda: self._fallback_shards.submit(fallback, forget)
            )
        elif others:
            # The other rows are fire times, which the claims contain.
            self._fallback_shards.submit(fallback, Forget(pasts=others))
        elif not fallback.state.executions:
            del self._transfers[fallback.id]
            self._fallback_shards.end(fallback)

    def _deliver(
        self,
        shard: Shard,
        transfer: _Transfer,
        batch: tuple[DeliveredCommand, ...],
        on_delivered: Callable[[], None],
    ) -> None:
        transfer.begin_batch()

        def delivered(refusal: str) -> None:
            # The two kinds of commands are never refused for good; they change nothing instead.
            del refusal
            transfer.end_batch()
            on_delivered()

        self._delivery.deliver(shard, batch, delivered)

    # -- the rows -------------------------------------------------------------------------------

    def _claims(self, fallback: Shard) -> list[ReconcileFires]:
        claims: list[ReconcileFires] = []
        for job in fallback.state.jobs.values():
            rows = self._history.ledger(fallback.id, job.id, Instant(0), LATEST_INSTANT)
            entries = tuple(row for row in rows if isinstance(row, LedgerEntry))
            claim = ReconcileFires(
                job_id=job.id, version=job.version, node_id=self._node_id, entries=entries
            )
            if claim.entries:
                claims.append(claim)
        return claims

    def _ended(self, fallback: Shard) -> tuple[dict[ExecutionId, Past], tuple[Past, ...]]:
        """Return the executions that have ended, by id, and the other rows of history."""
        pieces = self._history.older_than(fallback.id, LATEST_INSTANT, PIECES_MAX)
        ended = {
            ExecutionId(piece.pointer.key): piece
            for piece in pieces
            if piece.pointer.table == Table.PAST_EXECUTION
        }
        others = [piece for piece in pieces if piece.pointer.table != Table.PAST_EXECUTION]
        return ended, tuple(others)

    def _is_readable(self, fallback: Shard, execution_id: ExecutionId) -> bool:
        try:
            self._past(fallback, execution_id)
        except Undecodable as error:
            log.error(
                "stand-in record dropped",
                extra={"shard": fallback.id, "execution": execution_id, "reason": str(error)},
            )
            return False
        return True

    def _batch(self, fallback: Shard, ids: list[ExecutionId]) -> tuple[ReconcileExecution, ...]:
        """Return the records of the first of *ids*, in the order of *ids*; at least one."""
        allocation = fallback.replica.copy.allocation
        assert allocation is not None, fallback.id
        batch: list[ReconcileExecution] = []
        size = 0
        for execution_id in ids[:BATCH_MAX]:
            execution, tasks = self._past(fallback, execution_id)
            record = StandInExecution(node_id=self._node_id, execution=execution, tasks=tasks)
            command = ReconcileExecution(fallback_copy=allocation, ended=record)
            size += payload_bytes(command)
            if batch and size > BATCH_BYTES_MAX:
                break
            batch.append(command)
        return tuple(batch)

    def _past(
        self, fallback: Shard, execution_id: ExecutionId
    ) -> tuple[Execution, tuple[Task, ...]]:
        execution = self._history.execution(fallback.id, execution_id)
        assert execution is not None, execution_id
        tasks = self._history.tasks(fallback.id, execution_id).values()
        return execution, tuple(map(outward_task, tasks))

    def _order(self, fallback: Shard, execution_id: ExecutionId) -> str:
        return reconciliation_order(self._past(fallback, execution_id)[0])
