"""``rota ring``: printed text and exit statuses, without a node."""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from rota.client.cli.main import main


class Ran(NamedTuple):
    """Result of a command."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output as a JSON document."""
        return json.loads(self.out)


Ring = Callable[..., Ran]


@pytest.fixture
def ring(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Ring:
    """Run a command of ``rota ring`` in this process, without a reachable node."""
    monkeypatch.setenv("ROTA_URL", "http://127.0.0.1:1")

    def run(*argv: str) -> Ran:
        status = main(["ring", *argv])
        sys.stdout.flush()
        written = capfd.readouterr()
        return Ran(status, written.out, written.err)

    return run


# -- plan ------------------------------------------------------------------------------------------


def test_a_plan_states_the_moves_and_the_loads_before_and_after(ring: Ring) -> None:
    ran = ring("plan", "--nodes", "10", "--shards", "1024", "--add", "n11")

    assert (ran.status, ran.err) == (0, "")
    moved = re.match(
        r"1024 shards x 3 copies: (\d+) copies of \d+ shards move, (\S+)% of all\n"
        r"(\S+) times the least \(279\); \d+ shards get another primary\n"
        r"the most loaded node: (\S+) of its share before, (\S+) after\n\n",
        ran.out,
    )
    assert moved is not None
    copies, percent, of_least, before, after = map(float, moved.groups())
    assert percent == pytest.approx(100 * copies / 3072, abs=0.05)
    assert of_least == pytest.approx(copies / 279.27, abs=0.005)
    assert of_least <= 1.15
    assert max(before, after) <= 1.10
    assert re.search(r"^n10 +1 +\d+ +-> \d+ +\d+ +-> \d+ ", ran.out, re.MULTILINE)
    assert re.search(r"^n11 +- +-> 1 +- +-> \d+ +- +-> \d+ ", ran.out, re.MULTILINE)


def test_a_plan_as_json_adds_up(ring: Ring) -> None:
    plan = ring("plan", "--nodes", "6", "--zones", "3", "--remove", "n2", "-o", "json").json

    gone = next(each for each in plan["nodes"] if each["node"] == "n2")
    assert gone["after"] is None
    assert plan["moved"]["least"] == max(gone["before"]["copies"], 768 / 6)
    assert plan["moved"]["copies"] >= gone["before"]["copies"]
    assert sum(each["after"]["copies"] for each in plan["nodes"] if each["after"]) == 3 * 256
    assert sum(each["after"]["primaries"] for each in plan["nodes"] if each["after"]) == 256


def test_several_changes_are_one_plan(ring: Ring) -> None:
    plan = ring(
        *("plan", "--nodes", "a,b,c,d:east", "--remove", "a", "--weight", "b=0.5"),
        *("--add", "e=2:west", "--add", "f", "-o", "yaml"),
    )

    nodes = {each["node"]: each for each in yaml.safe_load(plan.out)["nodes"]}
    assert list(nodes) == ["a", "b", "c", "d", "e", "f"]
    assert nodes["a"]["after"] is None
    assert nodes["b"]["after"]["weight"] == 0.5
    assert (nodes["e"]["before"], nodes["e"]["after"]["weight"]) == (None, 2.0)
    assert [nodes[name]["zone"] for name in "def"] == ["east", "west", ""]


def test_the_same_plan_is_the_same_every_time(ring: Ring) -> None:
    one = ring("plan", "--nodes", "a,b,c,d", "--add", "e", "-o", "json").json
    other = ring("plan", "--nodes", "d,c,b,a", "--add", "e", "-o", "json").json

    assert one["moved"] == other["moved"]


# -- show ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("nodes", ["3", "10", "62", "200"])
def test_the_ring_is_drawn_on_eighty_columns(ring: Ring, nodes: str) -> None:
    ran = ring("show", "--nodes", nodes, "--shards", "4096")

    assert (ran.status, ran.err) == (0, "")
    assert max(map(len, ran.out.splitlines())) <= 80


def test_the_map_shows_the_primary_of_each_shard(ring: Ring) -> None:
    shown = ring("show", "--nodes", "5")
    document = ring("show", "--nodes", "5", "-o", "json").json

    rows = re.findall(r"^ +\d+  (\w{64})$", shown.out, re.MULTILINE)
    names = dict(re.findall(r"^(\w)  (n\d) ", shown.out, re.MULTILINE))
    assert [names[mark] for mark in "".join(rows)] == document["shardsByPrimary"]


def test_of_many_shards_the_map_shows_some(ring: Ring) -> None:
    shown = ring("show", "--nodes", "5", "--shards", "16384")
    document = ring("show", "--nodes", "5", "--shards", "16384", "-o", "json").json

    rows = re.findall(r"^ +\d+  (\w{64})$", shown.out, re.MULTILINE)
    names = dict(re.findall(r"^(\w)  (n\d) ", shown.out, re.MULTILINE))
    assert "the primary of every 16th shard" in shown.out
    assert [names[mark] for mark in "".join(rows)] == document["shardsByPrimary"][::16]


def test_a_bar_has_primaries_backups_and_a_mark_at_the_fair_share(ring: Ring) -> None:
    ran = ring("show", "--nodes", "3")

    [bar] = set(re.findall(r"[#=|+]{2,}", ran.out))
    assert re.fullmatch(r"#{4}={8}\|", bar)


def test_arcs_are_the_parts_of_the_circle(ring: Ring) -> None:
    document = ring("show", "--nodes", "a,b=3", "-o", "json").json

    arcs = [each["arc"] for each in document["nodes"]]
    assert sum(arcs) == pytest.approx(1, abs=0.001)
    assert arcs[1] == pytest.approx(0.75, abs=0.08)


# -- what does not suffice -------------------------------------------------------------------------


def test_fewer_nodes_than_copies_are_warned_of(ring: Ring) -> None:
    ran = ring("plan", "--nodes", "3", "--remove", "n1")

    assert ran.status == 0
    assert ran.out.startswith("256 shards x 2 copies: 0 copies of 0 shards move")
    assert ran.err == "warning: 2 nodes for 3 copies: each shard has 2\n"


def test_too_few_zones_are_warned_of(ring: Ring) -> None:
    ran = ring("show", "--nodes", "6", "--zones", "2")

    assert ran.err == "warning: 2 zones for 3 copies: a zone may hold 2 of a shard\n"


def test_weights_that_zones_do_not_allow_are_warned_of(ring: Ring) -> None:
    ran = ring("show", "--nodes", "a=4:x,b:y,c:z")

    assert ran.err == (
        "warning: spreading copies over nodes and zones does not allow shares by weight: "
        "a gets 0.50 of its part, b gets 2.00 of its part, c gets 2.00 of its part "
        "(more than 10% off)\n"
    )


def test_nodes_without_zones_are_not_warned_of(ring: Ring) -> None:
    assert ring("show", "--nodes", "6").err == ""


def test_without_a_node_that_may_hold_shards_the_ring_is_empty(ring: Ring) -> None:
    ran = ring("show", "--nodes", "a=0")

    assert ran.status == 0
    assert ran.out.startswith("256 shards x 0 copies on 0 nodes")
    assert ran.err == "warning: 0 nodes for 3 copies: each shard has 0\n"


# -- naming nodes ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["members.yaml", "members.json"])
def test_members_may_be_in_a_file(ring: Ring, tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    members = [
        {"id": "a", "zone": "x"},
        {"id": "b", "weight": 2},
        {"id": "c", "state": "draining"},
    ]
    file.write_text(json.dumps(members) if name.endswith("json") else yaml.safe_dump(members))

    nodes = ring("show", "--nodes", str(file), "-o", "json").json["nodes"]

    assert [(each["node"], each["zone"], each["weight"]) for each in nodes] == [
        ("a", "x", 1.0),
        ("b", "", 2.0),
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- id: a\n  size: 3\n", "unknown field `size`"),
        ("- id: a\n- id: a\n", "there is already a node 'a'"),
        ("- id: a\n  weight: -1\n", "-1 is not between 0 and 100"),
        ("a: [", "members.yaml"),
    ],
)
def test_a_file_that_is_none_of_members_is_refused(
    ring: Ring, tmp_path: Path, text: str, said: str
) -> None:
    file = tmp_path / "members.yaml"
    file.write_text(text)

    ran = ring("show", "--nodes", str(file))

    assert ran.status == 9
    assert said in ran.err


def test_a_file_that_is_not_there_is_said_to_be_so(ring: Ring) -> None:
    ran = ring("show", "--nodes", "./nowhere.yaml")

    assert (ran.status, ran.err) == (9, "error: nowhere.yaml: No such file or directory\n")


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("plan", "--nodes", "3"), "name a change"),
        (("plan", "--nodes", "3", "--add", "n3"), "there is already a node 'n3'"),
        (
            ("plan", "--nodes", "3", "--remove", "n4"),
            "there is no node 'n4'; the nodes are: n1, n2",
        ),
        (("plan", "--nodes", "3", "--weight", "n1"), "is not a weight"),
        (("plan", "--nodes", "3", "--weight", "n1=101"), "101 is not between 0 and 100"),
        (("plan", "--nodes", "3", "--add", "=2"), "is not NAME[=WEIGHT][:ZONE]"),
        (("show", "--nodes", "0"), "from 1 to 10000"),
        (("show", "--nodes", "a,b=x"), "'x' is not a weight"),
        (("show", "--nodes", "a,b b"), "'b b' is not a name"),
        (("show", "--nodes", "a,b", "--zones", "2"), "--zones needs a number of nodes, as in"),
        (("show", "--nodes", "3", "--shards", "100"), "100 is no power of two"),
    ],
)
def test_what_makes_no_sense_is_wrong_usage(ring: Ring, argv: tuple[str, ...], said: str) -> None:
    ran = ring(*argv)

    assert ran.status == 2
    assert said in ran.err
    assert ran.out == ""
