"""Judges the folder of a run again: ``python -m chaos.judge FOLDER``."""

import json
import sys
from dataclasses import asdict
from pathlib import Path

from chaos.judge.figures import figures, table
from chaos.judge.records import read
from chaos.judge.verdict import judge

SHOWN = 20


def main(folder: Path) -> int:
    """Write ``figures.json`` and ``verdict.json``, print both; return 1 if a rule was broken."""
    records = read(folder)
    violations = judge(records)
    result = figures(records)
    (folder / "figures.json").write_text(json.dumps(result, indent=1))
    found = [asdict(each) for each in violations]
    (folder / "verdict.json").write_text(json.dumps(found, indent=1))
    print(table(result))
    for each in violations[:SHOWN]:
        print(f"VIOLATION {each.rule}: {each.text}")
    print(f"{len(violations)} violations")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
