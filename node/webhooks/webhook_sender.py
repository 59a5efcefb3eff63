"""Delivery of the notifications of this node's shards, with retries.

Notifications are rows of the shards: a node that becomes primary finds those whose delivery has not
ended, and begins with their first attempt. So each is delivered at least once, and may be repeated
with the same id. An attempt fails without an answer, or with a status other than 200 to 299; the
delays between attempts grow, and the last attempt is within `GIVE_UP_AFTER` of the event.

At most `IN_FLIGHT_MAX` requests are under way at a time, and `PER_TARGET_MAX` to one host and port,
so that one slow receiver does not delay the others.
"""

import asyncio
import heapq
import logging
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from urllib.parse import urlsplit

from rota.core.model.hook import HookOutcome, Notification
from rota.core.model.ids import JobId, ShardId
from rota.core.timing.instants import HOUR, SECOND, Duration, Instant, format_instant
from rota.core.vocabulary.commands import EndNotification
from rota.node.feeds.events import HookRetrying
from rota.node.shards.shard import Shard
from rota.node.system.clock import Clock
from rota.node.webhooks.hook_retries import HookRetries, HookRetry, is_report_due
from rota.node.webhooks.webhook_request import (
    SHOWN_MAX,
    PostWebhook,
    WebhookFailed,
    request_of,
)

log = logging.getLogger(__name__)

DELAYS_S = (5, 30, 120, 600, 1_800, 3_600)
"""Seconds after the first failed attempts; the last value after all others."""
GIVE_UP_AFTER = Duration(24 * HOUR)
"""Time from the event after which no attempt begins."""
IN_FLIGHT_MAX = 64
PER_TARGET_MAX = 4
RESOLUTION_S = 0.001
"""Attempts may begin so much early: no time is slept that a loop could round to nothing."""
GONE = 410
"""The status of a receiver that wants no more webhooks."""


Submit = Callable[[Shard, EndNotification], None]


@dataclass(slots=True, eq=False)
class _Delivery:
    """The delivery of one notification.

    Attributes:
        attempts: Attempts that have failed.
        has_retry: Whether a failed attempt is counted in the `HookRetries`.
    """

    shard: Shard
    notification: Notification
    target: str
    attempts: int = 0
    has_retry: bool = False

    def next_delay_s(self) -> int:
        """Count a failed attempt, and return the delay before the next one."""
        self.attempts += 1
        return DELAYS_S[min(self.attempts, len(DELAYS_S)) - 1]


@dataclass(slots=True)
class _Target:
    """A receiver: a host and a port.

    Attributes:
        active: Requests under way.
        waiting: Deliveries that are due, in their order.
    """

    active: int = 0
    waiting: deque[_Delivery] = field(default_factory=deque[_Delivery])


