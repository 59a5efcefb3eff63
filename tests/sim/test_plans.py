"""Plans of worlds: sizes that runs shrink, and chance apart from a world's own."""

from random import Random

from rota.core.replication import local_copy, primary, reconfiguration
from rota.storage import shards
from sim.apart import chance_apart
from sim.sizes import ORDINARY, Sizes, draw_sizes, in_use


def test_sizes_are_in_use_until_the_end_of_the_run() -> None:
    small = Sizes(window=1, window_bytes=2, part_bytes=3, tail=4, journal=5)

    with in_use(small):
        during = _sizes_now()

    assert during == small
    assert _sizes_now() == ORDINARY


def test_half_of_all_worlds_have_ordinary_sizes() -> None:
    drawn = [draw_sizes(Random(seed)) for seed in range(100)]

    assert 30 < drawn.count(ORDINARY) < 70


def test_chance_apart_follows_from_the_seed_without_draws_from_it() -> None:
    chance = Random(7)

    drawn = [chance_apart(chance).random() for _ in range(2)]

    assert drawn[0] == drawn[1]
    assert chance.random() == Random(7).random()


def _sizes_now() -> Sizes:
    assert vars(reconfiguration)["WINDOW"] == primary.WINDOW
    return Sizes(
        window=primary.WINDOW,
        window_bytes=primary.WINDOW_BYTES,
        part_bytes=primary.PART_BYTES,
        tail=local_copy.TAIL_MAX,
        journal=shards.JOURNAL_KEPT,
    )
