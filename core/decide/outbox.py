"""Letters to other shards: part of the sender's journal until the receiver has made them its own.

Delivered at least once and in the order of the sender's journal; the receiver knows a repetition
by its place in that order. Two successes of one entry are, to those who wait, one.

While the receiver's shard is closed its letters wait, at most `LETTERS_MAX` from one job to
another. Beyond that a success is not sent, for those that wait say the same; and a job gets no
dependency there, for the letter that ends one has to have room.
"""

from rota.core.state.draft import Draft
from rota.core.vocabulary.changes import Letter, OutboxItem, Table
from rota.core.vocabulary.commands import Delivered
from rota.core.vocabulary.effects import Deliver

LETTERS_MAX = 10_000
"""From one job to another: a few megabytes in memory. A load of letters to an open shard takes
milliseconds, so only those to a closed one come to be so many."""


def send_letter(draft: Draft, to: str, letter: Letter) -> None:
    """Have *letter* brought to the shard of the job *to*, a full name.

    Keys are in the order of sending. An entry may hold several decisions, each of its own instant,
    and a decision several letters.
    """
    place = f"{draft.situation.position.index:016x}/{draft.now:014x}/{draft.letter_count:04x}"
    draft.letter_count += 1
    key = f"{place} {to} {letter.upstream} {letter.dependent}"
    parcel = OutboxItem(key=key, to=to, letter=letter)
    draft.put(Table.OUTBOX, key, parcel)
    draft.add(Deliver(parcel))


def has_room(draft: Draft, sender: str, to: str) -> bool:
    """Return True if fewer than `LETTERS_MAX` letters of the job *sender* wait for the job *to*."""
    return draft.state.letter_counts.get((sender, to), 0) < LETTERS_MAX


def forget_item(draft: Draft, command: Delivered) -> None:
    """Drop a parcel that has arrived."""
    if command.key in draft.state.outbox:
        draft.drop(Table.OUTBOX, command.key)
