"""Checks of next fire times on a node that decides: new rules of time zones."""

from collections.abc import Iterator
from datetime import timedelta, timezone
from pathlib import Path

import pytest

from rota.core.model.ids import JobId
from rota.core.timing import schedule
from rota.core.timing.instants import HOUR, Instant
from rota.node.runtime.wiring import NodeWiring
from rota.storage.memory import MemoryStore
from support.in_process import running_works, save, until


@pytest.fixture(autouse=True)
def _rules_are_read_again(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    yield
    monkeypatch.undo()
    schedule._rule.cache_clear()  # pyright: ignore[reportPrivateUsage]


def next_fire_of(wiring: NodeWiring, job_id: JobId) -> Instant | None:
    return wiring.context.shards.of_id(job_id).state.plans[job_id].next_fires[0]


def look_after(wiring: NodeWiring, *jobs: JobId) -> None:
    """Do the work of a second of housekeeping for the shards of *jobs*."""
    for job_id in jobs:
        for work in wiring.housekeeping._of_each_shard:  # pyright: ignore[reportPrivateUsage]
            work(wiring.context.shards.of_id(job_id))


async def test_a_node_that_starts_computes_fire_times_by_its_rules_of_time_zones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryStore()
    fields = {"schedule": "0 0 1 1 *", "timezone": "Europe/Istanbul"}
    async with running_works(store, tmp_path) as wiring:
        zoned = await save(wiring.context.shards, "zoned", **fields)
        plain = await save(wiring.context.shards, "plain", schedule="0 0 1 1 *")
        before = next_fire_of(wiring, zoned), next_fire_of(wiring, plain)
    assert before[0] is not None

    # The next start finds an hour less between the zone and UTC.
    def two_hours(_name: str) -> timezone:
        return timezone(timedelta(hours=2))

    monkeypatch.setattr(schedule, "load_zone", two_hours)
    schedule._rule.cache_clear()  # pyright: ignore[reportPrivateUsage]
    async with running_works(store, tmp_path, life=2) as wiring:
        look_after(wiring, zoned, plain)
        await until(lambda: next_fire_of(wiring, zoned) != before[0])

        assert next_fire_of(wiring, zoned) == before[0] + HOUR
        assert next_fire_of(wiring, plain) == before[1]
