"""The example of a resource that goes by fencing tokens: who was started last wins."""

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from support.rotad import Json, Rotad

SINK = Path(__file__).parents[3] / "examples" / "fenced_sink.py"


def test_an_attempt_that_was_overtaken_writes_nothing(node: Rotad, tmp_path: Path) -> None:
    database = tmp_path / "totals.db"
    script = f'{sys.executable} {SINK} {database} sales "$ROTA_IDEMPOTENCY_KEY"'
    node.create(name="totals", command=script)
    first, second = (node.ended(node.trigger("totals")) for _ in range(2))

    late = written(database, "late", token=token_of(first))
    again = written(database, "again", token=token_of(second))

    assert token_of(first) < token_of(second)
    assert late == (3, second["executionId"])
    assert again == (0, "again")


def test_resources_are_guarded_each_by_itself(tmp_path: Path) -> None:
    database = tmp_path / "totals.db"

    written(database, "new", token="0" * 31 + "9")
    other = written(database, "old", token="0" * 31 + "1", resource="stock")

    assert other == (0, "old")


def written(database: Path, value: str, *, token: str, resource: str = "sales") -> tuple[int, str]:
    """Write a value under a token; return the exit status, and what stands there then."""
    ran = subprocess.run(
        [sys.executable, str(SINK), str(database), resource, value],
        env={**os.environ, "ROTA_TOKEN": token},
        check=False,
        timeout=60,
    )
    with closing(sqlite3.connect(database)) as connection:
        [(standing,)] = connection.execute(
            "SELECT value FROM sink WHERE resource = ?", (resource,)
        ).fetchall()
    return ran.returncode, standing


def token_of(execution: Json) -> str:
    """Return the token of the last attempt of an execution with one task."""
    token: str = execution["tasks"]["main"]["attempts"][-1]["token"]
    return token
