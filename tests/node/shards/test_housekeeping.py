"""What a node does from time to time, on virtual time."""

import asyncio
from collections import Counter

import pytest

from rota.core.model.ids import ShardId
from rota.core.timing.instants import Instant
from rota.core.vocabulary.changes import Pointer, Table
from rota.core.vocabulary.commands import Command, Forget, Past
from rota.core.vocabulary.decision import Done
from rota.node.runtime.housekeeping import FORGOTTEN_PER_SHARD
from rota.node.shards.local_shards import Shards
from rota.node.shards.shard import OnAnswer, Shard
from rota.storage.history import History
from support.virtual_nodes import SHARDS, Nodes, run

Looks = Counter[ShardId]


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Looks:
    """How often each shard was looked at for what is too old; all of it is kept for a week."""
    counted: Looks = Counter()
    really = History.older_than

    def older_than(self: History, shard: ShardId, instant: Instant, limit: int) -> tuple[Past, ...]:
        counted[shard] += 1
        return really(self, shard, instant, limit)

    monkeypatch.setattr(History, "older_than", older_than)
    return counted


def test_a_shard_is_looked_at_once_a_minute_for_what_is_too_old(looks: Looks) -> None:
    async def story(nodes: Nodes) -> None:
        looks.clear()

        await asyncio.sleep(10 * 60)

        assert set(looks) == {ShardId(number) for number in range(SHARDS)}
        assert all(9 <= count <= 11 for count in looks.values()), looks

    run(story)


def test_while_more_is_too_old_than_goes_at_once_a_shard_is_looked_at_every_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found: Looks = Counter()
    past = Past(instant=Instant(0), pointer=Pointer(Table.LEDGER, "none"), tasks=())

    def older_than(self: History, shard: ShardId, instant: Instant, limit: int) -> tuple[Past, ...]:
        assert limit == FORGOTTEN_PER_SHARD
        found[shard] += 1
        return (past,) * (limit if found[shard] < 20 else limit - 1)

    async def story(nodes: Nodes) -> None:
        await asyncio.sleep(60 + 40)

        assert all(20 <= count <= 22 for count in found.values()), found
        assert set(found) == {ShardId(number) for number in range(SHARDS)}

    monkeypatch.setattr(History, "older_than", older_than)
    run(story)


def test_a_shard_has_one_deletion_under_way_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    past = Past(instant=Instant(0), pointer=Pointer(Table.LEDGER, "none"), tasks=())
    sent: Looks = Counter()
    unanswered: list[OnAnswer] = []
    really = Shards.submit

    def older_than(self: History, shard: ShardId, instant: Instant, limit: int) -> tuple[Past, ...]:
        return (past,) * limit

    def submit(
        self: Shards, shard: Shard, command: Command, on_answer: OnAnswer | None = None
    ) -> None:
        if isinstance(command, Forget):
            assert on_answer is not None
            sent[shard.id] += 1
            unanswered.append(on_answer)
        else:
            really(self, shard, command, on_answer)

    async def story(nodes: Nodes) -> None:
        await asyncio.sleep(100)
        assert set(sent.values()) == {1}

        while unanswered:
            unanswered.pop()(Done())
        await asyncio.sleep(2)
        assert set(sent.values()) == {2}

    monkeypatch.setattr(History, "older_than", older_than)
    monkeypatch.setattr(Shards, "submit", submit)
    run(story)
