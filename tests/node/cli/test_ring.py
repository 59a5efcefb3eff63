"""``rota ring``: printed text and exit statuses, without a node."""

import json
import re
import sys
from collections.abc import Callable
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
    assert re.search(r"^n10 +\d\S+ +1 +\d+ +-> \d+ +\d+ +-> \d+ ", ran.out, re.MULTILINE)
    assert re.search(r"^n11 +\d\S+ +- +-> 1 +- +-> \d+ +- +-> \d+ ", ran.out, re.MULTILINE)


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
def test_the_ring_fits_eighty_columns(ring: Ring, nodes: str) -> None:
    ran = ring("show", "--nodes", nodes, "--shards", "4096")

    assert (ran.status, ran.err) == (0, "")
    assert max(map(len, ran.out.splitlines())) <= 80


def test_the_shares_of_nodes_are_shown_without_changes(ring: Ring) -> None:
    titles, *rows = ring("show", "--nodes", "a:x,b:y").out.splitlines()[3:]

    assert titles.split() == ["NODE", "ZONE", "ARC", "WEIGHT", "PRIMARY", "COPIES", "OF", "SHARE"]
    assert [row.split()[:2] for row in rows] == [["a", "x"], ["b", "y"]]
    assert [row.split()[-2:] for row in rows] == [["256", "1.00"]] * 2


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
