"""Names of imported jobs: derived from their content, so that a second import gives them again."""

import re
from collections import Counter
from collections.abc import Sequence
from hashlib import sha256

import msgspec

from rota.client.imports.drafts import Draft

NAME_MAX = 100
"""The most characters of a name before its hash; a node accepts 128 in all."""
COMMAND_NAME_MAX = 48
HASH_DIGITS = 6

_PREPARATIONS = frozenset(
    {"cd", "test", "[", "[[", "if", "export", "true", "sleep", ":", "set", "source", "."}
)
_WRAPPERS = frozenset(
    {"nice", "ionice", "exec", "nohup", "time", "env", "sudo", "chronic", "then", "command"}
)
_OPENING = "({! \t"


def name_of_command(command: str) -> str:
    """Return a name for *command*: its first program that does work, and the first arguments.

    >>> name_of_command("cd / && run-parts --report /etc/cron.hourly")
    'run-parts-cron.hourly'
    """
    parts = [part.strip(_OPENING) for part in re.split(r"&&|\|\|?|;|\n", command)]
    parts = [part for part in parts if part.strip(")}]")]
    work = next((part for part in parts if part.split()[0] not in _PREPARATIONS), command)
    words = [
        word for word in re.sub(r"\d?>+\s*\S+|<\s*\S+", " ", work).split() if word not in "&)}"
    ]
    while len(words) > 1 and (words[0] in _WRAPPERS or re.match(r"\w+=|-|\d+$", words[0])):
        words.pop(0)
    named = [word for number, word in enumerate(words) if not number or word[0] not in "-+$\"'"]
    return "-".join(_last_part(word) for word in named[:3])[:COMMAND_NAME_MAX]


def _last_part(word: str) -> str:
    return word.rstrip("/").rpartition("/")[2]


def names_of(drafts: Sequence[Draft]) -> list[str]:
    """Return a unique name for each of *drafts*, in their order.

    Jobs that would have the same name in their namespace get a hash of their content, so the order
    of the jobs has no effect on the names. Equal jobs are numbered.
    """
    plain = [(draft.definition.get("namespace", ""), plain_name(draft.name)) for draft in drafts]
    counts = Counter((namespace, name.lower()) for namespace, name in plain)
    taken: Counter[tuple[str, str]] = Counter()
    names: list[str] = []
    for draft, (namespace, name) in zip(drafts, plain, strict=True):
        unique = f"{name}-{_hash(draft)}" if counts[namespace, name.lower()] > 1 else name
        taken[namespace, unique] += 1
        nth = taken[namespace, unique]
        names.append(f"{unique}-{nth}" if nth > 1 else unique)
    return names


def plain_name(text: str) -> str:
    """Return *text* with the characters of names alone; ``job`` if none is left."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-._")[:NAME_MAX].rstrip("-._") or "job"


def _hash(draft: Draft) -> str:
    content = {key: value for key, value in draft.definition.items() if key != "description"}
    return sha256(msgspec.json.encode(content, order="sorted")).hexdigest()[:HASH_DIGITS]
