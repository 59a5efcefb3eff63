"""Recovery against a coordinator that may change meanwhile."""

import asyncio
import json
import os
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import msgspec
import pytest

from rota.core.errors import Refused
from rota.core.model.ids import AllocationId, Epoch, NodeId, Session, ShardId
from rota.core.timing.instants import Instant
from rota.core.vocabulary.shard_configuration import (
    NO_SESSION,
    Configuration,
    Copy,
    Swap,
    Swapped,
    first_epoch,
)
from rota.node.coordination.coordinator import Claim, Cluster, Coordinator, Member
from rota.node.coordination.coordinator_errors import OutcomeUnknown
from rota.node.coordination.testing.simulated_coordinator import (
    PerfectLink,
    SimulatedCoordinator,
    SimulatedServer,
)
from rota.node.recovery.configuration_lineage import EntryOf
from rota.node.recovery.procedure import RECORD_FILE, Recovery, recover_cluster, recover_shard
from rota.node.system.clock import SystemClock
from rota.node.system.entropy import SystemEntropy
from rota.wire.documents import ConfigurationView, CopyView, HeldView, InventoryView
from support.recorded_syncs import record_syncs

A, B, C = (NodeId(each) for each in "abc")
SHARDS = [ShardId(0), ShardId(1)]
CLUSTER = Cluster(id="cluster", shards=2, replicas=3)
NOON = Instant(1_800_000_000_000_000)


def configuration(epoch: int, *sync: NodeId) -> Configuration:
    copies = tuple(Copy(each, AllocationId(f"{each}1")) for each in sync)
    return Configuration(
        epoch=Epoch(epoch), primary=sync[0], primary_session=Session("s"), sync=copies
    )


OLD, NEW = configuration(1, A, B, C), configuration(7, A, B)


def inventory(node_id: NodeId, seen: Configuration, lost: int | None = 0) -> InventoryView:
    view = ConfigurationView(
        epoch=seen.epoch,
        primary=seen.primary,
        primary_session=seen.primary_session,
        copies=[CopyView(node_id=each.node_id, allocation=each.allocation) for each in seen.sync],
    )
    held = [
        HeldView(
            shard=shard,
            seen=view,
            promised=seen.epoch,
            allocation=f"{node_id}1",
            before=0,
            committed=9,
            tip_epoch=1,
            tip_index=9,
            tip_hash="aa",
            tip_at="2027-01-15T08:00:00.000000Z",
        )
        for shard in SHARDS
    ]
    return InventoryView(node_id=node_id, lost=lost, shards=held)


class Losing(SimulatedCoordinator):
    """Coordinator that loses the answers to swaps if set."""

    loses = False

    async def swap(self, swaps: Sequence[Swap]) -> list[Swapped]:
        """Carry out the swaps, and lose the answers if set."""
        answers = await super().swap(swaps)
        if self.loses:
            raise OutcomeUnknown("the answer is lost")
        return answers


async def coordinator(cluster: Cluster | None = CLUSTER, *, has_session: bool = True) -> "Losing":
    """Return a coordinator with the old configurations if it has a cluster."""
    server = SimulatedServer(SystemClock())
    made = Losing(server, A, link=PerfectLink(), entropy=SystemEntropy())
    for node_id in (A, B, C):
        await made.register(Member(node_id=node_id, store_id=node_id, address=""))
    grant = await made.begin_session(Claim(node_id=A, store_id="a", lock="a"), 60)
    if cluster is not None:
        await made.found(cluster)
        first = [
            Swap(shard=each, expected=None, fresh=OLD, by=A, session=grant.session)
            for each in SHARDS
        ]
        assert all(each.is_done for each in await made.swap(first))
    if not has_session:
        await made.end_session(grant.session)
    return made


async def begun(there: Coordinator, folder: Path, *, is_dry: bool = False) -> Recovery:
    """Return a recovery that has read the coordinator and the nodes."""
    life = (await there.view()).lives.get(A)
    return Recovery(
        name="trio",
        coordinator=there,
        cluster=CLUSTER,
        node_id=A,
        data_dir=folder,
        least=2,
        now=lambda: NOON,
        view=await there.view(),
        inventories={A: inventory(A, NEW), B: inventory(B, NEW), C: inventory(C, OLD)},
        session=lambda: life.session if life else NO_SESSION,
        read_hashes=no_hashes,
        found=found_none,
        without=(),
        is_dry=is_dry,
    )


def found_none(shards: Collection[ShardId]) -> None:
    """Refuse to found shards."""
    assert not shards


async def no_hashes(node_id: NodeId, entries: Sequence[EntryOf]) -> list[bytes | None] | None:
    """Refuse every request for hashes."""
    raise AssertionError(f"{node_id} is asked for {entries}, and all copies end with one entry")


