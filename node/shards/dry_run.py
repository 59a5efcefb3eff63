"""Dry runs: the decisions of commands without a commit."""

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
    """The result of a dry run.

    Attributes:
        states: The states of the shards concerned, after the commands.
        past: The rows that the commands would add to history, by table and key.
        answers: One answer for each command, in the order of the commands.
    """

    states: dict[Shard, State] = field(default_factory=dict[Shard, State])
    past: dict[tuple[Table, str], Record] = field(default_factory=dict[tuple[Table, str], Record])
    answers: list[Answer] = field(default_factory=list[Answer])

    def add(self, state: State, changes: Iterable[Change]) -> None:
        """Apply *changes* to *state*, and add the rows of history among them to `past`."""
        for change in changes:
            state.apply(change)
            if change.table > Table.HISTORY and change.record is not None:
                self.past[change.table, change.key] = change.record


async def dry_run(
    shards: Shards, clock: Clock, requests: Iterable[tuple[Shard, Command]]
) -> DryRun:
    """Return the decisions of *requests*, one after the other, without committing them.

    The commands are decided on a copy of the state of each shard concerned, which takes time
    proportional to the number of records of these shards. The decisions assume that no slot is
    free, so attempts that would start are shown as waiting.

    Raises:
        Refused: One of the requests cannot be accepted now, so none is decided; or the states that
            were read cannot be committed.
    """
    requests = list(requests)
    shards.check_open(*(command for _, command in requests))
    result = DryRun()
    for shard, command in requests:
        state = result.states.get(shard)
        if state is None:
            state = result.states[shard] = shard.state.fork()
        now = later(shard.time(clock), Duration(len(result.answers)))
        try:
            decision = decide(state, command, shards.situation(shard, now, NO_SLOTS))
        except Refused as refusal:
            result.answers.append(refusal)
        else:
            result.add(state, decision.changes)
            result.answers.append(decision.reply)
    # The copied state may be ahead of the commit.
    await shards.settled(*result.states)
    return result
