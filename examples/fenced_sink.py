"""A store that refuses whoever has been overtaken: what fencing tokens are for.

An attempt may be lost, its node cut off, and its task be started again elsewhere while it still
runs. Both then write. The store remembers the highest token that it has seen for each resource and
refuses lower ones, so the attempt that was started last has the last word:

    python3 fenced_sink.py totals.db sales 1204

writes 1204 as the value of ``sales``, in the name of the attempt that it runs in. It exits with 3
if a later attempt has been there.

The tokens of one job grow with every attempt; those of different jobs say nothing about each other.
So a resource is written by one job.
"""

import os
import sqlite3
import sys
from contextlib import closing

OVERTAKEN = 3

_TABLES = "CREATE TABLE IF NOT EXISTS sink (resource TEXT PRIMARY KEY, token TEXT, value TEXT)"
_WRITE = """
    INSERT INTO sink (resource, token, value) VALUES (?, ?, ?)
    ON CONFLICT (resource) DO UPDATE SET token = excluded.token, value = excluded.value
    WHERE excluded.token >= sink.token
"""


class Overtaken(Exception):
    """An attempt that was started later has written already."""


def write(database: str, resource: str, value: str, *, token: str) -> None:
    """Write *value*, unless somebody with a higher token has; again with the same is fine.

    Comparison and write are one statement, so nobody can come between them.

    Raises:
        Overtaken: Somebody has.
    """
    with closing(sqlite3.connect(database, timeout=30)) as connection, connection:
        connection.execute(_TABLES)
        # Tokens are 32 hexadecimal digits: as text they sort by age.
        if connection.execute(_WRITE, (resource, token, value)).rowcount == 0:
            raise Overtaken(f"{resource} has been written by a later attempt than {token}")


def main() -> int:
    """Write what the command line says in the name of this attempt."""
    database, resource, value = sys.argv[1:]
    try:
        write(database, resource, value, token=os.environ["ROTA_TOKEN"])
    except Overtaken as error:
        sys.stderr.write(f"{error}\n")
        return OVERTAKEN
    return 0


if __name__ == "__main__":
    sys.exit(main())
