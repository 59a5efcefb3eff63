"""Contract of every `Coordinator`: a single node's file, etcd, and the simulated coordinator."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from pathlib import Path

import msgspec
import pytest

from rota.core.model.ids import AllocationId, Epoch, NodeId, Session, ShardId
from rota.core.model.shared_document import DocumentKey, SharedDocument, next_version
from rota.core.timing.instants import Instant
from rota.core.vocabulary.shard_configuration import NO_SESSION, Configuration, Copy, Swap
from rota.node.coordination.coordinator import Claim, Cluster, Coordinator, Life, Member, News
from rota.node.coordination.coordinator_errors import (
    NodeIdTaken,
    OtherCluster,
    StoreIdTaken,
    WatchLost,
)
from rota.node.coordination.embedded import EmbeddedCoordinator
from rota.node.coordination.etcd import EtcdCoordinator
from rota.node.coordination.etcd_gateway import Gateway, GatewayOptions
from rota.node.coordination.etcd_messages import Json, RangeResponse
from rota.node.coordination.testing.simulated_coordinator import (
    PerfectLink,
    SimulatedCoordinator,
    SimulatedServer,
)
from rota.node.system.clock import SystemClock
from rota.node.system.entropy import SystemEntropy
from support.etcd import EtcdCluster, needs_etcd

A, B = NodeId("node-a"), NodeId("node-b")
TTL_S = 1.0
LONG_S = 60.0
PATIENCE_S = 20.0

embedded = pytest.param("embedded", id="embedded")
simulated = pytest.param("simulated", id="simulated")
etcd_too = pytest.param("etcd", id="etcd", marks=needs_etcd)


@pytest.fixture(params=[embedded, simulated, etcd_too])
async def coordinator(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncGenerator[Coordinator]:
    made = MAKERS[request.param](request, tmp_path)
    yield made
    await made.close()


with_time = pytest.mark.parametrize("coordinator", [simulated, etcd_too], indirect=True)
"""Not a single node's file, in which sessions do not expire."""


def an_embedded(request: pytest.FixtureRequest, tmp_path: Path) -> Coordinator:
    del request
    return EmbeddedCoordinator(tmp_path / "COORDINATION", SystemEntropy())


def a_simulated(request: pytest.FixtureRequest, tmp_path: Path) -> Coordinator:
    del request, tmp_path
    server = SimulatedServer(SystemClock())
    return SimulatedCoordinator(server, A, link=PerfectLink(), entropy=SystemEntropy())


def an_etcd(request: pytest.FixtureRequest, tmp_path: Path) -> Coordinator:
    cluster: EtcdCluster = request.getfixturevalue("etcd")
    options = GatewayOptions(endpoints=cluster.urls)
    return EtcdCoordinator(options, cluster=tmp_path.name, entropy=SystemEntropy())


MAKERS: dict[str, Callable[[pytest.FixtureRequest, Path], Coordinator]] = {
    "embedded": an_embedded,
    "simulated": a_simulated,
    "etcd": an_etcd,
}


def member(node_id: NodeId, address: str = "127.0.0.1:7400") -> Member:
    return Member(node_id=node_id, store_id=f"store of {node_id}", address=address)


def configuration(epoch: int, session: Session, primary: NodeId = A) -> Configuration:
    sync = (Copy(A, AllocationId("a1")), Copy(B, AllocationId("b1")))
    return Configuration(epoch=Epoch(epoch), primary=primary, primary_session=session, sync=sync)


def swap(
    shard: int,
    expected: Configuration | None,
    session: Session,
    *,
    by: NodeId = A,
    gone: tuple[NodeId, Session] | None = None,
) -> Swap:
    return Swap(
        shard=ShardId(shard),
        expected=expected,
        fresh=configuration(expected.epoch + 1 if expected else 1, session, by),
        by=by,
        session=session,
        gone=gone,
    )


