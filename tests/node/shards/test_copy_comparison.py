"""The copies of each shard are compared from time to time; a difference raises an alarm (R43)."""

import asyncio
import logging

import pytest
from msgspec.structs import replace

from rota.core.model.ids import Index, JobId, NodeId, ShardId
from rota.core.replication.row_digests import DIGEST_BYTES
from rota.core.timing.instants import MILLISECOND, SECOND, Duration
from rota.core.vocabulary.changes import Name, Table
from rota.core.vocabulary.codec import encode_record
from rota.core.vocabulary.commands import Command, PauseJob, ResumeJob
from rota.node.coordination.coordinator import Member
from rota.node.peers.messages import AskDigest, GiveDigest, Sent
from rota.node.shards.copy_comparison import ANSWERED_SHARE, READINGS_MAX, CopyComparison
from rota.node.shards.shard import Shard
from rota.node.system.entropy import SystemEntropy
from rota.storage.shards import shard_prefix
from rota.storage.store import Family
from support.in_process import save
from support.virtual_nodes import A, B, C, Nodes, run, until

ONE, OTHER = ShardId(0), ShardId(1)
EVERY = Duration(12 * SECOND)
"""A comparison is given up after a third of a second."""
ROUNDS_S = 3 * EVERY / SECOND
FLIPPED = encode_record(Name(JobId("3f2a9c0011223344")))


def digests(nodes: Nodes, node_id: NodeId) -> CopyComparison:
    """Return the comparison of a node."""
    return nodes[node_id].running.digests


async def compared(nodes: Nodes, node_id: NodeId, result: str, count: int = 1) -> None:
    """Wait until a node has made so many more comparisons with that result."""
    results = digests(nodes, node_id).results
    before = results[result]
    await until(lambda: results[result] >= before + count, ROUNDS_S)


def names_of(nodes: Nodes, shard: ShardId) -> list[str]:
    """Return names of jobs of a shard."""
    of_name = nodes[A].shards.of_name
    return [name for name in map(str, range(200)) if of_name("default", name).id == shard]


async def fill(nodes: Nodes) -> None:
    """Make a job of each shard, and wait until all copies have it."""
    for shard, (primary, *_) in nodes.wanted.items():
        await save(nodes[primary].shards, names_of(nodes, shard)[0])
        tip = nodes[primary].shards[shard].replica.copy.tip.index
        await until(lambda: all(_applied(nodes, node_id, shard) == tip for node_id in (A, B, C)))  # noqa: B023 - it is awaited here


def gather(nodes: Nodes) -> None:
    """Have messages arrive every 10 ms only, so that copies apply many entries at once."""
    every = 10 * MILLISECOND
    nodes.delays_s = lambda message: ((every - nodes.loop.now % every) / SECOND,)


def commands_for(job_id: JobId) -> tuple[Command, Command]:
    """Return what makes two entries in the shard of a job."""
    return PauseJob(job_id=job_id), ResumeJob(job_id=job_id)


def _applied(nodes: Nodes, node_id: NodeId, shard: ShardId) -> Index:
    return nodes[node_id].shards[shard].file.applied


def flip(nodes: Nodes, node_id: NodeId, shard: ShardId) -> bytes:
    """Change a row of a shard in the store of one node, and return its key."""
    store, prefix = nodes[node_id].store, shard_prefix(shard) + bytes((Table.NAME,))
    key, _ = next(store.scan(Family.STATE, prefix, prefix + b"\xff"))
    batch = store.batch()
    batch.put(Family.STATE, key, FLIPPED)
    store.write(batch)
    return key


def question(shard: Shard, node_id: NodeId, index: Index | None = None) -> AskDigest:
    """Return what the primary of a shard would ask a copy now."""
    newest = shard.replica.newest
    assert newest is not None
    allocation = newest.allocation_of(node_id)
    assert allocation is not None
    at = shard.file.applied if index is None else index
    return AskDigest(epoch=newest.epoch, allocation=allocation, index=at, number=1)


