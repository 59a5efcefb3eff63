"""The space that etcd's database takes, against the quota at which etcd refuses all writes.

Each member has a database and a quota of its own, and etcd refuses writes when the first one is
full. What was deleted or compacted counts until the member is defragmented.
"""

from collections.abc import Iterable
from typing import NamedTuple

from rota.node.coordination.etcd_messages import StatusResponse

QUOTA_BYTES = 2 << 30
"""etcd's default, for a member that does not tell its quota."""
NO_SPACE = "NOSPACE"


class EtcdSpace(NamedTuple):
    """The space of the fullest member.

    Attributes:
        used_bytes: Size of its database.
        quota_bytes: Size at which etcd refuses writes.
        is_refusing: Whether that has happened to any member, and the alarm still stands.
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