def claim(node_id: NodeId = A, store_id: str = "", lock: str = "") -> Claim:
    store_id = store_id or f"store of {node_id}"
    return Claim(node_id=node_id, store_id=store_id, lock=lock or f"lock on {store_id}")


async def life(coordinator: Coordinator, node_id: NodeId = A, ttl_s: float = LONG_S) -> Session:
    grant = await coordinator.begin_session(claim(node_id), ttl_s)
    return grant.session


async def take(coordinator: Coordinator, shard: int, session: Session) -> Configuration:
    """Give a shard its first configuration."""
    first = swap(shard, None, session)
    [swapped] = await coordinator.swap([first])
    assert swapped.is_done
    return first.fresh


async def steps(watch: AsyncIterator[News], count: int) -> list[News]:
    async with asyncio.timeout(PATIENCE_S):
        return [await anext(watch) for _ in range(count)]


# -- the cluster, and its members -----------------------------------------------------------------


async def test_a_cluster_is_founded_once(coordinator: Coordinator) -> None:
    first = await coordinator.found(Cluster(id="one", shards=64, replicas=3))

    second = await coordinator.found(Cluster(id="two", shards=128, replicas=1))

    assert second == first == Cluster(id="one", shards=64, replicas=3)
    assert (await coordinator.view()).cluster == first


async def test_a_view_without_a_founded_cluster_has_none(coordinator: Coordinator) -> None:
    await coordinator.register(member(A))

    assert (await coordinator.view()).cluster is None


async def test_a_cluster_of_another_format_is_not_joined(coordinator: Coordinator) -> None:
    await coordinator.found(Cluster(id="one", shards=64, replicas=3, format=2))

    with pytest.raises(OtherCluster, match="founded in format 2"):
        await coordinator.found(Cluster(id="two", shards=64, replicas=3, format=1))


async def test_the_record_of_a_cluster_is_replaced_if_it_is_as_expected(
    coordinator: Coordinator,
) -> None:
    founded = await coordinator.found(Cluster(id="first", shards=8, replicas=3))
    fresh = msgspec.structs.replace(founded, replicas=5)

    assert await coordinator.recover(founded, fresh)

    assert (await coordinator.view()).cluster == fresh


async def test_the_record_of_a_cluster_that_is_not_as_expected_stays(
    coordinator: Coordinator,
) -> None:
    founded = await coordinator.found(Cluster(id="first", shards=8, replicas=3))
    other = msgspec.structs.replace(founded, replicas=5)

    assert not await coordinator.recover(None, other)
    assert not await coordinator.recover(other, other)

    assert (await coordinator.view()).cluster == founded


async def test_the_record_of_a_cluster_that_is_gone_is_put_once(coordinator: Coordinator) -> None:
    first, second = (Cluster(id=each, shards=8, replicas=3) for each in ("first", "second"))

    done = await asyncio.gather(coordinator.recover(None, first), coordinator.recover(None, second))

    assert sorted(done) == [False, True]
    assert (await coordinator.view()).cluster == (first if done[0] else second)


async def test_the_last_registration_of_a_member_counts(coordinator: Coordinator) -> None:
    await coordinator.register(member(A, "old:1"))
    await coordinator.register(member(B))

    await coordinator.register(member(A, "new:2"))

    assert (await coordinator.view()).members == {A: member(A, "new:2"), B: member(B)}


async def test_a_member_is_changed_if_it_is_as_expected(coordinator: Coordinator) -> None:
    await coordinator.register(member(A, "old:1"))
    await coordinator.register(member(B))

    is_changed = await coordinator.change(member(A, "old:1"), member(A, "new:2"))

    assert is_changed
    assert (await coordinator.view()).members == {A: member(A, "new:2"), B: member(B)}