class Answers:
    """Keeps the digests that are sent to one node, which get lost."""

    def __init__(self, nodes: Nodes, receiver: NodeId) -> None:
        self.given: list[GiveDigest] = []
        self._receiver = receiver
        nodes.loses = self._loses

    def _loses(self, sender: NodeId, receiver: NodeId, message: Sent) -> bool:
        del sender
        if not isinstance(message, GiveDigest) or receiver != self._receiver:
            return False
        self.given.append(message)
        return True


# -- the whole of it -------------------------------------------------------------------------------


def test_every_shard_is_compared_in_each_round_and_copies_are_equal() -> None:
    async def story(nodes: Nodes) -> None:
        nodes.wanted[OTHER] = (B, C, A)
        await nodes.move(OTHER, B, C, A)
        await fill(nodes)
        await compared(nodes, A, "equal", 2)
        await compared(nodes, B, "equal", 2)

        for node_id in (A, B, C):
            assert digests(nodes, node_id).diverged == frozenset()
            assert digests(nodes, node_id).results["different"] == 0
        assert not digests(nodes, C).results["equal"]

    run(story, compare_every=EVERY)


@pytest.mark.parametrize("odd", [A, B], ids=["of the primary", "of a backup"])
def test_a_row_that_is_another_in_one_copy_raises_the_alarm_and_stays_as_it_is(
    odd: NodeId, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(nodes: Nodes) -> None:
        await fill(nodes)
        key = flip(nodes, odd, ONE)

        await compared(nodes, A, "different")

        assert digests(nodes, A).diverged == {ONE}
        assert b"rota_copies_diverged 1.0" in nodes[A].running.context.metrics.text()
        assert nodes[odd].store.get(Family.STATE, key) == FLIPPED

    with caplog.at_level(logging.ERROR):
        run(story, compare_every=EVERY)

    [record] = [each for each in caplog.records if each.message == "copies differ"]
    facts = vars(record)
    assert (facts["shard"], facts["odd"], set(facts["digests"])) == (ONE, (odd,), {A, B, C})


def test_the_alarm_ends_when_copies_are_found_equal() -> None:
    async def story(nodes: Nodes) -> None:
        await fill(nodes)
        store = nodes[B].store
        key = flip(nodes, B, ONE)
        await compared(nodes, A, "different")

        value = nodes[C].store.get(Family.STATE, key)
        assert value is not None
        batch = store.batch()
        batch.put(Family.STATE, key, value)
        store.write(batch)
        await until(lambda: not digests(nodes, A).diverged, ROUNDS_S)

    run(story, compare_every=EVERY)


def test_shards_that_are_written_to_without_a_pause_are_compared_at_one_entry() -> None:
    async def story(nodes: Nodes) -> None:
        is_over = False
        gather(nodes)

        async def write(number: int) -> None:
            job_id = await save(nodes[A].shards, names_of(nodes, ONE)[number])
            while not is_over:
                for command in commands_for(job_id):
                    await asyncio.sleep(0.001 * number)  # So that each makes an entry of its own.
                    await nodes[A].shards.ask(nodes[A].shards[ONE], command)

        async with asyncio.TaskGroup() as group:
            for number in range(8):
                group.create_task(write(number))
            await compared(nodes, A, "equal", 4)
            is_over = True

        results = digests(nodes, A).results
        assert (results["different"], results["incomplete"]) == (0, 0)

    run(story, compare_every=Duration(5 * SECOND))


def test_a_copy_that_does_not_answer_is_asked_again() -> None:
    async def story(nodes: Nodes) -> None:
        await fill(nodes)
        nodes.loses = lambda sender, receiver, message: (
            isinstance(message, GiveDigest) and sender == C
        )
        await compared(nodes, A, "incomplete")
        nodes.loses = lambda sender, receiver, message: False

        await compared(nodes, A, "equal")
        assert digests(nodes, A).results["different"] == 0

    run(story, compare_every=EVERY)


def test_a_node_that_ends_in_the_middle_leaves_the_others_to_compare_later() -> None:
    async def story(nodes: Nodes) -> None:
        await fill(nodes)
        was_asked = asyncio.Event()

        def loses(sender: NodeId, receiver: NodeId, message: Sent) -> bool:
            del sender
            if isinstance(message, AskDigest) and receiver == C:
                was_asked.set()
            return isinstance(message, GiveDigest)

        nodes.loses = loses
        await was_asked.wait()
        await nodes[C].end()
        nodes.loses = lambda sender, receiver, message: False
        await nodes[C].start()
        await nodes.settle()

        await compared(nodes, A, "equal", 2)
        assert digests(nodes, A).results["different"] == 0

    run(story, compare_every=EVERY)


# -- the part of each copy -------------------------------------------------------------------------


def test_a_copy_digests_the_rows_of_the_entry_in_question_and_not_of_the_next() -> None:
    async def story(nodes: Nodes) -> None:
        await fill(nodes)
        job_id = await save(nodes[A].shards, names_of(nodes, ONE)[0])
        answers = Answers(nodes, A)
        shard = nodes[B].shards[ONE]
        ask = digests(nodes, B).asked

        ask(shard, A, question(shard, B))
        ask(shard, A, question(shard, B, Index(shard.file.applied + 1)))
        for command in commands_for(job_id):
            await nodes[A].shards.ask(nodes[A].shards[ONE], command)
        await until(lambda: len(answers.given) == 2)
        await until(lambda: _applied(nodes, B, ONE) == _applied(nodes, A, ONE))
        ask(shard, A, question(shard, B))
        await until(lambda: len(answers.given) == 3)

        before, between, after = (each.digest for each in answers.given)
        assert None not in (before, between, after)
        assert between not in (before, after)

    run(story)


def test_a_copy_gives_no_digest_of_an_entry_that_has_passed() -> None:
    async def story(nodes: Nodes) -> None:
        await fill(nodes)
        answers = Answers(nodes, A)
        shard = nodes[B].shards[ONE]

        before = Index(shard.file.applied - 1)
        digests(nodes, B).asked(shard, A, question(shard, B, before))

        assert [each.digest for each in answers.given] == [None]

    run(story)


def test_a_copy_that_is_not_meant_gives_no_digest() -> None:
    async def story(nodes: Nodes) -> None:
        answers = Answers(nodes, A)
        shard = nodes[B].shards[ONE]

        digests(nodes, B).asked(shard, A, question(shard, C))

        assert [each.digest for each in answers.given] == [None]

    run(story)


@pytest.mark.parametrize("by", [-1, 1])
def test_a_copy_gives_no_digest_under_another_configuration_than_the_newest(by: int) -> None:
    async def story(nodes: Nodes) -> None:
        answers = Answers(nodes, A)
        shard = nodes[B].shards[ONE]
        asked = question(shard, B)

        digests(nodes, B).asked(shard, A, replace(asked, epoch=asked.epoch + by))

        assert [each.digest for each in answers.given] == [None]

    run(story)


def test_a_copy_that_counts_no_more_gives_no_digest() -> None:
    async def story(nodes: Nodes) -> None:
        before = question(nodes[C].shards[ONE], C)
        await nodes.move(ONE, A, B)
        answers = Answers(nodes, A)
        shard = nodes[C].shards[ONE]
        newest = shard.replica.newest
        assert newest is not None
        assert shard.replica.copy.allocation == before.allocation

        asked = replace(before, epoch=newest.epoch, index=shard.file.applied)
        digests(nodes, C).asked(shard, A, asked)

        assert [each.digest for each in answers.given] == [None]

    run(story)


def test_a_node_that_lost_the_copy_that_counts_gives_no_digest_of_nothing() -> None:
    async def story(nodes: Nodes) -> None:
        for node_id in (A, B):
            nodes[node_id].refusal = "mvcc: database space exceeded"
        nodes.cut(C, A, B)
        await nodes[C].end()
        nodes[C].lose_disk()
        await nodes[C].start()
        shard = nodes[C].shards[ONE]
        await until(lambda: shard.replica.newest is not None)
        answers = Answers(nodes, A)

        digests(nodes, C).asked(shard, A, question(shard, C))

        assert shard.replica.copy.allocation is None
        assert [each.digest for each in answers.given] == [None]

    run(story)


def test_a_copy_that_comes_to_the_entry_too_late_gives_no_digest() -> None:
    async def story(nodes: Nodes) -> None:
        answers = Answers(nodes, A)
        shard = nodes[B].shards[ONE]
        next_index = Index(shard.file.applied + 1)

        digests(nodes, B).asked(shard, A, question(shard, B, next_index))
        await asyncio.sleep(EVERY / SECOND / ANSWERED_SHARE + 0.1)
        await save(nodes[A].shards, names_of(nodes, ONE)[0])
        await until(lambda: bool(answers.given))

        assert [each.digest for each in answers.given] == [None]

    run(story, compare_every=EVERY)


def test_a_node_that_compares_nothing_yet_gives_no_digest() -> None:
    async def story(nodes: Nodes) -> None:
        answers = Answers(nodes, A)
        node = nodes[B]
        idle = CopyComparison(
            node.shards,
            node.store,
            node,
            B,
            clock=node.clock,
            entropy=SystemEntropy(),
            every=EVERY,
        )

        idle.asked(node.shards[ONE], A, question(node.shards[ONE], B))

        assert [each.digest for each in answers.given] == [None]

    run(story)


# -- when a primary compares nothing ---------------------------------------------------------------


class Questions:
    """Counts the questions of a node about a shard."""

    def __init__(self, nodes: Nodes, asker: NodeId) -> None:
        self.count = 0
        self._asker = asker
        nodes.loses = self._loses

    def _loses(self, sender: NodeId, receiver: NodeId, message: Sent) -> bool:
        del receiver
        self.count += isinstance(message, AskDigest) and sender == self._asker
        return False


def test_a_primary_without_authority_asks_for_no_digest() -> None:
    async def story(nodes: Nodes) -> None:
        nodes[A].running.context.membership.heard_loss(B, 0)  # So it asks for no change.
        nodes.cut(A, B, C)
        shards, now = [nodes[A].shards[each] for each in (ONE, OTHER)], nodes[A].clock.elapsed
        await until(lambda: not any(shard.may_answer(now()) for shard in shards))
        questions = Questions(nodes, A)

        await asyncio.sleep(ROUNDS_S)

        assert all(shard.replica.is_active for shard in shards)
        assert not questions.count

    run(story, compare_every=EVERY)


def test_a_primary_asks_for_no_digest_while_a_change_of_the_copies_may_have_happened() -> None:
    async def story(nodes: Nodes) -> None:
        for shard in (ONE, OTHER):
            nodes.wanted[shard] = (A, B)
        primaries = [nodes[A].shards[shard].replica.primary for shard in (ONE, OTHER)]

        def lose_answers(call: str) -> None:
            if call == "swap":
                nodes.coordinator_returns_s = None

        nodes[A].on_call = lose_answers
        member = Member(node_id=A, store_id=A, address=A, version="2")
        nodes.server.change(lambda state: state.register(member))
        await until(lambda: all(primary and primary.changes for primary in primaries))
        questions = Questions(nodes, A)

        await asyncio.sleep(ROUNDS_S)

        assert all(primary and primary.changes for primary in primaries)
        assert all(
            nodes[A].shards[each].may_answer(nodes[A].clock.elapsed()) for each in (ONE, OTHER)
        )
        assert not questions.count

    run(story, compare_every=EVERY)


def test_a_node_refuses_digests_while_as_many_wait_as_may() -> None:
    async def story(nodes: Nodes) -> None:
        answers = Answers(nodes, A)
        shard = nodes[B].shards[ONE]
        for _ in range(READINGS_MAX + 1):
            digests(nodes, B).asked(shard, A, question(shard, B))

        assert [each.digest for each in answers.given] == [None]
        await until(lambda: len(answers.given) == READINGS_MAX + 1)

    run(story)


def test_an_answer_that_was_not_asked_for_is_refused() -> None:
    async def story(nodes: Nodes) -> None:
        router = nodes[A].running.router

        router.receive(ONE, B, GiveDigest(number=1, digest=bytes(DIGEST_BYTES)))

        assert router.refused["give_digest"] == 1

    run(story)
