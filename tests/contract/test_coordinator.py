"""What every `Coordinator` does; today the one for a node that is alone."""

from pathlib import Path

import pytest

from rota.core.ids import Epoch, NodeId, Session, ShardId
from rota.node.coordinator import (
    Configuration,
    CoordinationFailed,
    Coordinator,
    EmbeddedCoordinator,
    Member,
    Swap,
)

NODE = NodeId("node-a")
MEMBER = Member(node_id=NODE, store_id="s", address="127.0.0.1:7400")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "COORDINATION"


@pytest.fixture
def coordinator(path: Path) -> Coordinator:
    return EmbeddedCoordinator(path)


def swap(shard: int, expected: int, session: str = "s1") -> Swap:
    configuration = Configuration(
        epoch=Epoch(expected + 1), primary=NODE, primary_session=Session(session)
    )
    return Swap(shard=ShardId(shard), expected=Epoch(expected), configuration=configuration)


async def test_a_shard_without_a_configuration_is_taken_under_epoch_one(
    coordinator: Coordinator,
) -> None:
    await coordinator.join(MEMBER, Session("s1"))

    done = await coordinator.swap([swap(3, 0)])

    assert done == [True]
    assert (await coordinator.configurations())[ShardId(3)].epoch == 1


async def test_each_swap_succeeds_or_fails_alone(coordinator: Coordinator) -> None:
    await coordinator.swap([swap(1, 0)])

    done = await coordinator.swap([swap(1, 0), swap(2, 0), swap(1, 1)])

    assert done == [False, True, True]
    configurations = await coordinator.configurations()
    assert {shard: each.epoch for shard, each in configurations.items()} == {1: 2, 2: 1}


async def test_an_epoch_that_skips_one_is_a_bug(coordinator: Coordinator) -> None:
    wrong = Swap(
        shard=ShardId(1),
        expected=Epoch(0),
        configuration=Configuration(epoch=Epoch(2), primary=NODE, primary_session=Session("s1")),
    )

    with pytest.raises(ValueError, match="does not follow"):
        await coordinator.swap([wrong])


async def test_configurations_are_there_after_a_restart(
    coordinator: Coordinator, path: Path
) -> None:
    await coordinator.swap([swap(1, 0)])
    await coordinator.leave()

    again = EmbeddedCoordinator(path)

    assert (await again.configurations())[ShardId(1)].primary == NODE


async def test_what_cannot_be_written_is_not_carried_out(
    coordinator: Coordinator, path: Path
) -> None:
    await coordinator.swap([swap(1, 0)])
    path.with_suffix(".new").mkdir()

    with pytest.raises(CoordinationFailed, match="cannot write"):
        await coordinator.swap([swap(1, 1)])

    assert (await coordinator.configurations())[ShardId(1)].epoch == 1


def test_a_damaged_file_is_refused(path: Path) -> None:
    path.write_bytes(b'{"shards":')

    with pytest.raises(CoordinationFailed, match="is damaged"):
        EmbeddedCoordinator(path)