async def test_a_member_that_is_not_as_expected_stays(coordinator: Coordinator) -> None:
    await coordinator.register(member(A, "other:3"))

    is_changed = [
        await coordinator.change(member(A, "old:1"), member(A, "new:2")),
        await coordinator.change(member(B), member(B, "new:2")),
    ]

    assert is_changed == [False, False]
    assert (await coordinator.view()).members == {A: member(A, "other:3")}


async def test_of_many_changes_at_the_same_time_one_is_made(coordinator: Coordinator) -> None:
    there = member(A, "old:1")
    await coordinator.register(there)

    for turn in range(10):  # One round does not always make calls overtake one another.
        fresh = [member(A, f"new-{turn}:{number}") for number in range(1, 21)]
        are_changed = await asyncio.gather(*(coordinator.change(there, each) for each in fresh))
        assert sum(are_changed) == 1
        there = fresh[are_changed.index(True)]

    assert (await coordinator.view()).members == {A: there}


async def test_a_forgotten_node_is_no_member(coordinator: Coordinator) -> None:
    await coordinator.register(member(A))
    await coordinator.end_session(await life(coordinator))

    is_forgotten = await coordinator.forget(A)

    assert is_forgotten
    assert (await coordinator.view()).members == {}


async def test_a_node_that_lives_is_not_forgotten(coordinator: Coordinator) -> None:
    await coordinator.register(member(A))
    session = await life(coordinator)

    is_forgotten = await coordinator.forget(A)

    assert not is_forgotten
    assert (await coordinator.view()).members == {A: member(A)}
    assert await coordinator.renew(session) is not None


async def test_forgetting_an_unknown_node_changes_nothing(coordinator: Coordinator) -> None:
    await coordinator.register(member(A))

    await coordinator.forget(B)

    assert set((await coordinator.view()).members) == {A}


# -- sessions -------------------------------------------------------------------------------------


async def test_a_session_lives_at_least_as_long_as_asked_for(coordinator: Coordinator) -> None:
    grant = await coordinator.begin_session(claim(), 7.5)

    assert grant.ttl_s >= 7.5
    assert (await coordinator.renew(grant.session) or 0) >= 7.5


async def test_a_view_has_session_and_data_directory_of_each_live_node(
    coordinator: Coordinator,
) -> None:
    session = await life(coordinator)

    view = await coordinator.view()

    assert view.lives == {
        A: Life(session=session, store_id="store of node-a", lock="lock on store of node-a")
    }


async def test_a_new_life_of_a_node_ends_the_one_before(coordinator: Coordinator) -> None:
    old = await life(coordinator)

    new = await life(coordinator)

    assert await coordinator.renew(old) is None
    assert await coordinator.renew(new) is not None
    assert (await coordinator.view()).lives[A].session == new != old


async def test_another_data_directory_cannot_live_under_the_same_id(
    coordinator: Coordinator,
) -> None:
    session = await life(coordinator)

    with pytest.raises(NodeIdTaken, match=r'alive as node "node-a"'):
        await coordinator.begin_session(claim(A, "another store"), LONG_S)

    assert await coordinator.renew(session) is not None


@pytest.mark.parametrize("lock", ["of a copy, or before the machine's start", ""])
async def test_a_process_under_another_lock_ends_no_session(
    coordinator: Coordinator, lock: str
) -> None:
    session = await life(coordinator)

    with pytest.raises(NodeIdTaken, match="alive with this data directory or a copy of it"):
        await coordinator.begin_session(msgspec.structs.replace(claim(), lock=lock), LONG_S)

    assert await coordinator.renew(session) is not None


@with_time
async def test_a_process_under_another_lock_begins_when_the_session_before_has_run_out(
    coordinator: Coordinator,
) -> None:
    revision = (await coordinator.view()).revision
    await life(coordinator, A, TTL_S)
    async with aclosing(coordinator.watch(revision)) as watch:
        assert [set(step.lives.values()) == {None} for step in await steps(watch, 2)] == [
            False,
            True,
        ]

    grant = await coordinator.begin_session(claim(lock="of a copy"), LONG_S)

    assert await coordinator.renew(grant.session) is not None


