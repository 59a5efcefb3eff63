"""The signatures of the newest changes of a node's shards, once a minute."""

import logging
from collections.abc import Callable

from rota.core.model.ids import ShardId
from rota.core.timing.instants import MINUTE, Duration, later
from rota.core.vocabulary.change_chain import (
    ChainCheck,
    ChangeChain,
    SignedHead,
    position_of,
)
from rota.core.vocabulary.commands import SignHead
from rota.node.secrets.change_signatures import fault_of_signature, sign_head
from rota.node.shards.local_shards import Shards
from rota.node.shards.shard import Answer, Shard
from rota.node.system.clock import Clock
from rota.storage.user_changes import UserChanges
from rota.wire.key_rings import KeyRing

log = logging.getLogger(__name__)
audit_log = logging.getLogger("rota.audit")

SIGN_EVERY = Duration(MINUTE)
ROWS_PER_ROUND = 500
"""The most changes that are checked before a signature, which takes 1 to 2 ms."""


class HeadSigner:
    """The signer of the newest changes.

    A change is signed only if it follows from the one that was signed before: else a rewritten
    chain would get a signature as soon as a node has started with it.

    Args:
        shards: The shards of this node.
        changes: The changes in their history.
        ring: Returns the present key ring; None without one.
        clock: The clock of this node.
        cluster: The name of the cluster.
        keep_for: The time for which changes are kept.
    """

    def __init__(
        self,
        shards: Shards,
        changes: UserChanges,
        ring: Callable[[], KeyRing | None],
        clock: Clock,
        *,
        cluster: str,
        keep_for: Duration,
    ) -> None:
        self._shards = shards
        self._changes = changes
        self._ring = ring
        self._clock = clock
        self._cluster = cluster
        self._keep_for = keep_for
        self._signs_at = {
            shard.id: later(clock.elapsed(), Duration(SIGN_EVERY * place // len(shards)))
            for place, shard in enumerate(shards)
        }
        self._refused: set[ShardId] = set()
        """Shards whose changes do not follow from the signed one, which is logged once."""

    def sign(self, shard: Shard) -> None:
        """Sign the newest change of an open shard, if that is due."""
        now = self._clock.elapsed()
        if now < self._signs_at[shard.id]:
            return
        self._signs_at[shard.id] = later(now, SIGN_EVERY)
        ring, chain, before = self._ring(), shard.state.chain, shard.state.signed_head
        if ring is None or not chain.last:
            return
        if before and before.number == chain.last and before.signer == ring.in_use:
            return
        found = self._next_head(shard, chain, before, ring)
        if found is None:
            return
        key, digest = found
        head = sign_head(
            key, digest, ring, cluster=self._cluster, shard=shard.id, at=self._clock.now()
        )

        if before is None:
            # Nothing proves these changes: without a new key ring, a signature was removed.
            facts = {"shard": shard.id, "number": head.number}
            audit_log.warning("changes signed for the first time", extra=facts)

        def signed(answer: Answer) -> None:
            del answer  # If it was refused, a later change is signed in a minute.

        self._shards.submit(shard, SignHead(head=head), signed)

    def _next_head(
        self, shard: Shard, chain: ChangeChain, before: SignedHead | None, ring: KeyRing
    ) -> tuple[str, bytes] | None:
        """Return the key and the hash of the change to be signed; None for none."""
        found: tuple[str, bytes] | str | None
        if before is None:
            found = self._newest(shard)
        else:
            found = fault_of_signature(before, ring, cluster=self._cluster, shard=shard.id)
            found = found or self._follow(shard, chain, before)
        if isinstance(found, tuple):
            found = _fault_of_end(chain, *found) or found
        if not isinstance(found, str):
            self._refused.discard(shard.id)
            return found
        if shard.id not in self._refused:
            self._refused.add(shard.id)
            log.error("changes not signed", extra={"shard": shard.id, "reason": found})
        return None

    def _newest(self, shard: Shard) -> tuple[str, bytes] | None:
        """Return the key and the hash of the newest change; None if none can be read."""
        key = self._changes.newest(shard.id)
        row = self._changes.row(shard.id, key) if key is not None else None
        return (key, row.hash) if key is not None and row is not None else None

    def _follow(
        self, shard: Shard, chain: ChangeChain, before: SignedHead
    ) -> tuple[str, bytes] | str | None:
        """Return the key and the hash of the last change that follows from *before*, or a fault.

        None means that there is none yet, because the newest changes are not committed.
        """
        if chain.last < before.number:
            return f"change {before.number} was signed, and the newest change is {chain.last}"
        if before.number >= chain.first:
            row = self._changes.row(shard.id, before.key)
            if row is None or row.hash != before.hash:
                return f"change {before.number} is not the one that was signed"
        elif before.number < chain.first - 1 and not self._has_expired(before):
            return f"change {before.number} was signed, and was deleted before its time"
        first = max(before.number + 1, chain.first)
        anchor = before.hash if first == before.number + 1 else chain.anchor
        check = ChainCheck(ChangeChain(first=first, last=chain.last, anchor=anchor))
        found = before.key, before.hash
        for key, row in self._changes.chain(shard.id, before.key, ROWS_PER_ROUND):
            check.add(key, row)
            if check.fault or row is None:
                return check.fault
            found = key, row.hash
        is_new = found[0] != before.key
        return found if is_new or chain.last == before.number else None

    def _has_expired(self, head: SignedHead) -> bool:
        return position_of(head.key)[0] < self._clock.now() - self._keep_for


def _fault_of_end(chain: ChangeChain, key: str, digest: bytes) -> str:
    """Return why a change is not one of *chain*; empty if it may be signed."""
    number = position_of(key)[1]
    if number > chain.last:
        return f"change {number} was inserted: the newest change is {chain.last}"
    if number == chain.last and digest != chain.hash:
        return f"change {number} is not the one that the shard's state names"
    return ""
