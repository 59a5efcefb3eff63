"""Generator of client/client.py, the blocking client, from client/async_client.py.

`make generate` writes the file; `make check` runs this program with ``--check``, which writes
nothing and fails if the file is stale. `SUBSTITUTIONS` apply to the text of the source, as in
httpcore's unasync.py, so docstrings and their examples change with the code. Ruff then sorts the
imports and formats the result.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = "client/async_client.py"
TARGET = "client/client.py"
HEADER = f"# Generated from {SOURCE} by `make generate`; change that file instead.\n"

SUBSTITUTIONS = (
    # Prose, and the example of the class.
    (r"\bwith an event loop\.\n\n`make generate` .*\n", "without an event loop."),
    (r"Use it in one event loop\. Calls may run at the same time\.", "Threads may share it."),
    (r" *>>> import asyncio\n", ""),
    (r"\basyncio\.run\((.+)\)", r"\1"),
    # Names.
    (
        r"\brota\.client\.(transport\.connection|streams\.streams)\b",
        "rota.client.blocking_connection",
    ),
    (r"\bConnection\b", "BlockingConnection"),
    (r"\bAsyncClient\b", "Client"),
    (r"\baclosing\b", "closing"),
    (r"\b__a(enter|exit)__", r"__\1__"),
    # Types.
    (r"\bCoroutine\[Any, Any, (\w+)\]", r"\1"),
    (r"\bAsyncGenerator\[(.+?), None\]", r"Generator[\1, None, None]"),
    (r"\bAsyncGenerator\b", "Generator"),
    # Keywords.
    (r"\basync (?=def|for|with)", ""),
    (r"\bawait ", ""),
)
"""Pairs of a regular expression and its replacement, applied to the whole text in this order."""
FIXES = "I,F401,UP028"
"""Rules of Ruff: sorted imports, no unused imports, ``yield from`` in place of ``async for``."""
ASYNCHRONOUS = re.compile(r"(?i)async|await|coroutine|\ba(close|closing|iter|next)\b|\b__a\w+__")
"""Words that the blocking client does not have: if one is left, a substitution is missing."""


class NotGenerated(Exception):
    """The source and the substitutions do not match."""


def blocking(source: str) -> str:
    """Return the blocking form of *source*, formatted.

    Raises:
        NotGenerated: A substitution applies to nothing, one is missing, or the result is invalid.
    """
    text = source
    for pattern, replacement in SUBSTITUTIONS:
        text, count = re.subn(pattern, replacement, text)
        if count == 0:
            raise NotGenerated(f"the substitution for {pattern!r} applies to nothing in {SOURCE}")
    text = _ruff(text, "check", f"--select={FIXES}", "--fix-only", "--unsafe-fixes")
    text = _ruff(text, "format")
    for line in text.splitlines():
        if ASYNCHRONOUS.search(line):
            raise NotGenerated(
                f"a substitution is missing for this line of {SOURCE}: {line.strip()}"
            )
    return HEADER + text


def _ruff(text: str, *args: str) -> str:
    command = [sys.executable, "-m", "ruff", *args, "--quiet", "--stdin-filename", TARGET, "-"]
    ran = subprocess.run(command, cwd=ROOT, input=text, stdout=subprocess.PIPE, text=True)
    if ran.returncode != 0:
        raise NotGenerated(
            f"ruff does not accept the blocking form of {SOURCE}; its error is printed above"
        )
    return ran.stdout


def main() -> None:
    """Write the file, or check that it is up to date."""
    parser = argparse.ArgumentParser(description=f"Write {TARGET} from {SOURCE}.")
    parser.add_argument("--check", action="store_true", help="only fail if the file is stale")
    is_check = parser.parse_args().check
    try:
        text = blocking((ROOT / SOURCE).read_text())
    except NotGenerated as error:
        raise SystemExit(f"tools/generate_client.py: {error}") from error
    target = ROOT / TARGET
    if not is_check:
        target.write_text(text)
    elif not target.exists() or target.read_text() != text:
        raise SystemExit(f"{TARGET} is stale: it does not agree with {SOURCE}; run: make generate")


if __name__ == "__main__":
    main()