async def test_a_session_without_a_lock_is_not_ended_by_who_has_none_either(
    coordinator: Coordinator,
) -> None:
    unnamed = msgspec.structs.replace(claim(), lock="")
    await coordinator.begin_session(unnamed, LONG_S)

    with pytest.raises(NodeIdTaken):
        await coordinator.begin_session(unnamed, LONG_S)


async def test_a_copy_of_a_data_directory_cannot_live_under_another_id(
    coordinator: Coordinator,
) -> None:
    session = await life(coordinator)

    with pytest.raises(StoreIdTaken, match='node "node-a" is alive with this data directory'):
        await coordinator.begin_session(claim(B, "store of node-a", "another"), LONG_S)

    assert set((await coordinator.view()).lives) == {A}
    await coordinator.end_session(session)
    await coordinator.begin_session(claim(B, "store of node-a"), LONG_S)


async def test_of_two_copies_that_begin_at_once_under_two_ids_one_lives(
    coordinator: Coordinator,
) -> None:
    begun = await asyncio.gather(
        *(coordinator.begin_session(claim(each, "store", each), LONG_S) for each in (A, B)),
        return_exceptions=True,
    )

    assert len((await coordinator.view()).lives) == 1
    assert sum(isinstance(each, StoreIdTaken) for each in begun) == 1


async def test_of_two_data_directories_that_begin_at_once_one_lives(
    coordinator: Coordinator,
) -> None:
    begun = await asyncio.gather(
        *(coordinator.begin_session(claim(A, f"store {number}"), LONG_S) for number in range(2)),
        return_exceptions=True,
    )

    alive = (await coordinator.view()).lives[A].session
    assert [each.session for each in begun if not isinstance(each, BaseException)] == [alive]
    assert sum(isinstance(each, NodeIdTaken) for each in begun) == 1


async def test_an_ended_session_is_over_for_ever(coordinator: Coordinator) -> None:
    session = await life(coordinator)

    await coordinator.end_session(session)
    await coordinator.end_session(session)

    assert await coordinator.renew(session) is None
    assert (await coordinator.view()).lives == {}


@pytest.mark.parametrize("session", [NO_SESSION, Session("0" * 16), Session("no session")])
async def test_what_never_was_a_session_is_over(coordinator: Coordinator, session: Session) -> None:
    await life(coordinator)

    await coordinator.end_session(session)

    assert await coordinator.renew(session) is None
    assert set((await coordinator.view()).lives) == {A}


@with_time
async def test_a_session_that_is_not_renewed_runs_out_and_others_do_not(
    coordinator: Coordinator,
) -> None:
    kept = await life(coordinator, A, TTL_S)
    left = await life(coordinator, B, TTL_S)
    revision = (await coordinator.view()).revision
    gone = asyncio.Event()

    async def see() -> None:
        async with aclosing(coordinator.watch(revision)) as watch:
            [step] = await steps(watch, 1)
        assert step.lives == {B: None}
        gone.set()

    async with asyncio.TaskGroup() as group:
        group.create_task(see())
        while not gone.is_set():
            assert await coordinator.renew(kept) is not None
            await asyncio.sleep(0.1)

    assert await coordinator.renew(left) is None
    assert set((await coordinator.view()).lives) == {A}


# -- swaps ----------------------------------------------------------------------------------------


async def test_a_shard_without_a_configuration_is_taken_under_epoch_one(
    coordinator: Coordinator,
) -> None:
    session = await life(coordinator)

    [swapped] = await coordinator.swap([swap(3, None, session)])

    assert swapped.is_done
    assert swapped.current == configuration(1, session)
    assert (await coordinator.view()).configurations == {3: configuration(1, session)}


