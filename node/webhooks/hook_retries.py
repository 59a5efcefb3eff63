"""The webhooks of this node's shards whose receivers have not accepted them, by job and hook.

This is in memory only: the next primary of a shard learns it from its own first attempts.
"""

from dataclasses import dataclass

from rota.core.model.hook import HookEvent, Notification, origin_of
from rota.core.model.ids import JobId, ShardId
from rota.core.timing.instants import SECOND, Duration, Instant

REPORT_EVERY = Duration(300 * SECOND)
"""The least time between two reports of one hook: an absent receiver must not fill the log, nor
displace other events."""


@dataclass(slots=True, kw_only=True)
class HookRetry:
    """The failed attempts of one hook.

    Attributes:
        waiting: Webhooks of the hook that have failed and are tried again.
        reason: Why the last attempt failed.
        next_at: When the webhook of that attempt is tried again.
        reported_at: When a failure was last reported.
    """

    event: HookEvent
    target: str
    waiting: int = 0
    reason: str = ""
    next_at: Instant = Instant(0)
    reported_at: Instant | None = None


class HookRetries:
    """The hooks with failed attempts; those of a job are found without a search."""

    def __init__(self) -> None:
        self._shards: dict[ShardId, dict[JobId, dict[str, HookRetry]]] = {}

    def of_job(self, shard: ShardId, job_id: JobId) -> list[HookRetry]:
        """Return the hooks of a job whose webhooks are tried again."""
        return list(self._shards.get(shard, {}).get(job_id, {}).values())

    def failed(
        self, shard: ShardId, notification: Notification, reason: str, *, is_first: bool
    ) -> HookRetry:
        """Record a failed attempt, and return the record of its hook."""
        hooks = self._shards.setdefault(shard, {}).setdefault(notification.job_id, {})
        found = hooks.setdefault(
            _hook_of(notification),
            HookRetry(event=notification.event, target=origin_of(notification.url)),
        )
        found.waiting += is_first
        found.reason = reason
        return found

    def ended(self, shard: ShardId, notification: Notification) -> None:
        """Record the end of a delivery with failed attempts."""
        jobs = self._shards[shard]
        hooks, name = jobs[notification.job_id], _hook_of(notification)
        hooks[name].waiting -= 1
        if not hooks[name].waiting:
            del hooks[name]
        if not hooks:
            del jobs[notification.job_id]

    def closed(self, shard: ShardId) -> None:
        """Forget the hooks of a shard that has closed."""
        self._shards.pop(shard, None)


def is_report_due(retry: HookRetry, now: Instant) -> bool:
    """Return True if *retry* was not reported within `REPORT_EVERY`."""
    return retry.reported_at is None or now - retry.reported_at >= REPORT_EVERY


def _hook_of(notification: Notification) -> str:
    """Return the event and the number of the hook, as in the key of its notification."""
    return notification.key.partition(".")[2]
