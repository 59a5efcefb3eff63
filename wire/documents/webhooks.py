"""Webhooks that other services send, which start jobs as events from outside."""

from typing import Literal

import msgspec

from rota.wire.documents.document import Body, Json, ProseText, Word

WebhookFormat = Literal["standard", "github", "stripe"]
"""How a service signs its webhooks."""


class WebhookBody(Body, frozen=True):
    """A webhook: another service sends its events to this name, signed with a secret.

    Attributes:
        format: How they are signed: ``standard`` (Standard Webhooks), ``github`` or ``stripe``.
        namespace: The namespace of the jobs that its events may start.
        secret: The name of a secret of that namespace, with the key of the signatures; several
            keys, one on a line, are accepted while the key changes.
        description: A description for people.
    """

    format: WebhookFormat
    secret: Word
    namespace: Word = "default"
    description: ProseText = ""


class WebhookPayload(msgspec.Struct, frozen=True, omit_defaults=True):
    """The body of a delivery, in the form of the service; all of it becomes the event's data.

    Attributes:
        id: The id of the delivery, in the format ``stripe``.
        type: The subject of the event, in the formats ``standard`` and ``stripe``.
    """

    id: Json = None
    type: Json = None
