"""Shared documents: on every node, readable without the coordinator, and given back to it."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from rota.core.errors import Refused
from rota.core.model import document_shares
from rota.core.model.document_shares import Share
from rota.core.model.ids import NodeId
from rota.core.model.shared_document import (
    BINDINGS,
    COPY_TRUSTED,
    DEFINITION_BYTES_MAX,
    DELETED_KEPT,
    SECRETS,
    DocumentKey,
    SharedDocument,
    next_version,
)
from rota.core.replication.coordinator_continuity import CoordinatorContinuity
from rota.core.timing.instants import SECOND, Duration, Instant, later
from rota.node.cluster.shared_documents import OBSOLETE, SharedDocuments
from rota.node.coordination.agreed_state import CoordinationState
from rota.node.coordination.coordinator import Cluster, Member
from rota.node.coordination.coordinator_errors import CoordinatorUnavailable
from rota.node.coordination.testing.simulated_coordinator import (
    Fate,
    Link,
    PerfectLink,
    SimulatedCoordinator,
    SimulatedServer,
)
from rota.node.system.clock import SystemClock
from rota.node.system.entropy import SystemEntropy
from rota.storage.memory import MemoryStore
from rota.storage.store import StoreStalled
from support.in_process import until

KEY = DocumentKey("types", "image.render")
OTHER = DocumentKey("types", "report")
CLUSTER = Cluster(id="c", shards=16, replicas=3)
START = Instant(1_700_000_000 * SECOND)


class SetClock(SystemClock):
    """A clock whose wall time is set by hand."""

    def __init__(self) -> None:
        self.wall = START

    def now(self) -> Instant:
        """Return the time that was set."""
        return self.wall


class CountedCalls(PerfectLink):
    """A link without faults that counts the calls."""

    def __init__(self) -> None:
        self.count = Counter[str]()

    def fate(self, node_id: NodeId, call: str) -> Fate:
        """Count a call."""
        self.count[call] += 1
        return super().fate(node_id, call)


@dataclass
class Node:
    """What one node needs for its documents."""

    server: SimulatedServer
    clock: SetClock
    store: MemoryStore = field(default_factory=MemoryStore)
    continuity: CoordinatorContinuity = field(default_factory=CoordinatorContinuity)

    def __post_init__(self) -> None:
        self.documents = self.started()

    def started(self, link: Link | None = None) -> SharedDocuments:
        """Return the documents of a process that has just started on the node's store."""
        coordinator = SimulatedCoordinator(
            self.server, NodeId("a"), link=link or PerfectLink(), entropy=SystemEntropy()
        )
        self.documents = SharedDocuments(
            coordinator, self.store, self.continuity, self.clock, cluster_id=CLUSTER.id
        )
        return self.documents

    def version(self, key: DocumentKey = KEY) -> int:
        """Return the version of the record, 0 without one."""
        record = self.documents.record(key)
        return record.version if record else 0


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
def server(clock: SetClock) -> SimulatedServer:
    server = SimulatedServer(clock)
    server.restore(CoordinationState(CLUSTER))
    return server


@pytest.fixture
def one(server: SimulatedServer, clock: SetClock) -> Node:
    return Node(server, clock)


@pytest.fixture
def other(server: SimulatedServer, clock: SetClock) -> Node:
    return Node(server, clock)


