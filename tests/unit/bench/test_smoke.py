"""Criterion of a slowdown, and the skeleton with which rota is compared."""

import asyncio
import os
import signal
from pathlib import Path

import pytest
from bench.skeleton import RECORD_BYTES, Skeleton
from bench.smoke import BOUNDS, Bound, Pair, ratio, regressed

from support.stopping import stop

STARTED_S = 60


def test_a_ratio_is_of_medians_so_one_bad_round_does_not_count() -> None:
    pairs = [Pair(rota=4.0, skeleton=2.0), Pair(rota=90.0, skeleton=2.0), Pair(4.0, 50.0)]

    assert ratio(pairs) == 2.0


@pytest.mark.parametrize(("most", "expected"), [(2.0, []), (1.9, ["cost"])])
def test_what_is_above_its_bound_is_named(
    most: float, expected: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    found = regressed([[Pair(rota=4.0, skeleton=2.0)]], [Bound("cost", most, "measured")])

    assert found == expected
    assert "cost" in capsys.readouterr().out


def test_every_bound_says_where_it_comes_from() -> None:
    assert all(bound.why and bound.most > 1 for bound in BOUNDS)


async def test_what_is_committed_is_in_all_journals(tmp_path: Path) -> None:
    with Skeleton(tmp_path / "skeleton") as skeleton:
        client = await skeleton.client()

        async with asyncio.timeout(STARTED_S):
            await asyncio.gather(client.commit(3), client.commit(5))

        sizes = [path.stat().st_size for path in (tmp_path / "skeleton").iterdir()]
        assert sizes == [8 * RECORD_BYTES] * 3


async def test_nothing_is_committed_while_a_copy_is_stopped(tmp_path: Path) -> None:
    with Skeleton(tmp_path / "skeleton") as skeleton:
        client = await skeleton.client()
        stop(skeleton.pids[0])

        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(client.commit(1))
            # No answer can come; a wrong one would come within a few milliseconds.
            done, _ = await asyncio.wait([waiting], timeout=1.0)
            os.kill(skeleton.pids[0], signal.SIGCONT)

        assert not done
        assert waiting.done()
