"""Coordination through etcd, by transactions on the keys of `etcd_keys`.

A session is a lease. The number of the lease is drawn here, so that no two lives have the same
number even if etcd is restored from a backup. Conditions compare values and leases, never
revisions, which go backwards after a restore (PROTOCOL R1). All reads are linearizable. Events
inside etcd (restarts, compaction, leases that live longer) are described in
docs/explanation/coordination.md.
"""

import math
from collections.abc import AsyncGenerator, Sequence

from rota.core.model.ids import NodeId, Session
from rota.core.model.shared_document import DocumentKey, SharedDocument
from rota.core.vocabulary.shard_configuration import Swap, Swapped
from rota.node.coordination.coordinator import (
    Claim,
    Cluster,
    DocumentNews,
    Documents,
    Grant,
    Life,
    Member,
    News,
    View,
)
from rota.node.coordination.coordinator_errors import CoordinatorUnavailable, OutcomeUnknown
from rota.node.coordination.coordinator_rules import (
    check_format,
    check_swaps,
    predecessor,
    still_taken,
)
from rota.node.coordination.etcd_gateway import EtcdRefused, Gateway, GatewayOptions
from rota.node.coordination.etcd_keys import (
    Keys,
    document_in,
    lease_of,
    read,
    session_of,
    write,
)
from rota.node.coordination.etcd_messages import (
    EtcdResponse,
    Json,
    KeyValue,
    LeaseResponse,
    RangeResponse,
    TxnResponse,
    all_below,
    delete_if,
    each_alone,
    end_of,
    from_to,
    holds,
    is_absent,
    is_not_under,
    is_under,
    one,
    part_of,
    put,
    put_if,
)
from rota.node.coordination.etcd_space import EtcdSpace, space_of
from rota.node.coordination.etcd_watch import follow, follow_documents
from rota.node.coordination.prepared_request import PreparedRequest
from rota.node.system.entropy import Entropy

SWAPS_EACH = 32
"""The most swaps in one request. etcd allows 128 operations in a transaction, executes one after
the other, and serves no other request during the transaction; see bench/etcd.py."""
DOCUMENTS_EACH = 50
"""The most documents in one answer, which is decoded without a pause: at most about 5 MB."""
BEGIN_ROUNDS = 3
"""The most rounds of a begin; two may be needed if an earlier try began a session in between."""
NOT_FOUND = 5
REVOKE = "/v3/lease/revoke"


