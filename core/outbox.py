"""Letters to other shards: part of the sender's journal until the receiver has made them its own.

Delivered at least once and in the order of the sender's journal; the receiver knows a repetition
by its place in that order. Two successes of one entry are, to those who wait, one.
"""

from rota.core.changes import Letter, Parcel, Table
from rota.core.commands import Delivered
from rota.core.draft import Draft
from rota.core.effects import Deliver


def send_letter(draft: Draft, to: str, letter: Letter) -> None:
    """Have *letter* brought to the shard of the job *to*, a full name.

    Keys are in the order of sending. An entry may hold several decisions, each of its own instant,
    and a decision several letters.
    """
    place = f"{draft.situation.position.index:016x}/{draft.now:014x}/{draft.letter_count:04x}"
    draft.letter_count += 1
    key = f"{place} {to} {letter.upstream} {letter.dependent}"
    parcel = Parcel(key=key, to=to, letter=letter)
    draft.put(Table.OUTBOX, key, parcel)
    draft.add(Deliver(parcel))


def forget_parcel(draft: Draft, command: Delivered) -> None:
    """Drop a parcel that has arrived."""
    if command.key in draft.state.outbox:
        draft.drop(Table.OUTBOX, command.key)
