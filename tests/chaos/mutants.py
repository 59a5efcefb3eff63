"""Runs of a cluster with each rule of mutants.toml broken, which the judge has to detect.

    make chaos-mutants                                     all of them, one after the other
    python -P tests/chaos/mutants.py C5 C1                 those that a rule has to detect

Prints when the judge first saw a violation. Fails if a mutant survives, if only another rule is
violated, or if the text that the mutant changes is not in the source any more.
"""

import json
import os
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from sim.mutants import ROOT, Mutant

SOURCE = ROOT / "src/rota"


@dataclass(frozen=True)
class Row:
    """A mutant and a run; the attributes are described in mutants.toml."""

    rule: str
    breaks: str
    file: str
    edits: list[tuple[str, str]]
    run: str


def main() -> int:
    """Try the selected mutants; return 1 if one survived."""
    chosen = set(sys.argv[1:])
    rows = [row for row in read_rows() if not chosen or row.rule in chosen]
    survivors = 0
    for row in rows:
        is_caught, how = judge(row)
        survivors += not is_caught
        mark = "caught  " if is_caught else "SURVIVED"
        print(f"{mark}  {row.rule:4} {row.breaks}: {how}", flush=True)
    print(f"{len(rows)} mutants, {survivors} survived")
    return 1 if survivors else 0


def read_rows() -> list[Row]:
    """Return the rows of mutants.toml."""
    table = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
    return [Row(**fields) for fields in table["mutant"]]


def judge(row: Row) -> tuple[bool, str]:
    """Run a cluster of a copy of the source with a broken rule; return the judge's verdict."""
    with TemporaryDirectory(prefix="rota-chaos-mutant-") as directory:
        package, folder = Path(directory) / "rota", Path(directory) / "run"
        shutil.copytree(SOURCE, package)
        if problem := mutant(row).apply(package):
            return False, problem
        options = ["--folder", str(folder), "--package", str(package), *shlex.split(row.run)]
        ended = subprocess.run(
            [sys.executable, "-P", "-m", "chaos", *options],
            env={**os.environ, "PYTHONPATH": f"{ROOT}/src:{ROOT}/tests"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if not (folder / "verdict.json").exists():
            return False, f"the run did not finish: {ended.stdout[-1000:]}"
        return read_verdict(row.rule, folder)


def mutant(row: Row) -> Mutant:
    """Return the mutant of a row."""
    return Mutant(rule=row.rule, breaks=row.breaks, file=row.file, edits=row.edits)


def read_verdict(rule: str, folder: Path) -> tuple[bool, str]:
    """Return whether the judge named the rule, and its findings as text."""
    found = json.loads((folder / "verdict.json").read_text())
    faults = [json.loads(line) for line in (folder / "faults.jsonl").read_text().splitlines()]
    begun = [each["at"] for each in faults if each["event"] == "begin"]
    seen_at = [each["at"] for each in found if each["rule"] == rule and each["at"] is not None]
    rules = Counter(each["rule"] for each in found)
    counts = ", ".join(f"{count} of {name}" for name, count in sorted(rules.items())) or "nothing"
    if not rules[rule]:
        return False, f"the judge found {counts}"
    if not seen_at:
        return True, f"{counts}; after {len(begun)} faults"
    first = min(seen_at)
    before = sum(at <= first for at in begun)
    return True, f"{counts}; first {first - begun[0]:.1f} s after the first of {before} faults"


if __name__ == "__main__":
    sys.exit(main())
