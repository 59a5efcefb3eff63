"""Delivery of webhooks: retries, their end, and the limits of requests under way."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import cast

import msgspec
import pytest

from rota.core.model.hook import HookEvent, HookOutcome, Notification
from rota.core.model.ids import ExecutionId, JobId, ShardId
from rota.core.timing.instants import SECOND, Instant
from rota.core.vocabulary.commands import EndNotification
from rota.node.feeds.events import Events, HookRetrying
from rota.node.shards.shard import Shard
from rota.node.system.background import beside
from rota.node.webhooks.webhook_request import WebhookAnswer, WebhookFailed, WebhookRequest
from rota.node.webhooks.webhook_sender import IN_FLIGHT_MAX, PER_TARGET_MAX, WebhookSender
from sim.loop import VirtualLoop

JOB = JobId("740e000000000001")
EXECUTION = ExecutionId("740e000000000001-06643d3aa5f000-0000")
DAY_S = 24 * 3600


@dataclass(frozen=True)
class OneShard:
    """What the sender uses of a shard."""

    id: ShardId


SHARD = cast("Shard", OneShard(ShardId(1)))
OTHER = cast("Shard", OneShard(ShardId(2)))


def notification(number: int = 0, url: str = "https://hooks.example.com/a") -> Notification:
    """Return the notification *number* of an event at the beginning of the time."""
    return Notification(
        key=f"{EXECUTION}.failure.{number}",
        job_id=JOB,
        job="default/job",
        execution_id=EXECUTION,
        event=HookEvent.FAILURE,
        at=Instant(0),
        url=url,
        document='{"event":"failure"}',
    )


Answer = Callable[[int], int | Exception]
"""Returns the status of the answer to the request *number*, or its failure."""


@dataclass(slots=True)
class Receiver:
    """A receiver on virtual time, and the sender of a node.

    Attributes:
        answer: Returns the answer to each request.
        takes_s: Time of a request.
        at: For each request, its time in seconds and its id.
        start: The start of the body of an answer that refuses a webhook.
        most: The most requests at the same time.
    """

    answer: Answer = lambda _: 204
    takes_s: float = 0.0
    at: list[tuple[float, str]] = field(default_factory=list[tuple[float, str]])
    ends: list[EndNotification] = field(default_factory=list[EndNotification])
    events: list[HookRetrying] = field(default_factory=list[HookRetrying])
    start: str = ""
    active: int = 0
    most: int = 0

    def now(self) -> Instant:
        """Return the time of the wall clock."""
        return Instant(int(asyncio.get_running_loop().time() * SECOND))

    elapsed = now

    async def post(self, request: WebhookRequest) -> WebhookAnswer:
        """Answer a request."""
        began = asyncio.get_running_loop().time()
        self.at.append((began, request.headers["webhook-id"].rpartition(".")[2]))
        number = len(self.at)
        self.active += 1
        self.most = max(self.most, self.active)
        try:
            await asyncio.sleep(self.takes_s)
        finally:
            self.active -= 1
        answer = self.answer(number)
        if isinstance(answer, Exception):
            raise answer
        return WebhookAnswer(answer, self.start if answer >= 300 else "")

    def run(self, *steps: Callable[[WebhookSender], None], for_s: float = 2 * DAY_S) -> int:
        """Take the *steps* at once, let time pass, and return how many deliveries wait then."""

        async def main() -> int:
            sender = WebhookSender(
                lambda _, end: self.ends.append(end),
                self.post,
                self,
                publish=self.events.append,
            )
            async with beside(cast("Coroutine[None, None, None]", sender.run())):
                for step in steps:
                    step(sender)
                await asyncio.sleep(for_s)
                return len(sender)

        return VirtualLoop().run(main())  # type: ignore[abstract]

    @property
    def outcomes(self) -> list[tuple[HookOutcome, str]]:
        """The ends of deliveries, in their order."""
        return [(each.outcome, each.detail) for each in self.ends]


def sends(*found: Notification, shard: Shard = SHARD) -> Callable[[WebhookSender], None]:
    """Return the step that sends notifications of *shard*."""

    def step(sender: WebhookSender) -> None:
        for each in found:
            sender.send(shard, each)

    return step


def test_an_accepted_notification_is_sent_once() -> None:
    receiver = Receiver()

    assert receiver.run(sends(notification())) == 0

    assert receiver.at == [(0.0, "0")]
    assert receiver.outcomes == [(HookOutcome.DELIVERED, "")]


@pytest.mark.parametrize("failure", [500, 404, 302, WebhookFailed("no answer")], ids=str)
def test_a_failed_attempt_is_repeated_after_growing_delays(failure: int | Exception) -> None:
    receiver = Receiver(answer=lambda number: failure if number < 8 else 200)

    receiver.run(sends(notification()))

    times = [at for at, _ in receiver.at]
    delays = [round(after - before) for before, after in pairwise(times)]
    assert delays == [5, 30, 120, 600, 1_800, 3_600, 3_600]
    assert receiver.outcomes == [(HookOutcome.DELIVERED, "")]


def test_after_a_day_no_further_attempt_begins() -> None:
    receiver = Receiver(answer=lambda _: 503)

    assert receiver.run(sends(notification())) == 0

    assert DAY_S - 3_600 <= receiver.at[-1][0] <= DAY_S
    assert receiver.outcomes == [(HookOutcome.FAILED, "the receiver answered 503")]


def test_a_refused_webhook_is_reported_once_in_five_minutes_for_each_hook(
    caplog: pytest.LogCaptureFixture,
) -> None:
    receiver = Receiver(answer=lambda _: 400, start="invalid_payload")
    url = "https://hooks.example.com/a?key=secret"

    receiver.run(sends(notification(0, url), notification(1, url)), for_s=800.0)

    # The attempts are at 0, 5, 35, 155 and 755 s.
    assert [each.at // SECOND for each in receiver.events] == [0, 0, 755, 755]
    assert receiver.events[0].detail == (
        "the receiver answered 400: invalid_payload; next attempt at 1970-01-01T00:00:05.000000Z"
    )
    assert {each.target for each in receiver.events} == {"https://hooks.example.com"}
    assert len(caplog.records) == 4


def test_the_event_of_a_refused_webhook_names_execution_event_receiver_and_reason() -> None:
    receiver = Receiver(answer=lambda _: 400, start="invalid_payload")
    receiver.run(sends(notification()), for_s=1.0)
    (event,) = receiver.events

    feed = Events("5f0c91aa", receiver)
    feed.publish(event)
    encoded = feed.encoded(1, shown=event)

    view = msgspec.json.decode(encoded.document)
    assert (view["type"], view["executionId"]) == ("hook.retrying", EXECUTION)
    assert view["detail"] == f"failure, https://hooks.example.com: {event.detail}"


def test_a_hook_is_listed_while_its_webhooks_are_tried_again() -> None:
    receiver = Receiver(answer=lambda number: 500 if number <= 3 else 200, start="away")
    seen: list[list[tuple[int, str, int]]] = []

    def look(sender: WebhookSender) -> None:
        found = sender.retries_of(SHARD.id, JOB)
        seen.append([(each.waiting, each.reason, each.next_at // SECOND) for each in found])

    def look_at(at: float, sender: WebhookSender) -> None:
        _later(at, partial(look, sender))

    receiver.run(
        sends(notification(0), notification(0)),
        *(partial(look_at, at) for at in (1.0, 6.0, 200.0)),
    )

    assert seen == [
        [(1, "the receiver answered 500: away", 5)],
        [(1, "the receiver answered 500: away", 35)],
        [],
    ]


def test_the_next_primary_learns_which_hooks_are_tried_again() -> None:
    receiver = Receiver(answer=lambda _: 500)

    def check(sender: WebhookSender) -> None:
        assert sender.retries_of(SHARD.id, JOB)
        sender.closed(SHARD)
        assert not sender.retries_of(SHARD.id, JOB)

    receiver.run(sends(notification()), lambda sender: _later(1.0, lambda: check(sender)))


@pytest.mark.parametrize(
    ("failure", "detail"),
    [(410, "the receiver answered 410"), (WebhookFailed("forbidden", is_final=True), "forbidden")],
)
def test_a_final_failure_ends_the_delivery_at_once(failure: int | Exception, detail: str) -> None:
    receiver = Receiver(answer=lambda _: failure)

    receiver.run(sends(notification()))

    assert len(receiver.at) == 1
    assert receiver.outcomes == [(HookOutcome.FAILED, detail)]


def test_the_reason_of_a_failure_is_cut() -> None:
    receiver = Receiver(answer=lambda _: WebhookFailed("x" * 10_000, is_final=True))

    receiver.run(sends(notification()))

    assert receiver.outcomes == [(HookOutcome.FAILED, "x" * 200)]


def test_an_effect_that_is_carried_out_twice_sends_one_request() -> None:
    receiver = Receiver(takes_s=1.0)

    receiver.run(sends(notification(), notification()))

    assert len(receiver.at) == 1


def test_a_closed_shard_sends_nothing_more_and_the_others_do() -> None:
    receiver = Receiver(answer=lambda number: 500 if number <= 2 else 200)

    waiting = receiver.run(
        sends(notification(1)),
        sends(notification(2), shard=OTHER),
        lambda sender: _later(1.0, lambda: sender.closed(SHARD)),
    )

    assert waiting == 0
    assert [number for _, number in receiver.at] == ["1", "2", "2"]
    assert receiver.outcomes == [(HookOutcome.DELIVERED, "")]


def test_a_request_under_way_when_its_shard_closes_ends_nothing() -> None:
    receiver = Receiver(takes_s=2.0)

    receiver.run(sends(notification()), lambda sender: _later(1.0, lambda: sender.closed(SHARD)))

    assert len(receiver.at) == 1
    assert receiver.ends == []


def test_a_shard_that_opens_again_begins_with_a_first_attempt() -> None:
    receiver = Receiver(answer=lambda number: 500 if number <= 3 else 200)

    receiver.run(
        sends(notification()),
        lambda sender: _later(40.0, lambda: sender.closed(SHARD)),
        lambda sender: _later(50.0, lambda: sends(notification())(sender)),
    )

    assert [round(at) for at, _ in receiver.at] == [0, 5, 35, 50]


def test_a_slow_receiver_gets_few_requests_at_a_time_and_delays_no_other() -> None:
    receiver = Receiver(takes_s=10.0)
    slow = [notification(each) for each in range(10)]
    other = notification(99, "https://other.example.com/")

    receiver.run(sends(*slow, other))

    assert [at for at, number in receiver.at if number == "99"] == [0.0]
    assert receiver.most == PER_TARGET_MAX + 1
    assert [round(at) for at, _ in receiver.at if _ != "99"] == [0] * 4 + [10] * 4 + [20] * 2
    assert len(receiver.ends) == 11


def test_requests_under_way_are_limited_over_all_receivers() -> None:
    receiver = Receiver(takes_s=1.0)
    found = [notification(each, f"https://h{each}.example.com/") for each in range(200)]

    receiver.run(sends(*found))

    assert receiver.most == IN_FLIGHT_MAX
    assert len(receiver.ends) == 200


def test_deliveries_of_a_shard_that_opens_and_closes_leave_nothing_behind() -> None:
    receiver = Receiver(answer=lambda _: 500)
    found = [notification(each) for each in range(1_000)]

    def flap(sender: WebhookSender) -> None:
        for _ in range(20):
            sends(*found)(sender)
            sender.closed(SHARD)
        assert sender.scheduled_count <= 2 * IN_FLIGHT_MAX + 1_000

    assert receiver.run(flap, for_s=10.0) == 0
    assert receiver.at == []


def _later(delay_s: float, action: Callable[[], None]) -> None:
    asyncio.get_running_loop().call_later(delay_s, action)
