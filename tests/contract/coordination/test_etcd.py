"""Faults of a real etcd: kill, pause, lost majority, compaction, restored backup, lossy link."""

import asyncio
import json
import shutil
from base64 import b64decode, b64encode
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, asynccontextmanager, suppress
from pathlib import Path

import pytest

from contract.coordination.etcd_clients import (
    HASTY_S,
    LONG_S,
    PATIENCE_S,
    A,
    B,
    Connect,
    LossyLink,
    claim,
    configuration,
    configured,
    life,
    steps,
    swap,
    swap_one,
)
from rota.core.model.ids import Session
from rota.core.vocabulary.shard_configuration import Configuration
from rota.node.coordination.coordinator import Cluster, Life, Member
from rota.node.coordination.coordinator_errors import (
    CoordinatorError,
    CoordinatorUnavailable,
    OtherCluster,
    OutcomeUnknown,
    OutOfSpace,
    WatchLost,
)
from rota.node.coordination.credentials import AccessDenied
from rota.node.coordination.etcd import EtcdCoordinator
from rota.node.coordination.etcd_gateway import EtcdRefused, Gateway, GatewayOptions
from rota.node.coordination.etcd_messages import all_below, watch_of
from support.etcd import EtcdCluster, free_ports, needs_etcd

pytestmark = needs_etcd


@pytest.fixture(scope="module")
def three_at_first(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdCluster]:
    with EtcdCluster(tmp_path_factory.mktemp("three"), 3) as cluster:
        yield cluster


@pytest.fixture
def three(three_at_first: EtcdCluster) -> EtcdCluster:
    """Three running members; those that an earlier test killed are started again."""
    three_at_first.start()
    return three_at_first


