"""A search for orphans in a child that may hang."""

import os
import subprocess
import sys
from collections.abc import Callable, Collection
from pathlib import Path

from contract.executor.executor_host import store_id_of
from rota.executor.kernel.orphan_sweep import Swept, sweep, sweep_orphans
from rota.executor.kernel.orphans import Orphans

HUNG_S, WITHIN_S = 0.2, 30.0


def hang() -> None:
    """Wait for what never comes."""
    receiver, sender = os.pipe()
    os.read(receiver, 1)
    os.close(sender)


def test_a_process_that_cannot_be_read_is_left_out_and_the_rest_is_searched() -> None:
    hanging = os.getppid()

    def search(skipped: Collection[int], on_read: Callable[[int], None]) -> Orphans:
        if hanging not in skipped:
            on_read(hanging)
            hang()
        return Orphans((), (17,))

    assert sweep(search, within_s=WITHIN_S, hung_s=HUNG_S) == Swept((17,), (hanging,), True)


def test_a_search_that_takes_too_long_is_incomplete() -> None:
    def search(skipped: Collection[int], on_read: Callable[[int], None]) -> Orphans:
        on_read(0)
        hang()
        return Orphans((), ())

    assert sweep(search, within_s=HUNG_S) == Swept((), (), is_complete=False)


def test_a_search_that_crashes_is_incomplete() -> None:
    def search(skipped: Collection[int], on_read: Callable[[int], None]) -> Orphans:
        raise OSError("no /proc")

    assert sweep(search, within_s=WITHIN_S) == Swept((), (), is_complete=False)


def test_a_child_holds_no_descriptor_of_its_parent(tmp_path: Path) -> None:
    lock = os.open(tmp_path / "lock", os.O_CREAT)

    def search(skipped: Collection[int], on_read: Callable[[int], None]) -> Orphans:
        return Orphans((), (len(os.listdir("/proc/self/fd")),))

    try:
        swept = sweep(search, within_s=WITHIN_S)
    finally:
        os.close(lock)
    assert swept.pids_left == (5,)  # Three, that of the result, and that of the list.


def test_an_orphan_is_killed_by_the_child(tmp_path: Path) -> None:
    mark = {"ROTA_STORE_ID": store_id_of(tmp_path)}
    orphan = subprocess.Popen(
        (sys.executable, "-c", "import time; time.sleep(1000)"), env=mark, start_new_session=True
    )

    swept = sweep_orphans(store_id_of(tmp_path), within_s=WITHIN_S)

    assert orphan.wait(timeout=10) == -9
    assert swept.pids_left == ()
    assert swept.is_complete