async def test_a_swap_that_is_not_done_returns_what_is_there(coordinator: Coordinator) -> None:
    session = await life(coordinator)
    there = await take(coordinator, 3, session)

    [swapped] = await coordinator.swap([swap(3, None, session)])

    assert (swapped.is_done, swapped.current) == (False, there)


async def test_each_swap_succeeds_or_fails_alone(coordinator: Coordinator) -> None:
    session = await life(coordinator)
    there = await take(coordinator, 1, session)

    swapped = await coordinator.swap(
        [swap(1, None, session), swap(2, None, session), swap(3, there, session)]
    )

    assert [each.is_done for each in swapped] == [False, True, False]
    assert [each.current and each.current.epoch for each in swapped] == [1, 1, None]
    assert set((await coordinator.view()).configurations) == {1, 2}


async def test_a_swap_compares_all_of_a_configuration(coordinator: Coordinator) -> None:
    session = await life(coordinator)
    await take(coordinator, 1, session)
    same_epoch = configuration(1, Session("another"))

    [swapped] = await coordinator.swap([swap(1, same_epoch, session)])

    assert not swapped.is_done


@pytest.mark.parametrize("session", [NO_SESSION, Session("0" * 16), Session("000000000000beef")])
async def test_who_does_not_live_swaps_nothing(coordinator: Coordinator, session: Session) -> None:
    [swapped] = await coordinator.swap([swap(1, None, session)])

    assert (swapped.is_done, swapped.current) == (False, None)


async def test_a_session_that_is_over_swaps_nothing(coordinator: Coordinator) -> None:
    old = await life(coordinator)
    there = await take(coordinator, 1, old)
    await life(coordinator)

    [swapped] = await coordinator.swap([swap(1, there, old)])

    assert (swapped.is_done, swapped.current) == (False, there)


async def test_the_session_of_another_node_swaps_nothing(coordinator: Coordinator) -> None:
    await life(coordinator, A)
    other = await life(coordinator, B)

    [swapped] = await coordinator.swap([swap(1, None, other, by=A)])

    assert not swapped.is_done


async def test_nothing_is_taken_over_from_a_live_node(coordinator: Coordinator) -> None:
    alive, successor = await life(coordinator, A), await life(coordinator, B)
    there = await take(coordinator, 1, alive)

    [swapped] = await coordinator.swap([swap(1, there, successor, by=B, gone=(A, alive))])

    assert (swapped.is_done, swapped.current) == (False, there)


async def test_a_shard_of_a_node_without_a_session_is_taken_over(coordinator: Coordinator) -> None:
    dead, successor = await life(coordinator, A), await life(coordinator, B)
    there = await take(coordinator, 1, dead)
    await coordinator.end_session(dead)

    [swapped] = await coordinator.swap([swap(1, there, successor, by=B, gone=(A, dead))])

    assert swapped.is_done


async def test_a_later_session_does_not_keep_the_shards_of_the_earlier(
    coordinator: Coordinator,
) -> None:
    dead, successor = await life(coordinator, A), await life(coordinator, B)
    there = await take(coordinator, 1, dead)
    await life(coordinator, A)

    [swapped] = await coordinator.swap([swap(1, there, successor, by=B, gone=(A, dead))])

    assert swapped.is_done


async def test_a_shard_of_a_primary_that_resigned_is_taken_over_at_once(
    coordinator: Coordinator,
) -> None:
    alive, successor = await life(coordinator, A), await life(coordinator, B)
    there = await take(coordinator, 1, alive)

    [swapped] = await coordinator.swap([swap(1, there, successor, by=B, gone=(A, NO_SESSION))])

    assert swapped.is_done


async def test_an_epoch_that_skips_one_is_a_bug(coordinator: Coordinator) -> None:
    wrong = Swap(
        shard=ShardId(1),
        expected=None,
        fresh=configuration(2, Session("s")),
        by=A,
        session=Session("s"),
    )

    with pytest.raises(ValueError, match="does not follow"):
        await coordinator.swap([wrong])


