"""The export of changes: all of them, in order, across restarts and while a destination is away."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

import pytest

from rota.core.model.ids import Epoch
from rota.core.vocabulary.commands import NoteExported
from rota.node.runtime import change_export
from rota.node.runtime.change_export import ChangeExport
from rota.node.runtime.wiring import NodeWiring
from rota.node.shards.shard import Shard
from rota.node.system.background import beside
from rota.node.system.change_sinks import ChangeFile, ExportedLine, Sink, SinkAway
from rota.node.system.metrics import Metrics
from rota.storage.memory import MemoryStore
from rota.storage.user_changes import UserChanges
from support.in_process import Client, running_works, serving, until

JOBS = "/api/v1/jobs"


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_export, "LOOK_S", 0.01)


@pytest.fixture
async def wiring(tmp_path: Path) -> AsyncIterator[NodeWiring]:
    folder = tmp_path / "node"
    folder.mkdir()
    async with running_works(MemoryStore(), folder) as wiring:
        yield wiring


@pytest.fixture
async def client(wiring: NodeWiring) -> AsyncIterator[Client]:
    async with serving(wiring) as client:
        yield client


class Away:
    """A destination that does not take anything as long as it is away."""

    def __init__(self) -> None:
        self.is_away = True
        self.tries = 0
        self.taken: list[bytes] = []

    async def send(self, lines: Sequence[ExportedLine]) -> None:
        """Take the lines, or none while away."""
        self.tries += 1
        if self.is_away:
            raise SinkAway("away")
        self.taken += [each.document for each in lines]

    def close(self) -> None:
        """Do nothing."""


async def test_each_change_is_a_line_and_a_restart_repeats_none(
    wiring: NodeWiring, client: Client, tmp_path: Path
) -> None:
    file = tmp_path / "changes.jsonl"
    for number in range(5):
        await create(client, f"early-{number}")

    async with beside(export_of(wiring, {"file": ChangeFile(file)}).run()):
        await until(lambda: len(lines_of(file)) == 5)
        await until(lambda: positions(wiring) == 5)
    await create(client, "late")
    async with beside(export_of(wiring, {"file": ChangeFile(file)}).run()):
        await until(lambda: len(lines_of(file)) >= 6)

    _, page = await client.call("GET", "/api/v1/changes?order=asc")
    assert sorted(lines_of(file), key=key_of) == sorted(page["items"], key=key_of)
    assert lines_of(file)[-1]["job"] == "default/late"


async def test_a_destination_that_is_away_loses_no_change_and_is_logged_once(
    wiring: NodeWiring,
    client: Client,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(change_export, "AWAY_S_MAX", 0.02)
    away, metrics = Away(), Metrics()
    await create(client, "one")

    async with beside(export_of(wiring, {"syslog": away}, metrics).run()):
        await until(lambda: away.tries >= 5)
        await create(client, "two")
        assert lag_in(metrics) > 0
        away.is_away = False
        await until(lambda: len(away.taken) == 2)

    assert {json.loads(each)["job"] for each in away.taken} == {"default/one", "default/two"}
    events = [each.getMessage() for each in caplog.records]
    assert events.count("changes not exported") == 1
    assert 'rota_changes_exported_total{sink="syslog"} 2.0' in metrics.text().decode()
    assert lag_in(metrics) == 0


async def test_many_changes_of_a_shard_are_exported_in_batches(
    wiring: NodeWiring, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_export, "ROWS_PER_BATCH", 3)
    taking = Away()
    taking.is_away = False
    await create(client, "j")
    for _ in range(5):
        for action in ("pause", "resume"):
            await client.call("POST", f"{JOBS}/j/{action}", {})

    async with beside(export_of(wiring, {"file": taking}).run()):
        await until(lambda: len(taking.taken) == 11)
        await asyncio.sleep(0)

    assert [json.loads(each)["number"] for each in taking.taken] == list(range(1, 12))
    assert taking.tries == 4


async def test_a_new_time_as_primary_begins_at_the_stored_position(
    wiring: NodeWiring, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a recovery from an older copy, changes have earlier keys than those already sent."""
    taking, epoch = Away(), Epoch(1)
    taking.is_away = False
    await create(client, "one")
    monkeypatch.setattr(Shard, "epoch", property(lambda shard: epoch))
    monkeypatch.setattr(change_export, "NoteExported", without_position)

    async with beside(export_of(wiring, {"file": taking}).run()):
        await until(lambda: len(taking.taken) == 1)
        epoch = Epoch(2)
        await until(lambda: len(taking.taken) == 2)

    assert taking.taken[0] == taking.taken[1]


def export_of(
    wiring: NodeWiring, sinks: Mapping[str, Sink], metrics: Metrics | None = None
) -> ChangeExport:
    base = wiring.foundation
    changes = UserChanges(base.environment.store)
    return ChangeExport(wiring.shards, changes, sinks, base.clock, metrics or Metrics())


def without_position(*, sink: str, key: str) -> NoteExported:
    """Return the command that stores the position of the export, but for the beginning."""
    del key
    return NoteExported(sink=sink, key="")


def positions(wiring: NodeWiring) -> int:
    """Return the number of changes before the stored positions of the export to the file."""
    found = [shard.state.exported.get("file", "") for shard in wiring.shards]
    return sum(int(each.rpartition("/")[2], 16) for each in found if each)


def lines_of(file: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def key_of(document: Mapping[str, object]) -> tuple[object, object]:
    return document["shard"], document["number"]


def lag_in(metrics: Metrics) -> float:
    name = 'rota_changes_export_lag_seconds{sink="syslog"}'
    line = next(each for each in metrics.text().decode().splitlines() if each.startswith(name))
    return float(line.split()[1])


async def create(client: Client, name: str) -> None:
    status, found = await client.call("POST", JOBS, {"name": name, "type": "scripted"})
    assert status < 300, found
