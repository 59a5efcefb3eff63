"""The receiver of the webhooks of simulated nodes."""

import asyncio
from collections import Counter
from random import Random

from rota.node.webhooks.webhook_request import WebhookAnswer, WebhookFailed, WebhookRequest
from sim.loop import VirtualLoop

FAILURES_MAX = 2
"""Failed requests for one notification: with their delays they take 35 s."""


class Receiver:
    """A receiver that is slow, fails now and then, and loses answers.

    Args:
        loop: Its time is the true time.
        chance: Random numbers of the seed.

    Attributes:
        accepted: Number of accepted requests by id.
    """

    def __init__(self, loop: VirtualLoop, chance: Random) -> None:
        self._loop = loop
        self._chance = chance
        self._failures: Counter[str] = Counter()
        self.accepted: Counter[str] = Counter()

    async def post(self, request: WebhookRequest) -> WebhookAnswer:
        """Take a request (`rota.node.webhooks.webhook_request.PostWebhook`)."""
        message_id = request.headers["webhook-id"]
        await asyncio.sleep(self._chance.choice([0.001, 0.01, 0.1, 1.0]))
        may_fail = self._failures[message_id] < FAILURES_MAX and self._chance.random() < 0.2
        if may_fail:
            self._failures[message_id] += 1
        is_lost = self._chance.random() < 0.5
        if not may_fail or is_lost:
            self.accepted[message_id] += 1
        await asyncio.sleep(self._chance.choice([0.001, 0.1]))
        if may_fail and is_lost:
            raise WebhookFailed("the answer is lost")
        return WebhookAnswer(503 if may_fail else 204)
