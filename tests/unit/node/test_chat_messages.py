"""Messages for Slack, Teams and Discord: their form, and text that must not mention anybody."""

import json
from typing import Any

import msgspec
import pytest

from rota.core.model.hook import HookEvent, HookFormat, JobEventDocument
from rota.node.webhooks.chat_messages import chat_message


def message(hook_format: HookFormat, reason: str, event: HookEvent = HookEvent.FAILURE) -> Any:
    """Return the decoded message for an execution of ``default/backup``."""
    document = JobEventDocument(
        event=event.value,
        job="default/backup",
        job_id="j",
        execution_id="e1",
        status="failed",
        trigger="schedule",
        fire_time="2026-11-24T00:00:00Z",
        reason=reason,
    )
    return json.loads(chat_message(hook_format, msgspec.json.encode(document).decode()))


def test_slack_gets_a_text_whose_reason_is_no_markup() -> None:
    text = "Job default/backup failed\nExecution e1: failed\n"

    found = message(HookFormat.SLACK, "<!channel> a & b")

    assert found == {"text": f"{text}&lt;!channel&gt; a &amp; b"}


def test_discord_gets_content_without_mentions() -> None:
    found = message(HookFormat.DISCORD, "@everyone <@1> [a](http://b) **")

    assert found["allowed_mentions"] == {"parse": []}
    assert found["content"].endswith(r"\@everyone \<\@1\> \[a\]\(http\://b\) \*\*")


def test_discord_gets_at_most_2000_characters() -> None:
    assert len(message(HookFormat.DISCORD, "*" * 5_000)["content"]) <= 2_000


def test_teams_gets_a_card_whose_text_has_no_markup() -> None:
    found = message(HookFormat.TEAMS, "[a](http://b)")

    assert found["type"] == "message"
    (attachment,) = found["attachments"]
    assert attachment["contentType"] == "application/vnd.microsoft.card.adaptive"
    blocks = attachment["content"]["body"]
    assert {each["type"] for each in blocks} == {"RichTextBlock"}
    assert blocks[-1]["inlines"] == [{"type": "TextRun", "text": "[a](http://b)"}]


@pytest.mark.parametrize("event", HookEvent, ids=lambda each: each.value)
def test_each_event_has_a_text(event: HookEvent) -> None:
    assert message(HookFormat.SLACK, "", event)["text"].startswith("Job default/backup ")
