"""The entry of one shard in one turn."""

from rota.core.timing.instants import MICROSECOND, Instant, later
from rota.core.vocabulary.changes import Change, Table
from rota.core.vocabulary.codec import encode_body, encode_change
from rota.core.vocabulary.decision import Decision
from rota.core.vocabulary.effects import Consequence
from rota.core.vocabulary.facts import Facts
from rota.node.shards.shard import Answer, Entry, OnAnswer, Shard


class EntryBuilder:
    """The changes of all commands that a shard decides in one turn, for one entry.

    Args:
        shard: A shard that is open on this node.
        at: The shard's time at the first command.
    """

    def __init__(self, shard: Shard, at: Instant) -> None:
        self.shard = shard
        self.at = at
        self._causes: list[str] = []
        self._changes: dict[tuple[Table, str], Change] = {}
        self._effects: list[Consequence] = []
        self._facts_version = 0

    @property
    def is_worth_an_entry(self) -> bool:
        """Whether there is anything to record."""
        return bool(self._causes)

    @property
    def recent_causes(self) -> tuple[str, ...]:
        """The causes of the last commands that changed the shard, oldest first."""
        return tuple(self.shard.recent_causes)

    def add(self, decision: Decision, facts: Facts) -> None:
        """Make *decision* part of the entry and of the shard's memory.

        Args:
            decision: The decision.
            facts: The facts with which it was made.
        """
        if not decision.changes and not decision.effects:
            return
        for change in decision.changes:
            self.shard.state.apply(change)
            self._changes[change.table, change.key] = change
        self._causes.append(decision.cause)
        self._facts_version = facts.version
        self.shard.recent_causes.append(decision.cause)
        self._effects += decision.effects
        # Ids contain instants, so no two decisions of a shard may have the same instant.
        self.at = later(self.at, MICROSECOND)

    def propose(self, answers: list[tuple[OnAnswer, Answer]], now: Instant) -> None:
        """Propose the entry to the shard's replica."""
        if self._facts_version:
            self._causes.append(f"with facts {self._facts_version}")
        changes = tuple(encode_change(change) for change in self._changes.values())
        index = self.shard.replica.propose(encode_body(self._causes, changes), self.at, now)
        entry = Entry(index, now, changes, tuple(self._effects), answers)
        self.shard.entries.append(entry)
