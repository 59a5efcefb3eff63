"""The pages of docs/how-to/operate.md: read, and followed on real nodes."""

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from support.rota_program import Ran, Rota, until

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "operate.md"
INTRODUCTION = ""
"""The heading of what comes before the first one."""
REST = "…"
OPEN = "auth = open"
"""The warning of a cluster that requires no keys, such as that of the tests."""


def sections() -> dict[str, str]:
    """Return the sections of the page by their headings."""
    first, *others = re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)
    parted = (each.partition("\n") for each in others)
    return {INTRODUCTION: first} | {heading: text for heading, _, text in parted}


def steps(heading: str) -> list[tuple[str, list[str]]]:
    """Return each command of a section with the lines shown below it."""
    blocks = re.findall(r"^```\n(\$ .*?)^```$", sections()[heading], re.MULTILINE | re.DOTALL)
    context = [
        part for block in blocks for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
    ]
    lines = [part.rstrip().splitlines() for part in context]
    return [(command, shown) for command, *shown in lines]


def follow(
    heading: str,
    rota: Rota,
    deeds: Mapping[str, Callable[[], object]] | None = None,
    words: Mapping[str, str] | None = None,
) -> list[Ran]:
    """Do what a section shows, in its order; return what each command of ``rota`` did.

    Args:
        heading: Of the section.
        rota: Runs its commands of ``rota``, and has to print lines of the form shown.
        deeds: What to do for all its other commands.
        words: What to say in place of words of the page: numbers of shards that the tests' cluster
            does not have.

    Raises:
        AssertionError: A command prints something else than the page shows.
        KeyError: There is no deed for a command.
    """
    done: list[Ran] = []
    for command, shown in steps(heading):
        program, *argv = shlex.split(command)
        if program != "rota":
            (deeds or {})[command]()
            continue
        said = [(words or {}).get(word, word.replace("rota-node-", "n")) for word in argv]
        done.append(_compared(rota, said, shown))
    return done


def _compared(rota: Rota, argv: list[str], shown: list[str]) -> Ran:
    runs: list[Ran] = []

    def is_as_shown() -> bool:
        runs.append(rota(*argv))
        printed = (runs[-1].out + runs[-1].err).splitlines()
        return matches(shown, [line for line in printed if OPEN not in line], is_progress=waits)

    waits = "--wait" in argv and argv[0] == "node"
    # What changes nothing is repeated until it prints what is shown.
    is_read = argv[0] == "cluster" or "--dry-run" in argv
    try:
        assert until(is_as_shown) if is_read else is_as_shown()
    except AssertionError:
        printed = runs[-1].out + runs[-1].err
        raise AssertionError(
            f"rota {' '.join(argv)}\n{printed}\nis not as shown:\n{shown}"
        ) from None
    return runs[-1]


def matches(shown: list[str], printed: list[str], *, is_progress: bool = False) -> bool:
    """Return True if lines have the form of those that are shown, whatever the numbers and names.

    Args:
        shown: Lines of the page. An ellipsis stands for anything, as a line for all that follow.
        printed: Lines of a command.
        is_progress: Any number of the lines shown may be printed, up to the last of them.
    """
    patterns = [_pattern(line) for line in shown if line != REST]
    if is_progress:
        known = all(any(each.fullmatch(_form(line)) for each in patterns) for line in printed)
        return known and bool(printed) and bool(patterns[-1].fullmatch(_form(printed[-1])))
    is_whole = len(printed) == len(patterns) or (REST in shown and len(printed) > len(patterns))
    pairs = zip(patterns, printed, strict=False)
    return is_whole and all(each.fullmatch(_form(line)) for each, line in pairs)


def _pattern(line: str) -> re.Pattern[str]:
    return re.compile(re.escape(_form(line)).replace(re.escape(REST), ".*"))


def _form(line: str) -> str:
    """Return a line in which everything that differs from cluster to cluster is the same."""
    for pattern, replacement in _forms():
        line = re.sub(pattern, replacement, line)
    return line.strip()


def _forms() -> Iterator[tuple[str, str]]:
    yield r"\b[0-9a-f]{16}-[0-9a-f]{14}-[0-9a-f]{4}\b", "ID"
    yield r"http://[\w.]+:\d+", "URL"
    yield r"\b\d+(\.\d+){3}:\d+", "ADDRESS"
    yield r"\b(rota-node-|n)\d+\b", "NODE"
    yield r"^cluster +\S+,", "cluster NAME,"
    yield r"\d[\d,]*", "#"
    yield r"\b(entry|entries)\b", "entries"
    yield r"\b(copy|copies) to\b", "copies to"
    yield r"\b(shard|handover)s?\b(?= to| *$)", r"\1s"
    yield r" +", " "
