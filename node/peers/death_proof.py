"""Proof that a node's process has ended, sent by its warden (PROTOCOL R16).

A process has a secret that only its warden gets; the warden publishes the secret when it has
detected the end of the process. On every link the process shows a digest of the secret, its *life*.
A peer that had a link to the process, and may have made promises to it, can thus verify that the
proof is about that process.

    process    secret ------------------> its warden
               life = digest of it -----> every peer, in the handshake of a link
               (ends)
    warden     secret, held ------------> every peer: the life is over, and these attempts are left

The attempts that the warden holds, which run or whose end is not recorded yet, are the only ones
that are left of that life. Any other attempt that is recorded as started in it has not begun, and
never will.

The secret excludes proofs about another cluster or another life of the node, and conclusions from a
lost connection. It does not protect against an eavesdropper on the network of the nodes.
"""

from hashlib import blake2b

import msgspec

from rota.core.model.attempt import AttemptKey
from rota.core.model.ids import NodeId, Session

PATH = "/peer/death"
BYTES_MAX = 1 << 20
"""The largest request; a warden names at most 5,000 attempts, of up to 190 bytes each."""


class DeathProof(msgspec.Struct, frozen=True, kw_only=True, tag="death"):
    """The proof that a process has ended.

    Attributes:
        cluster: The id of the process's cluster.
        node_id: The node of the process.
        session: The session of the process.
        secret: The secret of the process.
    """

    cluster: str
    node_id: NodeId
    session: Session
    secret: str


Left = frozenset[AttemptKey]
"""The attempts of an ended life that its warden holds."""
_decoder = msgspec.msgpack.Decoder(DeathProof)
_posted: msgspec.msgpack.Decoder[tuple[bytes, Left | None]]
_posted = msgspec.msgpack.Decoder(tuple[bytes, Left | None])


def life_of(secret: str) -> str:
    """Return the life of the process that has *secret*."""
    return blake2b(secret.encode(), digest_size=16).hexdigest()


def encode(death: DeathProof) -> bytes:
    """Return the bytes of the proof, to which the warden adds the attempts that it holds."""
    return msgspec.msgpack.encode(death)


def decode(posted: bytes) -> tuple[DeathProof, Left | None]:
    """Return the proof and the attempts that are left; None if these are unknown.

    Raises:
        UNDECODABLE: The bytes are not a proof (`rota.core.decoding`).
    """
    proof, left = _posted.decode(posted)
    return _decoder.decode(proof), left
