"""Runs of seeds and tests against each mutant of mutants.toml, which have to fail.

    python tests/sim/mutants.py             all mutants, two at a time
    python tests/sim/mutants.py R17 "R10 b" the mutants of some rules
    python tests/sim/mutants.py warden      the mutants with a word in `file` or `breaks`

Prints the number of seeds until the simulation failed and the violated invariant, or the test that
failed. Fails if a mutant survives, if the text that it changes is not in the source any more, or if
its test also fails on the unbroken source, which proves nothing.

Each mutant has its own virtual environment (`make_interpreter`): a path in the environment would
reach the test, but not the processes that a node starts with another environment, such as its
warden.
"""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

ROOT = Path(__file__).parent.parent.parent
SEEDS = {"protocol": 400, "cluster": 60}
"""Limits of seeds to detect a mutant without `limit`, by simulation."""
WORKERS = 2
TIMEOUT_S = 1_800
"""Longer than the slowest run on a busy machine; a mutant may make a test hang."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A broken rule; the attributes are described in mutants.toml."""

    rule: str
    breaks: str
    file: str
    edits: list[tuple[str, str]]
    sim: str = "protocol"
    focus: str = ""
    limit: int = 0
    test: str = ""

    def apply(self, package: Path) -> str:
        """Break the rule in *package*; return why that is impossible, or an empty text."""
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
    """Whether a mutant was caught, and how."""

    is_caught: bool
    how: str


def main() -> int:
    """Try the selected mutants; return 1 if one survived."""
    mutants = [each for each in read_mutants() if _is_chosen(each, sys.argv[1:])]
    survivors, began = 0, perf_counter()
    with TemporaryDirectory(prefix="rota-whole-") as whole, ThreadPoolExecutor(WORKERS) as pool:
        controls = Controls(Path(whole), pool)
        verdicts = pool.map(judge, mutants)
        for mutant, verdict in zip(mutants, verdicts, strict=True):
            final = controls.confirm(mutant, verdict)
            survivors += not final.is_caught
            mark = "caught  " if final.is_caught else "SURVIVED"
            print(f"{mark}  {mutant.rule:10} {mutant.breaks}: {final.how}", flush=True)
    took_min = (perf_counter() - began) / 60
    print(f"{len(mutants)} mutants, {survivors} survived; {took_min:.1f} min")
    return 1 if survivors else 0


def _is_chosen(mutant: Mutant, wanted: list[str]) -> bool:
    text = f"{mutant.file} {mutant.breaks}"
    return not wanted or any(each == mutant.rule or each in text for each in wanted)


def read_mutants() -> list[Mutant]:
    """Return the mutants of mutants.toml."""
    table = tomllib.loads((Path(__file__).parent / "mutants.toml").read_text())
    return [Mutant(**fields) for fields in table["mutant"]]


def judge(mutant: Mutant) -> Verdict:
    """Break a rule in a copy of the source, and run the seeds or the test that have to fail."""
    with TemporaryDirectory(prefix="rota-mutant-") as name:
        directory = Path(name)
        python = make_interpreter(directory)
        problem = mutant.apply(directory / "rota")
        if problem:
            return Verdict(False, problem)
        return _by_test(mutant.test, python) if mutant.test else _by_seeds(mutant, python)


def make_interpreter(directory: Path) -> Path:
    """Copy the source to *directory*/rota; return a Python that imports no other rota.

    Environment variables do not matter: the package is in its own site-packages.
    """
    shutil.copytree(ROOT / "src/rota", directory / "rota", ignore=_COMPILED)
    directory.chmod(0o755)  # Some tests run a node as another user.
    home = directory / "venv"
    venv.create(home, symlinks=True)
    site = Path(sysconfig.get_path("purelib", "venv", {"base": str(home)}))
    # Only these folders, not what is named by path files in them: one names the real source.
    (site / "mutant.pth").write_text(f"{directory}\n{sysconfig.get_path('purelib')}\n")
    return home / "bin" / "python"


_COMPILED = shutil.ignore_patterns("__pycache__")


def _by_test(test: str, python: Path) -> Verdict:
    file, _, name = test.partition("::")
    options = ["-q", "-p", "no:cacheprovider", "-o", "pythonpath=tests"]
    done = _run(python, ["-m", "pytest", *options, test])
    # 1: a test failed. Anything else is not this test's verdict.
    return Verdict(
        done.returncode == 1,
        name or Path(file).name if done.returncode <= 1 else done.stdout[-500:],
    )


def _by_seeds(mutant: Mutant, python: Path) -> Verdict:
    count = str(mutant.limit or SEEDS[mutant.sim])
    focus = ["--focus", mutant.focus] if mutant.focus else []
    arguments = ["-m", f"sim.{mutant.sim}", count, "--stop-after", "1", *focus]
    done = _run(python, arguments, PYTHONPATH=str(ROOT / "tests"))
    found = re.search(r"^(\d+) seeds, 1 broken", done.stdout, re.MULTILINE)
    if found:
        named = re.search(r"broken: (?:Violation: )?(\w+)", done.stdout)
        return Verdict(True, f"{named[1] if named else 'an error'} within {found[1]} seeds")
    return Verdict(False, f"not within {count} seeds {done.stderr[-500:]}".strip())


class Controls:
    """The same tests on the unbroken source, each run once."""

    def __init__(self, directory: Path, pool: ThreadPoolExecutor) -> None:
        self._python = make_interpreter(directory)
        self._pool = pool
        self._runs: dict[str, Future[Verdict]] = {}

    def confirm(self, mutant: Mutant, verdict: Verdict) -> Verdict:
        """Return *verdict*, unless the test that caught the mutant fails without it too."""
        if not (mutant.test and verdict.is_caught):
            return verdict
        if mutant.test not in self._runs:
            self._runs[mutant.test] = self._pool.submit(_by_test, mutant.test, self._python)
        fails_anyway = self._runs[mutant.test].result().is_caught
        return Verdict(False, f"{verdict.how} fails on any source") if fails_anyway else verdict


def _run(
    python: Path, arguments: list[str], **environment: str
) -> "subprocess.CompletedProcess[str]":
    kept = {name: text for name, text in os.environ.items() if not name.startswith("PYTHON")}
    argv = [str(python), "-P", *arguments]
    try:
        return subprocess.run(
            argv,
            cwd=ROOT,
            env={**kept, "PYTHONDONTWRITEBYTECODE": "1", **environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(argv, -1, f"not ended within {TIMEOUT_S} s", "")


if __name__ == "__main__":
    sys.exit(main())