async def test_one_shard_twice_in_a_call_is_a_bug(coordinator: Coordinator) -> None:
    session = await life(coordinator)

    with pytest.raises(ValueError, match="twice"):
        await coordinator.swap([swap(1, None, session), swap(1, None, session)])


async def test_many_swaps_are_all_answered_in_order(coordinator: Coordinator) -> None:
    session = await life(coordinator)
    await take(coordinator, 40, session)

    swapped = await coordinator.swap([swap(shard, None, session) for shard in range(70)])

    assert [shard for shard, each in enumerate(swapped) if not each.is_done] == [40]
    assert len((await coordinator.view()).configurations) == 70


async def test_no_swaps_are_no_work(coordinator: Coordinator) -> None:
    assert await coordinator.swap([]) == []


# -- watches --------------------------------------------------------------------------------------


async def test_a_watch_yields_each_step_once_and_in_order(coordinator: Coordinator) -> None:
    revision = (await coordinator.view()).revision
    await coordinator.register(member(A))
    session = await life(coordinator)
    there = await take(coordinator, 1, session)
    await coordinator.swap([swap(1, there, session)])
    await coordinator.end_session(session)

    async with aclosing(coordinator.watch(revision)) as watch:
        found = await steps(watch, 5)

    assert found[0].members == {A: member(A)}
    assert [each and each.session for each in found[1].lives.values()] == [session]
    assert found[2].configurations == {1: there}
    assert found[3].configurations == {1: configuration(2, session)}
    assert found[4].lives == {A: None}
    assert sorted({step.revision for step in found}) == [step.revision for step in found]
    # Others write to the same etcd: the lease of an earlier test may have just expired.
    assert found[-1].revision <= (await coordinator.view()).revision


async def test_swaps_of_one_call_are_one_step(coordinator: Coordinator) -> None:
    session = await life(coordinator)
    revision = (await coordinator.view()).revision
    await coordinator.swap([swap(shard, None, session) for shard in range(20)])

    async with aclosing(coordinator.watch(revision)) as watch:
        [step] = await steps(watch, 1)

    assert set(step.configurations) == set(range(20))


async def test_a_watch_yields_a_step_that_happens_while_it_waits(coordinator: Coordinator) -> None:
    session = await life(coordinator)
    revision = (await coordinator.view()).revision

    async with aclosing(coordinator.watch(revision)) as watch, asyncio.TaskGroup() as group:
        waiting = group.create_task(steps(watch, 1))
        await asyncio.sleep(0)
        there = await take(coordinator, 5, session)

    [step] = waiting.result()
    assert step.configurations == {5: there}


async def test_two_watches_are_independent(coordinator: Coordinator) -> None:
    session = await life(coordinator)
    early = (await coordinator.view()).revision
    first = await take(coordinator, 1, session)
    late = (await coordinator.view()).revision
    second = await take(coordinator, 2, session)

    async with (
        aclosing(coordinator.watch(early)) as one,
        aclosing(coordinator.watch(late)) as two,
    ):
        early_steps, late_steps = await steps(one, 2), await steps(two, 1)

    assert [step.configurations for step in early_steps] == [{1: first}, {2: second}]
    assert [step.configurations for step in late_steps] == [{2: second}]


async def test_a_watch_from_a_revision_that_never_was_is_lost(coordinator: Coordinator) -> None:
    revision = (await coordinator.view()).revision

    async with aclosing(coordinator.watch(revision + 1_000_000)) as watch:
        with pytest.raises(WatchLost, match="went back"):
            await steps(watch, 1)


# -- shared documents -----------------------------------------------------------------------------


KEY = DocumentKey("types", "image.render")


def document(before: SharedDocument | None, definition: dict[str, object] | None) -> SharedDocument:
    """Return the record of `KEY` after a change."""
    return next_version(KEY, before, definition, at=Instant(1), by="ann")


