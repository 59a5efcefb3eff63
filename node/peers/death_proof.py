"""Proof that a node's process has ended, as its warden brings it (PROTOCOL R16).

A process has a secret that nobody but its warden ever gets from it, and the warden tells it when it
has seen the process end. On every link the process shows a digest of it, its *life*: so whoever has
spoken with it, and may have promised it time, can tell that the news is of that very process.

    process    secret ------------------> its warden
               life = digest of it -----> every peer, with the first word on a link
               (ends)
    warden     Death(secret), held -----> every peer: its life is over, and that is what it leaves

What the warden holds, attempts that run or whose end is not yet recorded, is all that is left of
what was begun in that life. What else is on record as started there never was, and never will be.

That keeps out news of another cluster, of another life of the node, and news made up from a
connection that was lost. It does not protect from an eavesdropper on the network of the nodes.
"""

from hashlib import blake2b

import msgspec

from rota.core.model.attempt import AttemptKey
from rota.core.model.ids import NodeId, Session

PATH = "/peer/death"
BYTES_MAX = 1 << 20
"""Of a request: a warden names at most 5,000 attempts that it holds, of up to 190 bytes each."""


class DeathProof(msgspec.Struct, frozen=True, kw_only=True, tag="death"):
    """A process has ended.

    Attributes:
        cluster: Of its node, the id.
        node_id: Its node.
        session: In which it was.
        secret: Its own.
    """

    cluster: str
    node_id: NodeId
    session: Session
    secret: str


Left = frozenset[AttemptKey]
"""Attempts of a life that has ended, which its warden holds."""
_decoder = msgspec.msgpack.Decoder(DeathProof)
_posted: msgspec.msgpack.Decoder[tuple[bytes, Left | None]]
_posted = msgspec.msgpack.Decoder(tuple[bytes, Left | None])


def life_of(secret: str) -> str:
    """Return the life of the process that has *secret*."""
    return blake2b(secret.encode(), digest_size=16).hexdigest()


def encode(death: DeathProof) -> bytes:
    """Return the bytes of the news, to which the warden adds what it holds."""
    return msgspec.msgpack.encode(death)


def decode(posted: bytes) -> tuple[DeathProof, Left | None]:
    """Return what the news says, and what is left; None if that is not known.

    Raises:
        UNDECODABLE: It is none (`rota.core.decoding`).
    """
    news, left = _posted.decode(posted)
    return _decoder.decode(news), left
