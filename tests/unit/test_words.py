"""Words of the glossary: discouraged words stay out of the sources, and the named classes exist."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
GLOSSARY = ROOT / "docs" / "glossary.md"

FOLDERS = (
    *("core", "ring", "storage", "executor", "wire", "client", "node", "testing"),
    *("docs", "deploy", "examples", "tools", "bench", "tests"),
)
FILES = ("README.md", "CHANGELOG.md", "Makefile")
SUFFIXES = frozenset({".py", ".md", ".toml", ".yml", ".yaml", ".cfg", ".conf", ".service"})


class Banned(NamedTuple):
    """A word or phrase that is not used.

    Attributes:
        word: Regular expression; a blank stands for any space, also across lines.
        why: The reason.
        better: What to write instead.
        allowed: Regular expression of passages in which the word is right.
        where: Beginnings of the paths to which the row applies; empty for all.
    """

    word: str
    why: str
    better: str
    allowed: str = ""
    where: tuple[str, ...] = ()


RIDDLE = "a riddle: the noun is missing"
PERSON = "no part of a program is a person"

BANNED = (
    Banned(
        "nobody|somebody", RIDDLE, "no node, no client, a program, an operator, ...",
        allowed=r"`nobody`",
    ),
    Banned("who(ever|soever)", RIDDLE, "the client that, the node that, every caller that, ..."),
    Banned("anew", "archaic", "again"),
    Banned("(what )?becomes of", RIDDLE, "the effect on, the treatment of, ..."),
    Banned("until when", RIDDLE, "the deadline of, the expiry of"),
    Banned("who waits( for)?", RIDDLE, "the tasks that wait for, the requests that wait for"),
    Banned("(go|goes|going|went) on", "vague", "continues, runs on, starts, ..."),
    Banned("(is|are|was|were) brought", "vague", "is sent, is delivered, is restored, ..."),
    Banned("tells? whether", "a predicate states its result", "return True if"),
    Banned(
        "tells|telling|told", PERSON, "reports, sends, states; is configured, is requested",
        allowed=r'"told"|``told``',
    ),
    Banned("hears|heard", PERSON, "receives"),
    Banned("knows|knew", PERSON, "has, stores, has received, supports"),
    Banned("believes|believed", PERSON, "accepts, assumes"),
    Banned("owes|owed", PERSON, "has to, is still to"),
    Banned("dies|dying", PERSON, "ends, exits, fails"),
    Banned("inherits|bur(y|ies)|bequeaths?|heirs?", PERSON, "successor, takes over, removes"),
    Banned("sees? to( it)?( that)?", "archaic", "ensures, checks"),
    Banned("looks? after", "a person looks after", "manages, monitors"),
    Banned("be it", "archaic", "whether ... or"),
    Banned("errands?", "see the glossary", "delivery"),
    Banned(
        "letters?", "see the glossary", "outbox item",
        allowed=r"letters?,? (or|and) digits?|letters?, digits?|digits? (or|and) letters?"
        r"|(one|two|a|capital|lower-case|upper-case|ASCII|first|Greek|single) letters?"
        r'|dead letters?|"letter"|``letter``',
    ),
)  # fmt: skip


BANNED_PARTS = {
    "letter": "outbox item",
    "letters": "outbox items",
    "errand": "delivery",
    "errands": "deliveries",
    "ill": "condition",
    "ills": "conditions",
    "heir": "successor",
    "bury": "remove",
    "bequeath": "hand over",
    "owes": "has to",
    "somebody": "a node, a client",
    "nobody": "no node, no client",
}
"""Words that are no part of an identifier, or of a code or tag in snake case; better ones."""
ALLOWED_IDENTIFIERS = frozenset({"ascii_letters", "has_letters"})
_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:_[A-Za-z0-9]+)+|[A-Za-z]+[a-z0-9][A-Z]\w*")
_PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def parts_of(identifier: str) -> set[str]:
    """Return the words of an identifier, in lower case: split at ``_`` and at capitals."""
    return {part.lower() for part in _PART.findall(identifier)}


def test_no_identifier_has_a_discouraged_part() -> None:
    found = {
        f"{name}: {identifier}; better: {BANNED_PARTS[part]}"
        for name in _files()
        if name.endswith(".py")
        for identifier in set(_IDENTIFIER.findall(_text(name))) - ALLOWED_IDENTIFIERS
        for part in parts_of(identifier) & BANNED_PARTS.keys()
    }

    assert not found, "\n".join(sorted(found))


def test_the_parts_of_an_identifier_are_its_words() -> None:
    assert parts_of("letters_waiting") == {"letters", "waiting"}
    assert parts_of("OutboxLetter") == {"outbox", "letter"}
    assert parts_of("HTTPLetterBox") == {"http", "letter", "box"}
    assert parts_of("will_refill") == {"will", "refill"}


@pytest.mark.parametrize("banned", BANNED, ids=lambda banned: banned.word)
def test_a_discouraged_word_is_not_used(banned: Banned) -> None:
    found = [
        f"{name}:{line}: {text!r}: {banned.why}; better: {banned.better}"
        for name in _files()
        if name.startswith(banned.where or "")
        for line, text in _uses(banned, name)
    ]

    assert not found, "\n".join(found)


def test_the_classes_of_the_glossary_exist() -> None:
    named = set(re.findall(r"`([A-Z][a-z]\w+)`", GLOSSARY.read_text()))

    assert named
    assert sorted(named - _classes()) == []


def test_no_word_of_the_glossary_is_listed_twice() -> None:
    rows = re.findall(r"^\| ([a-z][^|]*?) \|", GLOSSARY.read_text(), re.MULTILINE)
    words = [word for row in rows if row != "word" for word in row.split(", ")]

    assert len(words) == len(set(words)), sorted(words)


def _uses(banned: Banned, name: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each use in a file."""
    text = _text(name)
    allowed = [match.span() for match in _pattern(banned.allowed, "").finditer(text)]
    for match in _pattern(banned.word).finditer(text):
        begin, end = match.span()
        if not any(first <= begin and end <= last for first, last in allowed):
            yield text.count("\n", 0, begin) + 1, match.group()


@cache
def _pattern(words: str, edge: str = r"\b") -> re.Pattern[str]:
    if not words:
        return re.compile(r"(?!)")
    blank = r"\\s+(?:# |> |\"\\s*f?\")?"
    return re.compile(rf"{edge}(?:{re.sub(' ', blank, words)}){edge}", re.IGNORECASE)


@cache
def _files() -> tuple[str, ...]:
    paths = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.is_file()]
    paths += [ROOT / name for name in FILES]
    names = (path.relative_to(ROOT).as_posix() for path in paths if path != Path(__file__))
    return tuple(
        sorted(
            name
            for name in names
            if Path(name).suffix in SUFFIXES or name in FILES
            if name != "docs/glossary.md" and not name.startswith("bench/results/")
        )
    )


@cache
def _text(name: str) -> str:
    return (ROOT / name).read_text()


@cache
def _classes() -> set[str]:
    found: set[str] = set()
    for name in _files():
        if name.endswith(".py") and not name.startswith(("tests/", "bench/")):
            found.update(re.findall(r"^class (\w+)", _text(name), re.MULTILINE))
            found.update(
                re.findall(r"^(\w+) = (?:NewType\(|\w+(?: \| \w+)+$)", _text(name), re.MULTILINE)
            )
    return found
