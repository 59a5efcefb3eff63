"""Every rule and invariant that is cited is defined, and every one that is defined is tested.

The definitions are in docs/explanation/protocol.md (R and I) and docs/explanation/proof.md (C and
L, those of the judge). Citations are in code, comments, tests, documentation and mutants.
"""

import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROTOCOL = ROOT / "docs" / "explanation" / "protocol.md"
PROOF = ROOT / "docs" / "explanation" / "proof.md"
MUTANTS = ROOT / "tests" / "sim" / "mutants.toml"

FOLDERS = (
    "core",
    "ring",
    "node",
    "storage",
    "executor",
    "client",
    "testing",
    "tests",
    "bench",
    "deploy",
    "docs",
    "examples",
)
FILES = ("Makefile", "README.md", "CHANGELOG.md")
SUFFIXES = frozenset({".py", ".md", ".toml", ".txt"})
OF_THE_JUDGE = ("tests/chaos/", "tests/sim/", "docs/explanation/", "Makefile")
"""Elsewhere C1 is a set of control characters, and L1 a day of a schedule."""

CITATION = re.compile(r"\b([RICL])([1-9]\d?)\b(?: to \1([1-9]\d?)\b)?")
RULE = re.compile(r"^- \*\*(R\d+)\.\*\* ", re.MULTILINE)
ROW = re.compile(r"^\| ([ICL]\d+) \|", re.MULTILINE)
UNUSED = re.compile(r"((?:[RIC]\d+(?:, | and )?)+) (?:is|are) not used")
CHECKER = re.compile(r"`([\w/]+\.py)`")


@cache
def citations() -> Mapping[str, tuple[str, ...]]:
    """Return where each rule is cited, as ``file:line``; R2 to R4 cites R3, too."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(_files()):
        name = path.relative_to(ROOT).as_posix()
        for number, line in enumerate(path.read_text().splitlines(), 1):
            for rule in _cited_in(line):
                if rule[0] in "RI" or name.startswith(OF_THE_JUDGE):
                    found[rule].append(f"{name}:{number}")
    return {rule: tuple(places) for rule, places in found.items()}


def _files() -> Iterator[Path]:
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in SUFFIXES and path != Path(__file__) and path.is_file():
                yield path
    yield from (ROOT / name for name in FILES)


def _cited_in(line: str) -> Iterator[str]:
    for kind, first, last in CITATION.findall(line):
        yield from (f"{kind}{number}" for number in range(int(first), int(last or first) + 1))


def defined() -> set[str]:
    """Return all defined rules and invariants."""
    protocol, proof = PROTOCOL.read_text(), PROOF.read_text()
    judged = {rule for rule in ROW.findall(proof) if rule[0] in "CL"}
    return {*RULE.findall(protocol), *ROW.findall(protocol), *judged}


def unused() -> set[str]:
    """Return the numbers that are listed as unused."""
    said = UNUSED.findall(PROTOCOL.read_text() + PROOF.read_text())
    return {rule for numbers in said for rule in _cited_in(numbers)}


def test_every_rule_that_is_cited_is_defined() -> None:
    missing = [
        f"{place}: {rule} is defined neither in protocol.md nor in proof.md"
        for rule, places in citations().items()
        if rule not in defined() | unused()
        for place in places
    ]

    assert not missing, "\n".join(missing)


def test_a_number_that_is_not_used_is_cited_only_where_that_is_said() -> None:
    pages = tuple(f"docs/explanation/{page.name}:" for page in (PROTOCOL, PROOF))
    cited = {rule: citations().get(rule, ()) for rule in unused()}
    elsewhere = [
        f"{place}: {rule} is no rule"
        for rule, places in cited.items()
        for place in places
        if not place.startswith(pages)
    ]

    assert not elsewhere, "\n".join(elsewhere)


def test_every_rule_is_cited_by_a_test_or_a_mutant() -> None:
    untested = [
        f"{_place_of(rule)}: {rule} is cited by no file in tests/, sim/mutants.toml included"
        for rule in sorted(defined())
        if not any(place.startswith("tests/") for place in citations().get(rule, ()))
    ]

    assert not untested, "\n".join(untested)


def test_no_number_is_left_out_or_used_twice() -> None:
    protocol = PROTOCOL.read_text()
    rules = [*RULE.findall(protocol), *ROW.findall(protocol)]

    assert len(rules) == len(set(rules)), sorted(rules)
    assert not defined() & unused()
    for kind in "RICL":
        numbers = {int(rule[1:]) for rule in defined() | unused() if rule[0] == kind}
        assert numbers == set(range(1, max(numbers) + 1)), f"{kind}: {sorted(numbers)}"


def test_the_parts_of_rules_that_mutants_break_are_defined() -> None:
    texts = dict(_texts(PROTOCOL.read_text()))
    table = tomllib.loads(MUTANTS.read_text())["mutant"]
    parts = {part for mutant in table for part in re.findall(r"\b(R\d+) ([a-z])\b", mutant["rule"])}

    assert parts
    missing = [f"{rule} {part}" for rule, part in parts if f"({part})" not in texts[rule]]
    assert not missing, f"tests/sim/mutants.toml names {sorted(missing)}; protocol.md does not"


@pytest.mark.parametrize("invariant", [f"I{number}" for number in range(1, 16) if number != 12])
def test_the_checkers_of_an_invariant_name_it(invariant: str) -> None:
    [row] = [line for line in PROTOCOL.read_text().splitlines() if f"| {invariant} |" in line]
    checkers = CHECKER.findall(row.rpartition(" | ")[2])

    cited_in = {place.partition(":")[0] for place in citations()[invariant]}
    assert checkers
    assert set(checkers) <= cited_in, f"{_place_of(invariant)}: they do not cite {invariant}"


def _texts(page: str) -> Iterator[tuple[str, str]]:
    """Yield each rule with its text."""
    for item in re.split(r"^- (?=\*\*R\d)", page, flags=re.MULTILINE)[1:]:
        rule, _, text = item.partition(".** ")
        yield rule.strip("*"), text.partition("\n\n")[0]


def _place_of(rule: str) -> str:
    """Return where a rule is defined."""
    for path in (PROTOCOL, PROOF):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if line.startswith((f"- **{rule}.**", f"| {rule} |")):
                return f"{path.relative_to(ROOT)}:{number}"
    return str(PROTOCOL.relative_to(ROOT))