class WebhookSender:
    """The webhooks of the shards that are open here.

    Args:
        submit: Submits the end of a delivery to its shard.
        post: Sends a request.
        clock: The clock of this node.
        publish: Publishes that a webhook is tried again.
        keys: Keys that sign the requests.
    """

    def __init__(
        self,
        submit: Submit,
        post: PostWebhook,
        clock: Clock,
        *,
        publish: Callable[[HookRetrying], None],
        keys: Sequence[bytes] = (),
    ) -> None:
        self._submit = submit
        self._publish = publish
        self._retries = HookRetries()
        self._post = post
        self._clock = clock
        self._keys = keys
        self._deliveries: dict[ShardId, dict[str, _Delivery]] = {}
        self._due: list[tuple[float, int, _Delivery]] = []
        """A heap by instant of the loop; numbers keep deliveries from being compared."""
        self._numbers = count()
        self._targets: dict[str, _Target] = {}
        self._in_flight = 0
        self._news = asyncio.Event()
        self._tests = asyncio.Semaphore(PER_TARGET_MAX)

    def __len__(self) -> int:
        return sum(map(len, self._deliveries.values()))

    @property
    def scheduled_count(self) -> int:
        """The number of scheduled attempts, including those for shards that have closed."""
        return len(self._due)

    def send(self, shard: Shard, notification: Notification) -> None:
        """Deliver a notification of *shard*; a repetition changes nothing."""
        deliveries = self._deliveries.setdefault(shard.id, {})
        if notification.key not in deliveries:
            delivery = _Delivery(shard, notification, urlsplit(notification.url).netloc)
            deliveries[notification.key] = delivery
            self._schedule(delivery, 0)

    async def try_once(self, notification: Notification) -> str:
        """Send *notification*, which is not stored; return why it was not accepted, or nothing."""
        async with self._tests:
            request = request_of(notification, self._keys, now=self._clock.now())
            try:
                return (await self._post(request)).refusal
            except WebhookFailed as error:
                return str(error)[:SHOWN_MAX]

    def retries_of(self, shard: ShardId, job_id: JobId) -> list[HookRetry]:
        """Return the hooks of a job with webhooks that have failed and are tried again."""
        return self._retries.of_job(shard, job_id)

    def closed(self, shard: Shard) -> None:
        """Deliver nothing more for *shard*: its next primary reads its notifications."""
        self._retries.closed(shard.id)
        if self._deliveries.pop(shard.id, None) and len(self._due) > 2 * len(self) + IN_FLIGHT_MAX:
            self._due = [each for each in self._due if self._is_current(each[2])]
            heapq.heapify(self._due)

    async def run(self) -> None:
        """Make the attempts until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                wait_s = self._start_due(group)
                self._news.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout(wait_s):
                        await self._news.wait()

    def _schedule(self, delivery: _Delivery, delay_s: float) -> None:
        due = asyncio.get_running_loop().time() + delay_s
        heapq.heappush(self._due, (due, next(self._numbers), delivery))
        self._news.set()

    def _start_due(self, group: asyncio.TaskGroup) -> float | None:
        """Start the attempts that are due; return the time to the next one, in seconds."""
        now = asyncio.get_running_loop().time() + RESOLUTION_S
        while self._due and self._due[0][0] <= now and self._in_flight < IN_FLIGHT_MAX:
            delivery = heapq.heappop(self._due)[2]
            if not self._is_current(delivery):
                continue
            target = self._targets.setdefault(delivery.target, _Target())
            if target.active >= PER_TARGET_MAX:
                target.waiting.append(delivery)
                continue
            target.active += 1
            self._in_flight += 1
            group.create_task(self._attempt(delivery, target))
        if not self._due or self._in_flight >= IN_FLIGHT_MAX:
            return None
        return self._due[0][0] - now + RESOLUTION_S

    def _is_current(self, delivery: _Delivery) -> bool:
        """Return True if *delivery* has not ended, and its shard has been open since it began."""
        deliveries = self._deliveries.get(delivery.shard.id, {})
        return deliveries.get(delivery.notification.key) is delivery

    async def _attempt(self, delivery: _Delivery, target: _Target) -> None:
        request = request_of(delivery.notification, self._keys, now=self._clock.now())
        failure, is_final = "", False
        try:
            answer = await self._post(request)
            failure, is_final = answer.refusal, answer.status == GONE
        except WebhookFailed as error:
            failure, is_final = str(error)[:SHOWN_MAX], error.is_final
        self._release(delivery.target, target)
        if not self._is_current(delivery):
            return
        if not failure:
            self._end(delivery, HookOutcome.DELIVERED, "")
            return
        delay_s = delivery.next_delay_s()
        now = self._clock.now()
        next_at = Instant(now + delay_s * SECOND)
        if is_final or next_at - delivery.notification.at > GIVE_UP_AFTER:
            self._end(delivery, HookOutcome.FAILED, failure)
        else:
            self._schedule(delivery, delay_s)
            self._note_retry(delivery, failure, now, next_at)

    def _note_retry(self, delivery: _Delivery, reason: str, now: Instant, next_at: Instant) -> None:
        """Record a failed attempt, and report it if no other one of its hook was just reported."""
        notification, is_first = delivery.notification, not delivery.has_retry
        delivery.has_retry = True
        retry = self._retries.failed(delivery.shard.id, notification, reason, is_first=is_first)
        retry.next_at = next_at
        if not is_report_due(retry, now):
            return
        retry.reported_at = now
        event = HookRetrying(
            at=now,
            job_id=notification.job_id,
            job=notification.job,
            execution_id=notification.execution_id,
            event=notification.event,
            target=retry.target,
            detail=f"{reason}; next attempt at {format_instant(next_at)}",
        )
        self._publish(event)
        facts = {
            "job": event.job,
            "execution": event.execution_id,
            "hook": event.event.value,
            "receiver": event.target,
            "reason": event.detail,
        }
        log.warning("webhook not accepted", extra=facts)

    def _release(self, name: str, target: _Target) -> None:
        """End a request to *target*, and let the next delivery to it begin."""
        self._in_flight -= 1
        target.active -= 1
        while target.waiting:
            waiting = target.waiting.popleft()
            if self._is_current(waiting):
                self._schedule(waiting, 0)
                break
        if not target.active and not target.waiting:
            del self._targets[name]
        self._news.set()

    def _end(self, delivery: _Delivery, outcome: HookOutcome, detail: str) -> None:
        key = delivery.notification.key
        del self._deliveries[delivery.shard.id][key]
        if delivery.has_retry:
            self._retries.ended(delivery.shard.id, delivery.notification)
        self._submit(delivery.shard, EndNotification(key=key, outcome=outcome, detail=detail))