def lines(folder: Path) -> list[dict[str, object]]:
    file = folder / RECORD_FILE
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def steps(folder: Path) -> list[str]:
    return [str(each["step"]) for each in lines(folder)]


@pytest.mark.parametrize("cluster", [CLUSTER, None], ids=["restored", "emptied"])
async def test_a_recovery_writes_the_record_and_the_configurations(
    tmp_path: Path, cluster: Cluster | None
) -> None:
    there = await coordinator(cluster)
    before = await there.view()

    dry = await recover_cluster(await begun(there, tmp_path, is_dry=True), accepts_loss=False)
    assert await there.view() == before
    assert lines(tmp_path) == []
    done = await recover_cluster(await begun(there, tmp_path), accepts_loss=False)

    view = await there.view()
    assert done == dry
    assert view.cluster == msgspec.structs.replace(CLUSTER, generation=1)
    assert dict(view.configurations) == dict.fromkeys(
        SHARDS,
        Configuration(epoch=first_epoch(1), primary=A, primary_session=NO_SESSION, sync=NEW.sync),
    )
    begin, end = lines(tmp_path)
    assert (begin.pop("step"), end.pop("step")) == ("begun", "done")
    assert begin == end
    assert (end["at"], end["generation"]) == ("2027-01-15T08:00:00.000000Z", 1)


def forked(node_id: NodeId, seen: Configuration, tip: int) -> InventoryView:
    """Return the inventory of a node with a journal end of its own."""
    whole = inventory(node_id, seen)
    shards = [
        msgspec.structs.replace(each, committed=5, tip_index=tip, tip_hash=f"{ord(node_id):x}")
        for each in whole.shards
    ]
    return msgspec.structs.replace(whole, shards=shards)


Read = Callable[[EntryOf], bytes | None]


async def forked_recovery(
    folder: Path, read: Read, asked: list[EntryOf], away: NodeId | None = None
) -> Recovery:
    """Return a recovery that needs hashes: c has continued from the backup."""

    async def read_hashes(node_id: NodeId, entries: Sequence[EntryOf]) -> list[bytes | None] | None:
        asked.extend(entries)
        return None if node_id == away else [read(each) for each in entries]

    recovery = await begun(await coordinator(), folder, is_dry=True)
    inventories = {
        A: forked(A, NEW, 9),
        B: forked(B, NEW, 8),
        C: forked(C, configuration(8, B, C), 7),
    }
    return recovery._replace(inventories=inventories, read_hashes=read_hashes)


async def test_hashes_are_asked_for_until_it_is_certain_which_copies_have_everything(
    tmp_path: Path,
) -> None:
    asked: list[EntryOf] = []

    def read(entry: EntryOf) -> bytes:
        # The entries of c differ from number 6 on; the last entry of b is in no other journal.
        own = entry.number == 8 or (entry.node_id == C and entry.number > 5)
        return f"{entry.node_id if own else ''}{entry.number}".encode()

    recovery = await forked_recovery(tmp_path, read, asked)
    done = await recover_cluster(recovery, accepts_loss=False)

    assert [each.outcome for each in done.shards] == ["recovered"] * 2
    assert {tuple(each.copies) for each in done.shards} == {("a", "b")}
    assert len(asked) == len(set(asked)), "an entry is asked for twice"


async def test_a_node_that_does_not_answer_for_hashes_is_missing(tmp_path: Path) -> None:
    recovery = await forked_recovery(tmp_path, lambda entry: b"", [], away=B)

    with pytest.raises(Refused, match="nodes_unreached: b"):
        await recover_cluster(recovery, accepts_loss=False)


async def test_a_journal_that_loses_its_beginning_meanwhile_refuses_the_recovery(
    tmp_path: Path,
) -> None:
    recovery = await forked_recovery(tmp_path, lambda entry: None, [])

    with pytest.raises(Refused, match="recovery_overtaken: the journal of shard 0"):
        await recover_cluster(recovery, accepts_loss=False)


async def test_of_two_recoveries_at_the_same_time_one_is_refused(tmp_path: Path) -> None:
    there = await coordinator()
    both = [await begun(there, tmp_path), await begun(there, tmp_path)]

    done = await asyncio.gather(
        *(recover_cluster(each, accepts_loss=False) for each in both), return_exceptions=True
    )

    [refusal] = [each for each in done if isinstance(each, Refused)]
    assert refusal.code == "recovery_overtaken"
    assert sorted(steps(tmp_path)) == ["begun", "begun", "done", "failed"]


