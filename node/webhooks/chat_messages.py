"""Bodies of webhooks that Slack, Teams and Discord accept.

Text of users, such as the reason of a failure, neither mentions anybody nor becomes a link. Rules:
https://docs.slack.dev/messaging/formatting-message-text,
https://docs.discord.com/developers/resources/webhook#execute-webhook, and the Adaptive Cards of
https://learn.microsoft.com/microsoftteams/platform/webhooks-and-connectors/how-to/connectors-using.
"""

import re

import msgspec

from rota.core.model.hook import HookEvent, HookFormat, JobEventDocument

TEXT_MAX = 950
"""Characters of the text; Discord accepts 2,000, and escaping may double the text."""
_VERBS = {
    HookEvent.FAILURE: "failed",
    HookEvent.SUCCESS: "succeeded",
    HookEvent.RECOVERY: "succeeded again",
    HookEvent.LATE: "is late",
}
_DISCORD_MARKUP = re.compile(r"([\\*_~`|<>@\[\]()#:-])")

_decode = msgspec.json.Decoder(JobEventDocument).decode


def chat_message(hook_format: HookFormat, document: str) -> bytes:
    """Return the body for the event *document* in a format other than ``STANDARD``."""
    return msgspec.json.encode(_message(hook_format, _text(_decode(document))))


def _message(hook_format: HookFormat, text: str) -> object:
    match hook_format:
        case HookFormat.SLACK:
            return {"text": _slack_escaped(text)}
        case HookFormat.DISCORD:
            escaped = _DISCORD_MARKUP.sub(r"\\\1", text)
            return {"content": escaped, "allowed_mentions": {"parse": []}}
        case HookFormat.TEAMS:
            return _card(text)
        case HookFormat.STANDARD:
            raise AssertionError(hook_format)


def _text(event: JobEventDocument) -> str:
    lines = [
        f"Job {event.job} {_VERBS[HookEvent(event.event)]}",
        f"Execution {event.execution_id}: {event.status}",
        event.reason,
    ]
    return "\n".join(filter(None, lines))[:TEXT_MAX]


def _slack_escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _card(text: str) -> object:
    """Return a message with a card, whose text has no markup, unlike that of a ``TextBlock``."""
    runs = [
        {"type": "RichTextBlock", "inlines": [{"type": "TextRun", "text": line}]}
        for line in text.splitlines()
    ]
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": runs,
    }
    content_type = "application/vnd.microsoft.card.adaptive"
    return {"type": "message", "attachments": [{"contentType": content_type, "content": card}]}