async def test_a_document_is_changed_by_the_one_that_knows_its_record(
    coordinator: Coordinator,
) -> None:
    first = document(None, {"template": {"command": "render"}})
    second = document(first, {"template": {"command": "render --fast"}})

    assert await coordinator.change_document(KEY, None, first)
    assert not await coordinator.change_document(KEY, None, second)
    assert await coordinator.change_document(KEY, first, second)
    assert not await coordinator.change_document(KEY, first, document(first, None))

    assert (await coordinator.documents()).by_key == {KEY: second}


async def test_the_record_of_a_deleted_document_is_removed_by_the_one_that_knows_it(
    coordinator: Coordinator,
) -> None:
    first = document(None, {})
    deleted = document(first, None)
    await coordinator.change_document(KEY, None, first)

    assert await coordinator.change_document(KEY, first, deleted)
    assert (await coordinator.documents()).by_key == {KEY: deleted}
    assert not await coordinator.change_document(KEY, first, None)
    assert await coordinator.change_document(KEY, deleted, None)

    assert (await coordinator.documents()).by_key == {}


async def test_a_watch_of_documents_has_their_changes_and_no_others(
    coordinator: Coordinator,
) -> None:
    await coordinator.register(member(A))
    first, other = document(None, {"x": 1}), DocumentKey("types", "report")
    read = await coordinator.documents()
    await coordinator.register(member(B))

    await coordinator.change_document(KEY, None, first)
    await coordinator.register(member(A, "127.0.0.1:7500"))
    await coordinator.change_document(KEY, first, None)
    last = msgspec.structs.replace(first, name=other.name)
    await coordinator.change_document(other, None, last)
    async with aclosing(coordinator.watch_documents(read.revision)) as watch:
        async with asyncio.timeout(PATIENCE_S):
            seen = [await anext(watch) for _ in range(3)]

    assert [dict(each.documents) for each in seen] == [{KEY: first}, {KEY: None}, {other: last}]
    # Others write to the same etcd, so the last revision of all may be a later one.
    now = await coordinator.documents()
    revisions = [read.revision, *(each.revision for each in seen), now.revision]
    assert revisions == sorted(revisions)
    assert len(set(revisions[:-1])) == len(seen) + 1


async def test_views_and_their_watch_have_no_documents(coordinator: Coordinator) -> None:
    view = await coordinator.view()
    await coordinator.change_document(KEY, None, document(None, {"x": 1}))
    await coordinator.register(member(A))

    async with aclosing(coordinator.watch(view.revision)) as watch:
        [step] = await steps(watch, 1)

    assert dict(step.members) == {A: member(A)}
    assert (await coordinator.view()).members == {A: member(A)}


@pytest.mark.parametrize("coordinator", [etcd_too], indirect=True)
async def test_documents_are_listed_in_parts_as_of_one_revision(
    coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.node.coordination.etcd.DOCUMENTS_EACH", 2)
    first, last = document(None, {"x": 1}), DocumentKey("types", "type-4")
    keys = [*(DocumentKey("types", f"type-{number}") for number in range(4)), last]
    for key in keys:
        await coordinator.change_document(key, None, msgspec.structs.replace(first, name=key.name))
    read = Gateway.read

    async def read_and_delete(
        self: Gateway, path: str, body: Json, kind: type[RangeResponse]
    ) -> RangeResponse:
        answer = await read(self, path, body, kind)
        monkeypatch.setattr(Gateway, "read", read)
        known = msgspec.structs.replace(first, name=last.name)
        assert await coordinator.change_document(last, known, None)
        return answer

    monkeypatch.setattr(Gateway, "read", read_and_delete)
    found = await coordinator.documents()
    later = await coordinator.documents()

    assert list(found.by_key) == keys
    assert list(later.by_key) == keys[:4]
    assert found.revision < later.revision
