"""Proof that a forwarded request is from a node of the cluster.

A node forwards requests to the peer port of another node. A request is accepted as forwarded only
with the header `PEER`: the sender's id, a number, the SHA-256 of the body, and

    HMAC-SHA256(sender's key, role, cluster, id and data directory of the sender,
                id, data directory and key of the receiver, number, method, target,
                all other headers ``Rota-*``, SHA-256 of the body)

The keys are those of the members' records, which only nodes can read, and each process has its own
(`rota.node.links.identity_proof`). A proof is thus valid for one request between two processes. The
receiver accepts each number of a sender once, so a captured request cannot be repeated either. The
proof does not encrypt anything; TLS between nodes does.
"""

import itertools
import re
from array import array
from collections.abc import Mapping
from hashlib import sha256
from hmac import compare_digest, new

from rota.core.model.ids import NodeId
from rota.node.coordination.coordinator import Member
from rota.node.links.identity_proof import KEY_BYTES, PeerCredentials
from rota.node.peers.peer_apis import PEER, Proven, RequestHead

FORWARDS = b"rota forward"
"""The role; the other proofs with the same keys have other roles."""
NUMBERS_KEPT = 1 << 14
"""The numbers that are kept of each sender, in 128 KiB. A proof is refused if its sender made this
number of later proofs that arrived before it."""
NUMBER_MAX = (1 << 63) - 1
_PREFIX = "rota-"
_FORM = re.compile(r"(\S{1,128}) ([0-9]{1,19}) ([0-9a-f]{64}) ([0-9a-f]{64})", re.ASCII)


class ForwardProofs:
    """Makes and checks the proofs of forwarded requests.

    Args:
        ours: The identity of this process.
    """

    def __init__(self, ours: PeerCredentials) -> None:
        self._ours = ours
        self._numbers = itertools.count(1)
        self._members: Mapping[NodeId, Member] = {}
        self._used: dict[NodeId, _UsedNumbers] = {}

    def set_members(self, members: Mapping[NodeId, Member]) -> None:
        """Set the records of the members."""
        self._members = members
        for node_id, used in tuple(self._used.items()):
            member = members.get(node_id)
            if member is None or member.key != used.key:
                del self._used[node_id]

    def prove(self, receiver: Member, head: RequestHead, body: bytes | None) -> str:
        """Return the header `PEER` of a request to *receiver*."""
        number, digest, ours = next(self._numbers), sha256(body or b"").hexdigest(), self._ours
        mac = _mac(
            ours.key,
            ours.cluster,
            _sides(ours.node_id, ours.store_id, receiver.node_id, receiver.store_id, receiver.key),
            number,
            head,
            digest,
        )
        return f"{ours.node_id} {number} {digest} {mac.hex()}"

    def proven(self, head: RequestHead) -> Proven | None:
        """Return the member that has sent this head; None without proof.

        A proof is accepted once.
        """
        found = _FORM.fullmatch(head.headers.get(PEER, ""))
        member = self._members.get(NodeId(found[1])) if found else None
        # A record without a key proves nothing.
        if found is None or member is None or len(member.key) != KEY_BYTES:
            return None
        number, digest, ours = int(found[2]), found[3], self._ours
        expected = _mac(
            member.key,
            ours.cluster,
            _sides(member.node_id, member.store_id, ours.node_id, ours.store_id, ours.key),
            number,
            head,
            digest,
        )
        if not compare_digest(expected, bytes.fromhex(found[4])) or number > NUMBER_MAX:
            return None
        used = self._used.get(member.node_id)
        if used is None or used.key != member.key:
            used = self._used[member.node_id] = _UsedNumbers(member.key)
        return Proven(member.node_id, digest) if used.take(number) else None


class _UsedNumbers:
    """The numbers of the proofs that one process of a sender has used.

    Args:
        key: The key of that process.
    """

    def __init__(self, key: bytes) -> None:
        self.key = key
        # Each element has the highest used number with its remainder.
        self._highest = array("q", bytes(8 * NUMBERS_KEPT))

    def take(self, number: int) -> bool:
        """Use a number; return False if it was used before, or is too old to know this."""
        place = number % NUMBERS_KEPT
        if number <= self._highest[place]:
            return False
        self._highest[place] = number
        return True


def _sides(
    sender: NodeId, sender_store: str, receiver: NodeId, receiver_store: str, receiver_key: bytes
) -> tuple[bytes, ...]:
    texts = (sender, sender_store, receiver, receiver_store)
    return (*(text.encode() for text in texts), receiver_key)


def _mac(
    key: bytes,
    cluster: str,
    sides: tuple[bytes, ...],
    number: int,
    head: RequestHead,
    digest: str,
) -> bytes:
    headers = sorted(
        (name.lower(), value)
        for name, value in head.headers.items()
        if name.lower().startswith(_PREFIX) and name.lower() != PEER.lower()
    )
    texts = (str(number), digest, head.method, head.target, *itertools.chain(*headers))
    mac = new(key, digestmod=sha256)
    for part in (FORWARDS, cluster.encode(), *sides, *map(_bytes, texts)):
        # Each part has its length before it, so that no two lists of parts give the same bytes.
        mac.update(len(part).to_bytes(4, "big") + part)
    return mac.digest()


def _bytes(text: str) -> bytes:
    """Return the bytes of a text in a request; bytes that are not text are lone surrogates."""
    return text.encode(errors="surrogateescape")