@asynccontextmanager
async def following(*nodes: Node) -> AsyncGenerator[None]:
    """Let *nodes* follow the coordinator while the body runs."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(node.documents.run()) for node in nodes]
        yield
        for task in tasks:
            task.cancel()


async def save(node: Node, command: str, key: DocumentKey = KEY) -> SharedDocument:
    """Write a document."""
    return await node.documents.change(key, {"command": command}, by="ann")


def there(server: SimulatedServer) -> dict[DocumentKey, int]:
    """Return the versions at the coordinator."""
    found = server.state.documents().by_key
    return {key: each.version for key, each in found.items()}


def empty(server: SimulatedServer) -> None:
    """Take everything from the coordinator."""
    server.restore(CoordinationState(CLUSTER))


# -- changes ---------------------------------------------------------------------------------------


async def test_a_change_is_known_at_once_here_and_by_news_elsewhere(one: Node, other: Node) -> None:
    async with following(one, other):
        saved = await save(one, "render")
        assert one.documents.get(KEY) == saved
        await until(lambda: other.documents.get(KEY) == saved)

    assert saved.version == 1
    assert [(each.by, each.version, each.action.value) for each in saved.changes] == [
        ("ann", 1, "created")
    ]


async def test_the_same_definition_changes_nothing(one: Node) -> None:
    first = await save(one, "render")

    assert await save(one, "render") == first


async def test_a_deleted_document_is_gone_and_its_name_continues_its_versions(one: Node) -> None:
    await save(one, "render")

    await one.documents.change(KEY, None, by="bob")
    gone = one.documents.get(KEY)
    again = await save(one, "render")

    assert gone is None
    assert one.documents.of_kind("types") == [again]
    assert [(each.by, each.version, each.action.value) for each in again.changes] == [
        ("ann", 3, "created"),
        ("bob", 2, "deleted"),
        ("ann", 1, "created"),
    ]


async def test_a_change_of_another_version_is_refused(one: Node) -> None:
    await save(one, "render")

    for wanted in (0, 2):
        with pytest.raises(Refused, match="version_mismatch"):
            await one.documents.change(KEY, {}, by="ann", if_version=wanted)
    await one.documents.change(KEY, {}, by="ann", if_version=1)
    await one.documents.change(OTHER, {}, by="ann", if_version=0)

    assert (one.version(), one.version(OTHER)) == (2, 1)


async def test_of_two_changes_of_one_version_one_is_refused(one: Node, other: Node) -> None:
    await save(one, "render")
    async with following(other):
        await until(lambda: other.version() == 1)
    await one.documents.change(KEY, {"x": 1}, by="ann", if_version=1)

    with pytest.raises(Refused, match="has version 2, not version 1"):
        await other.documents.change(KEY, {"x": 2}, by="bob", if_version=1)


async def test_a_change_of_any_version_succeeds_after_one_that_was_not_known(
    one: Node, other: Node
) -> None:
    await save(one, "render")

    saved = await save(other, "render --fast")

    assert saved.version == 2


async def test_a_dry_run_changes_nothing(one: Node, server: SimulatedServer) -> None:
    made = await one.documents.change(KEY, {}, by="ann", is_dry=True)

    assert made.version == 1
    assert one.documents.get(KEY) is None
    assert there(server) == {}


async def test_definitions_have_a_limit(one: Node) -> None:
    with pytest.raises(Refused, match="document_too_large"):
        await save(one, "x" * DEFINITION_BYTES_MAX)


async def test_all_documents_together_have_limits(
    one: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    await save(one, "x" * 100)
    monkeypatch.setattr(document_shares, "OF_ALL", Share(10, 200))
    with pytest.raises(Refused, match="too_many_documents"):
        await save(one, "x" * 100, OTHER)
    await save(one, "x" * 50)
    monkeypatch.setattr(document_shares, "OF_ALL", Share(1, 200))
    with pytest.raises(Refused, match="too_many_documents"):
        await save(one, "y", OTHER)


async def test_a_namespace_cannot_take_the_room_of_others(
    one: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(document_shares, "OF_ONE_NAMESPACE", Share(2, 1 << 20))
    await bind(one, "a", "team-a")
    await one.documents.change(DocumentKey(BINDINGS, "a"), None, by="ann")
    await save(one, "box", DocumentKey(SECRETS, "team-a/db"))

    with pytest.raises(Refused, match="'team-a' has 2 shared documents"):
        await bind(one, "b", "team-a")
    await bind(one, "b", "team-b")
    await bind(one, "c", "*")
    await save(one, "render")


@pytest.mark.parametrize("is_away", [False, True])
async def test_records_of_deleted_documents_make_room_if_all_nodes_know_of_the_deletion(
    one: Node,
    other: Node,
    server: SimulatedServer,
    clock: SetClock,
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_away: bool,
) -> None:
    monkeypatch.setattr(document_shares, "OF_ONE_NAMESPACE", Share(1, 1 << 20))
    member = Member(node_id=NodeId("other"), store_id="", address="")
    server.restore(CoordinationState(CLUSTER, members={NodeId("other"): member} if is_away else {}))
    old = DocumentKey(BINDINGS, "old")
    async with following(one):
        await one.documents.wait_current()
    await bind(one, "old", "team-a")
    await one.documents.change(old, None, by="ann")
    with pytest.raises(Refused, match="too_many_documents"):  # It is too young.
        await bind(one, "new", "team-a")
    clock.wall = later(clock.wall, Duration(OBSOLETE + 1))

    async with following(other):
        await until(lambda: other.version(old) == 2)
        if is_away:
            with pytest.raises(Refused, match="too_many_documents"):
                await bind(one, "new", "team-a")
            assert there(server) == {old: 2}
        else:
            await bind(one, "new", "team-a")
            await until(lambda: other.documents.record(old) is None)
            assert there(server) == {DocumentKey(BINDINGS, "new"): 1}


async def test_a_deletion_before_the_session_of_a_node_makes_no_room(
    one: Node, clock: SetClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The node may have been away, and have an earlier version, which it would restore."""
    monkeypatch.setattr(document_shares, "OF_ONE_NAMESPACE", Share(1, 1 << 20))
    await bind(one, "old", "team-a")
    await one.documents.change(DocumentKey(BINDINGS, "old"), None, by="ann")
    clock.wall = later(clock.wall, Duration(OBSOLETE + 1))

    async with following(one):  # From now on, all nodes are there.
        await one.documents.wait_current()
        with pytest.raises(Refused, match="too_many_documents"):
            await bind(one, "new", "team-a")


