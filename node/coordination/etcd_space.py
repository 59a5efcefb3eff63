"""The size of etcd's database, and the quota at which etcd refuses all writes.

Each member has its own database and its own quota, and etcd refuses writes when the first database
is full. Deleted and compacted data count until the member is defragmented.
"""

from collections.abc import Iterable
from typing import NamedTuple

from rota.node.coordination.etcd_messages import StatusResponse

QUOTA_BYTES = 2 << 30
"""etcd's default quota, for a member that does not report its quota."""
NO_SPACE = "NOSPACE"


class EtcdSpace(NamedTuple):
    """The space of the fullest member.

    Attributes:
        used_bytes: The size of the member's database.
        quota_bytes: The size at which etcd refuses writes.
        is_refusing: Whether etcd refuses writes because a member raised the alarm NOSPACE, which is
            not disarmed.
    """

    used_bytes: int
    quota_bytes: int
    is_refusing: bool


def space_of(members: Iterable[StatusResponse]) -> EtcdSpace | None:
    """Return the space of the fullest of *members*; None if there are none."""
    members = list(members)
    spaces = [(each.size_bytes, each.quota_bytes or QUOTA_BYTES) for each in members]
    if not spaces:
        return None
    used, quota = max(spaces, key=lambda each: each[0] / each[1])
    is_refusing = any(NO_SPACE in alarm for each in members for alarm in each.errors)
    return EtcdSpace(used, quota, is_refusing)
