"""Space that is kept for the store's newest log."""

from pathlib import Path

from rota.storage.log_space import LogSpace

AHEAD_BYTES = 1 << 20


def test_space_is_kept_for_the_newest_log_also_where_numbers_have_more_digits(
    tmp_path: Path,
) -> None:
    older, newest = tmp_path / "999999.log", tmp_path / "1000000.log"
    older.touch()
    newest.touch()

    LogSpace(tmp_path, AHEAD_BYTES).keep()

    assert older.stat().st_blocks == 0
    assert newest.stat().st_blocks * 512 >= AHEAD_BYTES
