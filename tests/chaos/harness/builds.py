"""A second build of rota, which serves as the next release in upgrades.

The build is a copy of the package with another version. It also supports the next version of the
wire protocol (`rota.node.links.handshake_messages`): links between old and new nodes settle on the
old version, links between new nodes on the next.
"""

import re
import shutil
from pathlib import Path

_NEWEST = re.compile(r"^(SPOKEN = Versions\(.*newest=)(\d+)(\))$", re.MULTILINE)
_VERSION = re.compile(r'^__version__ = ".*"$', re.MULTILINE)


def next_build(package: Path, folder: Path) -> Path:
    """Copy *package* into *folder* as the next release; return its entry for ``PYTHONPATH``."""
    copied = folder / package.name
    shutil.copytree(package, copied, ignore=shutil.ignore_patterns("__pycache__"))
    _edit(copied / "__init__.py", _VERSION, '__version__ = "99.0.0"')
    hello = copied / "node/links/handshake_messages.py"
    found = _NEWEST.search(hello.read_text())
    assert found, f"{hello} does not say which versions are spoken"
    _edit(hello, _NEWEST, rf"\g<1>{int(found[2]) + 1}\g<3>")
    return folder


def _edit(path: Path, pattern: "re.Pattern[str]", text: str) -> None:
    edited, count = pattern.subn(text, path.read_text())
    assert count == 1, f"{path} has {count} of {pattern.pattern}"
    path.write_text(edited)
