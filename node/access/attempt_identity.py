"""Tokens of tasks: the form, and the proof that a node has issued one.

A token is ``rota_t_`` and, in base64 for URLs, an HMAC-SHA256 and the statement that it covers: the
attempt, its job, the node that runs it, and the end of the token. The key is that of the node, in
its member record, which all nodes have in memory. So each node verifies the tokens of all others
without a look-up.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NotBase64
from dataclasses import dataclass
from hashlib import sha256
from hmac import compare_digest, new

import msgspec

from rota.core.decoding import UNDECODABLE
from rota.core.model.attempt import AttemptKey
from rota.core.model.ids import ExecutionId, NodeId
from rota.core.timing.instants import Instant

PREFIX = "rota_t_"
LENGTH_MAX = 2_000
"""The greatest length of a token: names of 128 characters need some 1,000."""
_PURPOSE = b"rota token of a task"
_MAC_BYTES = sha256().digest_size


class AttemptIdentity(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The statement of a token.

    Attributes:
        node_id: The node that issued the token, and runs the attempt.
        job: The full name of the job, ``namespace/name``.
        execution_id: The execution.
        task: The task.
        attempt: The number of the attempt.
        fence: The fencing token of the attempt, in hexadecimal digits.
        expires_at: The end of the token.
    """

    node_id: NodeId
    job: str
    execution_id: ExecutionId
    task: str
    attempt: int
    fence: str
    expires_at: Instant

    @property
    def key(self) -> AttemptKey:
        """The key of the attempt."""
        return AttemptKey(self.execution_id, self.task, self.attempt)

    @property
    def subject(self) -> str:
        """The subject of bindings, which is also the name of the principal."""
        return f"job:{self.job}"


@dataclass(frozen=True, slots=True)
class Unproven:
    """A text with the form of a token.

    Attributes:
        identity: The statement, which anyone may have made.
        statement: The bytes that the HMAC covers.
        mac: The HMAC.
    """

    identity: AttemptIdentity
    statement: bytes
    mac: bytes

    def is_proven(self, key: bytes, cluster: str) -> bool:
        """Return True if the node with *key* has issued the token; no node has an empty key."""
        return bool(key) and compare_digest(self.mac, _mac(self.statement, key, cluster))


def issue(identity: AttemptIdentity, key: bytes, cluster: str) -> str:
    """Return the token of *identity*.

    Args:
        identity: The statement.
        key: The key of this node for tokens of tasks.
        cluster: The id of the cluster, so that a token is of one cluster.

    Raises:
        ValueError: The key is empty.
    """
    if not key:
        raise ValueError("a token needs a key")
    statement = msgspec.msgpack.encode(identity)
    return PREFIX + _coded(_mac(statement, key, cluster) + statement)


def parse(text: str) -> Unproven | None:
    """Return the token *text*; None if it does not have the form of one."""
    if not text.startswith(PREFIX) or len(text) > LENGTH_MAX:
        return None
    coded = text[len(PREFIX) :]
    try:
        found = urlsafe_b64decode(coded + "=" * (-len(coded) % 4))
        mac, statement = found[:_MAC_BYTES], found[_MAC_BYTES:]
        identity = msgspec.msgpack.decode(statement, type=AttemptIdentity)
    except (NotBase64, ValueError, *UNDECODABLE):
        return None
    # The decoder skips other characters, and no two texts are the same token.
    return Unproven(identity, statement, mac) if _coded(found) == coded else None


def _coded(found: bytes) -> str:
    return urlsafe_b64encode(found).decode().rstrip("=")


def _mac(statement: bytes, key: bytes, cluster: str) -> bytes:
    """Return the HMAC; the lengths keep one part from running into the next."""
    name = cluster.encode()
    return new(key, b"%s\0%d\0%s%s" % (_PURPOSE, len(name), name, statement), sha256).digest()
