"""A receiver of changes over HTTP: the destination ``changes_webhook`` of the export of changes.

A delivery is a POST by the rules of Standard Webhooks, with up to a batch of changes as ``data``.
The same changes have the same ``webhook-id`` in each repetition.
"""

from collections.abc import Sequence
from hashlib import blake2b

from rota.node.system.change_sinks import ExportedLine, SinkAway
from rota.node.system.clock import Clock
from rota.node.webhooks.webhook_request import PostWebhook, WebhookFailed, signed_request

ID_BYTES = 16


class ChangeWebhook:
    """A receiver of changes over HTTP.

    Changes count as delivered when the receiver has answered with a status of 200 to 299.

    Args:
        url: The URL.
        post: Sends a request.
        clock: The clock of this node.
        keys: Keys that sign the requests.
    """

    def __init__(
        self, url: str, post: PostWebhook, clock: Clock, *, keys: Sequence[bytes] = ()
    ) -> None:
        self._url = url
        self._post = post
        self._clock = clock
        self._keys = keys

    async def send(self, lines: Sequence[ExportedLine]) -> None:
        """Deliver *lines* in one request.

        Raises:
            SinkAway: The receiver did not answer, or with another status.
        """
        data = b",".join(each.document for each in lines)
        body = b'{"type":"changes","timestamp":"%s","data":[%s]}' % (lines[-1].at.encode(), data)
        message_id = blake2b(data, digest_size=ID_BYTES).hexdigest()
        request = signed_request(self._url, message_id, body, self._keys, now=self._clock.now())
        try:
            status = await self._post(request)
        except WebhookFailed as error:
            raise SinkAway(f"{self._url}: {error}") from error
        if not 200 <= status < 300:
            raise SinkAway(f"{self._url}: the receiver answered {status}")

    def close(self) -> None:
        """Do nothing: each request has its own connection."""
