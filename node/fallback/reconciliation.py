"""What this node's sides tell their shards: claims first, then an account of each execution.

One load at a time goes to the primary, wherever that is, until it is committed there; then the
side forgets what it told. What a side still has is what it has to tell, so nothing needs to be kept
of it elsewhere, and a crash loses none of it. When a side has nothing more it is wiped.
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

LOAD_MAX = 64
"""Claims or accounts of one load: some 100 KB, unless tasks handed much on."""
LOAD_BYTES_MAX = 4 << 20
"""About what tasks gave, in one load; a single account may be more."""
PIECES_MAX = 4 * EXECUTIONS_MAX
"""Pieces of a side's history that are looked at: its executions, and what else its ledger has."""


@dataclass(slots=True)
class _Telling:
    """How far the telling of one side is: the jobs not yet claimed, None before they are listed."""

    unclaimed: list[ReconcileFires] | None = None
    is_under_way: bool = False


class Reconciliation:
    """What the sides of this node have to tell.

    Args:
        node_id: This node.
        fallback_shards: Of this node.
        delivery: Brings it.
        history: Of the sides.
    """

    def __init__(
        self, node_id: NodeId, fallback_shards: FallbackShards, delivery: Delivery, history: History
    ) -> None:
        self._node_id = node_id
        self._fallback_shards = fallback_shards
        self._delivery = delivery
        self._history = history
        self._tellings: dict[ShardId, _Telling] = {}

    def begin_anew(self, side: Shard) -> None:
        """Claim all once more: the side has decided more since."""
        telling = self._tellings.setdefault(side.id, _Telling())
        telling.unclaimed = None

    def untold_count(self, side: Shard) -> int:
        """Return how many executions of a side have ended and are not told."""
        return len(self._ended(side)[0])

    def tell(self, shard: Shard, side: Shard) -> None:
        """Have the next load brought; or wipe the side, if there is none and all has ended."""
        telling = self._tellings.setdefault(side.id, _Telling())
        if telling.is_under_way or not side.is_open or side.unreleased is not None:
            return
        if telling.unclaimed is None:
            telling.unclaimed = self._claims(side)
        if telling.unclaimed:
            load, rest = telling.unclaimed[:LOAD_MAX], telling.unclaimed[LOAD_MAX:]

            def claimed() -> None:
                if telling.unclaimed is not None:  # Else there is more to claim by now.
                    telling.unclaimed = rest

            self._bring(shard, telling, tuple(load), claimed)
            return
        pasts, others = self._ended(side)
        # What cannot be read cannot be told, and must not keep the rest from being told.
        lost = tuple(pasts.pop(each) for each in list(pasts) if not self._is_readable(side, each))
        if lost:
            self._fallback_shards.submit(side, Forget(pasts=lost))
            return
        if pasts:
            accounts = self._load(side, sorted(pasts, key=lambda past: self._place(side, past)))
            told = tuple(pasts[each.ended.execution.id] for each in accounts)
            forget = Forget(pasts=told)
            self._bring(
                shard, telling, accounts, lambda: self._fallback_shards.submit(side, forget)
            )
        elif others:
            # Fire times at which nothing ran: the claims have told of them.
            self._fallback_shards.submit(side, Forget(pasts=others))
        elif not side.state.executions:
            del self._tellings[side.id]
            self._fallback_shards.end(side)

    def _bring(
        self,
        shard: Shard,
        telling: _Telling,
        load: tuple[DeliveredCommand, ...],
        on_brought: Callable[[], None],
    ) -> None:
        telling.is_under_way = True

        def brought(refusal: str) -> None:
            del refusal  # There is none for good: both change nothing rather than refuse.
            telling.is_under_way = False
            on_brought()

        self._delivery.deliver(shard, load, brought)

    # -- what there is to tell ------------------------------------------------------------------

    def _claims(self, side: Shard) -> list[ReconcileFires]:
        claims: list[ReconcileFires] = []
        for job in side.state.jobs.values():
            rows = self._history.ledger(side.id, job.id, Instant(0), LATEST_INSTANT)
            entries = tuple(row for row in rows if isinstance(row, LedgerEntry))
            claim = ReconcileFires(
                job_id=job.id, version=job.version, node_id=self._node_id, entries=entries
            )
            if claim.entries:
                claims.append(claim)
        return claims

    def _ended(self, side: Shard) -> tuple[dict[ExecutionId, Past], tuple[Past, ...]]:
        """Return the executions that have ended, by id, and the other pieces of history."""
        pieces = self._history.older_than(side.id, LATEST_INSTANT, PIECES_MAX)
        ended = {
            ExecutionId(piece.pointer.key): piece
            for piece in pieces
            if piece.pointer.table == Table.PAST_EXECUTION
        }
        others = [piece for piece in pieces if piece.pointer.table != Table.PAST_EXECUTION]
        return ended, tuple(others)

    def _is_readable(self, side: Shard, execution_id: ExecutionId) -> bool:
        try:
            self._past(side, execution_id)
        except Undecodable as error:
            log.error(
                "account dropped",
                extra={"shard": side.id, "execution": execution_id, "reason": str(error)},
            )
            return False
        return True

    def _load(self, side: Shard, ids: list[ExecutionId]) -> tuple[ReconcileExecution, ...]:
        """Return the accounts of the first of *ids*, in their order; at least one."""
        allocation = side.replica.copy.allocation
        assert allocation is not None, side.id
        load: list[ReconcileExecution] = []
        size = 0
        for execution_id in ids[:LOAD_MAX]:
            execution, tasks = self._past(side, execution_id)
            account = StandInExecution(node_id=self._node_id, execution=execution, tasks=tasks)
            command = ReconcileExecution(fallback_copy=allocation, ended=account)
            size += payload_bytes(command)
            if load and size > LOAD_BYTES_MAX:
                break
            load.append(command)
        return tuple(load)

    def _past(self, side: Shard, execution_id: ExecutionId) -> tuple[Execution, tuple[Task, ...]]:
        execution = self._history.execution(side.id, execution_id)
        assert execution is not None, execution_id
        tasks = self._history.tasks(side.id, execution_id).values()
        return execution, tuple(map(outward_task, tasks))

    def _place(self, side: Shard, execution_id: ExecutionId) -> str:
        return reconciliation_order(self._past(side, execution_id)[0])
