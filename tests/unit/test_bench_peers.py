"""How rota is compared with others: by ratios within a round, and with what was configured."""

from pathlib import Path

import pytest
from bench.machine import Machine
from bench.peers.comparison import ROTA, write_comparison
from bench.peers.systems import SYSTEMS
from bench.peers.turns import Seen

MACHINE = Machine(
    processor="a processor",
    cores=2,
    memory_gib=4.0,
    kernel="6.1",
    python="3.11.2",
    rota="0.1.0",
    commit="abc",
    etcd="3.4",
    filesystem="ext4",
    sync_ms=(0.2, 3.0),
)


def rate(system: str, number: int, per_s: float) -> Seen:
    """Return a throughput that was seen."""
    return Seen(system=system, scenario="throughput", round=number, per_s=per_s)


def test_ratios_are_of_the_same_round(tmp_path: Path) -> None:
    # The machine was four times as fast in the second round.
    seen = [
        *(rate("rota-3", 0, 1_000), rate("celery", 0, 500)),
        *(rate("rota-3", 1, 4_000), rate("celery", 1, 1_000)),
    ]

    page = write_comparison(MACHINE, seen, {"celery": "celery 5"}, tmp_path).read_text()

    assert "| started a second, all at once | - | 2,500 | 750 (0.25 to 0.5) |" in page


def test_what_was_not_seen_is_not_told(tmp_path: Path) -> None:
    page = write_comparison(MACHINE, [], {"celery": "celery 5"}, tmp_path).read_text()

    assert "| chain, a hop, p50 ms | - | - | - |" in page


def test_each_system_is_told_with_its_version_configuration_and_durability(tmp_path: Path) -> None:
    versions = {name: f"{name} 9.9" for name in SYSTEMS}

    page = write_comparison(MACHINE, [], versions, tmp_path).read_text()

    assert all(about in page for about in ROTA.values())
    for name, system in SYSTEMS.items():
        assert f"{name} 9.9; {system.configuration}. Durable: {system.durability}" in page


@pytest.mark.parametrize("name", SYSTEMS)
def test_each_system_has_an_app(name: str) -> None:
    apps = Path(__file__).parents[2] / "bench" / "peers" / "apps"

    text = (apps / f"{SYSTEMS[name].app}.py").read_text()

    assert all(f"\ndef {call}(" in text for call in ("submit", "at", "chain", "close"))