async def test_a_document_that_moves_to_another_namespace_counts_there(
    one: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(document_shares, "OF_ONE_NAMESPACE", Share(1, 1 << 20))
    await bind(one, "a", "team-a")
    await bind(one, "b", "team-b")

    with pytest.raises(Refused, match="'team-a' has 1 shared documents"):
        await bind(one, "b", "team-a")
    await bind(one, "a", "team-c")
    await bind(one, "b", "team-a")


async def bind(node: Node, name: str, namespace: str) -> None:
    """Write a binding of a namespace."""
    await node.documents.change(DocumentKey(BINDINGS, name), {"namespaces": [namespace]}, by="ann")


async def test_documents_that_are_under_way_count_for_the_limit(
    one: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    class SlowLink(PerfectLink):
        """A link on which each call takes some time."""

        def fate(self, node_id: NodeId, call: str) -> Fate:
            """Return a fate with a delay."""
            del node_id, call
            return Fate(arrives_s=0.01)

    one.started(SlowLink())
    monkeypatch.setattr(document_shares, "OF_ALL", Share(1, 1 << 20))

    saved = await asyncio.gather(save(one, "x"), save(one, "y", OTHER), return_exceptions=True)

    assert [isinstance(each, Refused) for each in saved] == [False, True]


# -- without the coordinator -----------------------------------------------------------------------


async def test_documents_can_be_read_after_a_restart_while_the_coordinator_is_away(
    one: Node, server: SimulatedServer
) -> None:
    saved = await save(one, "render")
    await save(one, "report", OTHER)
    await one.documents.change(OTHER, None, by="ann")
    server.crash()

    one.started()

    assert one.documents.of_kind("types") == [saved]
    with pytest.raises(CoordinatorUnavailable):
        await save(one, "render --fast")
    assert one.documents.get(KEY) == saved


async def test_a_coordinator_that_lost_documents_gets_the_newest_back(
    one: Node, other: Node, server: SimulatedServer
) -> None:
    async with following(one, other):
        await save(one, "render")
        await until(lambda: other.version() == 1)
    second = await save(one, "render --fast")
    await save(one, "report", OTHER)
    empty(server)

    async with following(other):
        await until(lambda: there(server) == {KEY: 1})
    one.started()
    async with following(one, other):
        await until(lambda: there(server) == {KEY: 2, OTHER: 1})
        await until(lambda: other.documents.get(KEY) == second)


async def test_a_coordinator_that_was_set_back_gets_the_newest_back(
    one: Node, server: SimulatedServer
) -> None:
    await save(one, "render")
    backup = server.state.copy()
    second = await save(one, "render --fast")
    server.restore(backup)

    async with following(one):
        await until(lambda: there(server) == {KEY: 2})

    assert one.documents.get(KEY) == second


@pytest.mark.parametrize(
    "record", [None, Cluster(id="another", shards=16, replicas=3)], ids=["emptied", "another"]
)
async def test_nothing_is_put_into_a_coordinator_without_the_record_of_the_cluster(
    record: Cluster | None,
    one: Node,
    server: SimulatedServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("rota.node.cluster.shared_documents.COMPARE_APART_S", 0.01)
    await save(one, "render")
    server.restore(CoordinationState(record))
    calls = CountedCalls()

    one.started(calls)
    async with following(one):
        await until(lambda: calls.count["documents"] > 3)
        assert there(server) == {}
        server.change(lambda state: state.recover(record, CLUSTER))
        await until(lambda: there(server) == {KEY: 1})


async def test_nothing_is_taken_from_the_coordinator_of_another_cluster(
    one: Node, server: SimulatedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.node.cluster.shared_documents.COMPARE_APART_S", 0.01)
    saved = await save(one, "render")
    server.restore(CoordinationState(Cluster(id="another", shards=16, replicas=3)))
    theirs = next_version(KEY, None, {"command": "theirs"}, at=START, by="bob")
    server.change(lambda state: state.change_document(KEY, None, theirs))
    calls = CountedCalls()

    one.started(calls)
    async with following(one):
        await until(lambda: calls.count["documents"] > 1)
        newer = next_version(KEY, theirs, {"command": "newer"}, at=START, by="bob")
        server.change(lambda state: state.change_document(KEY, theirs, newer))
        seen = calls.count["documents"]
        await until(lambda: calls.count["documents"] > seen + 2)

    assert one.documents.get(KEY) == saved


async def test_nothing_is_changed_before_a_loss_is_recovered(one: Node) -> None:
    await save(one, "render")
    one.continuity.lose(0, "its revision fell")

    with pytest.raises(Refused, match="recover-coordination"):
        await save(one, "render --fast")
    one.continuity.add_generation(1)

    assert (await save(one, "render --fast")).version == 2


async def test_a_stale_copy_does_not_bring_a_deleted_document_back(
    one: Node, other: Node, server: SimulatedServer
) -> None:
    await save(one, "render")
    async with following(other):
        await until(lambda: other.version() == 1)
    await one.documents.change(KEY, None, by="ann")

    other.started()
    async with following(other):
        await until(lambda: other.version() == 2)

    assert other.documents.get(KEY) is None
    assert there(server) == {KEY: 2}


async def test_the_record_of_a_deleted_document_is_removed_in_time(
    one: Node, server: SimulatedServer, clock: SetClock
) -> None:
    await save(one, "render")
    await one.documents.change(KEY, None, by="ann")
    clock.wall = Instant(clock.wall + DELETED_KEPT + 1)

    async with following(one):
        await until(lambda: there(server) == {})

    assert one.documents.record(KEY) is None
    assert one.started().record(KEY) is None


@pytest.mark.parametrize("starts_at", [None, Instant(0), Instant(START - 1)])
async def test_copies_that_were_not_compared_for_long_are_replaced(
    one: Node,
    other: Node,
    server: SimulatedServer,
    clock: SetClock,
    starts_at: Instant | None,
) -> None:
    """A machine may start with a wall clock that was set back: *starts_at*, if given."""
    await save(one, "render")
    async with following(other):
        await until(lambda: other.version() == 1)
    await one.documents.change(KEY, None, by="ann")
    await save(one, "report", OTHER)
    clock.wall = Instant(clock.wall + DELETED_KEPT + 1)
    async with following(one):
        await until(lambda: there(server) == {OTHER: 1})

    clock.wall = clock.wall if starts_at is None else starts_at
    other.started()
    async with following(other):
        await until(lambda: other.version(OTHER) == 1)

    assert other.documents.record(KEY) is None
    assert there(server) == {OTHER: 1}


async def test_old_copies_count_where_the_coordinator_has_nothing(
    one: Node, server: SimulatedServer, clock: SetClock
) -> None:
    await save(one, "render")
    empty(server)
    clock.wall = Instant(clock.wall + COPY_TRUSTED + 1)

    one.started()
    async with following(one):
        await until(lambda: there(server) == {KEY: 1})


async def test_a_coordinator_with_another_record_of_the_same_version_is_right(
    one: Node, server: SimulatedServer
) -> None:
    await save(one, "render")
    empty(server)
    another = next_version(KEY, None, {"command": "another"}, at=START, by="bob")
    server.change(lambda state: state.change_document(KEY, None, another))

    async with following(one):
        await until(lambda: one.documents.get(KEY) == another)


async def test_copies_that_a_slow_disk_refused_are_written_with_the_next(
    one: Node, server: SimulatedServer
) -> None:
    one.store.fail_next_write(StoreStalled("the disk is slow"))
    await save(one, "render")
    await save(one, "report", OTHER)
    server.crash()

    one.started()

    assert [each.name for each in one.documents.of_kind("types")] == ["image.render", "report"]
