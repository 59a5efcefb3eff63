"""The outbox: messages to other shards, kept in the sender's state until the receiver commits them.

Messages are delivered at least once, in the order of the sender's journal; the receiver detects a
repetition by its key in that order. Two successes in one entry count as one for a dependent job.

While the receiver's shard is closed its messages wait, at most `OUTBOX_ITEMS_MAX` from one job to
another. At the limit a success is not sent, because the waiting ones have the same effect, and a
new dependency is refused, because there must be room for the message that ends it.
"""

from rota.core.state.draft import Draft
from rota.core.vocabulary.changes import JobMessage, OutboxItem, Table
from rota.core.vocabulary.commands import ConfirmDelivery
from rota.core.vocabulary.effects import Deliver

OUTBOX_ITEMS_MAX = 10_000
"""The maximum number of messages from one job to another: a few megabytes in memory. Delivery to an
open shard takes milliseconds, so only messages to a closed shard reach the limit."""


def send_message(draft: Draft, to: str, message: JobMessage) -> None:
    """Put *message* into the outbox, for delivery to the shard of the job *to*, a full name.

    Keys sort in the order of sending: an entry may hold several decisions, each with its own
    instant, and a decision several messages.
    """
    order = f"{draft.situation.position.index:016x}/{draft.now:014x}/{draft.message_count:04x}"
    draft.message_count += 1
    key = f"{order} {to} {message.upstream} {message.dependent}"
    item = OutboxItem(key=key, to=to, message=message)
    draft.put(Table.OUTBOX, key, item)
    draft.add(Deliver(item))


def has_room(draft: Draft, sender: str, to: str) -> bool:
    """Return True if fewer than `OUTBOX_ITEMS_MAX` messages from *sender* to *to* wait."""
    return draft.state.outbox_counts.get((sender, to), 0) < OUTBOX_ITEMS_MAX


def drop_outbox_item(draft: Draft, command: ConfirmDelivery) -> None:
    """Delete an outbox item that its receiver has committed."""
    if command.key in draft.state.outbox:
        draft.drop(Table.OUTBOX, command.key)
