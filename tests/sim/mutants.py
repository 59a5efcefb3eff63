"""Break each rule of mutants.toml in a copy of the source and see that somebody notices.

    python tests/sim/mutants.py             all of them, two at a time
    python tests/sim/mutants.py R17 "R10 b" those of some rules

Prints within how many seeds the simulation found out, and which invariant told, or else which
test; fails if a mutant survives, or if the text that it changes is not there any more.
"""

import re
import shutil
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

ROOT = Path(__file__).parent.parent.parent
SEEDS = {"protocol": 400, "cluster": 60}
"""How many seeds of each simulation it may take to notice a mutant that does not say."""
WORKERS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A rule broken; the attributes are described in mutants.toml."""

    rule: str
    breaks: str
    file: str
    edits: list[tuple[str, str]]
    sim: str = "protocol"
    focus: str = ""
    limit: int = 0
    test: str = ""

    def apply(self, package: Path) -> str:
        """Break the rule in *package*; return why that is not possible, or nothing."""
        path = package / self.file
        text = path.read_text()
        for old, new in self.edits:
            if text.count(old) != 1:
                return f"stands {text.count(old)} times in {self.file}: {old.strip()}"
            text = text.replace(old, new)
        path.write_text(text)
        return ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a mutant was noticed, and how."""

    is_caught: bool
    how: str


def main() -> int:
    """Try the mutants asked for; 1 if one survived."""
    chosen = set(sys.argv[1:])
    mutants = [each for each in read_mutants() if not chosen or each.rule in chosen]
    survivors, began = 0, perf_counter()
    with ThreadPoolExecutor(WORKERS) as pool:
        for mutant, verdict in zip(mutants, pool.map(judge, mutants), strict=True):
            survivors += not verdict.is_caught
            mark = "caught  " if verdict.is_caught else "SURVIVED"
            print(f"{mark}  {mutant.rule:10} {mutant.breaks}: {verdict.how}", flush=True)
    took_min = (perf_counter() - began) / 60
    print(f"{len(mutants)} mutants, {survivors} survived; {took_min:.1f} min")
    return 1 if survivors else 0


def read_mutants() -> list[Mutant]:
    """Return the mutants of mutants.toml."""
    table = tomllib.loads((Path(__file__).parent / "mutants.toml").read_text())
    return [Mutant(**fields) for fields in table["mutant"]]


def judge(mutant: Mutant) -> Verdict:
    """Break a rule in a copy of the source, and run what should notice."""
    with TemporaryDirectory(prefix="rota-mutant-") as directory:
        shutil.copytree(ROOT / "src/rota", Path(directory) / "rota")
        problem = mutant.apply(Path(directory) / "rota")
        if problem:
            return Verdict(False, problem)
        return _by_test(mutant, directory) if mutant.test else _by_seeds(mutant, directory)


def _by_test(mutant: Mutant, directory: str) -> Verdict:
    file, _, name = mutant.test.partition("::")
    options = ["-q", "-p", "no:cacheprovider", "-o", f"pythonpath={directory} tests"]
    # The path is for the nodes that a test starts.
    done = _run(["-m", "pytest", *options, mutant.test], directory)
    # 1: a test failed. Anything else is not this test's verdict.
    return Verdict(
        done.returncode == 1,
        name or Path(file).name if done.returncode <= 1 else done.stdout[-500:],
    )


def _by_seeds(mutant: Mutant, directory: str) -> Verdict:
    count = str(mutant.limit or SEEDS[mutant.sim])
    focus = ["--focus", mutant.focus] if mutant.focus else []
    done = _run(
        ["-m", f"sim.{mutant.sim}", count, "--stop-after", "1", *focus],
        f"{directory}:{ROOT}/tests",
    )
    found = re.search(r"^(\d+) seeds, 1 broken", done.stdout, re.MULTILINE)
    if found:
        told = re.search(r"broken: (?:Violation: )?(\w+)", done.stdout)
        return Verdict(True, f"{told[1] if told else 'an error'} within {found[1]} seeds")
    return Verdict(False, f"not within {count} seeds {done.stderr[-500:]}".strip())


def _run(arguments: list[str], path: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-P", *arguments],
        cwd=ROOT,
        env={"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


if __name__ == "__main__":
    sys.exit(main())
