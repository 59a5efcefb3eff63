"""A shard all of whose counting copies are lost: opened from a stale one, at a stated loss."""

import json
import shutil
from pathlib import Path

import pytest

from rota.client.client import Client
from rota.client.errors import Conflict, NotFound, TooBusy
from rota.core.model.ids import ShardId, slot_of
from rota.ring.placement import shard_of
from support import runbook
from support.cluster import SHARDS, Cluster, Json, answer
from support.etcd import needs_etcd
from support.rota_program import Rota


def shard_of_job(name: str) -> ShardId:
    return shard_of(slot_of("default", name), SHARDS)


def is_counted_out(cluster: Cluster, node_id: str) -> bool:
    held = cluster.configurations().values()
    return all(node_id not in [each for each, _ in one["sync"]] for one in held)


@needs_etcd
def test_a_shard_whose_counting_copies_are_lost_opens_from_a_stale_one(
    own_cluster: Cluster, rota_alone: Rota, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = own_cluster.start()
    first, second, third = cluster
    answer(first, "POST", "/api/v1/jobs", {"name": "early", "command": "true"})
    first.ended(first.trigger("early"))
    shard = shard_of_job("early")
    with Client(first.url) as client, pytest.raises(Conflict, match="copies_alive"):
        client.recover_shard(shard, "n3", accept_loss=True)
    third.stop()
    cluster.wait_until(lambda: is_counted_out(cluster, "n3"), "n3 still counts")
    late = next(f"late-{n}" for n in range(999) if shard_of_job(f"late-{n}") == shard)
    answer(first, "POST", "/api/v1/jobs", {"name": late, "command": "true"})

    first.stop()
    second.stop()
    saved = tmp_path / "saved.jsonl"
    exported = rota_alone(
        "shard", "export", "--data-dir", str(first.data_dir), "--output", str(saved)
    )
    for node in (first, second):
        shutil.rmtree(node.data_dir)
    third.spawn()
    third.wait_logged("node started")
    third.is_ready()  # Which finds its address.

    # What was acknowledged late is in what was saved before.
    assert exported.status == 0
    lines: list[Json] = [json.loads(line) for line in saved.read_text().splitlines()]
    names = {each["definition"]["name"] for each in lines if each["kind"] == "job"}
    assert {"early", late} <= names
    [run] = [each["execution"] for each in lines if each["kind"] == "execution"]
    assert (run["job"], run["status"]) == ("default/early", "success")
    assert [*run["tasks"]] == ["main"]

    lost = ["n1", "n2"]
    before = cluster.configurations()
    with Client(third.url) as client:
        with pytest.raises(TooBusy, match="n1, n2 did not respond"):
            client.recover_shard(shard, "n3", accept_loss=True)
        with pytest.raises(Conflict, match="loss_not_accepted"):
            client.recover_shard(shard, "n3", without=lost)
        with pytest.raises(Conflict, match="node_in_use"):
            client.forget_node("n1")
        dry = client.recover_shard(shard, "n3", without=lost, dry_run=True)
        assert cluster.configurations() == before
        assert (dry.missing, dry.recorded_on) == (["n1", "n2"], "n3")
        assert dry.last_index > 0
        monkeypatch.setenv("ROTA_URL", third.url)
        followed = runbook.follow(
            "Lose all copies that count", rota_alone, words={"17": str(shard)}
        )
        assert [each.status for each in followed] == [0, 0]
        for number in set(range(SHARDS)) - {shard}:
            client.recover_shard(number, "n3", without=lost, accept_loss=True)
        client.forget_node("n1")
        client.forget_node("n2")
    first.spawn()
    second.spawn()

    cluster.wait_whole()
    record = [json.loads(line) for line in (third.data_dir / "RECOVERIES").read_text().splitlines()]
    done = [each for each in record if each["step"] == "done"]
    assert sorted(each["shard"] for each in done) == list(range(SHARDS))
    assert len(record) == 2 * SHARDS
    with Client(first.url) as client:
        assert client.job("early").name == "early"
        with pytest.raises(NotFound):
            client.job(late)
        client.create_job({"name": late, "command": "true"})
        assert client.wait(client.trigger(late).execution_id).status == "success"
