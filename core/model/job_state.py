"""State of a job: values that its executions share, such as cursors and locks."""

import msgspec

from rota.core.model.author import Author
from rota.core.model.checked_fields import CheckedInstant, CheckedJobId, Count
from rota.core.model.ids import ExecutionId

VALUE_BYTES_MAX = 64 << 10
"""The largest value, as JSON."""
STATE_BYTES_MAX = 1 << 20
"""The most bytes of all keys and values of a job: a primary has them in memory."""
STATE_KEYS_MAX = 1_000
"""The most keys of a job."""


class StateEntry(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """One value of a job.

    Attributes:
        job_id: The job.
        key: The name of the value.
        value: The value as JSON.
        revision: The number of changes of the key, from 1; a key that is deleted and created again
            begins at 1.
        changed_at: Shard time of the last change.
        author: Who changed it; None if that is unknown.
        holder: The execution with whose end the value ends, so that it is a lock; empty for none.
        holding_task: The task or step of that execution with whose end it ends; empty for none.
    """

    job_id: CheckedJobId
    key: str
    value: bytes
    revision: Count
    changed_at: CheckedInstant
    author: Author | None = None
    holder: ExecutionId = ExecutionId("")
    holding_task: str = ""

    @property
    def size(self) -> int:
        """The bytes that count towards `STATE_BYTES_MAX`."""
        return len(self.key.encode()) + len(self.value)
