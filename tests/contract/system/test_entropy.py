"""Contract of every `Entropy`: the machine's and a seed's."""

from collections.abc import Callable

import pytest

from rota.node.system.entropy import Entropy, SystemEntropy
from sim.cluster.chance import SeededEntropy

DRAWS = 2_000
"""More than one page of the machine's randomness has."""

sources = pytest.mark.parametrize("make_entropy", [SystemEntropy, lambda: SeededEntropy(1)])


@sources
def test_a_draw_has_64_bits_all_of_which_vary(make_entropy: Callable[[], Entropy]) -> None:
    entropy = make_entropy()

    drawn = [entropy.draw() for _ in range(DRAWS)]

    assert all(0 <= each < 1 << 64 for each in drawn)
    for bit in range(64):
        # 6.7 standard deviations about a half: one run in 10^9 fails by chance.
        assert 850 <= sum(each >> bit & 1 for each in drawn) <= 1_150


@sources
def test_no_draw_comes_twice(make_entropy: Callable[[], Entropy]) -> None:
    entropy = make_entropy()

    drawn = [entropy.draw() for _ in range(DRAWS)]

    assert len(set(drawn)) == DRAWS


def test_two_sources_of_a_machine_differ_and_two_of_a_seed_do_not() -> None:
    assert SystemEntropy().draw() != SystemEntropy().draw()
    assert SeededEntropy(1).draw() == SeededEntropy(1).draw() != SeededEntropy(2).draw()
