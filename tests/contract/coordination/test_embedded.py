"""The coordination file of a single node: durability, and refusal of damage."""

import math
from pathlib import Path

import pytest

from rota.core.model.ids import AllocationId, Epoch, NodeId, Session, ShardId
from rota.core.vocabulary.shard_configuration import Configuration, Copy, Swap
from rota.node.coordination.coordinator import Claim, Cluster, Member
from rota.node.coordination.embedded import CoordinationFailed, EmbeddedCoordinator
from rota.node.system.entropy import SystemEntropy

NODE = NodeId("node-a")
CLAIM = Claim(node_id=NODE, store_id="s", lock="lock")
MEMBER = Member(node_id=NODE, store_id="s", address="127.0.0.1:7400")
CLUSTER = Cluster(id="one", shards=64, replicas=1)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "COORDINATION"


@pytest.fixture
def old_path(path: Path) -> Path:
    path.write_text(
        '{"session":"5e55","shards":{"1":{"epoch":7,"primary":"node-a","primary_session":"5e55"}}}'
    )
    return path


def opened(path: Path) -> EmbeddedCoordinator:
    return EmbeddedCoordinator(path, SystemEntropy())


def swap(expected: Configuration | None, session: Session) -> Swap:
    fresh = Configuration(
        epoch=Epoch(expected.epoch + 1 if expected else 1),
        primary=NODE,
        primary_session=session,
        sync=(Copy(NODE, AllocationId("a1")),),
    )
    return Swap(shard=ShardId(1), expected=expected, fresh=fresh, by=NODE, session=session)


async def test_everything_but_sessions_is_there_after_a_restart(path: Path) -> None:
    before = opened(path)
    await before.found(CLUSTER)
    await before.register(MEMBER)
    session = (await before.begin_session(CLAIM, math.inf)).session
    first = swap(None, session)
    await before.swap([first])

    after = opened(path)

    view = await after.view()
    assert await after.found(Cluster(id="two", shards=1, replicas=1)) == CLUSTER
    assert view.members == {NODE: MEMBER}
    assert view.configurations == {1: first.fresh}
    assert view.lives == {}


async def test_the_file_of_the_first_version_is_read(old_path: Path) -> None:
    coordinator = opened(old_path)
    session = (await coordinator.begin_session(CLAIM, math.inf)).session
    there = (await coordinator.view()).configurations[ShardId(1)]

    [swapped] = await coordinator.swap([swap(there, session)])

    assert (there.epoch, there.sync) == (7, ())
    assert swapped.is_done
    assert (await opened(old_path).view()).configurations == {1: swap(there, session).fresh}


async def test_a_session_lives_as_long_as_its_process(path: Path) -> None:
    coordinator = opened(path)

    grant = await coordinator.begin_session(CLAIM, 1.0)

    assert grant.ttl_s == math.inf
    assert await coordinator.renew(grant.session) == math.inf


async def test_what_cannot_be_written_is_not_carried_out(path: Path) -> None:
    coordinator = opened(path)
    session = (await coordinator.begin_session(CLAIM, math.inf)).session
    first = swap(None, session)
    await coordinator.swap([first])
    path.with_suffix(".new").mkdir()

    with pytest.raises(CoordinationFailed, match="cannot write"):
        await coordinator.swap([swap(first.fresh, session)])

    assert (await coordinator.view()).configurations == {1: first.fresh}


async def test_a_repeated_registration_writes_nothing(path: Path) -> None:
    coordinator = opened(path)
    await coordinator.register(MEMBER)
    path.with_suffix(".new").mkdir()  # Now every write fails.

    await coordinator.register(MEMBER)

    assert (await coordinator.begin_session(CLAIM, math.inf)).session


def test_a_damaged_file_is_refused(path: Path) -> None:
    path.write_bytes(b'{"shards":')

    with pytest.raises(CoordinationFailed, match="is damaged"):
        opened(path)