class Script:
    """A scripted etcd, for answers that a real one does not give on request.

    Args:
        once: By path, the lines of the only answer, after which the server stops listening.
        always: By path, the lines of every answer.
        status: Status of all answers.
    """

    def __init__(
        self,
        once: dict[str, list[object]] | None = None,
        always: dict[str, list[object]] | None = None,
        status: int = 200,
    ) -> None:
        self._once = once or {}
        self._always = always or {}
        self._status = status

    @asynccontextmanager
    async def played(self) -> AsyncGenerator[str]:
        """Listen on a free port, and yield the URL."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        async with self._server:
            yield f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        await reader.readexactly(int(head.lower().partition("content-length: ")[2].split()[0]))
        path = head.split()[1]
        if path in self._once:
            self._server.close()
        lines = [*self._once.get(path, []), *self._always.get(path, [])]
        body = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
        writer.write(f"HTTP/1.1 {self._status} -\r\nConnection: close\r\n\r\n".encode() + body)
        writer.close()


# -- keys and values ------------------------------------------------------------------------------


async def test_keys_and_values_are_those_that_other_versions_read(
    etcd: EtcdCluster, connect: Connect, prefix: str
) -> None:
    coordinator = connect(*etcd.urls)
    await coordinator.found(Cluster(id="c1", shards=64, replicas=3))
    await coordinator.register(Member(node_id=A, store_id="s1", address="h:1"))
    session = await life(coordinator)
    await coordinator.swap([swap(12, None, session)])

    found = etcd.members[0].ask(
        "/v3/kv/range", {"key": prefix.encode(), "range_end": f"{prefix}~".encode()}
    )

    stored = {text(each["key"]): text(each["value"]) for each in found["kvs"]}
    leases = {text(each["key"]): int(each.get("lease", 0)) for each in found["kvs"]}
    assert stored == {
        f"{prefix}meta": '{"id":"c1","shards":64,"replicas":3,"min_sync":2,'
        '"session_ttl":5000000,"peer_lease":2000000,"attempt_lease":15000000,"format":1,"generation":0}',
        f"{prefix}node/node-a": '{"node_id":"node-a","store_id":"s1","address":"h:1",'
        '"peer_address":"","zone":"","weight":1.0,"labels":{},"state":"active","version":"","key":"",'
        '"peer_tls":"","auth":"","task_key":"","api_tls":false}',
        f"{prefix}sess/node-a": f'{{"session":"{session}","store_id":"store of node-a",'
        '"lock":"lock"}',
        f"{prefix}shard/12": f'{{"epoch":1,"primary":"node-a","primary_session":"{session}",'
        '"sync":[["node-a","a1"]]}',
        f"{prefix}store/store of node-a": "node-a",
    }
    assert {key for key, lease in leases.items() if lease} == {
        f"{prefix}sess/node-a",
        f"{prefix}store/store of node-a",
    }
    assert leases[f"{prefix}sess/node-a"] == int(session, 16)


def text(base64: str) -> str:
    return b64decode(base64).decode()


async def test_what_a_newer_version_added_is_not_replaced(
    etcd: EtcdCluster, connect: Connect, prefix: str
) -> None:
    coordinator = connect(*etcd.urls)
    session = await life(coordinator)
    newer = '{"epoch":1,"primary":"node-a","primary_session":"s","novelty":"of rota 9"}'
    etcd.members[0].put(f"{prefix}shard/1", newer)
    seen = await configured(coordinator)

    swapped = await swap_one(coordinator, seen, session)

    assert (swapped.is_done, swapped.current) == (False, seen)


async def test_what_an_older_version_wrote_is_replaced(
    etcd: EtcdCluster, connect: Connect, prefix: str
) -> None:
    coordinator = connect(*etcd.urls)
    session = await life(coordinator)
    # As if ``sync`` had been added later: a field that has its default is not written.
    etcd.members[0].put(f"{prefix}shard/1", '{"epoch":1,"primary":"node-a","primary_session":"s"}')

    swapped = await swap_one(coordinator, await configured(coordinator), session)

    assert swapped.is_done


async def test_a_value_that_rota_did_not_write_is_named(
    etcd: EtcdCluster, connect: Connect, prefix: str
) -> None:
    coordinator = connect(*etcd.urls)
    etcd.members[0].put(f"{prefix}shard/1", "hello")

    with pytest.raises(CoordinatorError, match=r"shard/1 has a value that rota did not write"):
        await coordinator.view()


async def test_a_foreign_key_below_the_prefix_does_no_harm(
    etcd: EtcdCluster, connect: Connect, prefix: str
) -> None:
    coordinator = connect(*etcd.urls)
    revision = (await coordinator.view()).revision
    for key in ("gen", "shard/x", "note/1"):
        etcd.members[0].put(f"{prefix}{key}", "hello")
    session = await life(coordinator)

    async with aclosing(coordinator.watch(revision)) as watch:
        while not (step := (await steps(watch, 1))[0]).lives:
            assert not step.configurations

    assert step.lives == {A: Life(session=session, store_id="store of node-a", lock="lock")}
    assert (await coordinator.view()).configurations == {}


async def test_a_cluster_beside_this_one_is_not_seen(
    etcd: EtcdCluster, connect: Connect, prefix: str
) -> None:
    coordinator = connect(*etcd.urls)
    etcd.members[0].put(f"{prefix.removesuffix('/')}-too/shard/1", "hello")

    view = await coordinator.view()

    assert view.configurations == {}


async def test_the_shortest_session_is_as_long_as_etcd_says(
    etcd: EtcdCluster, connect: Connect
) -> None:
    coordinator = connect(*etcd.urls)

    grant = await coordinator.begin_session(claim(A), 0.01)

    assert grant.ttl_s == 1  # etcd's minimum, which depends on its election timeout.


# -- lost answers ---------------------------------------------------------------------------------


async def test_a_swap_whose_answer_is_lost_is_unknown_and_was_done_once(
    etcd: EtcdCluster, connect: Connect
) -> None:
    direct = connect(*etcd.urls)
    session = await life(direct)
    async with LossyLink(etcd.members[0].client_port).listening() as link:
        coordinator = connect(link.url, link.url)
        await coordinator.view()
        link.requests, link.loses_answers = 0, True

        with pytest.raises(OutcomeUnknown, match="/v3/kv/txn"):
            await swap_one(coordinator, None, session)

    assert link.requests == 1
    assert await configured(direct) == configuration(1, session)


async def test_of_many_swaps_some_were_done_when_the_rest_were_certainly_not(
    connect: Connect,
) -> None:
    done: dict[str, object] = {
        "response_txn": {"succeeded": True, "responses": [{"response_put": {}}]}
    }
    script = Script(once={"/v3/kv/txn": [{"succeeded": True, "responses": [done] * 32}]})
    async with script.played() as url:
        coordinator = connect(url)

        with pytest.raises(OutcomeUnknown, match="some earlier swaps were done"):
            await coordinator.swap([swap(shard, None, Session("1")) for shard in range(33)])


async def test_a_read_whose_answer_is_lost_is_repeated_at_another_member(
    etcd: EtcdCluster, connect: Connect
) -> None:
    async with LossyLink(etcd.members[0].client_port).listening() as link:
        link.loses_answers = True
        coordinator = connect(link.url, *etcd.urls)

        view = await coordinator.view()

    assert view.revision > 0
    assert link.requests == 1


async def test_a_renewal_whose_answer_is_lost_is_repeated_at_another_member(
    etcd: EtcdCluster, connect: Connect
) -> None:
    session = await life(connect(*etcd.urls))
    async with LossyLink(etcd.members[0].client_port).listening() as link:
        link.loses_answers = True
        coordinator = connect(link.url, *etcd.urls)

        assert await coordinator.renew(session) == LONG_S


async def test_an_unanswered_read_is_unavailable_not_unknown(
    etcd: EtcdCluster, connect: Connect
) -> None:
    async with LossyLink(etcd.members[0].client_port).listening() as link:
        link.loses_answers = True
        coordinator = connect(link.url)

        with pytest.raises(CoordinatorUnavailable):
            await coordinator.view()


async def test_a_session_whose_answer_was_lost_makes_room_for_the_next(
    etcd: EtcdCluster, connect: Connect
) -> None:
    async with LossyLink(etcd.members[0].client_port).listening() as link:
        coordinator = connect(link.url)
        await life(coordinator)
        link.loses_answers = True
        with pytest.raises(OutcomeUnknown):
            await coordinator.end_session(await life(connect(*etcd.urls)))
        link.loses_answers = False

        session = await life(coordinator)

    assert (await connect(*etcd.urls).view()).lives[A].session == session


async def test_an_unreachable_endpoint_is_skipped(etcd: EtcdCluster, connect: Connect) -> None:
    [unused] = free_ports(1)
    coordinator = connect(f"http://127.0.0.1:{unused}", *etcd.urls)

    session = await life(coordinator)

    assert (await swap_one(coordinator, None, session)).is_done


# -- space ----------------------------------------------------------------------------------------


async def test_the_size_of_etcd_comes_with_the_quota_of_its_member(
    tmp_path: Path, connect: Connect
) -> None:
    with EtcdCluster(tmp_path, 1, "--quota-backend-bytes", str(8 << 20)) as etcd:
        [unused] = free_ports(1)

        space = await connect(f"http://127.0.0.1:{unused}", *etcd.urls).space()

    assert space is not None
    assert 0 < space.used_bytes < space.quota_bytes == 8 << 20
    assert not space.is_refusing


async def test_an_etcd_that_does_not_answer_has_no_known_size(connect: Connect) -> None:
    [unused] = free_ports(1)

    assert await connect(f"http://127.0.0.1:{unused}").space() is None


# -- failures of etcd -----------------------------------------------------------------------------


async def test_calls_to_an_unreachable_etcd_are_unavailable(connect: Connect) -> None:
    [unused] = free_ports(1)
    coordinator = connect(f"http://127.0.0.1:{unused}")

    with pytest.raises(CoordinatorUnavailable):
        await swap_one(coordinator, None, Session("1"))
    with pytest.raises(CoordinatorUnavailable):
        await coordinator.renew(Session("1"))


async def test_sessions_and_watches_survive_a_restart_of_etcd(
    own_etcd: EtcdCluster, connect: Connect
) -> None:
    coordinator = connect(*own_etcd.urls)
    session = await life(coordinator)
    revision = (await coordinator.view()).revision
    async with aclosing(coordinator.watch(revision)) as watch:
        first = (await swap_one(coordinator, None, session)).current
        found = await steps(watch, 1)

        own_etcd.members[0].kill()
        with pytest.raises(CoordinatorUnavailable):
            await coordinator.view()
        await asyncio.to_thread(own_etcd.start)
        second = (await swap_one(coordinator, first, session)).current
        found += await steps(watch, 1)

    assert [step.configurations for step in found] == [{1: first}, {1: second}]
    assert await coordinator.renew(session) == LONG_S


async def test_calls_to_an_etcd_that_hangs_end_and_the_next_swap_settles_what_they_did(
    own_etcd: EtcdCluster, connect: Connect
) -> None:
    hasty = connect(*own_etcd.urls, call_timeout_s=HASTY_S, renew_timeout_s=HASTY_S)
    patient = connect(*own_etcd.urls)
    session = await life(patient)

    with own_etcd.members[0].paused():
        async with asyncio.timeout(PATIENCE_S):
            with pytest.raises(OutcomeUnknown, match="no answer in time"):
                await swap_one(hasty, None, session)
            with pytest.raises(OutcomeUnknown):
                await hasty.renew(session)
            with pytest.raises(CoordinatorUnavailable):
                await hasty.view()

    await swap_up_to(patient, session, 3)
    assert await configured(patient) == configuration(3, session)


async def test_a_watch_whose_history_is_compacted_is_lost(
    own_etcd: EtcdCluster, connect: Connect
) -> None:
    coordinator = connect(*own_etcd.urls, watch_idle_s=HASTY_S)
    session = await life(coordinator)
    revision = (await coordinator.view()).revision
    first = (await swap_one(coordinator, None, session)).current
    await swap_one(coordinator, first, session)
    latest = (await coordinator.view()).revision
    own_etcd.members[0].ask("/v3/kv/compaction", {"revision": str(latest)})

    async with aclosing(coordinator.watch(revision)) as watch:
        with pytest.raises(WatchLost, match="dropped its history"):
            await steps(watch, 1)
    async with aclosing(coordinator.watch(latest)) as watch:
        await life(coordinator, B)
        assert (await steps(watch, 1))[0].lives


async def test_after_a_restored_backup_watches_are_lost_and_old_expectations_fail(
    own_etcd: EtcdCluster, connect: Connect, tmp_path: Path
) -> None:
    etcd = own_etcd.members[0]
    coordinator = connect(*own_etcd.urls)
    session = await life(coordinator)
    first = (await swap_one(coordinator, None, session)).current
    etcd.kill()
    shutil.copytree(etcd.data_dir, tmp_path / "backup")
    await asyncio.to_thread(own_etcd.start)
    second = (await swap_one(coordinator, first, session)).current
    for _ in range(5):
        await coordinator.register(Member(node_id=A, store_id="s", address="h:1"))
    revision = (await coordinator.view()).revision

    etcd.kill()
    shutil.rmtree(etcd.data_dir)
    shutil.move(tmp_path / "backup", etcd.data_dir)
    await asyncio.to_thread(own_etcd.start)

    async with aclosing(coordinator.watch(revision)) as watch:
        with pytest.raises(WatchLost, match="went back"):
            await steps(watch, 1)
    assert await configured(coordinator) == first
    assert not (await swap_one(coordinator, second, session)).is_done


async def test_an_etcd_without_its_former_data_is_another_cluster(
    own_etcd: EtcdCluster, connect: Connect
) -> None:
    etcd = own_etcd.members[0]
    coordinator = connect(*own_etcd.urls)
    await coordinator.view()
    etcd.kill()
    shutil.rmtree(etcd.data_dir)
    etcd.flags = ("--initial-cluster-token", "another")
    await asyncio.to_thread(own_etcd.start)

    with pytest.raises(OtherCluster, match="is another cluster than before"):
        await coordinator.view()


async def test_a_server_other_than_etcd_is_reported_as_such(connect: Connect) -> None:
    async with Script(always={"/v3/kv/range": ["Not Found"]}, status=404).played() as url:
        with pytest.raises(EtcdRefused, match="not the client URL of etcd"):
            await connect(url).view()


def put_event(prefix: str, shard: int, revision: int) -> object:
    value = f'{{"epoch":{revision},"primary":"node-a","primary_session":"s"}}'
    key = f"{prefix}shard/{shard}"
    return {
        "kv": {
            "key": b64encode(key.encode()).decode(),
            "value": b64encode(value.encode()).decode(),
            "mod_revision": str(revision),
        }
    }


def watch_answer(**result: object) -> object:
    return {"result": {"header": {"revision": "9"}, **result}}


async def test_a_repeated_event_is_dropped(connect: Connect, prefix: str) -> None:
    events = [put_event(prefix, shard=1, revision=revision) for revision in (6, 7, 8)]
    script = Script(
        always={
            "/v3/kv/range": [{"header": {"revision": "9"}}],
            "/v3/watch": [
                watch_answer(created=True),
                watch_answer(events=events[:2]),
                watch_answer(events=events),
                watch_answer(canceled=True, cancel_reason="that was all"),
            ],
        }
    )

    async with script.played() as url, aclosing(connect(url).watch(6)) as watch:
        found = await steps(watch, 2)
        with pytest.raises(WatchLost, match="that was all"):
            await steps(watch, 1)

    assert [step.revision for step in found] == [7, 8]


@pytest.mark.parametrize(
    "trouble",
    [
        "no JSON",
        {"error": {"grpc_code": 14, "message": "etcdserver: no leader"}},
        {"error": {"code": 13, "message": "transport is closing"}},
    ],
)
async def test_a_failed_watch_continues_after_its_last_step(
    etcd: EtcdCluster, connect: Connect, prefix: str, trouble: object
) -> None:
    session = await life(connect(*etcd.urls))
    revision = (await connect(*etcd.urls).view()).revision
    [first, second] = await connect(*etcd.urls).swap(
        [swap(1, None, session), swap(2, None, session)]
    )
    script = Script(
        always={
            "/v3/kv/range": [{"header": {"revision": str(revision + 9)}}],
            "/v3/watch": [watch_answer(created=True), watch_answer(fragment=True), trouble],
        }
    )

    async with (
        script.played() as url,
        aclosing(connect(url, *etcd.urls).watch(revision)) as watch,
    ):
        [step] = await steps(watch, 1)

    assert step.configurations == {1: first.current, 2: second.current}


async def test_a_watch_that_is_not_allowed_is_refused(connect: Connect) -> None:
    script = Script(
        always={
            "/v3/kv/range": [{"header": {"revision": "9"}}],
            "/v3/watch": [{"error": {"grpc_code": 7, "message": "permission denied"}}],
        }
    )

    async with script.played() as url, aclosing(connect(url).watch(6)) as watch:
        with pytest.raises(AccessDenied, match="permission denied"):
            await steps(watch, 1)


@pytest.mark.parametrize(
    ("status", "code", "message", "kind"),
    [
        (503, 14, "etcdserver: request timed out", OutcomeUnknown),
        (504, 4, "context deadline exceeded", OutcomeUnknown),
        (500, 2, "raft proposal dropped", OutcomeUnknown),
        (503, 14, "etcdserver: no leader", CoordinatorUnavailable),
        (429, 8, "etcdserver: mvcc: database space exceeded", OutOfSpace),
        (429, 8, "etcdserver: too many requests", EtcdRefused),
        (403, 7, "etcdserver: permission denied", AccessDenied),
    ],
)
async def test_a_failure_is_unknown_unless_etcd_certainly_did_nothing(
    connect: Connect, status: int, code: int, message: str, kind: type[CoordinatorError]
) -> None:
    failure = {"error": message, "message": message, "code": code}

    async with Script(always={"/v3/kv/txn": [failure]}, status=status).played() as url:
        with pytest.raises(CoordinatorError, match=message) as caught:
            await swap_one(connect(url), None, Session("1"))

    assert type(caught.value) is kind
    assert ("`etcdctl compact REVISION`" in str(caught.value)) == ("space exceeded" in message)


async def test_the_fragments_of_a_step_are_joined(
    own_etcd: EtcdCluster, connect: Connect, prefix: str
) -> None:
    # Given two steps of 1.2 MB each: etcd cuts an answer when it exceeds 2 MB, inside the second.
    coordinator = connect(*own_etcd.urls)
    revision = (await coordinator.view()).revision
    await put_members(own_etcd, prefix, "first")
    await put_members(own_etcd, prefix, "second")

    async with aclosing(coordinator.watch(revision)) as watch:
        found = await steps(watch, 2)

    assert [len(step.members) for step in found] == [30, 30]


async def put_members(cluster: EtcdCluster, prefix: str, zone: str) -> None:
    """Put 30 members of 40 kB in one transaction."""
    member = f'{{"node_id":"n","store_id":"","address":"","zone":"{zone}{"." * 40_000}"}}'
    keys = [f"{prefix}node/n{number}".encode() for number in range(30)]
    puts = [{"request_put": {"key": key, "value": member.encode()}} for key in keys]
    await asyncio.to_thread(cluster.members[0].ask, "/v3/kv/txn", {"success": puts})


# -- several members ------------------------------------------------------------------------------


async def test_no_swap_is_lost_or_done_twice_while_the_leader_changes(
    three: EtcdCluster, connect: Connect
) -> None:
    coordinator = connect(*three.urls, call_timeout_s=HASTY_S, watch_idle_s=HASTY_S)
    session = await life(connect(*three.urls))
    revision = (await coordinator.view()).revision
    leader = await asyncio.to_thread(three.leader)

    async with asyncio.TaskGroup() as group:
        watching = group.create_task(epochs_up_to(coordinator, revision, 60))
        await swap_up_to(coordinator, session, 20)
        leader.kill()
        await swap_up_to(coordinator, session, 40)
        await asyncio.to_thread(three.start)
        await swap_up_to(coordinator, session, 60)

    assert watching.result() == list(range(1, 61))


async def swap_up_to(coordinator: EtcdCoordinator, session: Session, epoch: int) -> None:
    """Raise the epoch of the shard; the next swap settles one with an unknown outcome."""
    current: Configuration | None = None
    async with asyncio.timeout(PATIENCE_S):
        while current is None or current.epoch < epoch:
            with suppress(OutcomeUnknown, CoordinatorUnavailable):
                current = (await swap_one(coordinator, current, session)).current


async def epochs_up_to(coordinator: EtcdCoordinator, revision: int, epoch: int) -> list[int]:
    seen: list[int] = []
    async with asyncio.timeout(PATIENCE_S), aclosing(coordinator.watch(revision)) as watch:
        async for step in watch:
            seen += [each.epoch for each in step.configurations.values() if each]
            if seen and seen[-1] >= epoch:
                break
    return seen


async def test_without_a_majority_nothing_is_answered_and_then_everything(
    three: EtcdCluster, connect: Connect
) -> None:
    alone, *others = three.members
    coordinator = connect(alone.url, call_timeout_s=HASTY_S)
    session = await life(connect(*three.urls))
    for each in others:
        each.kill()

    with pytest.raises(CoordinatorUnavailable):
        await coordinator.view()
    with pytest.raises((CoordinatorUnavailable, OutcomeUnknown)):
        await swap_one(coordinator, None, session)
    with pytest.raises((CoordinatorUnavailable, OutcomeUnknown)):
        await coordinator.renew(session)
    await asyncio.to_thread(three.start)

    async with asyncio.timeout(PATIENCE_S):
        await swap_up_to(coordinator, session, 2)


async def test_a_watch_on_a_member_that_has_lost_its_leader_breaks(three: EtcdCluster) -> None:
    alone, *others = three.members
    gateway = Gateway(GatewayOptions(endpoints=(alone.url,), watch_idle_s=PATIENCE_S))
    async with (
        asyncio.timeout(PATIENCE_S / 2),  # Less than the limit of silence.
        aclosing(gateway.stream("/v3/watch", watch_of(all_below(b"/rota/none/"), 1))) as lines,
    ):
        assert b"created" in await anext(lines)
        for each in others:
            each.kill()

        with pytest.raises(CoordinatorUnavailable):
            async for _ in lines:
                pass

    await gateway.close()


async def test_a_read_from_a_member_that_hangs_is_repeated_at_another_member(
    three: EtcdCluster, connect: Connect
) -> None:
    follower = next(each for each in three.members if not each.is_leader())
    others = [each.url for each in three.members if each is not follower]
    session = await life(connect(*others))
    coordinator = connect(follower.url, *others)

    with follower.paused():
        view = await coordinator.view()

    assert view.lives[A].session == session


async def test_a_watch_on_a_member_that_hangs_continues_at_another_member(
    three: EtcdCluster, connect: Connect
) -> None:
    follower = next(each for each in three.members if not each.is_leader())
    others = [each.url for each in three.members if each is not follower]
    elsewhere = connect(*others)
    session = await life(elsewhere)
    revision = (await elsewhere.view()).revision
    coordinator = connect(follower.url, *others, call_timeout_s=HASTY_S, watch_idle_s=HASTY_S)

    async with aclosing(coordinator.watch(revision)) as watch:
        first = (await swap_one(elsewhere, None, session)).current
        found = await steps(watch, 1)
        with follower.paused():
            second = (await swap_one(elsewhere, first, session)).current
            found += await steps(watch, 1)

    assert [step.configurations for step in found] == [{1: first}, {1: second}]
