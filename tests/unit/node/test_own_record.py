"""The record of a node at the coordinator: the key of the tokens of its tasks."""

from msgspec.structs import replace

from rota.core.model.ids import NodeId
from rota.node.cluster.known_members import KnownMembers
from rota.node.cluster.own_record import OwnRecord
from rota.node.cluster.swap_queue import SwapQueue
from rota.node.coordination.coordinator import Member
from rota.node.coordination.testing.simulated_coordinator import (
    PerfectLink,
    SimulatedCoordinator,
    SimulatedServer,
)
from rota.node.system.clock import SystemClock
from rota.node.system.entropy import SystemEntropy

A = NodeId("a")
EARLIER = Member(node_id=A, store_id="s", address="a:1", key=b"first", task_key=b"kept")
STARTED = replace(EARLIER, key=b"second", task_key=b"drawn")


def own_record(server: SimulatedServer, member: Member = STARTED) -> OwnRecord:
    coordinator = SimulatedCoordinator(server, A, link=PerfectLink(), entropy=SystemEntropy())
    known = KnownMembers(lambda members, shard: (A,), lambda members: None, SwapQueue())
    return OwnRecord(coordinator, member, known)


def written(server: SimulatedServer, member: Member | None = None) -> Member:
    """Return the record at the coordinator, after *member* was written there, if one is given."""
    if member is not None:
        server.change(lambda state: state.register(member))
    return server.state.view().members[A]


async def test_the_key_outlives_the_process() -> None:
    server = SimulatedServer(SystemClock())
    written(server, EARLIER)

    await own_record(server).register()

    assert written(server) == replace(STARTED, task_key=b"kept")


async def test_the_first_process_writes_its_own_key() -> None:
    server = SimulatedServer(SystemClock())

    await own_record(server).register()

    assert written(server).task_key == b"drawn"


async def test_a_key_that_a_node_of_an_earlier_version_dropped_is_written_again() -> None:
    server = SimulatedServer(SystemClock())
    written(server, EARLIER)
    own = own_record(server)
    await own.register()

    own.check(written(server, replace(written(server), task_key=b"", state="draining")))
    await own.register()

    assert written(server) == replace(STARTED, task_key=b"kept", state="draining")


async def test_a_record_with_the_present_key_is_not_written_again() -> None:
    server = SimulatedServer(SystemClock())
    written(server, EARLIER)
    own = own_record(server)
    await own.register()

    own.check(written(server))

    assert own.is_registered


def test_no_text_of_a_member_has_a_key() -> None:
    assert "kept" not in repr(EARLIER)
    assert "first" not in str(EARLIER)
