"""Dry runs: what would become of commands if they were meant."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from rota.core.decide.dispatch import decide
from rota.core.errors import Refused
from rota.core.state.shard_state import State
from rota.core.timing.instants import Duration, later
from rota.core.vocabulary.changes import Change, Record, Table
from rota.core.vocabulary.commands import Command
from rota.core.vocabulary.decision import NO_SLOTS
from rota.node.shards.local_shards import Shards
from rota.node.shards.shard import Answer, Shard
from rota.node.system.clock import Clock


@dataclass(slots=True)
class DryRun:
    """What would become of commands, in the order asked, if they were meant.

    Attributes:
        states: The states of the shards concerned, as they would be.
        past: What would have become history, by table and key.
        answers: One for each command.
    """

    states: dict[Shard, State] = field(default_factory=dict[Shard, State])
    past: dict[tuple[Table, str], Record] = field(default_factory=dict[tuple[Table, str], Record])
    answers: list[Answer] = field(default_factory=list[Answer])

    def add(self, state: State, changes: Iterable[Change]) -> None:
        """Make *changes* part of what would be."""
        for change in changes:
            state.apply(change)
            if change.table > Table.HISTORY and change.record is not None:
                self.past[change.table, change.key] = change.record


async def rehearse(
    shards: Shards, clock: Clock, requests: Iterable[tuple[Shard, Command]]
) -> DryRun:
    """Return what would become of *requests*, one after the other; nothing does.

    Each shard concerned is tried on a copy, so it costs O(records of these shards). There is room
    for no attempt: what would run is shown waiting.

    Raises:
        Refused: All of them, because one of them cannot be taken at the moment.
    """
    requests = list(requests)
    shards.check_open(*(command for _, command in requests))
    rehearsal = DryRun()
    for shard, command in requests:
        state = rehearsal.states.get(shard)
        if state is None:
            state = rehearsal.states[shard] = shard.state.fork()
        now = later(shard.time(clock), Duration(len(rehearsal.answers)))
        try:
            decision = decide(state, command, shards.situation(shard, now, NO_SLOTS))
        except Refused as refusal:
            rehearsal.answers.append(refusal)
        else:
            rehearsal.add(state, decision.changes)
            rehearsal.answers.append(decision.reply)
    # What was seen may be ahead of what is committed.
    await shards.settled(*rehearsal.states)
    return rehearsal
