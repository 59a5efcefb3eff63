"""Sizes in bytes as people write them.

Units are ``B``, ``KiB MiB GiB TiB`` (1,024 and its powers) and ``kB MB GB TB`` (1,000 and its
powers). A single letter, as in ``512M``, is refused, because its meaning differs between tools.
"""

import re

from rota.core.quoting import quoted

_UNITS = {
    "B": 1,
    "KiB": 1 << 10,
    "MiB": 1 << 20,
    "GiB": 1 << 30,
    "TiB": 1 << 40,
    "kB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
}
_SIZE = re.compile(
    r"(?P<whole>\d{1,16})(?:\.(?P<fraction>\d{1,3}))? ?(?P<unit>[A-Za-z]*)", re.ASCII
)


def parse_size(text: str) -> int:
    """Return the number of bytes in *text*: ``512MiB``, ``1.5GiB``, ``2GB``, ``65536``.

    Raises:
        ValueError: *text* is not a size.
    """
    found = _SIZE.fullmatch(text.strip())
    scale = _UNITS.get(found["unit"] or "B") if found else None
    if found is None or scale is None:
        shown = quoted(text, "'")
        raise ValueError(
            f"{shown} is not a size; write a number and a unit (KiB, MiB, GiB, or kB, MB, GB), "
            "for example 512MiB"
        )
    thousandths = int((found["fraction"] or "").ljust(3, "0"))
    return int(found["whole"]) * scale + thousandths * scale // 1_000


def format_size(size: int) -> str:
    """Return *size* in the shortest exact form that `parse_size` reads: ``512MiB``, ``2GB``."""
    exact = (f"{size // scale}{unit}" for unit, scale in _UNITS.items() if size % scale == 0)
    return min(exact, key=len)
