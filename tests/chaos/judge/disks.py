"""Digests of the copies on each node's disk, table by table.

Read from the databases of nodes that were killed, all in one moment, after everything had ended: so
what is compared is what each would begin with again. The rows are those of two column families,
whose keys begin with the shard in two bytes and the table in one; the copy's header says how far
the journal has been applied.
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from rocksdict import AccessType, Options, Rdict

Json = Any  # Any: a line to be written.

ROWS = ("STATE", "HIST")
APPLIED = 2
"""Position of the applied index in a header."""


def collect_replicas(databases: dict[str, Path], folder: Path) -> None:
    """Write a digest of each table of each copy, by node."""
    with (folder / "replicas.jsonl").open("w") as file:
        for node, database in sorted(databases.items()):
            for copy in _copies(node, database):
                file.write(json.dumps(copy) + "\n")


def _copies(node: str, path: Path) -> Iterator[Json]:
    options = Options(raw_mode=True)
    families = {name: Options(raw_mode=True) for name in Rdict.list_cf(str(path), options)}
    database = Rdict(str(path), options, families, AccessType.read_only())
    try:
        tables = _tables(database)
        for key, header in _rows(database, "META"):
            if key.startswith(b"s:"):
                shard = int.from_bytes(key[2:4], "big")
                applied = msgspec.msgpack.decode(header)[APPLIED]
                yield {"node": node, "shard": shard, "applied": applied, "tables": tables[shard]}
    finally:
        database.close()


def _tables(database: Rdict) -> dict[int, dict[str, str]]:
    """Return the number of rows and their digest, by shard and table."""
    digests: dict[tuple[int, int], Any] = defaultdict(hashlib.sha256)  # Any: a hash object
    counts: dict[tuple[int, int], int] = defaultdict(int)
    for family in ROWS:
        for key, value in _rows(database, family):
            place = (int.from_bytes(key[:2], "big"), key[2])
            digests[place].update(len(key).to_bytes(4, "big") + key)
            digests[place].update(len(value).to_bytes(4, "big") + value)
            counts[place] += 1
    tables: dict[int, dict[str, str]] = defaultdict(dict)
    for (shard, table), digest in digests.items():
        tables[shard][str(table)] = f"{counts[shard, table]} rows {digest.hexdigest()[:16]}"
    return tables


def _rows(database: Rdict, family: str) -> Iterator[tuple[bytes, bytes]]:
    for key, value in database.get_column_family(family).items():
        assert isinstance(key, bytes)
        assert isinstance(value, bytes)  # Raw mode: nothing is interpreted.
        yield key, value