class EtcdCoordinator:
    """Coordination through etcd; see `Coordinator`.

    Each request ends within ``options.call_timeout_s``, a renewal within ``renew_timeout_s``. Most
    calls are one request; `begin_session` makes up to four requests in a round, `change`,
    `change_document` and `recover` two, `swap` one for each 32 swaps, and `documents` one for each
    50 documents.

    In addition to the errors of the interface, every call may raise `EtcdRefused` if etcd refuses
    it, with the reason, and `OtherCluster` if another etcd answered.

    Args:
        options: The options of the connection to etcd.
        cluster: The name of this cluster, which is part of its keys.
        entropy: The source of the ids of sessions.
    """

    has_lasting_revisions = True

    def __init__(self, options: GatewayOptions, *, cluster: str, entropy: Entropy) -> None:
        self._gateway = Gateway(options)
        self._keys = Keys(cluster)
        self._entropy = entropy

    async def found(self, wanted: Cluster) -> Cluster:
        """Put *wanted* unless there is a cluster."""
        meta = self._keys.meta
        answer = await self._transact(
            put_if([is_absent(meta)], put(meta, write(wanted)), otherwise=meta)
        )
        found = wanted
        if there := _key_in(answer):
            found = read(meta, there.value, Cluster)
        check_format(found, wanted)
        return found

    async def recover(self, expected: Cluster | None, fresh: Cluster) -> bool:
        """Replace the value if it decodes to *expected*, in whatever form it was written."""
        meta = self._keys.meta
        there = await self._value(meta)
        if (read(meta, there.value, Cluster) if there else None) != expected:
            return False
        is_as_read = holds(meta, there.value) if there else is_absent(meta)
        answer = await self._transact(put_if([is_as_read], put(meta, write(fresh)), otherwise=meta))
        return answer.succeeded

    async def register(self, member: Member) -> None:
        """Put a member."""
        request = put(self._keys.member(member.node_id), write(member))
        await self._gateway.write("/v3/kv/put", request, EtcdResponse)

    async def change(self, expected: Member, fresh: Member) -> bool:
        """Replace a member if its value decodes to *expected*, in whatever form it was written."""
        key = self._keys.member(expected.node_id)
        there = await self._value(key)
        if there is None or read(key, there.value, Member) != expected:
            return False
        fresh_value = put(key, write(fresh))
        answer = await self._transact(put_if([holds(key, there.value)], fresh_value, otherwise=key))
        return answer.succeeded

    async def forget(self, node_id: NodeId) -> bool:
        """Delete a member unless the node has a session."""
        is_gone = is_absent(self._keys.life(node_id))
        answer = await self._transact(delete_if([is_gone], self._keys.member(node_id)))
        return answer.succeeded

    async def begin_session(self, claim: Claim, ttl_s: float) -> Grant:
        """Revoke the lease of the earlier session, and put the node's life under a new lease."""
        for _ in range(BEGIN_ROUNDS):
            if earlier := predecessor(await self._lives(), claim):
                await self.end_session(earlier)
            if grant := await self._begin(claim, ttl_s):
                return grant
        raise still_taken(claim)

    async def renew(self, session: Session) -> float | None:
        """Renew the lease; etcd returns a time to live of 0 for a lease that has ended."""
        return float((await self._gateway.renew(lease_of(session))).TTL) or None

    async def end_session(self, session: Session) -> None:
        """Revoke the lease."""
        try:
            await self._gateway.write(REVOKE, _revoking(session), EtcdResponse, repeat=True)
        except EtcdRefused as refusal:
            if refusal.grpc_code != NOT_FOUND:
                raise

    def end_of(self, session: Session) -> PreparedRequest:
        """Return the request that ends a session, to be sent after the end of this process."""
        return self._gateway.prepared(REVOKE, _revoking(session))

    async def view(self) -> View:
        """Read all keys except documents: 170 kB for 512 shards, 5.6 MB for the most shards."""
        meta, request = self._keys.meta, self._keys.others
        answer = await self._gateway.read("/v3/kv/range", request, RangeResponse)
        records = self._keys.records((each.key, each.value) for each in answer.kvs)
        return View(
            revision=answer.header.revision,
            configurations={shard: each for shard, each in records.configurations.items() if each},
            lives={node_id: each for node_id, each in records.lives.items() if each},
            members={node_id: each for node_id, each in records.members.items() if each},
            cluster=next(
                (read(each.key, each.value, Cluster) for each in answer.kvs if each.key == meta),
                None,
            ),
        )

    def watch(self, revision: int) -> AsyncGenerator[News]:
        """Follow the keys; see `etcd_watch`."""
        return follow(self._gateway, self._keys, revision)

    async def swap(self, swaps: Sequence[Swap]) -> list[Swapped]:
        """Compare and put, 32 swaps per transaction, one transaction at a time (PROTOCOL R28).

        A configuration with fields of a newer version of rota is never equal to the value that this
        version expects, so this version never replaces it.
        """
        check_swaps(swaps)
        swapped: list[Swapped] = []
        for at in range(0, len(swaps), SWAPS_EACH):
            try:
                swapped += await self._swap_together(swaps[at : at + SWAPS_EACH])
            except CoordinatorUnavailable as error:
                if any(each.is_done for each in swapped):
                    raise OutcomeUnknown(f"{error}; some earlier swaps were done") from error
                raise
        return swapped

    async def documents(self) -> Documents:
        """Read the documents, all at one revision, with `DOCUMENTS_EACH` per request."""
        start, end = self._keys.of_documents, end_of(self._keys.of_documents)
        found: dict[DocumentKey, SharedDocument | None] = {}
        revision = 0
        while True:
            request = part_of(from_to(start, end), limit=DOCUMENTS_EACH, revision=revision)
            answer = await self._gateway.read("/v3/kv/range", request, RangeResponse)
            revision = revision or answer.header.revision
            found |= self._keys.documents((each.key, each.value) for each in answer.kvs)
            if not answer.more:
                by_key = {key: each for key, each in found.items() if each}
                return Documents(revision=revision, by_key=by_key)
            start = answer.kvs[-1].key + b"\0"

    def watch_documents(self, revision: int) -> AsyncGenerator[DocumentNews]:
        """Follow the keys of documents; see `etcd_watch`."""
        return follow_documents(self._gateway, self._keys, revision)

    async def change_document(
        self, key: DocumentKey, expected: SharedDocument | None, fresh: SharedDocument | None
    ) -> bool:
        """Replace or delete a value that decodes to *expected*, in whatever form it was written."""
        place = self._keys.document(key)
        there = await self._value(place)
        if document_in(place, there.value if there else None) != expected:
            return False
        conditions = [holds(place, there.value) if there else is_absent(place)]
        if fresh is None:
            answer = await self._transact(delete_if(conditions, place))
        else:
            answer = await self._transact(put_if(conditions, put(place, write(fresh))))
        return answer.succeeded

    async def space(self) -> EtcdSpace | None:
        """Return the space in etcd; None if no member reports it."""
        return space_of(await self._gateway.status_of_each())

    async def close(self) -> None:
        """Close the connections."""
        await self._gateway.close()

    async def _swap_together(self, swaps: Sequence[Swap]) -> list[Swapped]:
        answer = await self._transact(each_alone([self._transaction(swap) for swap in swaps]))
        return [
            self._swapped(swap, inner.response_txn or TxnResponse())
            for swap, inner in zip(swaps, answer.responses, strict=True)
        ]

    def _transaction(self, swap: Swap) -> Json:
        """Return the transaction of a swap, with its three conditions (PROTOCOL R3)."""
        key = self._keys.configuration(swap.shard)
        conditions = [
            holds(key, write(swap.expected)) if swap.expected else is_absent(key),
            is_under(self._keys.life(swap.by), lease_of(swap.session)),
        ]
        if swap.gone:
            node_id, session = swap.gone
            conditions.append(is_not_under(self._keys.life(node_id), lease_of(session)))
        return put_if(conditions, put(key, write(swap.fresh)), otherwise=key)

    def _swapped(self, swap: Swap, answer: TxnResponse) -> Swapped:
        if answer.succeeded:
            return Swapped(is_done=True, current=swap.fresh)
        records = self._keys.records((each.key, each.value) for each in _keys_in(answer))
        return Swapped(is_done=False, current=records.configurations.get(swap.shard))

    async def _begin(self, claim: Claim, ttl_s: float) -> Grant | None:
        """Begin a session unless the node or its data directory has one."""
        wanted: Json = {"TTL": str(math.ceil(ttl_s)), "ID": str(self._entropy.draw() >> 1)}
        lease = await self._gateway.write("/v3/lease/grant", wanted, LeaseResponse)
        life = Life(session=session_of(lease.ID), store_id=claim.store_id, lock=claim.lock)
        key, of_store = self._keys.life(claim.node_id), self._keys.store(claim.store_id)
        # The second key excludes copies of one directory that begin under several ids at once.
        fresh = (
            put(key, write(life), lease.ID),
            put(of_store, claim.node_id.encode(), lease.ID),
        )
        answer = await self._transact(put_if([is_absent(key), is_absent(of_store)], *fresh))
        # A lease that turns out not to be needed expires by itself; it has no keys.
        return Grant(session=life.session, ttl_s=lease.TTL) if answer.succeeded else None

    async def _lives(self) -> dict[NodeId, Life]:
        request = all_below(self._keys.lives)
        answer = await self._gateway.read("/v3/kv/range", request, RangeResponse)
        records = self._keys.records((each.key, each.value) for each in answer.kvs)
        return {node_id: each for node_id, each in records.lives.items() if each}

    async def _value(self, key: bytes) -> KeyValue | None:
        answer = await self._gateway.read("/v3/kv/range", one(key), RangeResponse)
        return answer.kvs[0] if answer.kvs else None

    async def _transact(self, transaction: Json) -> TxnResponse:
        return await self._gateway.write("/v3/kv/txn", transaction, TxnResponse)


def _revoking(session: Session) -> Json:
    return {"ID": str(lease_of(session))}


def _keys_in(answer: TxnResponse) -> Sequence[KeyValue]:
    """Return the keys that a transaction read because its conditions did not hold."""
    return () if answer.succeeded else answer.responses[0].response_range.kvs


def _key_in(answer: TxnResponse) -> KeyValue | None:
    return next(iter(_keys_in(answer)), None)
