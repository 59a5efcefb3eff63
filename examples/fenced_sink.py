"""A store that refuses writes of superseded attempts, with fencing tokens.

If the node of an attempt is cut off, the attempt may count as lost, and its task may be started
again elsewhere while it still runs. Then both attempts write. The store keeps the highest token of
each resource and refuses lower ones, so the attempt that was started last determines the value:

    python3 fenced_sink.py totals.db sales 1204

writes 1204 as the value of ``sales``, with the token of the current attempt. It exits with 3
if a later attempt has written already.

The tokens of one job grow with every attempt; those of different jobs cannot be compared. A
resource must therefore be written by one job only.
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
    """Write *value*, unless an attempt with a higher token has written; repetitions are allowed.

    Comparison and write are one statement, so no other write can come between them.

    Raises:
        Overtaken: A later attempt has written.
    """
    with closing(sqlite3.connect(database, timeout=30)) as connection, connection:
        connection.execute(_TABLES)
        # Tokens are 32 hexadecimal digits: as text they sort by age.
        if connection.execute(_WRITE, (resource, token, value)).rowcount == 0:
            raise Overtaken(f"{resource} has been written by a later attempt than {token}")


def main() -> int:
    """Write the value of the command line with the token of this attempt."""
    database, resource, value = sys.argv[1:]
    try:
        write(database, resource, value, token=os.environ["ROTA_TOKEN"])
    except Overtaken as error:
        sys.stderr.write(f"{error}\n")
        return OVERTAKEN
    return 0


if __name__ == "__main__":
    sys.exit(main())