async def test_a_configuration_that_changed_meanwhile_is_left_alone(tmp_path: Path) -> None:
    there = await coordinator()
    recovery = await begun(there, tmp_path)
    session = recovery.view.lives[A].session
    changed = configuration(2, A, C)
    await there.swap([Swap(shard=SHARDS[1], expected=OLD, fresh=changed, by=A, session=session)])

    done = await recover_cluster(recovery, accepts_loss=False)

    assert [each.outcome for each in done.shards] == ["recovered", "changed"]
    assert (await there.view()).configurations[SHARDS[1]] == changed


async def test_a_recovery_of_another_cluster_is_refused(tmp_path: Path) -> None:
    there = await coordinator(Cluster(id="other", shards=2, replicas=3))

    with pytest.raises(Refused, match="etcdctl del --prefix /rota/trio/`"):
        await recover_cluster(await begun(there, tmp_path), accepts_loss=False)


async def test_a_node_without_a_session_recovers_nothing(tmp_path: Path) -> None:
    there = await coordinator(has_session=False)
    before = await there.view()

    with pytest.raises(Refused, match="no session"):
        await recover_cluster(await begun(there, tmp_path), accepts_loss=False)

    assert await there.view() == before


async def test_the_loss_of_a_shard_is_on_record_before_it_can_happen(tmp_path: Path) -> None:
    there = await coordinator()
    recovery = await begun(there, tmp_path)
    without_lives = msgspec.structs.replace(recovery.view, lives={})
    recovery = recovery._replace(
        view=without_lives,
        session=lambda: NO_SESSION,
        inventories={C: inventory(C, NEW, lost=None)},
        without=(A, B),
    )

    with pytest.raises(Refused, match="no session"):
        await recover_shard(recovery, SHARDS[0], C)

    record, end = lines(tmp_path)
    assert (record["nodeId"], record["lastIndex"], record["missing"]) == ("c", 9, ["a", "b"])
    assert (end["step"], end["code"]) == ("failed", "coordinator_unavailable")


async def test_configurations_are_written_in_the_session_that_the_node_has_by_then(
    tmp_path: Path,
) -> None:
    there = await coordinator()
    recovery = await begun(there, tmp_path)
    await there.end_session(recovery.view.lives[A].session)
    grant = await there.begin_session(Claim(node_id=A, store_id="a", lock="a"), 60)

    done = await recover_cluster(
        recovery._replace(session=lambda: grant.session), accepts_loss=False
    )

    assert [each.outcome for each in done.shards] == ["recovered", "recovered"]


async def test_a_recovery_whose_outcome_is_not_known_is_on_record(tmp_path: Path) -> None:
    there = await coordinator()
    recovery = await begun(there, tmp_path)
    there.loses = True

    with pytest.raises(OutcomeUnknown):
        await recover_cluster(recovery, accepts_loss=False)

    begin, end = lines(tmp_path)
    assert (begin["step"], begin["generation"]) == ("begun", 1)
    assert (end["step"], end["code"]) == ("failed", "outcome_unknown")


async def test_each_line_of_the_record_is_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recovery = await begun(await coordinator(), tmp_path)
    syncs = record_syncs(monkeypatch)

    await recover_cluster(recovery, accepts_loss=False)

    record = (tmp_path / RECORD_FILE).read_bytes()
    first, second = record.splitlines(keepends=True)
    assert syncs == [
        (tmp_path / RECORD_FILE, first),
        (tmp_path, b""),
        (tmp_path / RECORD_FILE, first + second),
    ]


async def test_nothing_is_written_where_nothing_can_be_recorded(tmp_path: Path) -> None:
    there = await coordinator()
    before = await there.view()

    with pytest.raises(FileNotFoundError):
        await recover_cluster(await begun(there, tmp_path / "gone"), accepts_loss=False)

    assert await there.view() == before


async def test_lines_are_whole_also_after_one_that_a_crash_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / RECORD_FILE).write_text('{"step": "beg')
    write = os.write

    def write_seven(file: int, data: bytes) -> int:
        return write(file, data[:7])

    monkeypatch.setattr(os, "write", write_seven)

    await recover_cluster(await begun(await coordinator(), tmp_path), accepts_loss=False)

    first, *others = (tmp_path / RECORD_FILE).read_text().splitlines()
    assert first == '{"step": "beg'
    assert [json.loads(each)["step"] for each in others] == ["begun", "done"]


async def test_shards_of_which_no_node_has_anything_are_founded(tmp_path: Path) -> None:
    there, founded = await coordinator(), list[ShardId]()
    recovery = await begun(there, tmp_path)
    recovery = recovery._replace(
        cluster=msgspec.structs.replace(CLUSTER, shards=4), found=founded.extend
    )

    dry = await recover_cluster(recovery._replace(is_dry=True), accepts_loss=False)
    assert not founded
    done = await recover_cluster(recovery, accepts_loss=False)

    assert dry == done
    assert [each.outcome for each in done.shards] == ["recovered"] * 2 + ["founded"] * 2
    assert founded == [2, 3]
